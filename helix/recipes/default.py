"""The default recall, on one screen: the eight stages. Only recipes compose stages; this is the recipe `helix`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.encoders.dense import TokenCounter
from helix.errors import EncoderError
from helix.question.event_windows import TOP, anchor, window
from helix.question.rewrite import core, spoken
from helix.ranking.bm25 import idf
from helix.ranking.topk import order
from helix.recipes.common import begin, bundle, ids, items_of, scored
from helix.recipes.load_profile import Ask, Pack, Profile
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.collapse import collapse
from helix.stages.dense import dense_score, search_dense
from helix.stages.diversify import diversify, left_out
from helix.stages.features.linked import join, titled
from helix.stages.features.similarity import parts
from helix.stages.fuse import fuse
from helix.stages.graph import walk
from helix.stages.lexical import Field, lexical_score, search_lexical
from helix.stages.pack import LEAST, Short, pack
from helix.stages.rank import rank, shares
from helix.stages.rerank import rerank, unusable
from helix.stages.route import scope
from helix.stages.sparse import search_sparse
from helix.stages.supersede import Outdated, demote, outdated, succeed
from helix.stages.trace import Spent, Trace, timed
from helix.text.tokenize import hash_terms, short_ids, tokenise
from helix.types import F32, U32, Bundle, Candidates, Item, Leg, Plan, Query, Sparse

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers
    from helix.snapshot.index.sparse import ImpactField

__all__ = ["Profile", "recall"]


def recall(query: Query, snap: Snapshot, profile: Profile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    query = asked(query, snap, profile.ask)
    within = snap.start_work(timed, scope, query, snap)  # what needs no vector goes on while the question is embedded
    words = snap.start_work(lambda: _by_words(query, snap, within()[0], profile))
    weighs = bool(profile.retrieve.sparse and snap.lexical.impacts)
    weights = snap.start_work(_by_weights, query, snap, within, profile) if weighs else None
    vector, plan = begin(query, snap, trace, query.spoken, within)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    plan = trace.run("route", _anchored, plan, query, snap, profile, trace)
    plan = trace.run("route", _titled, plan, query, snap, profile)
    legs = _retrieve(query, vector, snap, plan, profile, words, weights, trace)
    if weights:
        query = replace(query, weighed=weights().asked)
    pool = trace.run("fuse", fuse, legs, snap, profile.fuse.k, profile.fuse.weights)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    before = len(pool)
    pool, how = trace.run("graph", walk, pool, query, snap, plan, profile.graph)
    pool = trace.run("graph", join, pool, snap, plan, profile.link)
    trace.note("graph", rows_in=before, rows_out=len(pool), how=how)
    before, at = len(pool), int((query.as_of or query.now).timestamp())
    superseded = trace.run("rank", outdated, pool.row, snap, at)
    if superseded:
        pool = trace.run("rank", succeed, pool, superseded, plan)
    if trace.on and len(pool):
        rows = pool.row.astype(np.int64)
        trace.parted(rows, parts(rows, pool.rrf, query, vector, snap, plan, profile))
    pool = trace.run("rank", rank, pool, query, vector, snap, plan, profile)
    if trace.on:
        trace.shared(pool.row, shares(pool, snap, plan, profile))
    if superseded:
        pool = trace.run("rank", _demote, pool, snap, superseded, profile.rank.superseded)
        trace.moved("superseded", pool.row, pool.final)
    trace.note("rank", rows_in=before, rows_out=len(pool))
    if query.rerank:
        pool = trace.run("rerank", _rerank, pool, query, snap, profile, trace, models)
        trace.moved("rerank", pool.row, pool.final)
    trace.ranked(pool.pool())
    chosen = trace.run("diversify", diversify, pool, snap, query.k, profile.diversify)
    if trace.on:
        left = left_out(pool, chosen, snap, profile.diversify)
        trace.drop("diversify", left.near, [f"a near-duplicate of {better}" for better in ids(left.of, snap)])
        alike = [f"another was preferred, since it is {x:.2f} alike to one that was chosen" for x in left.alike]
        trace.drop("diversify", left.far, alike)
        trace.note("diversify", rows_in=len(pool), rows_out=len(chosen), near_duplicates=len(left.near))
    items, entries = _shown(chosen, snap)
    around = _around(chosen.row, snap, plan, profile.pack.neighbours)
    longest, short = profile.pack.neighbour_tokens, _short(query, snap, profile.pack)
    context, tokens, placed = trace.run("pack", pack, entries, query.budget, snap.counter, around, longest, short)
    return bundle(query, snap, profile, trace, items, context, tokens, placed)


def asked(query: Query, snap: Snapshot, how: Ask) -> Query:
    """The question with what both legs look for: its terms, and the text that is embedded."""
    about = core(query.text) if how.core else query.text
    said = hash_terms(tokenise(about))
    project = None if query.project is None else snap.projects.index(query.project)
    names = snap.catalog.speaker_names.get(project, frozenset()) if how.speaker else frozenset()
    return replace(query, terms=np.unique(said), said=said, spoken=spoken(about, names))


def _anchored(plan: Plan, query: Query, snap: Snapshot, profile: Profile, trace: Trace) -> Plan:
    """ "Before the migration": the window that follows from when the items spoke of the event."""
    event = anchor(query.text) if profile.sim.date else None
    if event is None:
        return plan
    spoken = replace(query, terms=np.unique(hash_terms(tokenise(event.phrase))))
    leg = search_lexical(spoken, snap.lexical, plan, TOP, profile.retrieve.k1, profile.retrieve.b)
    days = window(event.relation, snap.columns.time[leg.rows], leg.scores)
    trace.note("anchor", rows_in=plan.allowed_rows, rows_out=len(leg.rows), event=event.phrase, window=days)
    return plan if days is None else replace(plan, days=(*plan.days, days))


def _titled(plan: Plan, query: Query, snap: Snapshot, profile: Profile) -> Plan:
    """The documents whose titles the question names: two stages want to know."""
    return replace(plan, titled=titled(short_ids(query.said), snap, profile.link.title_df))


class Found(NamedTuple):
    """A leg as it was searched."""

    stage: str
    limit: int  # rows it gives at most
    leg: Leg
    copies: U32  # rows that were left out of a crowd
    better: U32  # what stands for each
    score: Callable[[int], float]  # what it would give a row
    spent: Spent


def _by_words(query: Query, snap: Snapshot, plan: Plan, profile: Profile) -> list[Found]:
    """The lexical legs there are: items by their own words, and by the questions a model wrote for them."""
    how = profile.retrieve
    fields: list[tuple[str, str, Field | None, int]] = [
        ("lexical", "bm25", snap.lexical, how.bm25),
        ("doc2query", "doc2query", snap.lexical.expansion if how.doc2query else None, how.doc2query),
    ]
    found = []
    for stage, name, field, limit in fields:
        if field:
            search = partial(_lexical, query, field, limit, how.k1, how.b, name)
            (leg, copies, better), spent = timed(collapse, search, plan, snap, limit)
            score = partial(lexical_score, query, field, k1=how.k1, b=how.b)
            found.append(Found(stage, limit, leg, copies, better, score, spent))
    return found


class Weighed(NamedTuple):
    """The question by a sparse encoder, and the leg of that."""

    asked: Sparse | None
    found: list[Found]
    degraded: list[str]


def _by_weights(query: Query, snap: Snapshot, within: Callable[[], tuple[Plan, Spent]], profile: Profile) -> Weighed:
    """The sparse leg, where there are weights of items; the time of encoding the question is part of its own."""
    field, k = snap.lexical.impacts, profile.retrieve.sparse
    if field is None:
        return Weighed(None, [], [])
    try:
        about = core(query.text) if profile.ask.core else query.text
        asked, encoding = timed(lambda: snap.sparse_encoder.encode(about))
    except EncoderError as error:
        return Weighed(None, [], [error.what])
    (leg, copies, better), spent = timed(collapse, partial(_sparse, asked, field, k), within()[0], snap, k)
    score = partial(_sparse_score, asked, field)
    whole = Spent(encoding.began, encoding.ms + spent.ms)
    return Weighed(asked, [Found("sparse", k, leg, copies, better, score, whole)], [])


def _retrieve(
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: Profile,
    words: Callable[[], list[Found]],
    weights: Callable[[], Weighed] | None,
    trace: Trace,
) -> list[Leg]:
    """Stage 3: the dense leg, and the others, which were begun before."""
    found, k = list[Found](), profile.retrieve.dense
    if vector is not None:
        (leg, copies, better), spent = timed(collapse, partial(_dense, vector, snap, k), plan, snap, k)
        found.append(Found("dense", k, leg, copies, better, partial(dense_score, vector, snap), spent))
    found += words()
    if weights:
        found += weights().found
        trace.degraded += [f"sparse: {what}" for what in weights().degraded]
    for one in found:
        trace.took(one.stage, one.spent)
        trace.leg(one.stage, one.leg, plan.allowed_rows, one.limit, one.score)
        if trace.on:
            trace.drop("retrieve", one.copies, [f"a near-duplicate of {other}" for other in ids(one.better, snap)])
    return [one.leg for one in found]


def _dense(vector: F32, snap: Snapshot, k: int, plan: Plan) -> Leg:
    return search_dense(vector, snap, plan, k)


def _lexical(query: Query, field: Field, k: int, k1: float, b: float, name: str, plan: Plan) -> Leg:
    return search_lexical(query, field, plan, k, k1, b, name)


def _sparse(asked: Sparse, field: ImpactField, k: int, plan: Plan) -> Leg:
    return search_sparse(asked, field, plan, k)


def _sparse_score(asked: Sparse, field: ImpactField, row: int) -> float:
    return float(field.scores(np.array([row]), asked)[0])


def _demote(pool: Candidates, snap: Snapshot, superseded: Outdated, share: float) -> Candidates:
    """What no longer holds below what holds instead."""
    pool = replace(pool, final=demote(pool.row.astype(np.int64), pool.final, superseded, share))
    return pool.take(order(pool.final, snap.columns.key[pool.row]))


def _rerank(
    pool: Candidates, query: Query, snap: Snapshot, profile: Profile, trace: Trace, models: Rerankers
) -> Candidates:
    """The best few scored anew, by token or by a cross-encoder; they change places among themselves only."""
    texts = [entry["text"] for entry in snap.text(pool.row[: query.rerank_top])]
    scores = scored(query, texts, snap, models, trace)
    trace.note("rerank", rows_in=len(scores), rows_out=len(scores), by=query.rerank, unusable=unusable(scores))
    seen = np.full(len(pool), np.nan, np.float32)
    seen[: len(scores)] = scores
    final = rerank(pool.final, scores, profile.rerank.weight)
    pool = replace(pool, rerank=seen, final=final)
    return pool.take(order(pool.final, snap.columns.key[pool.row]))


def packed(
    rows: U32, entries: Sequence[Mapping[str, Any]], query: Query, snap: Snapshot, plan: Plan, profile: Profile
) -> tuple[str, int, list[int]]:
    """Items in an order given from outside, as text; see `pack`.

    Args:
        rows: uint32[n], theirs.
        entries: what is shown of each.
    """
    query, how = asked(query, snap, profile.ask), profile.pack
    around = _around(rows, snap, plan, how.neighbours)
    return pack(entries, query.budget, snap.counter, around, how.neighbour_tokens, _short(query, snap, how))


def _around(rows: U32, snap: Snapshot, plan: Plan, n: int) -> list[tuple[int, bool, dict[str, Any]]]:
    """The turns before and after each of the first n items, for `pack`: those that may be shown and are not there."""
    there, columns = set(rows.tolist()), snap.columns
    found: list[tuple[int, bool, int]] = []
    beside = zip(columns.previous[rows[:n]].tolist(), columns.next[rows[:n]].tolist(), strict=True)
    for i, sides in enumerate(beside):
        for before, row in zip((True, False), sides, strict=True):
            if row >= 0 and row not in there and (plan.allowed is None or plan.allowed[row]):
                there.add(row)  # what stands between two of them comes once
                found.append((i, before, row))
    entries = snap.text(np.array([row for *_, row in found], np.int64))
    return [(i, before, entry) for (i, before, _), entry in zip(found, entries, strict=True)]


def _short(query: Query, snap: Snapshot, how: Pack) -> Short:
    """How long items are shown in few words: by those sentences that have the question's terms."""
    said, wanted = sorted(set(tokenise(query.text))), set(query.terms.tolist())
    terms = {term: key for term, key in zip(said, hash_terms(said), strict=True) if int(key) in wanted}
    weights = idf(np.array([snap.lexical.df(key) for key in terms.values()], np.int64), snap.live).tolist()
    cap = max(LEAST, int(how.excerpt * query.budget)) if how.excerpt else 0
    return Short(dict(zip(terms, weights, strict=True)), cap, how.full)


def _shown(chosen: Candidates, snap: Snapshot) -> tuple[list[Item], list[dict[str, Any]]]:
    """The items in words: the only place that reads text. Beside the signals, what a model asked of an item."""
    entries = snap.text(chosen.row)
    if snap.counter.name == TokenCounter.name:  # what counts now counted then, too
        tokens = snap.columns.tokens[chosen.row].tolist()
        entries = [{**entry, "tokens": n} for entry, n in zip(entries, tokens, strict=True)]
    found: list[dict[str, Any]] = []
    if snap.lexical.expansion:
        unseen = np.isnan(chosen.doc2query).tolist()
        asked = snap.lexical.expansion.of(chosen.row)
        found = [{} if nothing else {"queries": one} for nothing, one in zip(unseen, asked, strict=True)]
    return items_of(chosen.pool(), entries, snap, found), entries
