"""After stage 6: what holds now, what held then, and why it changed.

A question in the present tense wants the newest value, one about the past the value of that time, a "why" the turn that
tells the reason. Where items of the best are linked by changes, the best and what they are linked to are ordered again
by how likely each is the one asked for: a small network over what `helix.stages.features.reading` compares.
Without a link between them the ranking stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.enrich.changes import LEAN, weigh_terms
from helix.native.rows import list_neighbours
from helix.native.vectors import score_neighbours
from helix.ranking.network import load_network, score_rows
from helix.snapshot.reader.changes import MARKED
from helix.stages.features.lexical import count_terms
from helix.stages.features.reading import ReadingRows, compute_features
from helix.text.claims import CLAIMS
from helix.text.reading import Kind, read_hints, read_kind
from helix.text.tokenize import shorten_ids
from helix.types import F32, I64, AnyArray, Bool, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import ReadingConstants


class Linked(NamedTuple):
    """Candidates of a question: rows of the pool and rows that changes lead to, by time."""

    rows: I64  # int64[n]
    score: F32  # float32[n], 0 for a row that a change led to
    found: Bool  # bool[n], it is among the best of the pool
    links: F32  # float32[n, n], [i, j]: certainty that j changes i


def reorder(
    pool: Candidates, query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, how: ReadingConstants
) -> Candidates:
    """Order the best of the pool by what the question wants to know: now, then or why.

    Rows that changes lead to join the pool. The scores stay those of the ranking, handed out in the new order.
    """
    if not how.top or vector is None or not snap.changes.touch(pool.row[: how.top]):
        return pool
    kind = read_kind(query.text, query.language)
    if not kind:
        return pool
    linked = find_linked(pool, query, kind, snap, plan, how)
    if linked.links.max(initial=0) < how.least:
        return pool
    hints = read_hints(query.text, query.language)
    features = compute_features(read_rows(linked, query, vector, snap), hints, plan.days)
    wanted = score_rows(load_network("helix.stages", f"reading_{kind}"), features)
    order = np.lexsort((snap.columns.key[linked.rows], -wanted))
    if kind == "now":
        order = place_predecessors(order, linked.links)
    return _hand_out(pool, linked, order)


def find_linked(
    pool: Candidates, query: Query, kind: Kind, snap: Snapshot, plan: Plan, how: ReadingConstants
) -> Linked:
    """Find the best of the pool and what changes lead to from the very best, oldest first."""
    best, at = pool.row[: how.top].astype(np.int64), int((query.as_of or query.now).timestamp())
    owner, later, certainty = snap.changes.find_later(best, at)
    hop = owner < how.hops
    to, sure = later[hop], certainty[hop]
    if kind != "now":
        _, earlier, before = snap.changes.find_earlier(best[: how.hops])
        to, sure = np.concatenate([to, earlier]), np.concatenate([sure, before])
    changed = len(later) + len(to) > 0
    fresh = (to[:, None] != best).all(axis=1)
    if plan.allowed is not None:
        fresh &= plan.allowed[to]
    to, sure = to[fresh], sure[fresh]
    to = to[np.lexsort((to, -sure))]
    more = np.array([*dict.fromkeys(to.tolist())][: how.extra], np.int64)
    rows = np.concatenate([best, more])
    score = np.concatenate([np.maximum(pool.final[: how.top], 0), np.zeros(len(more), np.float32)])
    order = np.lexsort((rows, snap.changes.said_at[rows]))
    rows = rows[order]
    links = _read_links(rows, snap, at) if changed else np.zeros((len(rows), len(rows)), np.float32)
    return Linked(rows, score[order].astype(np.float32), order < len(best), links)


def _read_links(rows: I64, snap: Snapshot, moment: int) -> F32:
    """Return the certainties of the links among rows: float32[n, n]."""
    out = np.zeros((len(rows), len(rows)), np.float32)
    old, new, certainty = snap.changes.find_later(rows, moment)
    by_row = np.argsort(rows)
    place = np.minimum(np.searchsorted(rows, new, sorter=by_row), len(rows) - 1)
    at = by_row[place]
    here = (rows[at] == new) & (at > old)
    np.maximum.at(out, (old[here], at[here]), certainty[here])
    return out


def read_rows(linked: Linked, query: Query, vector: F32, snap: Snapshot) -> ReadingRows:
    """Read what is compared of the candidates; no text."""
    rows, columns = linked.rows, snap.columns
    counted = count_terms(rows, query.terms, query.term_order, snap, query.term_weights)
    ring = list_neighbours(columns.previous, columns.next, rows)
    ring[2] = rows
    nothing = np.full(len(rows), -1, np.int64)
    around = np.stack([ring[1], rows, nothing])
    own, lean = score_neighbours(snap.vectors.table, around, np.ascontiguousarray(vector, np.float32), LEAN)
    before = ring[1]
    vectors, earlier = snap.vectors.dequantise(rows), snap.vectors.dequantise(np.maximum(before, 0))
    has_before = before >= 0
    claims = snap.lexical.claims(rows)
    item, turn_before = counted.counts[:, counted.ring[2]] > 0, counted.counts[:, counted.ring[1]] > 0
    weight = weigh_terms(shorten_ids(query.terms))
    total = np.float32(max(float(weight.sum()), 0.3))
    return ReadingRows(
        score=linked.score,
        found=linked.found,
        own=own,
        lean=lean,
        overlap=_share(weight, item) / total,
        overlap_before=_share(weight, item | turn_before) / total,
        before=np.where(has_before, earlier @ vector, np.float32(0)),
        reply=np.where(has_before, np.einsum("nd,nd->n", vectors, earlier), np.float32(0)),
        links=linked.links,
        alike=vectors @ vectors.T,
        sets=claims[:, _SETS].astype(np.float32) / np.float32(255),
        claims=claims,
        length=columns.length[rows],
        role=columns.role[rows],
        time=snap.changes.said_at[rows],
    )


_SETS: Final = CLAIMS.index("sets")


def _share(weight: F32, has: AnyArray) -> F32:
    return np.asarray(weight @ has.astype(np.float32), np.float32)


def place_predecessors(order: I64, links: F32) -> I64:
    """Place what the first candidate surely replaced right below it, newest first: int64[n].

    Args:
        order: int64[n], of candidates by time, the first wanted most.
        links: of `Linked`.
    """
    first = int(order[0])
    if not (links[:first, first] >= MARKED).any():
        return order
    chain = [first]
    for i in range(first - 1, -1, -1):
        if links[i, chain].max() >= MARKED:
            chain.append(i)
    return np.concatenate([np.array(chain, np.int64), order[~np.isin(order, chain)]])


def _hand_out(pool: Candidates, linked: Linked, order: I64) -> Candidates:
    """Give the candidates the scores of the ranking in a new order: the best score goes to the first."""
    best = len(linked.rows) - int((~linked.found).sum())
    more = linked.rows[~linked.found]
    more = more[(more[:, None] != pool.row).all(axis=1)]
    pool = pool.append(more) if len(more) else pool
    scores = pool.final.copy()
    by_row = np.argsort(pool.row, kind="stable")
    place = by_row[np.searchsorted(pool.row, linked.rows[order], sorter=by_row)]
    handed = np.full(len(order), scores[best - 1] if best else 0, np.float32)
    handed[:best] = scores[:best]
    scores[place] = handed
    # Handed-out scores may tie: the order of the wanted ones decides, then that of the pool.
    rank = np.full(len(pool), len(order), np.int64)
    rank[place] = np.arange(len(order))
    return replace(pool, final=scores).take(np.lexsort((np.arange(len(pool)), rank, -scores)))
