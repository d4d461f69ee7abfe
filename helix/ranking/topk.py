"""The only sorter of Helix and its tie rule: descending score, then ascending tie key (the order of item ids).

NaN comes after every number, and NaNs are equal. Equal scores with equal tie keys keep their position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from helix.types import F32

Ties = npt.NDArray[np.integer[Any]]
Index = npt.NDArray[np.intp]


def sort_rows(scores: npt.NDArray[np.floating[Any]], tie: Ties) -> Index:
    """Return the positions of all scores, best first: intp[n].

    Args:
        scores: float32[n].
        tie: integer[n], smaller first among equal scores.
    """
    # lexsort: last key first, stable, NaN last.
    return np.lexsort((tie, -scores))


def select_top(scores: F32, tie: Ties, k: int) -> Index:
    """Return the first `k` of `sort_rows(scores, tie)`, intp[min(n, k)], in O(n + k log k) time.

    argpartition alone picks any of the rows tied at the boundary; here the tie key chooses among all of them.
    """
    if k <= 0:
        return np.empty(0, dtype=np.intp)
    if k >= len(scores):
        return sort_rows(scores, tie)
    keys = -scores
    boundary = keys[np.argpartition(keys, k - 1)[k - 1]]
    better, tied = (~np.isnan(keys), np.isnan(keys)) if np.isnan(boundary) else (keys < boundary, keys == boundary)
    rows = np.flatnonzero(tied)
    wanted = k - int(np.count_nonzero(better))
    ties = tie[rows]
    last = ties[np.argpartition(ties, wanted - 1)[wanted - 1]]
    rows = np.sort(np.concatenate((np.flatnonzero(better), rows[ties <= last])))
    return rows[sort_rows(scores[rows], tie[rows])][:k]
