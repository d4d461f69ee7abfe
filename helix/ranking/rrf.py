"""Reciprocal rank fusion: Σ weight / (k + rank), ranks from 1 (Cormack, Clarke & Büttcher 2009).

Rank 1 in two lists with k = 60 gives 2/61. Systems that count from 0 mean another k; a test pins ours. The recipe
`helix` fuses with the same formula in a kernel, `helix/native/rows.c`, which a test compares with this function.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helix.types import F32, F64, U32, AnyArray, Leg


def rrf(ranks: Sequence[AnyArray], weights: Sequence[float], k: float) -> F64:
    """Fuse lists by their ranks: float64[n].

    Args:
        ranks: float[n] each, from 1; NaN where a list lacks the entry.
        weights: one a list.
        k: the constant; a larger one flattens the ranks.
    """
    score = np.zeros(len(ranks[0]) if len(ranks) else 0, np.float64)
    for rank, weight in zip(ranks, weights, strict=True):
        score += np.nan_to_num(weight / (k + rank.astype(np.float64)))
    return score


def align_ranks(legs: Sequence[Leg]) -> tuple[U32, dict[str, F32]]:
    """Return the rows of any leg, and each leg's rank of them.

    Returns:
        (rows uint32[n] ascending; by leg the rank from 1, NaN where it lacks the row: float32[n]).
    """
    rows = np.sort(np.concatenate([np.empty(0, np.uint32), *(leg.rows for leg in legs)], dtype=np.uint32))
    first = np.ones(len(rows), bool)
    first[1:] = rows[1:] != rows[:-1]
    rows = rows[first]
    ranks = {leg.name: np.full(len(rows), np.nan, np.float32) for leg in legs}
    for leg in legs:
        ranks[leg.name][np.searchsorted(rows, leg.rows)] = np.arange(1, len(leg.rows) + 1)
    return rows, ranks
