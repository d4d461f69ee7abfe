"""Inner products of int8 vectors with a question (`vectors.c`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from helix.native.arrays import (
    FLOAT32,
    INT8,
    INT64,
    UINT64,
    ArrayTable,
    allocate,
    build_table,
    check_array,
    explain_damage,
)
from helix.native.library import FLOAT, INT, LONG, POINTER, SHORT, declare_kernel
from helix.types import F32, I8, I64

_score_vectors = declare_kernel(LONG, "score_vectors", *[POINTER] * 2, INT, INT, POINTER, INT, *[POINTER] * 2)
_score_neighbours = declare_kernel(
    SHORT, "score_neighbours", *[POINTER] * 3, INT, INT, POINTER, INT, POINTER, FLOAT, *[POINTER] * 5
)

_score_tokens = declare_kernel(
    LONG, "score_tokens", *[POINTER] * 2, INT, INT, POINTER, INT, POINTER, INT, *[POINTER] * 3
)


def score_vectors(codes: I8, scale: F32, rows: I64, query: F32) -> F32:
    """Return scale · ⟨codes, query⟩ of some rows: float32[n]. Equal codes have bitwise equal products.

    Args:
        codes: int8[all, d].
        scale: float32[all].
        rows: int64[n].
        query: float32[d].

    Raises:
        StoreError: a row outside `codes`.
    """
    n, (every, d) = len(rows), codes.shape
    out, out_at = allocate(FLOAT32, n)
    failed = _score_vectors(
        check_array("codes", codes, INT8, every, d),
        check_array("scale", scale, FLOAT32, every),
        every,
        d,
        check_array("rows", rows, INT64, n),
        n,
        check_array("query", query, FLOAT32, d),
        out_at,
    )
    if failed:
        raise explain_damage(f"the vector of a row outside {every} rows is needed")
    return out


class VectorTable(NamedTuple):
    """The vectors of all rows, segment by segment."""

    start: I64  # int64[parts + 1]: the first row of each part, and the number of rows
    code: ArrayTable  # int8[rows of the part · d] each
    scale: ArrayTable  # float32[rows of the part] each
    d: int


def build_vector_table(codes: Sequence[I8], scales: Sequence[F32], d: int) -> VectorTable:
    """Build the table for `score_neighbours`.

    Args:
        codes: int8[rows, d] of each part.
        scales: float32[rows] of each part.
    """
    sizes = [len(scale) for scale in scales]
    addresses = [check_array("codes", code, INT8, size, d) for code, size in zip(codes, sizes, strict=True)]
    code = ArrayTable(np.array(addresses, np.uint64), tuple(codes))
    start = np.cumsum([0, *sizes], dtype=np.int64)
    return VectorTable(start, code, build_table("scales", scales, FLOAT32, sizes), d)


def score_neighbours(vectors: VectorTable, rows: I64, query: F32, share: float) -> tuple[F32, F32]:
    """Score items alone and together with the items before and after them: float32[n] each.

    With v, b and a the vectors of an item and of its neighbours, the scores are ⟨v, query⟩ and
    ⟨v + share · (b + a), query⟩ / ‖v + share · (b + a)‖.

    Args:
        rows: int64[3, n]: the row before, the item's, the row after; −1 for none.
        query: float32[d].

    Raises:
        StoreError: a row outside the table.
    """
    n, d, parts = rows.shape[-1], vectors.d, len(vectors.code.addresses)
    (alone, alone_at), (leaning, leaning_at) = allocate(FLOAT32, n), allocate(FLOAT32, n)
    (_code, code), (_factor, factor), zeros = allocate(UINT64, 3, n), allocate(FLOAT32, 3, n), np.zeros(d, np.int8)
    failed = _score_neighbours(
        check_array("code_at", vectors.code.addresses, UINT64, parts),
        check_array("scale_at", vectors.scale.addresses, UINT64, parts),
        check_array("start", vectors.start, INT64, parts + 1),
        parts,
        d,
        check_array("rows", rows, INT64, 3, n),
        n,
        check_array("query", query, FLOAT32, d),
        share,
        check_array("zeros", zeros, INT8, d),
        code,
        factor,
        alone_at,
        leaning_at,
    )
    if failed:
        raise explain_damage(f"the vector of a row outside {vectors.start[-1]} rows is needed")
    return alone, leaning


def score_tokens(codes: I8, scale: F32, indptr: I64, query: F32) -> F32:
    """Return `helix.stages.rerank.maxsim` of a question with passages of coded token vectors: float32[n].

    A product of matrices is as fast on idle cores. Where other processes want them, its threads wait for each other:
    21 ms were measured for 30 items, instead of 0.3.

    Args:
        codes: int8[t, d], of all passages one after the other.
        scale: float32[t]: v ≈ scale · code.
        indptr: int64[n + 1]: offsets of each passage's tokens.
        query: float32[q, d].

    Raises:
        StoreError: a token outside `codes`.
    """
    (every, d), n, q = codes.shape, len(indptr) - 1, len(query)
    if not q:
        return np.zeros(n, np.float32)
    out, out_at = allocate(FLOAT32, n)
    (_value, value_at), (_best, best_at) = allocate(FLOAT32, d), allocate(FLOAT32, q)
    failed = _score_tokens(
        check_array("codes", codes, INT8, every, d),
        check_array("scale", scale, FLOAT32, every),
        every,
        d,
        check_array("indptr", indptr, INT64, max(len(indptr), 1)),
        n,
        check_array("query", query, FLOAT32, q, d),
        q,
        value_at,
        best_at,
        out_at,
    )
    if failed:
        raise explain_damage(f"a token vector outside {every} of them is needed")
    return out
