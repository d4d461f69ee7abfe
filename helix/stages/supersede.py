"""Around stage 6: what superseded an item comes with it, and stands above it.

An item is superseded when it says facts and none of them holds. Its successors are the items that say what holds now of
the same subject and relation. They join the pool; the score the old one earned is theirs, too, and the old one loses a
share of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.types import F32, I64, U32, Candidates, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


class Outdated(NamedTuple):
    """What is superseded in a pool, by the rows of the snapshot."""

    rows: I64  # int64[s], of the pool
    old: I64  # int64[m], some of them, with
    new: I64  # int64[m], what superseded each


def outdated(rows: U32, snap: Snapshot, at: int) -> Outdated | None:
    """What of a pool is superseded at a moment, in seconds; None for nothing."""
    stale = rows[snap.facts.stale(rows, at)].astype(np.int64)
    if not len(stale):
        return None
    of, new = snap.facts.successors(stale, at)
    return Outdated(stale, stale[of], new)


def succeed(pool: Candidates, found: Outdated, plan: Plan) -> Candidates:
    """The pool with the successors of its superseded items, as far as they may be searched."""
    new = np.array(sorted(set(found.new.tolist()).difference(pool.row.tolist())), np.int64)
    if plan.allowed is not None:
        new = new[plan.allowed[new]]
    return pool.joined(new) if len(new) else pool


def demote(rows: I64, final: F32, found: Outdated, share: float) -> F32:
    """A successor gets at least what the item has that it superseded; that keeps (1 − share) of the lower of the two.

    Args:
        rows: int64[n], of the pool, with all that is superseded.
        final: float32[n].
        share: that is taken off.
    """
    if not share:
        return final
    by_row = rows.argsort(kind="stable")
    stale, old = (by_row[rows.searchsorted(some, sorter=by_row)] for some in (found.rows, found.old))
    new = by_row[np.minimum(rows.searchsorted(found.new, sorter=by_row), len(rows) - 1)]
    here = rows[new] == found.new  # one that the filters leave out is not in the pool
    old, new = old[here], new[here]
    lifted = final.copy()
    np.maximum.at(lifted, new, final[old])
    out = lifted.copy()
    out[stale] = final[stale]
    np.minimum.at(out, old, lifted[new])
    out[stale] *= np.float32(1 - share)
    return out
