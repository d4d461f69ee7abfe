"""Questions about a stretch of talk: what is found lends its score to the turns around it.

A summary is of whole stretches, and most of their turns have no word of the question. So each of the best items gives a
share of its score to the turns before and after it, less with every token between them: a kernel over reading order, as
in passage retrieval by proximity (Lv & Zhai 2009, "Positional language models for information retrieval"). A stretch
that many found items support rises above a lone one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.ranking.topk import sort_rows
from helix.types import F32, I32, I64, ROLES, U32, Candidates, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import CoverConstants

HOPS: Final = 16
"""Most turns to either side."""

BEARS: Final = 0.4
"""Least share of the best total of a turn that the question bears on."""

_BETWEEN: Final = 8  # tokens that the border of two turns counts
_LEAST: Final = 0.05  # smaller shares are not lent


class Covered(NamedTuple):
    """A pool in order of what its items have and are lent, and its rows that the question bears on."""

    pool: Candidates
    bearing: I64


def cover(pool: Candidates, snap: Snapshot, plan: Plan, constants: CoverConstants) -> Covered:
    """Let the best items of a pool lend to the turns around them, which join it.

    The scores stay within the range of those of the best items. What a question bears on has a certain share of the
    best total.
    """
    head = pool.row[: constants.top].astype(np.int64)
    if len(head) < 2:
        return Covered(pool, head)
    high, low = float(pool.final[0]), float(pool.final[len(head) - 1])
    own = ((pool.final[: len(head)] - low) / max(high - low, 1e-6)).astype(np.float32)
    columns = snap.columns
    voice = columns.speaker.astype(np.int64) * len(ROLES) + columns.role
    talk = Talk(columns.previous, columns.next, columns.tokens, voice)
    rows, total = lend(head, own, talk, constants.reach)
    seen = plan.allowed[rows] if plan.allowed is not None else snap.alive[rows]
    rows, total = rows[seen], total[seen]
    reading_order = (columns.session[rows].astype(np.int64) << 32) + columns.ord[rows]
    bearing = rows[total >= BEARS * total.max()]
    total = spread_runs(rows, total, talk, reading_order)
    pool = pool.append(rows[~np.isin(rows, pool.row)])
    place = np.argsort(pool.row, kind="stable")
    at = place[np.searchsorted(pool.row, rows, sorter=place)]
    final = np.nan_to_num(pool.final, nan=low).astype(np.float32)
    final = np.minimum(final, np.float32(low))
    final[at] = low + (high - low) * total / max(float(total.max()), 1e-6)
    pool = replace(pool, final=final)
    return Covered(pool.take(sort_rows(pool.final, snap.columns.key[pool.row])), bearing)


class Talk(NamedTuple):
    """Rows in their sessions: the row before and after each, −1 for none, its tokens, and who speaks."""

    before: I32
    after: I32
    tokens: U32
    voice: I64


def lend(rows: I64, own: F32, talk: Talk, reach: float) -> tuple[I64, F32]:
    """Add to each row's score exp(−d / reach) of that of every row of another's words, d the tokens between.

    Pieces of what one says in a row lend each other nothing.

    Args:
        rows: int64[n], distinct.
        own: float32[n], at least 0.

    Returns:
        (int64[m], float32[m]): the rows that have something, ascending, and their totals.
    """
    reached, shares = [rows], [own]
    for towards in (talk.before, talk.after):
        here, score, distance = rows, own, talk.tokens[rows].astype(np.float32) / 2
        same, voice = np.ones(len(rows), bool), talk.voice[rows]
        for _ in range(HOPS):
            here = towards[here].astype(np.int64)
            size = talk.tokens[here].astype(np.float32)
            share = np.exp(-(distance + _BETWEEN + size / 2) / np.float32(reach))
            same &= talk.voice[here] == voice
            near = (here >= 0) & (share >= _LEAST)
            here, score, distance, share = here[near], score[near], (distance + _BETWEEN + size)[near], share[near]
            same, voice = same[near], voice[near]
            reached.append(here)
            shares.append(np.where(same, 0, score * share).astype(np.float32))
    found, at = np.unique(np.concatenate(reached), return_inverse=True)
    return found, np.bincount(at, np.concatenate(shares)).astype(np.float32)


def spread_runs(rows: I64, total: F32, talk: Talk, place: I64) -> F32:
    """Return totals with those of one run, of what one says in a row, divided by their rank in it: one speaks for all.

    Args:
        rows: int64[m], distinct.
        total: float32[m].
        place: int64[m], ascending in the reading order of a session.
    """
    reading = np.argsort(place, kind="stable")
    here, then = rows[reading[:-1]], rows[reading[1:]]
    joined = (talk.after[here] == then) & (talk.voice[here] == talk.voice[then])
    run = np.empty(len(rows), np.int64)
    run[reading] = np.concatenate([[0], np.cumsum(~joined)])
    order = np.lexsort((-total, run))
    first = np.flatnonzero(np.diff(run[order], prepend=-1))
    rank = np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))
    out = total.copy()
    out[order] = total[order] / (1 + rank).astype(np.float32)
    return out
