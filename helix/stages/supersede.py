"""Around stage 6: superseded items rank below the items that replace them.

An item is superseded when a later one changes what it says, or when it states facts and none of them holds. The later
one, its successor, joins the pool with at least the superseded item's score, which itself loses a share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.types import F32, I64, U32, Candidates, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


class Superseded(NamedTuple):
    """Superseded items of a pool, as rows of the snapshot."""

    rows: I64  # int64[s]
    old: I64  # int64[m], those of them with a successor
    new: I64  # int64[m], the successor of each


def find_superseded(rows: U32, snap: Snapshot, at: int) -> Superseded | None:
    """Find the items of a pool that are superseded at a moment, in seconds; None if there are none."""
    new = snap.changes.successors(rows, at)
    has_successor = new >= 0
    gone = has_successor | snap.facts.stale(rows, at)
    if not gone.any():
        return None
    known = rows.astype(np.int64)
    return Superseded(known[gone], known[has_successor], new[has_successor])


def add_successors(pool: Candidates, found: Superseded, plan: Plan) -> Candidates:
    """Add the allowed successors of superseded items to the pool."""
    new = np.array(sorted(set(found.new.tolist()).difference(pool.row.tolist())), np.int64)
    if plan.allowed is not None:
        new = new[plan.allowed[new]]
    return pool.append(new) if len(new) else pool


def demote(rows: I64, final: F32, found: Superseded, share: float) -> F32:
    """Give a successor at least its superseded item's score, and that item (1 − share) of the lower of the two.

    Args:
        rows: int64[n], of the pool, superseded items included.
        final: float32[n].
        share: the share that superseded items lose.
    """
    if not share:
        return final
    by_row = rows.argsort(kind="stable")
    stale, old = (by_row[rows.searchsorted(some, sorter=by_row)] for some in (found.rows, found.old))
    new = by_row[np.minimum(rows.searchsorted(found.new, sorter=by_row), len(rows) - 1)]
    here = rows[new] == found.new  # filters may exclude a successor
    old, new = old[here], new[here]
    lifted = final.copy()
    np.maximum.at(lifted, new, final[old])
    out = lifted.copy()
    out[stale] = final[stale]
    np.minimum.at(out, old, lifted[new])
    out[stale] *= np.float32(1 - share)
    return out
