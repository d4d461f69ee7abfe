"""Top rows by BM25 or by learned-sparse weights: MaxScore over postings (`postings.c`)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from helix.native.arrays import (
    BOOL,
    FLOAT32,
    INT64,
    UINT16,
    UINT32,
    UINT64,
    ArrayTable,
    allocate,
    build_table,
    check_array,
    explain_damage,
)
from helix.native.library import FLOAT, INT, LONG, POINTER, declare_kernel
from helix.types import F32, I64, U16, U32, Bool

_search_postings = declare_kernel(
    LONG, "search_postings", *[INT] * 2, *[POINTER] * 4, INT, POINTER, INT, *[POINTER] * 4, INT, INT, FLOAT,
    *[POINTER] * 4, INT, *[POINTER] * 2,
)  # fmt: skip

RANGE: Final = 32_768
"""Rows scored at a time: their scores and norms fit a processor's own cache."""

LOOK_UP: Final = 16
"""Cost of finding one row among postings, in postings read one after the other."""


class Postings(NamedTuple):
    """Postings of t terms in parts. Term i has the parts first[i] to first[i + 1]; a row is in one of them at most."""

    first: I64  # int64[t + 1]
    start: I64  # int64[p]: the number that the rows of a part count from
    rows: list[U32]  # uint32[m] each, ascending
    tf: list[U16]  # uint16[m] each: term frequencies, or learned-sparse weights


def search_postings(
    postings: Postings,
    weight: F32,
    rest: F32,
    allowed: Bool | None,
    norm: F32 | int,
    k: int,
    slack: float,
    floor: float = 0,
) -> tuple[U32, F32, float]:
    """Return rows that may be among the top k, in no order; the top k are among them.

    Args:
        postings: of t terms, the rarest or heaviest first. A row's gains are summed in this order.
        weight: float32[t]: idf · (k1 + 1), or the factor of a learned-sparse weight.
        rest: float32[t + 1], the most that terms i and later can add to a row.
        allowed: bool[n], or None for all rows.
        norm: float32[n] of `helix.ranking.bm25.compute_norms`; n alone for learned-sparse postings: tf · weight.
        k: at least 1.
        slack: below 1 by more than the rounding of scores and bounds.
        floor: a lower bound of the k-th best score.

    Returns:
        (rows uint32[m]; scores float32[m]; a new lower bound of the k-th best score).

    Raises:
        StoreError: a posting names a row outside the store.
    """
    parts, terms = len(postings.rows), len(weight)
    n = norm if isinstance(norm, int) else len(norm)
    if k < 1:
        raise ValueError(f"k is {k}, not at least 1")
    addresses, arrays = _check_postings(postings, terms)
    most = min(n, int(arrays[0].sum()))
    (_heap, heap), (_next, next_at) = allocate(FLOAT32, k), allocate(INT64, parts)
    (_work, work), (reached, reached_at) = allocate(UINT32, 4, RANGE), allocate(FLOAT32, 1)
    (out_rows, rows_to), (out_scores, scores_to) = allocate(UINT32, most), allocate(FLOAT32, most)
    outputs = (reached_at, heap, next_at, work, most, rows_to, scores_to)
    reached[0] = floor
    count = _search_postings(
        RANGE,
        LOOK_UP,
        *addresses,
        check_array("weight", weight, FLOAT32, terms),
        check_array("rest", rest, FLOAT32, terms + 1),
        None if allowed is None else check_array("allowed", allowed, BOOL, n),
        None if isinstance(norm, int) else check_array("norm", norm, FLOAT32, n),
        n,
        k,
        slack,
        *outputs,
    )
    if count == -2:
        raise ValueError(f"the {parts} parts of the postings do not belong to {terms} terms")
    if count < 0:
        raise explain_damage(f"a posting names none of {n} rows, or a row has an impossible length")
    return out_rows[:count], out_scores[:count], float(reached[0])


def _check_postings(postings: Postings, terms: int) -> tuple[tuple[int, ...], tuple[I64, ArrayTable, ArrayTable]]:
    """Return the kernel's arguments for some postings, and the arrays they point to: the sizes of the parts first."""
    first, start, rows, tf = postings
    sizes, parts = [len(part) for part in rows], len(rows)
    size = np.array(sizes, np.int64)
    row_at, tf_at = build_table("rows of postings", rows, UINT32, sizes), build_table("frequencies", tf, UINT16, sizes)
    addresses = (
        check_array("row_at", row_at.addresses, UINT64, parts),
        check_array("tf_at", tf_at.addresses, UINT64, parts),
        check_array("size", size, INT64, parts),
        check_array("start", start, INT64, parts),
        parts,
        check_array("first", first, INT64, terms + 1),
        terms,
    )
    return addresses, (size, row_at, tf_at)
