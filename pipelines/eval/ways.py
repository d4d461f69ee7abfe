"""The ways to answer a question: single legs, their fusion, profiles, and profiles without an optional field."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from helix.question.build import build_query
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.index.doc2query import KIND, QueryField, QueryPart, open_queries, write_queries
from helix.snapshot.manifest import Index
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.dense import search_dense, search_dense_batch
from helix.stages.fuse import fuse
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.stages.sparse import search_sparse
from helix.types import Bundle, Leg, Plan, Query, RecallOptions
from pipelines.eval.score import BUDGETS, RankedAnswer
from pipelines.eval.sets.benchmark import Question, turn_key

ITEMS = {500: 30, 1_000: 30, 2_000: 60}
"""k of each budget: more than fit, so that the budget decides."""

RANKED = 1_000
"""Budget of the recall that gives the ranking and the time."""

PROFILES = ("helix", "helix-paper")
LEGS: Mapping[str, tuple[str, ...]] = {"dense": ("dense",), "bm25": ("bm25",), "rrf": ("dense", "bm25")}
WEIGHED: Mapping[str, tuple[str, ...]] = {"sparse": ("sparse",)}
"""Legs of items with learned-sparse weights."""

EXPANSIONS = ("on", "off", "shuffled")
WEIGHTS = ("on", "off")

_LEG = 100  # items of one leg
_BATCH = 256  # questions searched at once on a GPU; each has a byte a row for its filter

Ask = Callable[[Question], RankedAnswer]
Ahead = Mapping[tuple[Hashable, ...], tuple[Leg, float]]
"""Dense legs that were searched in a batch, each with its share of the milliseconds."""


def list_ways(
    memory: Memory, settings: Settings, profiles: Sequence[str] = PROFILES, questions: Sequence[Question] = ()
) -> dict[str, Ask]:
    """Return the ways by name: each leg of the store, two fused by equal weights, and the profiles.

    Args:
        questions: on a GPU the dense legs of these are searched now, in batches, for the ways that are legs.
    """
    legs = {**LEGS, **(WEIGHED if memory.snapshot.lexical.impacts else {})}
    dense = _search_ahead(questions, memory.snapshot, settings) if settings.dense == "gpu" else {}
    return {
        **{name: partial(_ask_legs, memory.snapshot, settings, chosen, dense) for name, chosen in legs.items()},
        **{name: partial(ask_profile, memory, name) for name in profiles},
    }


def _search_ahead(questions: Sequence[Question], snap: Snapshot, settings: Settings) -> Ahead:
    """Search the dense legs of many questions in batches.

    Questions are embedded one by one, as in a recall: in a batch their vectors would differ slightly.
    """
    found: dict[tuple[Hashable, ...], tuple[Leg, float]] = {}
    for start in range(0, len(questions), _BATCH):
        part = questions[start : start + _BATCH]
        plans = [_plan(question, snap, settings)[1] for question in part]
        began = time.perf_counter()
        vectors = np.stack([snap.encoder.query(question.text) for question in part])
        legs = search_dense_batch(vectors, snap, plans, _LEG)
        ms = 1e3 * (time.perf_counter() - began) / len(part)
        found |= {_key(question): (leg, ms) for question, leg in zip(part, legs, strict=True)}
    return found


def _key(question: Question) -> tuple[Hashable, ...]:
    """Return all that the legs of a question depend on."""
    return question.text, question.project, question.at


def _plan(question: Question, snap: Snapshot, settings: Settings) -> tuple[Query, Plan]:
    query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=question.at))
    return query, route(query, None, snap)


def _ask_legs(
    snap: Snapshot,
    settings: Settings,
    names: Sequence[str],
    dense: Ahead,
    question: Question,
) -> RankedAnswer:
    """Answer by one leg, or by several fused by reciprocal ranks; pack in that order."""
    began, ahead = time.perf_counter(), 0.0
    query, plan = _plan(question, snap, settings)
    legs = []
    if "dense" in names and _key(question) in dense:
        leg, ahead = dense[_key(question)]
        legs.append(leg)
    elif "dense" in names:
        legs.append(search_dense(snap.encoder.query(question.text), snap, plan, _LEG))
    if "bm25" in names:
        legs.append(search_lexical(query, snap.lexical, plan, _LEG, 0.9, 0.6))
    if "sparse" in names and snap.lexical.impacts:
        legs.append(search_sparse(snap.sparse_encoder.encode(question.text), snap.lexical.impacts, plan, _LEG))
    rows = fuse(legs, snap, 60, {"dense": 1.0, "bm25": 1.0}).row if len(legs) > 1 else legs[0].rows
    snap.text(rows[: ITEMS[RANKED]])  # as many as a recall reads
    ms = 1e3 * (time.perf_counter() - began) + ahead
    turns = [[turn_key(entry["session"], one) for one in entry["turns"]] for entry in snap.text(rows)]
    filled = np.cumsum(snap.columns.tokens[rows])
    packs = {budget: set(_flatten(turns[: int(np.searchsorted(filled, budget, "right"))])) for budget in BUDGETS}
    return RankedAnswer(_flatten(turns), packs, ms=ms)


def ask_profile(memory: Memory, profile: str, question: Question, quality: str | None = None) -> RankedAnswer:
    """Answer by the normal recall, once a budget. Only packed items count, not the turns around them.

    Args:
        quality: fast or best; by default as the settings say.
    """
    fixed: dict[str, Any] = {"project": question.project, "now": question.at, "quality": quality}

    def ask(budget: int) -> Bundle:
        return memory.recall(question.text, profile=profile, k=ITEMS[budget], budget=budget, **fixed)

    began = time.perf_counter()
    ranked = ask(RANKED)
    ms = 1e3 * (time.perf_counter() - began)
    bundles = {budget: ranked if budget == RANKED else ask(budget) for budget in BUDGETS}
    packs = {
        budget: {turn_key(item.session, one) for item in bundle.packed for one in item.turns}
        for budget, bundle in bundles.items()
    }
    ranking = _flatten([turn_key(item.session, one) for one in item.turns] for item in ranked.items)
    return RankedAnswer(ranking, packs, ranked.skipped, ms)


def _flatten(turns: Iterable[Sequence[str]]) -> list[str]:
    """Return all turns in order, each once."""
    return list(dict.fromkeys(one for each in turns for one in each))


def override_weights(snap: Snapshot, state: str) -> AbstractContextManager[None]:
    """Use the snapshot with its learned-sparse weights or, for "off", without."""
    return _override(snap, "impacts", None if state == "off" else snap.lexical.impacts)


def override_expansion(snap: Snapshot, state: str, work: Path) -> AbstractContextManager[None]:
    """Use the snapshot with its expansions, without them, or with each of them at another item.

    Shuffled expansions show the effect of more words as such.
    """
    field = snap.lexical.expansion
    if state == "shuffled" and field is not None:
        return _override(snap, "expansion", _shuffle(snap, field, work / "shuffled"))
    return _override(snap, "expansion", None if state == "off" else field)


@contextmanager
def _override(snap: Snapshot, name: str, field: Any) -> Iterator[None]:
    before = getattr(snap.lexical, name)
    snap.lexical.__dict__[name] = field
    try:
        yield
    finally:
        snap.lexical.__dict__[name] = before


def _shuffle(snap: Snapshot, field: QueryField, folder: Path, seed: int = 0) -> QueryField:
    rows = np.flatnonzero(field.looked)
    queries = field.questions_of(rows)
    order = np.random.default_rng(seed).permutation(len(rows))
    source = np.empty_like(order)
    source[order] = np.roll(order, 1)  # one cycle: no item keeps its own
    folder.mkdir(parents=True)
    shuffled = [queries[i] for i in source]
    write_queries(folder / "indexes" / "x" / KIND, rows.astype(np.uint32), ["" for _ in rows], shuffled)
    opened = open_queries(folder, Index("x", KIND, (), ()))
    return QueryField([QueryPart(0, opened)], snap.rows, snap.alive, snap.lexical.key)
