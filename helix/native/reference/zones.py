"""The functions of `zones.c` in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from helix.native.arrays import INT32, INT64, UINT8
from helix.native.reference.memory import view_array
from helix.types import I64, Bool

_COUNTED = 255  # a zone's rows are counted in a byte


def _filter(
    dtype: np.dtype[Any], value: int, begin: int, least: int, most: int, zones: int, n: int, low: int, high: int,
    among: int | None, passed: int,
) -> int:  # fmt: skip
    """Write whether each of n rows is among some and its value from `low` to `high`: bool[n].

    Return the number of rows that pass, or −1 for a zone outside the n rows. If all of a zone pass, or none, its
    values are not read.
    """
    out, limits = view_array(passed, UINT8, n, written=True), np.iinfo(dtype)
    out[...] = 0
    if low > limits.max or high < limits.min:
        return 0
    lowest, highest = dtype.type(max(low, int(limits.min))), dtype.type(min(high, int(limits.max)))
    first = view_array(begin, INT32, zones + 1)
    smallest, largest = view_array(least, dtype, zones), view_array(most, dtype, zones)
    some = np.flatnonzero((largest >= lowest) & (smallest <= highest))
    start, end = first[:-1][some].astype(np.int64), first[1:][some].astype(np.int64)
    if ((start < 0) | (start > end) | (end > n)).any():
        return -1
    size = end - start
    rows, offset = _list_rows(start, size)
    lives, values = view_array(among, UINT8, n), view_array(value, dtype, n)
    result: Bool = np.ones(len(rows), np.bool_) if lives is None else lives[rows] != 0
    straddles = np.repeat((smallest[some] < lowest) | (largest[some] > highest), size)
    read = values[rows[straddles]]
    result[straddles] &= (read >= lowest) & (read <= highest)
    out[rows] = result
    counted = np.concatenate([[0], np.cumsum(result)])
    return int(((counted[offset + size] - counted[offset]) & _COUNTED).sum())


def _list_rows(start: I64, size: I64) -> tuple[I64, I64]:
    """Return (the rows of some runs one after the other, the place of each run among them)."""
    offset = np.cumsum(size) - size
    return np.arange(int(size.sum())) + np.repeat(start - offset, size), offset


def filter_int64(
    value: int, begin: int, least: int, most: int, zones: int, n: int, low: int, high: int, among: int | None,
    passed: int, some: int,
) -> int:  # fmt: skip
    """Filter int64[n]."""
    return _filter(INT64, value, begin, least, most, zones, n, low, high, among, passed)


def filter_int32(
    value: int, begin: int, least: int, most: int, zones: int, n: int, low: int, high: int, among: int | None,
    passed: int, some: int,
) -> int:  # fmt: skip
    """Filter int32[n]."""
    return _filter(INT32, value, begin, least, most, zones, n, low, high, among, passed)


def filter_uint8(
    value: int, begin: int, least: int, most: int, zones: int, n: int, low: int, high: int, among: int | None,
    passed: int, some: int,
) -> int:  # fmt: skip
    """Filter uint8[n]."""
    return _filter(UINT8, value, begin, least, most, zones, n, low, high, among, passed)
