"""Stage 3, dense leg: exact inner products over the int8 codes of the allowed rows.

The query stays in full precision and every code is multiplied by its own scale, so these are rescored values already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helix.topk import top_k
from helix.types import F32, Leg, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot

_STEP = 65_536  # rows converted to float32 at a time: 100 MB at 384 dimensions


def search_dense(vector: F32, snap: Snapshot, plan: Plan, k: int) -> Leg:
    """The k nearest allowed rows by inner product, best first."""
    rows = np.flatnonzero(plan.allowed) if plan.allowed is not None else np.arange(snap.rows)
    scores = np.empty(len(rows), np.float32)
    for block in snap.blocks:
        low, high = np.searchsorted(rows, (block.start, block.start + len(block.codes)))
        for start in range(int(low), int(high), _STEP):
            stop = min(start + _STEP, int(high))
            local = rows[start:stop] - block.start
            whole = stop - start == local[-1] - local[0] + 1  # contiguous: a view, not a copy
            chosen = slice(local[0], local[-1] + 1) if whole else local
            scores[start:stop] = (block.codes[chosen].astype(np.float32) @ vector) * block.scale[chosen]
    best = top_k(scores, snap.columns.key[rows], k)
    return Leg("dense", rows[best].astype(np.uint32), scores[best])
