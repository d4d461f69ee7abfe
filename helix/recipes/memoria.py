"""The recipe `memoria`: facts are the unit.

Facts are found by the vector and by the terms of their sentence, and by a walk over the graph they make from the
entities of the question; the three lists are fused by rank. One that no longer holds counts less. A cross-encoder,
where there is one, orders the best. An answer cites the item each fact was said in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.errors import EncoderError
from helix.ranking.fact_validity import NO_END
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import select_top, sort_rows
from helix.recipes.common import begin, bundle, items_of
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.graph import pagerank
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.pack import pack
from helix.stages.rerank import explain_unusable, rerank
from helix.stages.trace import Trace
from helix.types import F32, I64, U64, Bool, Bundle, Item, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.cross import CrossEncoder
    from helix.encoders.rerank import Rerankers

_MICRO = 1_000_000  # microseconds of a second


@dataclass(frozen=True, slots=True)
class MemoriaRetrieve:
    """How many facts each list gives at most, and the constants of BM25."""

    dense: int
    bm25: int
    graph: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class MemoriaFuse:
    """Reciprocal ranks: 1 / (k + rank), ranks from 1."""

    k: float


@dataclass(frozen=True, slots=True)
class MemoriaWalk:
    """PageRank from what the question names."""

    restart: float
    steps: int
    hops: int
    facts: int


@dataclass(frozen=True, slots=True)
class MemoriaRank:
    """What a fact keeps of its score that no longer holds."""

    superseded: float


@dataclass(frozen=True, slots=True)
class MemoriaCross:
    """How many of the best a cross-encoder reads, and how much its scores count; 1 leaves their order to it alone."""

    top: int
    weight: float


@dataclass(frozen=True, slots=True)
class MemoriaProfile:
    """A file of the recipe `memoria`. `limit`: facts of an answer at most."""

    name: str
    recipe: str
    limit: int
    retrieve: MemoriaRetrieve
    fuse: MemoriaFuse
    walk: MemoriaWalk
    rank: MemoriaRank
    rerank: MemoriaCross


PROFILE = MemoriaProfile


def recall(query: Query, snap: Snapshot, profile: MemoriaProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question with facts, each of them shown as an item: its sentence, under the id of what it is from."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    _tell_share(snap, trace)
    allowed = trace.run("facts", candidates, query, snap, plan)
    trace.note("facts", rows_in=len(allowed), rows_out=int(np.count_nonzero(allowed)))
    legs = _retrieve(query, vector, snap, allowed, profile, trace)
    pool = trace.run("fuse", fuse, legs, snap.facts.field.key, profile.fuse.k)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = trace.run("rank", demote, pool, _over(query, snap), snap.facts.field.key, profile.rank.superseded)
    trace.note("rank", rows_in=len(pool), rows_out=len(pool))
    pool = _reranked(pool, query, snap, profile.rerank, trace, models)
    trace.ranked(replace(pool, row=snap.facts.columns.row[pool.row].astype(np.uint32)))
    items, entries = _shown(pool.take(np.arange(min(query.k, profile.limit, len(pool)))), query, snap)
    context, tokens, placed = trace.run("pack", pack, entries, query.budget, snap.counter)
    return bundle(query, snap, profile, trace, items, context, tokens, placed)


def _tell_share(snap: Snapshot, trace: Trace) -> None:
    field = snap.facts.field
    if field.live < field.rows:
        trace.degraded.append(
            f"facts: {field.rows - field.live} of {field.rows} have no index; 'helix reindex' makes it"
        )


# ---------------------------------------------------------------- which facts


def candidates(query: Query, snap: Snapshot, plan: Plan) -> Bool:
    """bool[facts]: what may be in the answer.

    Not what says that something ended, nor what the plan leaves out. With `as_of` only what was known and held then,
    with `current_only` only what holds.
    """
    known, seen = snap.facts.columns, snap.facts.field.indexed & ~snap.facts.columns.closes
    if plan.allowed is not None:
        seen &= plan.allowed[known.row]
    if query.as_of is not None:
        at = int(query.as_of.timestamp())
        seen &= (known.t_valid <= at) & ~_over(query, snap) & (known.t_ingested // _MICRO <= at)
    if query.current_only:
        seen &= ~_over(query, snap)
    return seen


def _over(query: Query, snap: Snapshot) -> Bool:
    """bool[facts]: those that no longer hold at the moment asked about."""
    at = int((query.as_of or query.now).timestamp())
    over: Bool = (snap.facts.ends != NO_END) & (snap.facts.ends <= at)
    return over


# ---------------------------------------------------------------- the three lists


def _retrieve(
    query: Query, vector: F32 | None, snap: Snapshot, allowed: Bool, profile: MemoriaProfile, trace: Trace
) -> list[Leg]:
    """The lists there are; their rows are facts."""
    field, how = snap.facts.field, profile.retrieve
    count = int(np.count_nonzero(allowed))
    legs: list[Leg] = []

    def keep(stage: str, leg: Leg, limit: int, score: Callable[[I64], float]) -> None:
        legs.append(leg)
        row_of = snap.facts.columns.row
        rows = replace(leg, rows=row_of[leg.rows].astype(np.uint32))
        trace.leg(stage, rows, count, limit, lambda row: score(np.flatnonzero(allowed & (row_of == row))))

    if vector is not None:
        leg = trace.run("dense", field.nearest, vector, how.dense, allowed)
        keep("dense", leg, how.dense, lambda facts: float(field.scores(vector, facts).max(initial=0.0)))
    plan = Plan(allowed, count)
    leg = trace.run("lexical", search_lexical, query, field, plan, how.bm25, how.k1, how.b)
    keep(
        "lexical",
        leg,
        how.bm25,
        lambda facts: max([lexical_score(query, field, i, how.k1, how.b) for i in facts], default=0.0),
    )
    mass = trace.run("graph", graph_scores, query.mentions, snap, allowed, profile.walk)
    best = select_top(mass, field.key, how.graph)
    best = best[mass[best] > 0]
    keep(
        "graph",
        Leg("graph", best.astype(np.uint32), mass[best]),
        how.graph,
        lambda facts: float(mass[facts].max(initial=0.0)),
    )
    return legs


class Edges(NamedTuple):
    """Facts as edges between entities; only of those with two different ends."""

    left: U64  # [e] the subject
    right: U64  # [e] the object
    weight: F32  # [e] confidence


def graph_scores(named: U64, snap: Snapshot, allowed: Bool, how: MemoriaWalk) -> F32:
    """float32[facts]: PageRank mass of the two ends of each allowed fact; 0 where the walk does not get.

    Args:
        named: uint64[m], hashes of entities; may be none.
    """
    known, out = snap.facts.columns, np.zeros(len(allowed), np.float32)
    joins = (known.subject_entity != 0) & (known.object_entity != 0) & (known.subject_entity != known.object_entity)
    facts = np.flatnonzero(allowed & joins)
    if not len(named) or not len(facts):
        return out
    edges = Edges(known.subject_entity[facts], known.object_entity[facts], known.confidence[facts])
    reached = reach(edges, snap.facts.field.key[facts], named, how.hops, how.facts)
    near = Edges(edges.left[reached], edges.right[reached], edges.weight[reached])
    out[facts[reached]] = walk(near, named, how.restart, how.steps)
    return out


def reach(edges: Edges, tie: U64, named: U64, hops: int, most: int) -> I64:
    """int64[r]: the edges the walk may take, breadth first from some entities; in a hop the surest first.

    Args:
        tie: uint64[e]: of equally sure ones the smaller goes first.
        hops: how far.
        most: edges.
    """
    front, left = np.unique(named), np.arange(len(tie))
    found = [np.empty(0, np.int64)]
    for _ in range(hops):
        touches = _among(edges.left[left], front) | _among(edges.right[left], front)
        new = left[touches]
        new = new[sort_rows(edges.weight[new], tie[new])][: most - sum(map(len, found))]
        if not len(new):
            break
        found.append(new)
        left = left[~touches]
        front = np.unique(np.concatenate([edges.left[new], edges.right[new]]))
    return np.concatenate(found)


def _among(values: U64, few: U64) -> Bool:
    """bool[n]: which values are one of a few sorted ones; at least one."""
    found: Bool = few[np.minimum(np.searchsorted(few, values), len(few) - 1)] == values
    return found


def walk(edges: Edges, named: U64, restart: float, steps: int) -> F32:
    """float32[e]: of each edge the mass of its two ends in personalised PageRank (Haveliwala 2002).

    The walk starts from, and goes back to, the named entities that have an edge, all alike; edges lead both ways and
    are taken in proportion to their weight.
    """
    nodes, ends = np.unique(np.concatenate([edges.left, edges.right]), return_inverse=True)
    start = np.isin(nodes, named)
    if not start.any():
        return np.zeros(len(edges.left), np.float32)
    left, right = ends[: len(edges.left)], ends[len(edges.left) :]
    mass = pagerank(left, right, edges.weight, start / start.sum(), restart, steps)
    return (mass[left] + mass[right]).astype(np.float32)


# ---------------------------------------------------------------- scores


def fuse(legs: Sequence[Leg], key: U64, k: float) -> Pool:
    """The union of the lists, best first, by Σ 1 / (k + rank), ranks from 1 (Cormack, Clarke & Büttcher 2009).

    Args:
        key: uint64[facts], the tie key.

    Returns:
        a pool whose rows are facts.
    """
    facts, ranks = align_ranks(legs)
    final = rrf([*ranks.values()], [1.0] * len(ranks), k).astype(np.float32)
    return Pool(facts, final, ranks, {"rrf": final}).take(sort_rows(final, key[facts]))


def demote(pool: Pool, over: Bool, key: U64, superseded: float) -> Pool:
    """The pool, best first, with the score of what no longer holds times `superseded`.

    Args:
        over: bool[facts].
        key: uint64[facts], the tie key.
    """
    factor = np.where(over[pool.row], superseded, 1.0).astype(np.float32)
    final = pool.final * factor
    changed = replace(pool, final=final, signals={**pool.signals, "holds": factor})
    return changed.take(sort_rows(final, key[pool.row]))


def _reranked(pool: Pool, query: Query, snap: Snapshot, how: MemoriaCross, trace: Trace, models: Rerankers) -> Pool:
    """The pool with its best in the order a cross-encoder makes; what no longer holds counts less with it, too."""
    cross = _cross(models, trace)
    if cross is None or not len(pool):
        return pool
    head = pool.row[: how.top]
    texts = [str(entry["text"]) for entry in snap.facts.field.text(head)]
    scores = trace.run("rerank", cross.score, query.text, texts)
    if why := explain_unusable(scores):
        trace.note("rerank", rows_in=len(head), rows_out=len(head), off=why)
        return pool
    trace.note("rerank", rows_in=len(head), rows_out=len(head), weight=how.weight)
    signal = np.full(len(pool), np.nan, np.float32)
    signal[: len(head)] = scores
    final = rerank(pool.final, scores * pool.signals["holds"][: len(head)], how.weight)
    changed = replace(pool, final=final, signals={**pool.signals, "cross": signal})
    return changed.take(sort_rows(final, snap.facts.field.key[pool.row]))


def _cross(models: Rerankers, trace: Trace) -> CrossEncoder | None:
    """The cross-encoder the settings name; one that cannot be opened is left out, and the answer says so."""
    try:
        return models.cross
    except EncoderError as error:
        trace.degraded.append(f"cross-encoder: {error.what}")
        return None


# ---------------------------------------------------------------- what is shown


def _shown(pool: Pool, query: Query, snap: Snapshot) -> tuple[list[Item], list[dict[str, Any]]]:
    """Facts in words: as items, and as entries of the context; the only place that reads text."""
    facts, field = pool.row, snap.facts.field
    by_row = replace(pool, row=snap.facts.columns.row[facts].astype(np.uint32))
    sources, told = snap.text(by_row.row), field.text(facts)
    over = _over(query, snap)[facts].tolist()
    times = zip(snap.facts.columns.t_valid[facts].tolist(), snap.facts.ends[facts].tolist(), over, strict=True)
    spans = [Span(day(since), day(until), ended) for since, until, ended in times]
    entries = [entry_of(source, fact, span) for source, fact, span in zip(sources, told, spans, strict=True)]
    about = [{"fact": {**_triple(fact), **span._asdict()}} for fact, span in zip(told, spans, strict=True)]
    texts = [{**source, "text": fact["text"]} for source, fact in zip(sources, told, strict=True)]
    return items_of(by_row, texts, snap, about), entries


class Span(NamedTuple):
    """When a fact holds: days, ISO 8601; `until` is None where it has no end, `over` where that is past."""

    since: str | None
    until: str | None
    over: bool


def day(second: int) -> str | None:
    """The day, UTC, of a second since 1970; None of the least int64."""
    return None if second == NO_END else str(np.datetime64(second, "s").astype("datetime64[D]"))


def entry_of(source: Mapping[str, Any], fact: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """A fact as `pack` takes it: its sentence under its relation and its validity, and where it was said."""
    until = f" until {span.until}" if span.until else ""
    about = f"{fact['relation'].replace('_', ' ')} · since {span.since}{until}" + (" · no longer" if span.over else "")
    return {**source, "text": fact["text"], "title": about, "time": None, "speaker": None}


def _triple(fact: Mapping[str, npt.NDArray[Any] | Any]) -> dict[str, Any]:
    return {name: fact[name] for name in ("subject", "relation", "object", "qualifier")}
