"""The pools a ranker learns from: the items that recall ranks for a question, and those that answer it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from helix.question.build import build_query
from helix.recipes.common import weigh_terms
from helix.recipes.default import rank_question
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.pair_text import read_pair_texts
from helix.stages.reading import reorder
from helix.stages.trace import Trace
from helix.types import F32, I64, Bool, Query, RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import find_last_moment
from pipelines.eval.sets.benchmark import Question, turn_key
from pipelines.eval.sets.registry import read_set

DEPTH: Final = 30
"""Best items of a pool."""


class RankedPool(NamedTuple):
    """A question with its candidates, best first; then the items that answer it and were not found."""

    question: str
    project: str
    found: int  # candidates that were found
    rows: I64  # int64[n]
    scores: F32  # float32[n], of the ranking; the least of all where an item was not found
    gold: Bool  # bool[n]
    aside: Bool  # bool[n], neither right nor wrong
    turns: Sequence[str]  # native turn of each
    wanted: int  # gold turns, found or not
    texts: Sequence[str]  # what is read of each


class PooledSet(NamedTuple):
    """The pools of a set."""

    label: str
    pools: Sequence[RankedPool]


def read_pools(
    label: str, name: str, path: Path, root: Path, settings: Settings, *, missed: bool, depth: int = DEPTH
) -> PooledSet:
    """Ingest a set, ask each of its questions and keep its best items.

    Args:
        root: a folder that retains the set's store, and may exist.
        missed: the gold that was not found is added.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    benchmark = read_set(name, path, root / "documents")
    ingest(root / "store", list(benchmark.documents), settings)
    snap = Snapshot.open(root / "store")
    profile: HelixProfile = load("helix", settings.profiles)
    turns = [turn_key(entry["session"], entry["turns"][0]) for entry in snap.text(np.arange(snap.rows))]
    rows_of: dict[str, list[int]] = {}
    for row, turn in enumerate(turns):
        rows_of.setdefault(turn, []).append(row)
    moments = {project: find_last_moment(snap, project) for project in snap.projects}
    pools = []
    for question in benchmark.questions:
        at = question.at or moments.get(question.project or "")
        query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=at))
        found, scores = rank_rows(query, snap, profile, depth)
        gold = [row for turn in sorted(question.gold) for row in rows_of.get(turn, ())] if missed else []
        pool = _make_pool(question, found, scores, np.array(gold, np.int64), turns)
        texts = read_pair_texts(pool.rows, snap, weigh_terms(query, snap)) if len(pool.rows) else []
        pools.append(pool._replace(texts=[*map(sys.intern, texts)]))
    return PooledSet(label, pools)


def rank_rows(query: Query, snap: Snapshot, profile: HelixProfile, depth: int) -> tuple[I64, F32]:
    """Return the best rows for a question, as recall ranks them before it reranks, and their scores."""
    ranked = rank_question(query, snap, profile, Trace())
    if ranked is None:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    query, vector, plan, pool, _ = ranked
    pool = reorder(pool, query, vector, snap, plan, profile.reading)
    return pool.row[:depth].astype(np.int64), pool.final[:depth]


def _make_pool(question: Question, found: I64, scores: F32, gold: I64, turns: Sequence[str]) -> RankedPool:
    missed = np.setdiff1d(gold, found)
    rows = np.concatenate([found, missed])
    least = np.full(len(missed), scores[-1] if len(scores) else 0.0, np.float32)
    own = [turns[row] for row in rows.tolist()]
    return RankedPool(
        question.text,
        question.project or "",
        len(found),
        rows,
        np.concatenate([scores, least]),
        np.array([turn in question.gold for turn in own], bool),
        np.array([turn in question.related for turn in own], bool),
        own,
        len(question.gold),
        (),
    )
