"""Stage 4: reciprocal rank fusion (Cormack, Clarke & Büttcher 2009), Σ w / (k + rank), ranks from 1.

Rank 1 in two lists with k = 60 is 2/61. Other systems count from 0; a test pins ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helix.topk import order
from helix.types import Candidates, Leg

if TYPE_CHECKING:
    from helix.snapshot.reader import Snapshot


def fuse(legs: Sequence[Leg], snap: Snapshot, k: float, weights: Mapping[str, float]) -> Candidates:
    """The union of the legs as a pool, best fused score first."""
    rows = np.unique(np.concatenate([leg.rows for leg in legs] or [np.empty(0, np.uint32)]))
    ranks = {name: np.full(len(rows), np.nan, np.float32) for name in ("dense", "bm25", "doc2query")}
    score = np.zeros(len(rows), np.float64)
    for leg in legs:
        rank = np.arange(1, len(leg.rows) + 1)
        at = np.searchsorted(rows, leg.rows)
        ranks[leg.name][at] = rank
        score[at] += weights[leg.name] / (k + rank)
    unknown = np.full(len(rows), np.nan, np.float32)
    pool = Candidates(
        row=rows.astype(np.uint32),
        dense=ranks["dense"],
        bm25=ranks["bm25"],
        doc2query=ranks["doc2query"],
        rrf=score.astype(np.float32),
        ppr=unknown,
        sim=unknown,
        recency=unknown,
        salience=unknown,
        confidence=unknown,
        graph=unknown,
        rerank=unknown,
        final=unknown,
    )
    return pool.take(order(pool.rrf, snap.columns.key[pool.row]))
