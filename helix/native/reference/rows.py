"""The functions of `rows.c` in NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from helix.native.arrays import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64
from helix.native.reference.memory import view_array, write_array
from helix.types import I64, AnyArray


def _find_first(values: AnyArray) -> tuple[I64, I64]:
    """Return (the first place of each distinct value, ascending; the place of each value among the distinct ones)."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[place]


@np.errstate(all="ignore")
def fuse_legs(
    rows: int, end: int, legs: int, weight: int, k: float, key: int, every: int, table: int, slots: int, work: int,
    row: int, score: int, rank: int,
) -> int:  # fmt: skip
    """Write the distinct rows of some legs, the highest Σ weight / (k + rank) first, their scores and their ranks.

    Return the number of rows, or −1 for a row outside all rows. `table` and `work` are not needed.
    """
    ends = view_array(end, INT64, legs).tolist()
    m = ends[-1] if legs else 0
    given, keys = view_array(rows, UINT32, m), view_array(key, UINT64, every)
    if (given >= every).any():
        return -1
    first, place = _find_first(given)
    total = np.zeros(len(first), np.float64)
    parts = [slice(low, high) for low, high in pairwise([0, *ends])]
    for each, part in zip(view_array(weight, FLOAT64, legs), parts, strict=True):
        np.add.at(total, place[part], each / (k + np.arange(1, part.stop - part.start + 1)))
    single = total.astype(np.float32)
    order = np.lexsort((keys[given[first]], -single))
    final = np.empty(len(order), np.int64)
    final[order] = np.arange(len(order))
    write_array(row, given[first][order])
    write_array(score, single[order])
    ranks = view_array(rank, FLOAT32, legs, m, written=True)
    ranks[...] = np.nan
    for leg, part in enumerate(parts):
        ranks[leg, final[place[part]]] = np.arange(1, part.stop - part.start + 1)
    return len(first)


def list_neighbours(previous: int, following: int, every: int, rows: int, n: int, ring: int) -> int:
    """Write two rows before each of n rows, the row, and two rows after it, int64[5, n]; −1 beyond either end.

    Return −1 for a row, or a neighbour, outside all rows, else 0.
    """
    chosen, out = view_array(rows, INT64, n), view_array(ring, INT64, 5, n, written=True)
    if ((chosen < 0) | (chosen >= every)).any():
        return -1
    before, after = view_array(previous, INT32, every), view_array(following, INT32, every)
    out[1], out[2], out[3] = before[chosen], chosen, after[chosen]
    if (out[[1, 3]] >= every).any():
        return -1
    for second, first, step in ((0, 1, before), (4, 3, after)):
        out[second] = np.where(out[first] < 0, -1, step[np.maximum(out[first], 0)])
    return 0


def find_distinct(values: int, n: int, table: int, slots: int, out: int, place: int) -> int:
    """Write the distinct ones of n values in first-seen order and the place of each value among them, int64[n].

    Return the number of distinct values. `table` is not needed.
    """
    given = view_array(values, INT64, n)
    first, among = _find_first(given)
    write_array(out, given[first])
    write_array(place, among)
    return len(first)
