"""Training the models of changes on changing histories: claims, links, and the readings now, then and why.

Each stage sees the predictions of the one before for histories that were left out of its training (stacked
generalisation, Wolpert 1992), so that it learns how far to trust them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.enrich.changes import LEAST, TurnRows, choose_pairs, compute_features, lean_vectors
from helix.question.build import build_query
from helix.ranking.trees import DEPTH, Trees, predict, sigmoid
from helix.recipes.default import rank_question
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.changes import Links
from helix.stages.features import reading as features
from helix.stages.reading import find_linked, read_rows
from helix.stages.trace import Trace
from helix.text.claims import BUCKETS, CLAIMS, SetsModel, count_cues, hash_former, hash_words, read_features
from helix.text.reading import Kind, Reading, read_question
from helix.types import F32, I64, ROLES, U8, AnyArray, RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.changes.history import TURNS, ChangingHistory
from pipelines.ingest.changes import read_scopes

FOLDS: Final = 6
TREES: Final = 200
RATE: Final = 0.05
RIDGE: Final = 5.0
SETS_STRENGTH: Final = 0.3  # inverse regularisation
SETS: Final = CLAIMS.index("sets")
KINDS: Final[tuple[Kind, ...]] = ("now", "then", "why")

Folds = Sequence[tuple[list[int], list[int]]]
"""(training, left out) of each fold, as positions of histories."""

# Controls whose turns set something, though nothing of the pair's topic.
_SETTING: Final = ("restated", "detail", "two_holders", "other_project")
_OTHER_SETTING: Final = ("two_holders", "other_project", "restated")


@dataclass(slots=True)
class Material:
    """One history, ingested: its rows, pairs and questions, with what each stage predicted for it."""

    history: ChangingHistory
    memory: Memory
    rows: dict[str, int]  # turn → row
    texts: list[str]
    roles: list[str]
    claims: U8  # uint8[rows, CLAIMS]
    setting: I64  # int64[rows]: 1 sets something, 0 does not, −1 unknown
    scopes: list[tuple[TurnRows, I64]]  # turns of a project, and the snapshot's row of each
    pairs: list[tuple[I64, I64, F32, I64]] = field(default_factory=list)  # (i, j, features, label) by scope
    links: list[F32] = field(default_factory=list)  # certainty of each pair, by scope


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the features of its candidates, and which of them are gold."""

    material: int
    features: F32
    gold: AnyArray
    stale: AnyArray


@dataclass(frozen=True, slots=True)
class TrainedModels:
    """All models, and the figures of histories left out of the training."""

    sets: SetsModel
    links: Trees
    readings: dict[Kind, Trees]
    figures: dict[str, float]


def train(
    histories: Sequence[ChangingHistory], settings: Settings, work: Path, say: Callable[[str], None]
) -> TrainedModels:
    """Train on histories, each ingested into a store of its own below `work`."""
    materials = [read_material(history, settings, work) for history in histories]
    folds = make_folds(len(materials))
    sets, by_sets = fit_sets(materials, folds)
    for material, probability in zip(materials, by_sets, strict=True):
        material.claims[:, SETS] = np.round(255 * probability)
    figures = {"sets auc": _auc(np.concatenate([m.setting for m in materials]), np.concatenate(by_sets))}
    say(f"sets: {figures}")
    links = fit_links(materials, folds)
    figures["links ap"] = _precision(materials)
    say(f"links: {figures}")
    readings: dict[Kind, Trees] = {}
    for kind in KINDS:
        asked = list(ask_all(materials, kind, settings))
        readings[kind], rates = fit_reading(asked, folds, kind)
        figures |= {f"{kind} {name}": rate for name, rate in rates.items()}
        say(f"{kind}: {len(asked)} questions, {rates}")
    return TrainedModels(sets, links, readings, figures)


def make_folds(n: int) -> Folds:
    """Return (training, left out) of each fold."""
    parts = [list(range(fold, n, FOLDS)) for fold in range(min(FOLDS, n))]
    return [([i for i in range(n) if i not in part], part) for part in parts]


def read_material(history: ChangingHistory, settings: Settings, work: Path) -> Material:
    """Ingest a history and read what the stages need of it."""
    root = work / history.folder.parent.name / history.name
    if not root.exists():
        ingest(root, [history.folder / TURNS], settings, format="jsonl")
    memory = Memory(root, settings)
    snap = memory.snapshot
    live = np.flatnonzero(snap.alive)
    entries = snap.text(live)
    rows: dict[str, int] = {}
    for row, entry in zip(live.tolist(), entries, strict=True):
        for turn in entry["turns"]:
            rows.setdefault(turn, row)
    texts = [""] * snap.rows
    for row, entry in zip(live.tolist(), entries, strict=True):
        texts[row] = entry["text"]
    roles = [ROLES[code] for code in snap.columns.role.tolist()]
    counts = np.array([count_cues(text) for text in texts], np.uint8)
    claims = np.column_stack([counts, np.zeros(snap.rows, np.uint8)])
    return Material(
        history, memory, rows, texts, roles, claims, _label_setting(history, rows, snap.rows), _read_scopes(memory)
    )


def _read_scopes(memory: Memory) -> list[tuple[TurnRows, I64]]:
    snap = memory.snapshot
    alive = [snap.alive[start : start + segment.rows] for start, segment in snap.row_map.by_segment()]
    return [(turns, snap.row_map.by_key(key)) for turns, key in read_scopes(snap.row_map.segments, alive)]


def _label_setting(history: ChangingHistory, rows: dict[str, int], n: int) -> I64:
    """Label the rows that set something, by the history's pairs and controls."""
    out = np.zeros(n, np.int64)
    for pair in history.pairs:
        for turn in (*pair.stale, *pair.current):
            if turn in rows:
                out[rows[turn]] = 1
    for control in history.controls:
        for turn in control.keep:
            if turn in rows and not out[rows[turn]]:
                out[rows[turn]] = 1 if control.kind in _SETTING else -1
        for turn in control.looks_like:
            if turn in rows and not out[rows[turn]] and control.kind in _OTHER_SETTING:
                out[rows[turn]] = 1
    return out


# ---------------------------------------------------------------- claims


def fit_sets(materials: Sequence[Material], folds: Folds) -> tuple[SetsModel, list[F32]]:
    """Fit the probability that an item sets something; return it with the predictions for left-out histories."""
    from scipy import sparse

    inputs, labels = [], []
    for one in materials:
        words = [hash_words(text) for text in one.texts]
        indptr = np.cumsum([0, *(len(buckets) for buckets, _ in words)])
        weights = np.array([weight for _, weights in words for weight in weights], np.float32)
        index = np.array([bucket for buckets, _ in words for bucket in buckets], np.int64)
        counted = sparse.csr_matrix((weights, index, indptr), (len(words), BUCKETS))
        cues = read_features([row[:SETS].tolist() for row in one.claims], one.texts, one.roles)
        inputs.append(sparse.hstack([sparse.csr_matrix(cues), counted]).tocsr())
        labels.append(one.setting)
    predicted = [np.empty(0, np.float32)] * len(materials)
    for train_on, left_out in folds:
        model = _fit_sets([inputs[i] for i in train_on], [labels[i] for i in train_on])
        for at in left_out:
            predicted[at] = model.predict_proba(inputs[at])[:, 1].astype(np.float32)
    whole = _fit_sets(inputs, labels)
    split = whole.coef_.shape[1] - BUCKETS
    coefficients = whole.coef_[0].astype(np.float32)
    return SetsModel(coefficients[:split], coefficients[split:], np.float32(whole.intercept_[0])), predicted  # type: ignore[arg-type]


def _fit_sets(inputs: Sequence[Any], labels: Sequence[I64]) -> Any:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    x, y = sparse.vstack(inputs).tocsr(), np.concatenate(labels)
    return LogisticRegression(C=SETS_STRENGTH, max_iter=400, solver="liblinear").fit(x[y >= 0], y[y >= 0])


# ---------------------------------------------------------------- links


def fit_links(materials: Sequence[Material], folds: Folds) -> Trees:
    """Fit the probability that a later turn changes an earlier one; fill in the links of left-out histories."""
    for one in materials:
        one.pairs = list(_compare_scopes(one))
    for train_on, left_out in folds:
        model = fit_trees(*_join_pairs([materials[i] for i in train_on]))
        for i in left_out:
            materials[i].links = [sigmoid(predict(model, x)) for _, _, x, _ in materials[i].pairs]
    return fit_trees(*_join_pairs(materials))


def _compare_scopes(one: Material) -> Iterator[tuple[I64, I64, F32, I64]]:
    """Yield the compared pairs of each scope: (earlier row, later row, features, label: 1, 0, or −1 for unknown)."""
    wanted, unknown = _label_pairs(one)
    for scope, rows in one.scopes:
        former = hash_former([one.texts[row] for row in rows.tolist()])
        turns = scope._replace(claims=one.claims[rows], former=former)
        leaned = lean_vectors(turns)
        i, j = choose_pairs(turns, leaned, np.ones(len(rows), np.bool_))
        ends = zip(rows[i].tolist(), rows[j].tolist(), strict=True)
        label = [-1 if end in unknown else int(end in wanted) for end in ends]
        yield rows[i], rows[j], compute_features(turns, leaned, i, j), np.array(label, np.int64)


def _label_pairs(one: Material) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the pairs of rows that are changes, and those that may be: steps over a value that came between."""
    wanted: set[tuple[int, int]] = set()
    unknown: set[tuple[int, int]] = set()
    for pair in one.history.pairs:
        stale = [one.rows[turn] for turn in pair.stale if turn in one.rows]
        time = one.memory.snapshot.changes.said_at
        current = [one.rows[turn] for turn in pair.current if turn in one.rows]
        current.sort(key=lambda row: (time[row], row))
        chain = [*stale, *current]
        unknown |= {(a, b) for x, a in enumerate(chain) for b in chain[x + 1 :]}
        wanted |= set(zip(stale, chain[1:], strict=False))
    return wanted, unknown - wanted


def _join_pairs(materials: Sequence[Material]) -> tuple[F32, I64]:
    x = np.vstack([pair[2] for one in materials for pair in one.pairs])
    y = np.concatenate([pair[3] for one in materials for pair in one.pairs])
    return x[y >= 0], y[y >= 0]


def fit_trees(x: F32, y: AnyArray) -> Trees:
    """Fit boosted trees of `DEPTH` by log loss."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=RATE,
        max_depth=DEPTH,
        l2_regularization=RIDGE,
        early_stopping=False,
        random_state=0,
    ).fit(x, y)
    feature = np.zeros((len(model._predictors), 2**DEPTH - 1), np.int32)
    threshold = np.full(feature.shape, np.inf, np.float32)
    leaf = np.zeros((len(feature), 2**DEPTH), np.float32)
    for tree, (predictor,) in enumerate(model._predictors):
        _copy_tree(predictor.nodes, 0, 0, feature[tree], threshold[tree], leaf[tree])
    return Trees(feature, threshold, leaf, np.float32(model._baseline_prediction.ravel()[0]))  # type: ignore[arg-type]


def _copy_tree(nodes: Any, at: int, place: int, feature: AnyArray, threshold: AnyArray, leaf: AnyArray) -> None:
    """Copy a node of scikit-learn to its place in a complete tree; a leaf above the bottom fills its left branch."""
    node = nodes[at]
    if place >= len(feature):
        leaf[place - len(feature)] = node["value"]
    elif node["is_leaf"]:
        _copy_tree(nodes, at, 2 * place + 1, feature, threshold, leaf)
    else:
        feature[place], threshold[place] = node["feature_idx"], node["num_threshold"]
        _copy_tree(nodes, node["left"], 2 * place + 1, feature, threshold, leaf)
        _copy_tree(nodes, node["right"], 2 * place + 2, feature, threshold, leaf)


# ---------------------------------------------------------------- readings


def ask_all(materials: Sequence[Material], kind: Kind, settings: Settings) -> Iterator[Asked]:
    """Ask every question of one kind, with the links and claims predicted for left-out histories."""
    profile = load("helix", settings.profiles)
    for number, one in enumerate(materials):
        snap = one.memory.snapshot
        _set_predictions(one)
        for text, gold, stale in _list_questions(one, kind):
            query = build_query(text, snap, settings, RecallOptions(now=one.history.now))
            ranked = rank_question(query, snap, profile, Trace())
            if ranked is None or (vector := ranked.vector) is None or not len(ranked.pool):
                continue
            query, plan, pool = ranked.query, ranked.plan, ranked.pool
            reading = Reading(kind, read_question(text).hints)
            linked = find_linked(pool, query, reading, snap, plan, profile.reading)
            x = features.compute_features(read_rows(linked, query, vector, snap), reading.hints, plan.days)
            yield Asked(number, x, np.isin(linked.rows, [*gold]), np.isin(linked.rows, [*stale]))


def _set_predictions(one: Material) -> None:
    """Let the snapshot answer with the predicted links and claims."""
    snap = one.memory.snapshot
    old = np.concatenate([pair[0] for pair in one.pairs])
    new = np.concatenate([pair[1] for pair in one.pairs])
    certainty = np.concatenate(one.links)
    keep = certainty >= LEAST
    order = np.lexsort((new[keep], old[keep]))
    for name in ("_by_new",):
        vars(snap.changes).pop(name, None)
    vars(snap.changes)["links"] = Links(old[keep][order], new[keep][order], certainty[keep][order])
    vars(snap.lexical)["claims"] = lambda rows: one.claims[rows]


def _list_questions(one: Material, kind: Kind) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield (text, gold rows, stale rows)."""

    def find(turns: Collection[str]) -> list[int]:
        return [one.rows[turn] for turn in turns if turn in one.rows]

    for pair in one.history.pairs:
        if kind == "now":
            yield from ((text, find(pair.current), find(pair.stale)) for text in pair.now)
        else:
            past = pair.then if kind == "then" else pair.why
            yield from ((question.text, find(question.gold), []) for question in past)


def fit_reading(asked: Sequence[Asked], folds: Folds, kind: Kind) -> tuple[Trees, dict[str, float]]:
    """Fit the order of candidates; return it with its rates on left-out histories."""
    rates: list[tuple[bool, bool, bool]] = []
    for train_on, left_out in folds:
        chosen = [one for one in asked if one.material in set(train_on)]
        model = fit_trees(np.vstack([one.features for one in chosen]), np.concatenate([one.gold for one in chosen]))
        rates += [judge_order(predict(model, one.features), one) for one in asked if one.material in set(left_out)]
    names = ("above", "first", "top3")
    figures = {name: round(float(rate), 3) for name, rate in zip(names, np.mean(rates, axis=0), strict=True)}
    whole = fit_trees(np.vstack([one.features for one in asked]), np.concatenate([one.gold for one in asked]))
    return whole, figures if kind == "now" else {name: figures[name] for name in names[1:]}


def judge_order(wanted: F32, one: Asked) -> tuple[bool, bool, bool]:
    """Return whether a gold candidate is above every stale one, first, and in the first three."""
    order = np.argsort(-wanted, kind="stable")[:10]
    gold, stale = np.flatnonzero(one.gold[order]), np.flatnonzero(one.stale[order])
    first = int(gold[0]) if len(gold) else 10
    return first < (int(stale[0]) if len(stale) else 10), first == 0, first < 3


def _auc(label: I64, probability: F32) -> float:
    from sklearn.metrics import roc_auc_score

    return round(float(roc_auc_score(label[label >= 0], probability[label >= 0])), 3)


def _precision(materials: Sequence[Material]) -> float:
    from sklearn.metrics import average_precision_score

    label = np.concatenate([pair[3] for one in materials for pair in one.pairs])
    certainty = np.concatenate([link for one in materials for link in one.links])
    return round(float(average_precision_score(label[label >= 0], certainty[label >= 0])), 3)
