"""Filters by a range of values, with zone maps (`zones.c`)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from helix.native.arrays import BOOL, INT32, allocate, check_array
from helix.native.library import INT, LONG, POINTER, declare_kernel
from helix.types import I32, AnyArray, Bool

_filters = {
    np.dtype(name): declare_kernel(LONG, f"filter_{name}", *[POINTER] * 4, *[INT] * 4, *[POINTER] * 3)
    for name in ("int64", "int32", "uint8")
}

ZONE: Final = 192
"""Most rows of a zone: three of the widest registers, and fewer than 2⁸, since the kernel counts them in a byte."""

_LEAST, _MOST = -(2**63), 2**63 - 1


class Zones(NamedTuple):
    """The least and the most value in each of some runs of rows (a zone map: G. Moerkotte, VLDB 1998)."""

    begin: I32  # int32[z + 1]: the first row of each, and the number of rows
    least: AnyArray  # [z], of the values' dtype
    most: AnyArray


def build_zones(values: AnyArray, first: AnyArray) -> Zones:
    """Build the zones of some values.

    Args:
        first: integer[m], ascending rows at which a zone must begin. Others begin so that none exceeds ZONE rows.
    """
    begin = np.union1d(first, np.arange(0, len(values), ZONE))
    ends = np.append(begin, len(values)).astype(np.int32)
    if not len(values):
        return Zones(ends, values, values)
    return Zones(ends, np.minimum.reduceat(values, begin), np.maximum.reduceat(values, begin))


def filter_range(values: AnyArray, zones: Zones, low: int, high: int, among: Bool | None, passed: Bool) -> int:
    """Mark the rows with low ≤ value ≤ high and count them. Most zones are decided without reading their values.

    Args:
        values: int64[n], int32[n] or uint8[n].
        zones: of these values.
        low, high: signed 64-bit numbers.
        among: bool[n], the rows that may pass, or None for all.
        passed: bool[n], written to; not the array `among`.
    """
    begin, least, most = zones
    n, count, dtype = len(values), len(least), values.dtype
    kernel = _filters.get(dtype)
    if kernel is None:
        raise TypeError(f"values is an array of {dtype}, not of int64, int32 or uint8")
    if not (_LEAST <= low <= _MOST and _LEAST <= high <= _MOST):
        raise ValueError(f"{low} to {high} exceeds 64 bits")
    _some, some = allocate(INT32, count + 1)
    found = kernel(
        check_array("values", values, dtype, n),
        check_array("begin", begin, INT32, count + 1),
        check_array("least", least, dtype, count),
        check_array("most", most, dtype, count),
        count,
        n,
        low,
        high,
        None if among is None else check_array("among", among, BOOL, n),
        check_array("passed", passed, BOOL, n, written=True),
        some,
    )
    if found < 0 or begin[-1] != n:
        raise ValueError(f"the zones do not belong to {n} values")
    return int(found)
