"""Around stage 6: what superseded an item comes with it, and stands above it.

An item is superseded when it says facts and none of them holds. Its successors are the items that say what holds now of
the same subject and relation. They join the pool; the score the old one earned is theirs, too, and the old one loses a
share of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.types import F32, I64, Candidates, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot


def succeed(pool: Candidates, snap: Snapshot, plan: Plan, at: int) -> Candidates:
    """The pool with the successors of its superseded items, as far as they may be searched.

    Args:
        at: the moment, in seconds.
    """
    _, rows = snap.successors(pool.row.astype(np.int64), at)
    new = np.setdiff1d(rows, pool.row)
    if plan.allowed is not None:
        new = new[plan.allowed[new]]
    return pool.joined(new)


def demote(rows: I64, final: F32, snap: Snapshot, at: int, share: float) -> F32:
    """A successor gets at least what the item has that it superseded; that keeps (1 − share) of the lower of the two.

    Args:
        rows: int64[n], of the pool.
        final: float32[n].
        at: the moment, in seconds.
        share: that is taken off.
    """
    stale = snap.stale(rows, at)
    if not share or not stale.any():
        return final
    old, successor = snap.successors(rows, at)
    by_row = rows.argsort(kind="stable")
    place = np.minimum(np.searchsorted(rows, successor, sorter=by_row), len(rows) - 1)
    new = by_row[place]
    here = rows[new] == successor  # one that the filters leave out is not in the pool
    old, new = old[here], new[here]
    lifted, out = final.copy(), final.copy()
    np.maximum.at(lifted, new, final[old])
    out[:] = lifted
    out[stale] = final[stale]
    np.minimum.at(out, old, lifted[new])
    out[stale] *= np.float32(1 - share)
    return out
