"""Stage 3, for a crowded leg: near-duplicates of one item take one place, so that the leg finds other items.

Ingest marks near-duplicates (`near`: MinHash, Broder 1997). An ordinary question reads a hundred keys for this.
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

_CROWDED = 2  # a leg is crowded if near-duplicates fill one in so many of its places
_ROUNDS = 4  # searches after the first, each without the clusters found so far


def collapse(search: Callable[[Plan], Leg], plan: Plan, snap: Snapshot, k: int) -> tuple[Leg, U32, U32]:
    """Search a leg of k rows; if it is crowded, search again without near-duplicates. The best of each cluster stays.

    Returns:
        (the leg; rows left out uint32[m]; the row that represents each uint32[m]).
    """
    leg = search(plan)
    out, representative = [np.empty(0, np.uint32)], [np.empty(0, np.uint32)]
    best = Leg(leg.name, np.empty(0, np.uint32), np.empty(0, np.float32))  # of each cluster so far
    for _ in range(_ROUNDS):
        if len(leg.rows) < k or _CROWDED * np.count_nonzero(snap.columns.near[leg.rows]) < k:
            break  # only marked items are near-duplicates
        cluster = clusters(leg.rows, snap)
        known, first, which, size = np.unique(cluster, return_index=True, return_inverse=True, return_counts=True)
        if _CROWDED * (len(leg.rows) - len(known)) < k:
            break
        crowded = known[size > 1]
        copy = first[which] != np.arange(len(leg.rows))
        out.append(leg.rows[copy])
        representative.append(leg.rows[first[which]][copy])
        in_cluster = np.isin(snap.columns.near, crowded) | np.isin(snap.columns.key, crowded)
        plan = _exclude(plan, in_cluster, snap)
        best = _merge(best, Leg(leg.name, leg.rows[first[size > 1]], leg.scores[first[size > 1]]), snap, k)
        leg = _merge(best, search(plan), snap, k)
    return leg, np.concatenate(out), np.concatenate(representative)


def _merge(one: Leg, other: Leg, snap: Snapshot, k: int) -> Leg:
    """Return the k best of two legs without a common row."""
    rows, scores = np.concatenate([one.rows, other.rows]), np.concatenate([one.scores, other.scores])
    order = select_top(scores, snap.columns.key[rows], k)
    return Leg(one.name, rows[order], scores[order])


def clusters(rows: U32, snap: Snapshot) -> U64:
    """Return the cluster of each row, the key of the item it nearly repeats or its own: uint64[n]."""
    near = snap.columns.near[rows]
    return np.where(near == 0, snap.columns.key[rows], near)


def _exclude(plan: Plan, left_out: np.ndarray[tuple[int], np.dtype[np.bool_]], snap: Snapshot) -> Plan:
    allowed = ~left_out if plan.allowed is None else plan.allowed & ~left_out
    return replace(plan, allowed=allowed, allowed_rows=int(np.count_nonzero(allowed)))
