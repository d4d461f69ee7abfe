"""Top rows of inverted lists by 4-bit product codes (`lists.c`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from helix.native.arrays import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    UINT64,
    ArrayTable,
    allocate,
    build_table,
    check_array,
    explain_damage,
)
from helix.native.library import FLOAT, INT, LONG, POINTER, SHORT, declare_kernel
from helix.types import F32, I32, I64, U8, Bool

_build_code_table = declare_kernel(SHORT, "build_code_table", POINTER, INT, INT, POINTER, POINTER, result=FLOAT)
_round_to_steps = declare_kernel(SHORT, "round_to_steps", POINTER, INT, FLOAT, POINTER, result=None)
_search_lists = declare_kernel(
    LONG, "search_lists", *[POINTER] * 3, INT, *[POINTER] * 2, INT, POINTER, INT, POINTER, *[INT] * 3, *[POINTER] * 2
)
_encode_pieces = declare_kernel(LONG, "encode_pieces", POINTER, *[INT] * 3, *[POINTER] * 3, result=None)

CODES: Final = 16
"""Codes of a piece."""

GROUP: Final = 32
"""Rows that `search_lists` scores at a time; as in lists.c."""


def build_code_table(book: F32, query: F32) -> tuple[F32, float]:
    """Return the gain of each code of each piece over the least of its piece, float32[m, 16], and the largest gain.

    A gain is the code's part of the inner product with the question.

    Args:
        book: float32[dimensions of a piece, m, 16]: the vector of each code.
        query: float32[m · dimensions of a piece].
    """
    size, m, _ = book.shape
    table, table_at = allocate(FLOAT32, m, CODES)
    most = _build_code_table(
        check_array("book", book, FLOAT32, size, m, CODES),
        size,
        m,
        check_array("query", query, FLOAT32, size * m),
        table_at,
    )
    return table, float(most)


def round_to_steps(table: F32, steps: float) -> U8:
    """Return table · steps, rounded: uint8 of the same shape. All products are below 255.5."""
    out, out_at = allocate(UINT8, *table.shape)
    _round_to_steps(check_array("table", table, FLOAT32, *table.shape), table.size, steps, out_at)
    return out


def encode_pieces(rows: F32, book: F32) -> U8:
    """Return the code of each piece of each row that is nearest to it, the first of equals: uint8[n, m].

    Args:
        rows: float32[n, m · dimensions of a piece].
        book: float32[m, dimensions of a piece, 16]: the numbers of each code.
    """
    (m, size, _), n = book.shape, len(rows)
    half = (book**2).sum(1, dtype=np.float32) / np.float32(2)
    out, out_at = allocate(UINT8, n, m)
    _encode_pieces(
        check_array("rows", rows, FLOAT32, n, m * size),
        n,
        m,
        size,
        check_array("book", book, FLOAT32, m, size, CODES),
        check_array("half", half, FLOAT32, m, CODES),
        out_at,
    )
    return out


class CodeLists(NamedTuple):
    """Inverted lists: the rows of each, and their 4-bit codes."""

    code: ArrayTable  # uint8[groups · m · 16] of each, packed as lists.c says
    row: ArrayTable  # int64[size] of each
    size: I64  # int64[lists]
    m: int  # pieces of a vector


def build_lists(codes: Sequence[U8], rows: Sequence[I64], m: int) -> CodeLists:
    """Build the lists for `search_lists`.

    Args:
        codes: uint8[groups · m · 16] of each list, m even.
        rows: int64 of each list.
    """
    if m < 2 or m % 2:
        raise ValueError(f"the number of pieces is {m}, not even")
    sizes = [len(each) for each in rows]
    groups = [-(-size // GROUP) * m * CODES for size in sizes]
    code, row = build_table("codes", codes, UINT8, groups), build_table("rows", rows, INT64, sizes)
    return CodeLists(code, row, np.array(sizes, np.int64), m)


def search_lists(
    lists: CodeLists,
    chosen: I64,
    near: I32,
    table: U8,
    allowed: Bool | None,
    rows: int,
    k: int,
    registers: int = 0,
) -> I64:
    """Return the top k rows of some lists, in no order: int64[≤ k]. Ties keep the smaller rows.

    Args:
        lists: of `build_lists`, with as many pieces as `table`.
        chosen: int64[n], the lists to search.
        near: int32[n], 0 to 2²⁴, the score that each list adds to its rows.
        table: uint8[m, 16], m even: the score of each code; the largest of each piece sum to less than 2¹⁶.
        allowed: bool[rows], or None for all rows.
        k: at least 1.
        registers: width in bytes, 1 for plain C, 0 for the widest of this machine.

    Raises:
        StoreError: a list names a row outside `rows`, or its centre is no number.
        ValueError: this machine lacks such registers, or there is no such list.
    """
    n, count, m = len(chosen), len(lists.size), len(table)
    if k < 1 or not 0 <= rows <= 1 << 32:
        raise ValueError(f"k is {k} for {rows} rows")
    if m != lists.m:
        raise ValueError(f"the table has {m} pieces, the lists have {lists.m}")
    (_key, key), (out, out_at) = allocate(UINT64, 4 * k), allocate(INT64, k)
    found = _search_lists(
        check_array("code", lists.code.addresses, UINT64, count),
        check_array("row", lists.row.addresses, UINT64, count),
        check_array("size", lists.size, INT64, count),
        count,
        check_array("chosen", chosen, INT64, n),
        check_array("near", near, INT32, n),
        n,
        check_array("table", table, UINT8, m, CODES),
        m,
        None if allowed is None else check_array("allowed", allowed, BOOL, rows),
        rows,
        k,
        registers,
        key,
        out_at,
    )
    if found == -2:
        raise ValueError(f"this machine has no registers of {registers} bytes for such sums")
    if found == -3:
        raise ValueError(f"a chosen list is outside the {count} lists")
    if found < 0:
        what = "a list of its dense index names a row outside" if found == -1 else "a centre is no number, among"
        raise explain_damage(f"{what} {rows} rows")
    return out[:found]
