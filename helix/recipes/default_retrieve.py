"""Stage 3 of the recipe `helix`: the legs, which run while the question is embedded where they need no vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.errors import EncoderError
from helix.question.rewrite import remove_request
from helix.recipes.common import ids, search_vectors
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.collapse import collapse
from helix.stages.constants import HelixProfile
from helix.stages.dense import dense_score
from helix.stages.lexical import Field, lexical_score, search_lexical
from helix.stages.sparse import search_sparse
from helix.stages.trace import Spent, Trace, measure
from helix.types import F32, U32, Leg, Plan, Query, Sparse

if TYPE_CHECKING:
    from helix.snapshot.index.sparse import SparseField


class SearchedLeg(NamedTuple):
    """One leg's result, with what a trace reports of it."""

    stage: str
    limit: int  # rows it returns at most
    leg: Leg
    copies: U32  # near-duplicates that were left out
    better: U32  # the row that represents each
    score: Callable[[int], float]  # the leg's score of any row
    spent: Spent


class SparseLeg(NamedTuple):
    """The learned-sparse leg, and the question's weights."""

    weights: Sparse | None
    legs: list[SearchedLeg]
    degraded: list[str]


class StartedLegs(NamedTuple):
    """Work that runs while the dense leg does, or the embedding; calling one waits for its result."""

    lexical: Callable[[], list[SearchedLeg]]
    sparse: Callable[[], SparseLeg] | None


def start_legs(
    query: Query, snap: Snapshot, within: Callable[[], tuple[Plan, Spent]], profile: HelixProfile
) -> StartedLegs:
    """Start the legs that need no vector; `within` waits for the rows that may be searched."""
    lexical = snap.start_work(lambda: _search_terms(query, snap, within()[0], profile))
    has_sparse = bool(profile.retrieve.sparse and snap.lexical.impacts)
    sparse = snap.start_work(_search_weights, query, snap, within, profile) if has_sparse else None
    return StartedLegs(lexical, sparse)


def _search_terms(query: Query, snap: Snapshot, plan: Plan, profile: HelixProfile) -> list[SearchedLeg]:
    """Search the lexical legs: items by their own terms, and by the questions a model wrote for them."""
    how = profile.retrieve
    fields: list[tuple[str, str, Field | None, int]] = [
        ("lexical", "bm25", snap.lexical, how.bm25),
        ("doc2query", "doc2query", snap.lexical.expansion if how.doc2query else None, how.doc2query),
    ]
    legs = []
    for stage, name, field, limit in fields:
        if field:
            search = partial(_lexical, query, field, limit, how.k1, how.b, name)
            (leg, copies, better), spent = measure(collapse, search, plan, snap, limit)
            score = partial(lexical_score, query, field, k1=how.k1, b=how.b)
            legs.append(SearchedLeg(stage, limit, leg, copies, better, score, spent))
    return legs


def _search_weights(
    query: Query, snap: Snapshot, within: Callable[[], tuple[Plan, Spent]], profile: HelixProfile
) -> SparseLeg:
    """Search the learned-sparse leg, if items have weights; its time includes encoding the question."""
    field, k = snap.lexical.impacts, profile.retrieve.sparse
    if field is None:
        return SparseLeg(None, [], [])
    try:
        about = remove_request(query.text, query.language) if profile.ask.core else query.text
        weights, encoding = measure(lambda: snap.sparse_encoder.encode(about))
    except EncoderError as error:
        return SparseLeg(None, [], [error.what])
    (leg, copies, better), spent = measure(collapse, partial(_sparse, weights, field, k), within()[0], snap, k)
    score = partial(_sparse_score, weights, field)
    whole = Spent(encoding.began, encoding.ms + spent.ms)
    return SparseLeg(weights, [SearchedLeg("sparse", k, leg, copies, better, score, whole)], [])


def collect_legs(
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: HelixProfile,
    started: StartedLegs,
    trace: Trace,
) -> list[Leg]:
    """Search the dense leg, and collect the legs that were started before."""
    legs, k = list[SearchedLeg](), profile.retrieve.dense
    if vector is not None:
        (leg, copies, better), spent = measure(collapse, partial(_dense, vector, snap, k, trace), plan, snap, k)
        legs.append(SearchedLeg("dense", k, leg, copies, better, partial(dense_score, vector, snap), spent))
    legs += started.lexical()
    if started.sparse:
        legs += started.sparse().legs
        trace.degraded += [f"sparse: {reason}" for reason in started.sparse().degraded]
    for one in legs:
        trace.add_time(one.stage, one.spent)
        trace.leg(one.stage, one.leg, plan.allowed_rows, one.limit, one.score)
        if trace.on:
            trace.drop("retrieve", one.copies, [f"a near-duplicate of {other}" for other in ids(one.better, snap)])
    return [one.leg for one in legs]


def _dense(vector: F32, snap: Snapshot, k: int, trace: Trace, plan: Plan) -> Leg:
    return search_vectors(vector, snap, plan, k, trace)


def _lexical(query: Query, field: Field, k: int, k1: float, b: float, name: str, plan: Plan) -> Leg:
    return search_lexical(query, field, plan, k, k1, b, name)


def _sparse(weights: Sparse, field: SparseField, k: int, plan: Plan) -> Leg:
    return search_sparse(weights, field, plan, k)


def _sparse_score(weights: Sparse, field: SparseField, row: int) -> float:
    return float(field.scores(np.array([row]), weights)[0])
