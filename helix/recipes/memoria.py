"""The recipe `memoria`: facts are the unit.

Facts are found by the vector and by the terms of their sentence, and by a walk over the graph they make from the
entities of the question; the three lists are fused by rank. Only facts that hold are searched, now or at `as_of`. A
cross-encoder, where there is one, orders the best. An answer cites the item each fact was said in, its source episode,
and shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.errors import EncoderError
from helix.ranking.fact_validity import NO_END
from helix.ranking.membership import is_among
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import select_top, sort_rows
from helix.recipes.common import begin, bundle, items_of, judge, pack_kept, report_no_cross, weigh_terms
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.features.excerpt import excerpt
from helix.stages.graph import pagerank
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.pack import pack
from helix.stages.replaced import add_replacements
from helix.stages.rerank import explain_unusable, rerank
from helix.stages.trace import Trace
from helix.types import F32, I64, U32, U64, AnyArray, Bool, Bundle, Item, Leg, Plan, Pool, Query
from helix.util.undated import is_undated

if TYPE_CHECKING:
    from helix.encoders.rerank import CrossEncoder, Rerankers


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
class MemoriaCross:
    """How many of the best a cross-encoder reads, and how much its scores count; 1 leaves their order to it alone."""

    top: int
    weight: float


@dataclass(frozen=True, slots=True)
class MemoriaPack:
    """Tokens of a source episode; a longer one is cut to its best sentences."""

    episode: int


@dataclass(frozen=True, slots=True)
class MemoriaProfile:
    """A file of the recipe `memoria`. `limit`: facts of an answer where the caller does not say how many."""

    name: str
    recipe: str
    limit: int
    retrieve: MemoriaRetrieve
    fuse: MemoriaFuse
    walk: MemoriaWalk
    rerank: MemoriaCross
    pack: MemoriaPack


PROFILE = MemoriaProfile


def recall(query: Query, snap: Snapshot, profile: MemoriaProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question with facts, each as an item: its sentence, with the id of its source."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    _report_missing_index(snap, trace)
    allowed = trace.run("facts", filter_facts, query, snap, plan)
    _trace_facts(allowed, snap, trace)
    legs = _retrieve(query, vector, snap, allowed, profile, trace)
    pool = trace.run("fuse", fuse, legs, snap.facts.field.key, profile.fuse.k)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = _rerank(pool, query, snap, profile.rerank, trace, models)
    trace.record_ranking(replace(pool, row=snap.facts.columns.row[pool.row].astype(np.uint32)))
    sources, best = snap.facts.columns.row[pool.row], pool.take(np.arange(min(query.k, len(pool))))
    judged = judge(sources[: len(best)], sources, query, vector, snap, plan, trace)
    items, entries, rows = _read_items(best, snap, query.moment, judged.relevance)
    episodes = trace.run("pack", read_episodes, rows[judged.kept], query, snap, profile.pack.episode)
    how = (query.budget, snap.counter, episodes, query.budget)
    context, tokens, placed = trace.run("pack", pack_kept, judged, pack, entries, *how)
    return bundle(query, snap, profile, trace, items, context, tokens, placed, answered=judged.answered)


def _report_missing_index(snap: Snapshot, trace: Trace) -> None:
    field = snap.facts.field
    if field.live < field.rows:
        missing = field.rows - field.live
        trace.degraded.append(f"facts: {missing} of {field.rows} have no index; 'helix reindex' makes it")


def _trace_facts(allowed: Bool, snap: Snapshot, trace: Trace) -> None:
    trace.note("facts", rows_in=len(allowed), rows_out=int(np.count_nonzero(allowed)))
    if trace.on:
        row, stated = snap.facts.columns.row, snap.facts.field.indexed & ~snap.facts.columns.closes
        out = np.setdiff1d(row[stated & ~allowed], row[allowed])
        trace.drop("facts", out, "none of its facts holds at the moment of the question")


# ---------------------------------------------------------------- filter


def filter_facts(query: Query, snap: Snapshot, plan: Plan) -> Bool:
    """Return the facts that may be in the answer: bool[facts].

    Facts that close others are excluded, and rows that the plan excludes. A fact must hold at the moment: t_valid ≤
    moment, t_invalid none or later. It is `as_of`, by default now. As of a moment, the fact must also have been said
    by then, whenever it was ingested. The published system sees each turn as it is said, so its t_ingested is that.
    """
    known, allowed = snap.facts.columns, snap.facts.field.indexed & ~snap.facts.columns.closes
    if plan.allowed is not None:
        allowed &= plan.allowed[known.row]
    at = int((query.as_of or query.now).timestamp())
    if query.as_of is not None:
        allowed &= snap.columns.t_valid[known.row] <= at
    return np.asarray(allowed & (known.t_valid <= at) & ((snap.facts.ends == NO_END) | (snap.facts.ends > at)))


def find_searchable(snap: Snapshot) -> Bool:
    """Return the rows that state a fact that a search finds: bool[rows]."""
    out, facts = np.zeros(snap.rows, bool), snap.facts
    out[facts.columns.row[facts.field.indexed & ~facts.columns.closes]] = True
    return out


# ---------------------------------------------------------------- the three lists


def _retrieve(
    query: Query, vector: F32 | None, snap: Snapshot, allowed: Bool, profile: MemoriaProfile, trace: Trace
) -> list[Leg]:
    """Search the lists; their rows are facts."""
    field, how = snap.facts.field, profile.retrieve
    count = int(np.count_nonzero(allowed))
    legs: list[Leg] = []

    def add(stage: str, leg: Leg, limit: int, score: Callable[[I64], float]) -> None:
        legs.append(leg)
        row_of = snap.facts.columns.row
        rows = replace(leg, rows=row_of[leg.rows].astype(np.uint32))
        trace.leg(stage, rows, count, limit, lambda row: score(np.flatnonzero(allowed & (row_of == row))))

    if vector is not None:
        leg = trace.run("dense", field.nearest, vector, how.dense, allowed)
        add("dense", leg, how.dense, lambda facts: float(field.scores(vector, facts).max(initial=0.0)))
    plan = Plan(allowed, count)
    leg = trace.run("lexical", search_lexical, query, field, plan, how.bm25, how.k1, how.b)
    add(
        "lexical",
        leg,
        how.bm25,
        lambda facts: max([lexical_score(query, field, i, how.k1, how.b) for i in facts], default=0.0),
    )
    mass = trace.run("graph", score_graph, query.mentions, snap, allowed, profile.walk)
    best = select_top(mass, field.key, how.graph)
    best = best[mass[best] > 0]
    leg = Leg("graph", best.astype(np.uint32), mass[best])
    if mass.any():
        add("graph", leg, how.graph, lambda facts: float(mass[facts].max(initial=0.0)))
    else:
        legs.append(leg)
        trace.note("graph", rows_in=count, rows_out=0, off="the question names no entity that a fact joins to another")
    return legs


class Edges(NamedTuple):
    """Facts as edges between two different entities."""

    left: U64  # [e] the subject
    right: U64  # [e] the object
    weight: F32  # [e] confidence


def score_graph(named: U64, snap: Snapshot, allowed: Bool, how: MemoriaWalk) -> F32:
    """Return the PageRank mass of the two ends of each allowed fact: float32[facts]; 0 if the walk does not reach it.

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
    """Return the edges that the walk may take: int64[r], breadth first from some entities, in a hop the surest first.

    Args:
        tie: uint64[e], the tie key.
        hops: maximum hops.
        most: maximum edges.
    """
    front, left = np.unique(named), np.arange(len(tie))
    found = [np.empty(0, np.int64)]
    for _ in range(hops):
        touches = is_among(edges.left[left], front) | is_among(edges.right[left], front)
        new = left[touches]
        new = new[sort_rows(edges.weight[new], tie[new])][: most - sum(map(len, found))]
        if not len(new):
            break
        found.append(new)
        left = left[~touches]
        front = np.unique(np.concatenate([edges.left[new], edges.right[new]]))
    return np.concatenate(found)


def walk(edges: Edges, named: U64, restart: float, steps: int) -> F32:
    """Return the personalised PageRank mass (Haveliwala 2002) of each edge's two ends: float32[e].

    The walk starts from the named entities that have an edge, in equal shares, and restarts there. Edges lead both ways
    and are followed in proportion to their weight.
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
    """Fuse the lists into a pool of facts, best first.

    Args:
        key: uint64[facts], the tie key.
    """
    facts, ranks = align_ranks(legs)
    final = rrf([*ranks.values()], [1.0] * len(ranks), k).astype(np.float32)
    return Pool(facts, final, ranks, {"rrf": final}).take(sort_rows(final, key[facts]))


def _rerank(pool: Pool, query: Query, snap: Snapshot, how: MemoriaCross, trace: Trace, models: Rerankers) -> Pool:
    """Rerank the best facts by a cross-encoder."""
    cross = _open_cross(query, models, trace)
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
    final = rerank(pool.final, scores, how.weight)
    changed = replace(pool, final=final, signals={**pool.signals, "cross": signal})
    return changed.take(sort_rows(final, snap.facts.field.key[pool.row]))


def _open_cross(query: Query, models: Rerankers, trace: Trace) -> CrossEncoder | None:
    """Return the cross-encoder of the settings; one that cannot be opened is reported in `degraded`."""
    try:
        cross = models.cross
    except EncoderError as error:
        trace.degraded.append(f"cross-encoder: {error.what}")
        return None
    if cross is None:
        report_no_cross(query, trace)
    return cross


# ---------------------------------------------------------------- items


def _read_items(pool: Pool, snap: Snapshot, at: int, relevance: F32) -> tuple[list[Item], list[dict[str, Any]], U32]:
    """Read facts as items and as entries of the context; return also the row of each fact's source."""
    facts, field = pool.row, snap.facts.field
    by_row = replace(pool, row=snap.facts.columns.row[facts].astype(np.uint32))
    sources = add_replacements(snap.text(by_row.row), by_row.row, snap, at)
    sentences = field.text(facts)
    times = zip(snap.facts.columns.t_valid[facts].tolist(), snap.facts.ends[facts].tolist(), strict=True)
    spans = [Validity(format_day(since), format_day(until)) for since, until in times]
    entries = [make_entry(source, fact, span) for source, fact, span in zip(sources, sentences, spans, strict=True)]
    about = [{"fact": {**_describe_fact(fact), **span._asdict()}} for fact, span in zip(sentences, spans, strict=True)]
    texts = [{**source, "text": fact["text"]} for source, fact in zip(sources, sentences, strict=True)]
    return items_of(by_row, texts, snap, about, relevance), entries, by_row.row


def read_episodes(rows: U32, query: Query, snap: Snapshot, most: int) -> list[tuple[int, bool, dict[str, Any]]]:
    """Read the source episodes of facts, for `pack`: each once, after its best fact.

    Args:
        rows: uint32[n], the source of each fact, best first.
        most: tokens of an episode; a longer one is cut to the sentences that hold the question's terms.
    """
    own, first = np.unique(rows, return_index=True)
    places, weights = np.sort(first), weigh_terms(query, snap) if len(own) else {}
    languages, found = snap.lexical.languages_of(rows[places]), []
    for place, entry, language in zip(places.tolist(), snap.text(rows[places]), languages, strict=True):
        text, tokens = str(entry["text"]), int(snap.columns.tokens[rows[place]])
        letters = len(text) * most // max(1, tokens)
        text = text if tokens <= most else excerpt(text, weights, letters, language=language)
        found.append((place, False, {**entry, "text": text, "place": "source"}))
    return [one for one in found if one[2]["text"]]


class Validity(NamedTuple):
    """The days in which a fact holds, ISO 8601; `until` is None without an end."""

    since: str | None
    until: str | None


def format_day(second: int) -> str | None:
    """Format the day, UTC, of a second since 1970; None for the least int64, and for an undated fact."""
    return None if second == NO_END or is_undated(second) else str(np.datetime64(second, "s").astype("datetime64[D]"))


def make_entry(source: Mapping[str, Any], fact: Mapping[str, Any], span: Validity) -> dict[str, Any]:
    """Return a fact as `pack` needs it: its sentence, titled by its relation and validity, with its source."""
    until = f" until {span.until}" if span.until else ""
    since = f"since {span.since}" if span.since else "undated"
    about = f"{fact['relation'].replace('_', ' ')} · {since}{until}"
    return {**source, "text": fact["text"], "title": about, "time": None, "speaker": None, "role": None}


def _describe_fact(fact: Mapping[str, AnyArray | Any]) -> dict[str, Any]:
    return {name: fact[name] for name in ("subject", "relation", "object", "qualifier")}
