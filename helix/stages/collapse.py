"""Stage 3, where a leg is crowded: many near-copies of one item take one place, so that others are brought, too.

Copies are those marked at ingest (`near`: MinHash, Broder 1997). An ordinary question pays one look at a hundred keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from helix.ranking.topk import select_top
from helix.types import U32, U64, Leg, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

_CROWDED = 2  # a leg is, where copies take up one in so many of its places
_ROUNDS = 4  # crowds that are seen through, one behind the other


def collapse(search: Callable[[Plan], Leg], plan: Plan, snap: Snapshot, k: int) -> tuple[Leg, U32, U32]:
    """A leg of k rows, searched anew without the copies of what crowds it; the best of each crowd stays.

    Returns:
        (the leg; rows left out of the crowds uint32[m]; the row that stands for each uint32[m]).
    """
    leg = search(plan)
    out, instead = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)]
    kept = Leg(leg.name, np.empty(0, np.uint32), np.empty(0, np.float32))  # the best of each crowd so far
    for _ in range(_ROUNDS):
        if len(leg.rows) < k or _CROWDED * np.count_nonzero(snap.columns.near[leg.rows]) < k:
            break  # no more are copies than are marked
        cluster = clusters(leg.rows, snap)
        known, first, which, size = np.unique(cluster, return_index=True, return_inverse=True, return_counts=True)
        if _CROWDED * (len(leg.rows) - len(known)) < k:
            break
        crowds = known[size > 1]
        copy = first[which] != np.arange(len(leg.rows))
        out.append(leg.rows[copy])
        instead.append(leg.rows[first[which]][copy])
        of_crowd = np.isin(snap.columns.near, crowds) | np.isin(snap.columns.key, crowds)
        plan = _without(plan, of_crowd, snap)
        kept = _joined(kept, Leg(leg.name, leg.rows[first[size > 1]], leg.scores[first[size > 1]]), snap, k)
        leg = _joined(kept, search(plan), snap, k)
    return leg, np.concatenate(out), np.concatenate(instead)


def _joined(one: Leg, other: Leg, snap: Snapshot, k: int) -> Leg:
    """The k best of both, which have no row in common."""
    rows, scores = np.concatenate([one.rows, other.rows]), np.concatenate([one.scores, other.scores])
    order = select_top(scores, snap.columns.key[rows], k)
    return Leg(one.name, rows[order], scores[order])


def clusters(rows: U32, snap: Snapshot) -> U64:
    """uint64[n]: the key of the item that each row nearly repeats; its own where it repeats none."""
    near = snap.columns.near[rows]
    return np.where(near == 0, snap.columns.key[rows], near)


def _without(plan: Plan, left_out: np.ndarray[tuple[int], np.dtype[np.bool_]], snap: Snapshot) -> Plan:
    allowed = ~left_out if plan.allowed is None else plan.allowed & ~left_out
    return replace(plan, allowed=allowed, allowed_rows=int(np.count_nonzero(allowed)))
