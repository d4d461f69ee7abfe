"""Row numbers: neighbours in a session, distinct values, reciprocal rank fusion (`rows.c`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from helix.native.arrays import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, allocate, check_array, explain_damage
from helix.native.library import DOUBLE, INT, POINTER, SHORT, declare_kernel
from helix.types import F32, I32, I64, U32, U64

_list_neighbours = declare_kernel(SHORT, "list_neighbours", *[POINTER] * 2, INT, POINTER, INT, POINTER)
_find_distinct = declare_kernel(SHORT, "find_distinct", POINTER, INT, POINTER, INT, *[POINTER] * 2)
_fuse_legs = declare_kernel(
    SHORT, "fuse_legs", *[POINTER] * 2, INT, POINTER, DOUBLE, POINTER, INT, POINTER, INT, *[POINTER] * 4
)


def list_neighbours(previous: I32, following: I32, rows: I64) -> I64:
    """Return int64[5, n]: two rows before each row, the row, two rows after it; −1 beyond either end.

    Args:
        previous: int32[all], following: int32[all]: the row before and after each, −1 for none.
        rows: int64[n].

    Raises:
        StoreError: a row outside `all`.
    """
    every, n = len(previous), len(rows)
    ring, ring_at = allocate(INT64, 5, n)
    failed = _list_neighbours(
        check_array("previous", previous, INT32, every),
        check_array("following", following, INT32, every),
        every,
        check_array("rows", rows, INT64, n),
        n,
        ring_at,
    )
    if failed:
        raise explain_damage(f"a row or its neighbour is outside {every} rows")
    return ring


def find_distinct(values: I64) -> tuple[I64, I64]:
    """Return (the distinct values int64[m] in first-seen order, the place of each value among them int64[n]).

    Hashing beats sorting up to a few thousand values.
    """
    n = len(values)
    slots = 2 << n.bit_length()
    (_table, table), (out, out_at), (place, place_at) = allocate(INT64, slots), allocate(INT64, n), allocate(INT64, n)
    found = _find_distinct(check_array("values", values, INT64, n), n, table, slots, out_at, place_at)
    return out[:found], place


def fuse_legs(legs: Sequence[U32], weights: Sequence[float], k: float, key: U64) -> tuple[U32, F32, F32]:
    """Fuse legs by reciprocal ranks (Cormack, Clarke & Büttcher 2009): the highest Σ weight / (k + rank) first.

    Args:
        legs: uint32 each, best first, ranks from 1, without repeats.
        weights: of each leg.
        key: uint64[rows]. Rows of equal scores, as float32, are in ascending order of their keys.

    Returns:
        (rows uint32[n]; scores float32[n]; ranks float32[legs, n], NaN where a leg lacks the row).

    Raises:
        StoreError: a row of a leg has no key.
    """
    end = np.array([*accumulate(map(len, legs))], np.int64)
    rows = np.concatenate([np.empty(0, np.uint32), *legs], dtype=np.uint32)  # refuses wider numbers
    count, m, every = len(legs), len(rows), len(key)
    slots, weight = 2 << m.bit_length(), np.array(weights, np.float64)
    (_table, table), (_work, work) = allocate(INT32, slots + m), allocate(UINT64, 4, m)
    (row, row_at), (score, score_at), (rank, rank_at) = (
        allocate(UINT32, m),
        allocate(FLOAT32, m),
        allocate(FLOAT32, count, m),
    )
    found = _fuse_legs(
        check_array("rows", rows, UINT32, m),
        check_array("end", end, INT64, count),
        count,
        check_array("weights", weight, FLOAT64, count),
        k,
        check_array("key", key, UINT64, every),
        every,
        table,
        slots,
        work,
        row_at,
        score_at,
        rank_at,
    )
    if found < 0:
        raise explain_damage(f"a leg holds a row outside {every} rows")
    return row[:found], score[:found], rank[:, :found]
