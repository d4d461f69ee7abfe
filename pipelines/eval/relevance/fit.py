"""Fit of the relevance models, and predictions for cases that were left out of the fit.

Each stage sees what the one before predicts for groups that were left out of its training (stacked generalisation,
Wolpert 1992), so that it learns how far to trust it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from helix.ranking.trees import Trees, predict
from helix.stages.features.across import blind_words, take_rows
from helix.stages.features.relevance import compute_answer_features, compute_item_features
from helix.stages.relevance import (
    Regression,
    RelevanceModel,
    expand_signals,
    join_logits,
    regress,
    without_gaps,
)
from helix.types import F32, I64, AnyArray, Bool
from pipelines.eval.changes.fit_links import copy_trees
from pipelines.eval.relevance.ask import CaseEvidence

FOLDS: Final = 5
TREES: Final = 80
RATE: Final = 0.08
RIDGE: Final = 10.0
LEAST: Final = 40
"""Items of a leaf."""

STRENGTH: Final = 0.5
"""Inverse regularisation of the answer's regression."""

LEAST_DEVIATION: Final = np.float32(0.25)
"""Of a signal: a rare one counts for less than its deviation would make it."""

SHARES: Final[Mapping[str, float]] = {"own": 1.0, "other": 0.5, "hard": 0.35, "none": 3.0, "abstention": 0.0}
"""Weight of each kind of case in the answer's regression. Prompts without need weigh most: few of them must pass."""

MIX: Final[Mapping[str, float]] = {"own": 0.5, "other": 0.25, "hard": 0.15, "none": 0.1, "abstention": 0.0}
"""Share of each kind of case in what the probabilities are calibrated to."""

MIX_ACROSS: Final[Mapping[str, float]] = {"own": 0.25, "other": 0.375, "hard": 0.225, "none": 0.15, "abstention": 0.0}
"""The same of items in another language than the question, which hold its answer half as often."""

_UNFIT: Final = 8  # items of an unanswerable case that are trained on


class Signals:
    """Signals of some cases as arrays: one row an item, one row an answer."""

    def __init__(self, asked: Sequence[CaseEvidence], variant: str) -> None:
        seen = [_see(one, variant) for one in asked]
        self.mix = MIX_ACROSS if variant == "across" else MIX
        self.asked = [one for one in seen if one.evidence is not None and len(one.evidence.rows)]
        self.evidence = [one.evidence for one in self.asked]
        parts = [without_gaps(compute_item_features(one)) for one in self.evidence]  # type: ignore[arg-type]
        sizes = [len(part) for part in parts]
        self.items: F32 = np.vstack(parts)
        self.start: I64 = np.cumsum([0, *sizes])
        self.case: I64 = np.repeat(np.arange(len(parts)), sizes)
        self.place: I64 = np.concatenate([np.arange(size) for size in sizes])
        self.gold: Bool = np.concatenate([one.gold for one in self.asked])
        self.source = np.array([one.source for one in self.asked])
        self.group = np.array([one.group for one in self.asked])
        self.kind = np.array([one.kind for one in self.asked])
        self.own: Bool = np.asarray(self.kind == "own")

    def answers(self, logits: F32) -> F32:
        """Return the signals of the answers: float32[cases, ANSWER_FEATURES]."""
        parts = [
            compute_answer_features(one, logits[self.start[i] : self.start[i + 1]])  # type: ignore[arg-type]
            for i, one in enumerate(self.evidence)
        ]
        return np.stack(parts)


def _see(one: CaseEvidence, variant: str) -> CaseEvidence:
    """Return a case as a variant sees it.

    With vectors, rows in another language than the question are left out; across languages, those in its own, and a
    case without others has all of its rows, as if they were in another.
    """
    found = one.evidence
    if found is None:
        return one
    if variant == "words":
        nothing = np.full(len(found.rows), np.nan, np.float32)
        return one._replace(
            evidence=found._replace(z=nothing, z_lean=nothing, expected=0.0, general=np.nan, needless=np.nan)
        )
    chosen = found.shared if variant == "vectors" else ~found.shared | found.shared.all()
    found = take_rows(found, chosen)
    return one._replace(evidence=blind_words(found) if variant == "across" else found, gold=one.gold[chosen])


def weigh_cases(signals: Signals, chosen: Bool, shares: Mapping[str, float]) -> F32:
    """Return the weight of each case: kinds by their shares, sets by the root of their size; mean 1 over the chosen."""
    weight = np.zeros(len(signals.asked), np.float32)
    for kind, share in shares.items():
        of_kind = chosen & (signals.kind == kind)
        sources = [of_kind & (signals.source == source) for source in np.unique(signals.source[of_kind])]
        total = sum(np.sqrt(each.sum()) for each in sources)
        for each in sources:
            weight[each] = share * np.sqrt(each.sum()) / total / each.sum()
    return np.asarray(weight * chosen.sum() / max(float(weight.sum()), 1e-9), np.float32)


def fit_model(signals: Signals, chosen: Bool) -> RelevanceModel:
    """Fit all stages to the chosen cases: bool[cases]."""
    left_out = predict_left_out(signals, chosen)
    answer = fit_answers(signals.answers(left_out), signals, chosen)
    joint = fit_joint(left_out, regress(answer, signals.answers(left_out)), signals, chosen)
    return RelevanceModel(fit_items(signals, chosen), answer, joint)


def predict_left_out(signals: Signals, chosen: Bool) -> F32:
    """Return the items' log-odds of each chosen case by trees that were fitted without its group; others 0."""
    groups = np.unique(signals.group[chosen])
    fold = dict(zip(np.random.default_rng(0).permutation(groups).tolist(), np.arange(len(groups)) % FOLDS, strict=True))
    of = np.array([fold.get(group, -1) for group in signals.group.tolist()])
    logits = np.zeros(len(signals.items), np.float32)
    for number in range(min(FOLDS, len(groups))):
        trees = fit_items(signals, chosen & (of != number))
        rows = (of == number)[signals.case]
        logits[rows] = predict(trees, signals.items[rows])
    return logits


def fit_items(signals: Signals, chosen: Bool) -> Trees:
    """Fit the trees to the items of the chosen cases; of unanswerable ones to the best items."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = chosen[signals.case] & (signals.own[signals.case] | (signals.place < _UNFIT))
    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=RATE,
        max_depth=4,
        max_bins=64,
        l2_regularization=RIDGE,
        min_samples_leaf=LEAST,
        early_stopping=False,
        random_state=0,
    )
    return copy_trees(model.fit(signals.items[rows], signals.gold[rows]))


def fit_answers(inputs: F32, signals: Signals, chosen: Bool) -> Regression:
    """Fit the answer's regression, and calibrate it to the variant's mix by two numbers (Platt 1999)."""
    known = np.where(np.isnan(inputs).all(axis=0), np.float32(0), inputs)[chosen]
    mean = np.nanmean(known, axis=0)
    deviation = np.maximum(np.nanstd(known, axis=0), LEAST_DEVIATION)
    x = expand_signals(mean, deviation, inputs[chosen])
    weights, bias = _regress(x, signals.own[chosen], weigh_cases(signals, chosen, SHARES)[chosen], STRENGTH)
    logits = (x @ weights + bias)[:, None]
    (slope,), shift = _regress(logits, signals.own[chosen], weigh_cases(signals, chosen, signals.mix)[chosen], 1e3)
    fitted = np.asarray(slope * weights, np.float32).reshape(3, -1)
    return Regression(mean, deviation, fitted, np.asarray(slope * bias + shift, np.float32))


def fit_joint(logits: F32, answers: F32, signals: Signals, chosen: Bool) -> F32:
    """Fit the weights that join an item's log-odds with its answer's: float32[4]."""
    rows = chosen[signals.case]
    x = np.vstack(
        [join_logits(logits[signals.start[i] : signals.start[i + 1]], answers[i]) for i in np.flatnonzero(chosen)]
    )
    weight = weigh_cases(signals, chosen, signals.mix)[signals.case][rows]
    weights, bias = _regress(x[:, :3], signals.gold[rows], weight, 1e3)
    return np.append(weights, bias).astype(np.float32)


def _regress(x: F32, y: AnyArray, weight: F32, strength: float) -> tuple[F32, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=4000).fit(x, y, sample_weight=weight)
    return np.asarray(model.coef_[0], np.float32), float(model.intercept_[0])


def cross_fit(
    signals: Signals, folds: Sequence[tuple[Bool, Bool]], say: Callable[[str], None] = lambda line: None
) -> tuple[F32, F32]:
    """Return the probabilities of cases by models that never saw them: (items float32[rows], answers float32[cases]).

    Args:
        folds: (cases to fit, cases to predict) each, bool[cases].
    """
    from helix.stages.relevance import weigh_evidence

    items, answers = np.full(len(signals.items), np.nan, np.float32), np.full(len(signals.asked), np.nan, np.float32)
    for number, (fitted, left_out) in enumerate(folds, 1):
        model = fit_model(signals, fitted)
        for i in np.flatnonzero(left_out):
            found = weigh_evidence(signals.evidence[i], model)  # type: ignore[arg-type]
            items[signals.start[i] : signals.start[i + 1]], answers[i] = found
        say(f"fold {number} of {len(folds)}")
    return items, answers
