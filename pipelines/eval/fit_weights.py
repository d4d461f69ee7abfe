"""Fit of the ranking's constants to benchmark sets, for one encoder, tested on haystacks that were not fitted to.

Coordinate ascent (Metzler & Croft 2007, "Linear feature-based models for information retrieval"): each constant in
turn is made smaller and larger, and a step is kept where it raises the objective. That is the mean over sets of
recall@10 and a share of nDCG@20, of the ranking that a recall has, links and changes included. All sets weigh the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from helix.question.build import build_query
from helix.recipes.default import rank_question
from helix.recipes.encoder_weights import get_constant, name_encoders, set_constants
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.reading import reorder
from helix.stages.trace import Trace
from helix.types import F32, F64, Query, RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import Say, find_last_moment
from pipelines.eval.score import ndcg_at, recall_at
from pipelines.eval.sets.benchmark import turn_key
from pipelines.eval.sets.registry import read_set
from pipelines.passes.sparse import encode, open_document_encoder

FITTED: Final = (
    *("sim.dense", "sim.mean", "sim.lean", "link.walk", "link.title", "sim.session", "sim.window", "sim.own"),
    *("sim.rare", "sim.adjacent", "sim.user", "sim.standing", "sim.reply", "sim.salience", "sim.first_person"),
    *("sim.title", "sim.type"),
)
"""Constants that are fitted, in order: those of the encoder first."""

SPARSE: Final = "sim.sparse"
STEPS: Final = (0.7, 1.4)
ROUNDS: Final = 2

K: Final = 10
FAR: Final = 20
SHARE: Final = 0.35
"""Weight of nDCG@20, which tells more of a question than recall@10 alone."""

LEAST_GAIN: Final = 0.0015
"""Of the objective, for a step to be kept."""

MOST_LOSS: Final = 0.003
"""Of the objective over any set, and over any fold of the haystacks, for a step to be kept: it must pay everywhere."""

HALVES: Final = ((0, 1), (2, 3))
"""Folds of the haystacks: each half is measured with constants that were fitted to the other."""

Floats = F64


class AskedQuestion(NamedTuple):
    """A question, its gold turns, and the fold of the haystacks that its own is in."""

    query: Query
    gold: frozenset[str]
    fold: int


class FittingSet(NamedTuple):
    """A set in a store, and the turn of each row."""

    snap: Snapshot
    turns: Sequence[str]
    questions: Sequence[AskedQuestion]


class Fitted(NamedTuple):
    """The constants that differ from the profile's, and (recall@10, nDCG@20) by set."""

    encoders: str  # what the profile calls them
    constants: dict[str, float]
    before: dict[str, tuple[float, float]]
    held_out: dict[str, tuple[float, float]]  # each half with the constants fitted to the other
    after: dict[str, tuple[float, float]]


def fit_weights(
    sources: Mapping[str, tuple[str, Path]], settings: Settings, work: Path | None, *, each: int = 1, say: Say
) -> Fitted:
    """Fit the constants to sets by label, each a set's name and its path.

    Args:
        work: retains the stores of the sets, and may exist; a temporary folder by default.
        each: of the questions of a set with more than 500, every so manieth is asked.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    with tempfile.TemporaryDirectory() as folder:
        sets = {
            label: read_fitting_set(name, path, (work or Path(folder)) / label, settings, each)
            for label, (name, path) in sources.items()
        }
        profile: HelixProfile = load("helix", settings.profiles)
        snap = next(iter(sets.values())).snap
        own = set_constants(profile, profile.encoders.get(name_encoders(snap), {}))
        names = [*FITTED, SPARSE] if snap.lexical.impacts else [*FITTED]
        measure = partial(_measure, sets)
        before = measure(own)
        held_out: dict[str, Floats] = {}
        for half, other in (HALVES, HALVES[::-1]):
            found = measure(set_constants(own, ascend(own, names, measure, other, say)))
            for label, values in found.items():
                kept = held_out.get(label, np.empty((0, 3)))
                held_out[label] = np.concatenate([kept, values[np.isin(values[:, 2], half)]])
        changed = ascend(own, names, measure, (*HALVES[0], *HALVES[1]), say)
        after = measure(set_constants(own, changed))
        return Fitted(name_encoders(snap), changed, *map(_summarise, (before, held_out, after)))


def read_fitting_set(name: str, path: Path, root: Path, settings: Settings, each: int) -> FittingSet:
    """Ingest a set, with learned-sparse weights if an encoder of them is set, and build its questions."""
    benchmark = read_set(name, path, root / "documents")
    ingest(root / "store", list(benchmark.documents), settings)
    if not isinstance(model := open_document_encoder(settings), str):
        encode(root / "store", model, settings)
    snap = Snapshot.open(root / "store")
    _remember_vectors(snap)
    turns = [turn_key(entry["session"], entry["turns"][0]) for entry in snap.text(np.arange(snap.rows))]
    moments = {project: find_last_moment(snap, project) for project in snap.projects}
    folds = {project: i % 4 for i, project in enumerate(sorted(moments))}
    asked = benchmark.questions[:: each if len(benchmark.questions) > 500 else 1]
    questions = []
    for i, question in enumerate(asked):
        at = question.at or moments.get(question.project or "")
        query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=at))
        fold = folds[question.project] if question.project and len(folds) > 4 else i % 4
        questions.append(AskedQuestion(query, question.gold, fold))
    return FittingSet(snap, turns, questions)


class _RememberedEncoder:
    """The encoder of a snapshot, which embeds a question once."""

    def __init__(self, encoder: Any) -> None:
        self._embed = lru_cache(maxsize=None)(encoder.query)
        self.folder, self.tokenizer = encoder.folder, encoder.tokenizer
        self.joins_languages = encoder.joins_languages

    def start_query(self, text: str) -> Callable[[], F32]:
        return partial(self._embed, text)


def _remember_vectors(snap: Snapshot) -> None:
    snap.files.__dict__["encoder"] = _RememberedEncoder(snap.encoder)
    if snap.lexical.impacts:
        sparse = snap.sparse_encoder
        snap.files.__dict__["sparse_encoder"] = replace(sparse, encode=lru_cache(maxsize=None)(sparse.encode))


def ascend(
    profile: HelixProfile,
    names: Sequence[str],
    measure: Callable[[HelixProfile], Mapping[str, Floats]],
    folds: Sequence[int],
    say: Say,
) -> dict[str, float]:
    """Return the constants whose steps raise the objective over some folds of the haystacks.

    Args:
        measure: returns (recall@10, nDCG@20, fold) of each question by set, for a profile.
    """
    changed: dict[str, float] = {}
    best = measure(profile)
    for _ in range(ROUNDS):
        for name in names:
            for step in STEPS:
                trial = {**changed, name: round(get_constant(set_constants(profile, changed), name) * step, 4)}
                found = measure(set_constants(profile, trial))
                if _pays(found, best, folds):
                    changed, best = trial, found
                    say(f"{name} = {trial[name]}: {_compute_objective(best, folds):.4f}")
                    break
    return changed


def _pays(found: Mapping[str, Floats], best: Mapping[str, Floats], folds: Sequence[int]) -> bool:
    """Return whether a step raises the objective, and lowers it nowhere by much."""
    sets = [({label: best[label]}, {label: found[label]}) for label in found]
    lost = [_compute_objective(before, folds) - _compute_objective(after, folds) for before, after in sets]
    lost += [_compute_objective(best, (fold,)) - _compute_objective(found, (fold,)) for fold in folds]
    gain = _compute_objective(found, folds) - _compute_objective(best, folds)
    return gain > LEAST_GAIN and max(lost) < MOST_LOSS


def _measure(sets: Mapping[str, FittingSet], profile: HelixProfile) -> dict[str, Floats]:
    """Return (recall@10, nDCG@20, fold) of each question by set: float64[n, 3] each."""
    return {label: np.array([_ask(one, asked, profile) for asked in one.questions]) for label, one in sets.items()}


def _ask(given: FittingSet, asked: AskedQuestion, profile: HelixProfile) -> tuple[float, float, int]:
    ranked = rank_question(asked.query, given.snap, profile, Trace())
    if ranked is None:
        return 0.0, 0.0, asked.fold
    query, vector, plan, pool, _ = ranked
    pool = reorder(pool, query, vector, given.snap, plan, profile.reading)
    ranking = list(dict.fromkeys(given.turns[row] for row in pool.row[: 4 * FAR].tolist()))
    grades = dict.fromkeys(asked.gold, 1.0)
    return recall_at(ranking, asked.gold, K), ndcg_at(ranking, grades, FAR), asked.fold


def _compute_objective(found: Mapping[str, Floats], folds: Sequence[int]) -> float:
    """Return the mean over sets of recall@10 + SHARE · nDCG@20 over some folds."""
    chosen = [values[np.isin(values[:, 2], folds)] for values in found.values()]
    return float(np.mean([values[:, 0].mean() + SHARE * values[:, 1].mean() for values in chosen if len(values)]))


def _summarise(found: Mapping[str, Floats]) -> dict[str, tuple[float, float]]:
    return {
        label: (round(float(values[:, 0].mean()), 4), round(float(values[:, 1].mean()), 4))
        for label, values in found.items()
    }


def format_weights(fitted: Fitted) -> str:
    """Format the constants as a profile has them, and their figures."""
    lines = [f'[encoders."{fitted.encoders}"]', *(f'"{name}" = {value}' for name, value in fitted.constants.items())]
    head = f"{'recall@10, nDCG@20':28}{'as it is':>16}{'other half':>16}{'fitted':>16}"
    columns = (fitted.before, fitted.held_out, fitted.after)
    rows = [
        f"{label:28}" + "".join("{:>9.3f} {:.3f} ".format(*one[label]) for one in columns) for label in fitted.before
    ]
    return "\n".join([*lines, "", head, *rows])
