"""The functions of `vectors.c` in NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.native.arrays import FLOAT32, INT8, INT64, UINT64
from helix.native.reference.memory import divide, view_array
from helix.types import F32, I64, AnyArray

LANES: Final = 16
"""Partial sums of an inner product; as in vectors.c."""

_AT_A_TIME: Final = 1 << 17  # products

_TINY: Final = np.float32(1e-9)


def _sum_products(products: F32) -> F32:
    """Return the sums of products over the last axis, float32[…, d], as C adds them: LANES partial sums in turn."""
    lanes = np.zeros((*products.shape[:-1], LANES), np.float32)
    for first in range(0, products.shape[-1], LANES):
        part = products[..., first : first + LANES]
        lanes[..., : part.shape[-1]] += part
    total = np.zeros(products.shape[:-1], np.float32)
    for lane in range(LANES):
        total += lanes[..., lane]
    return total


def _find_outside(row: I64, every: int) -> bool:
    return bool(((row < 0) | (row >= every)).any())


@np.errstate(all="ignore")
def score_vectors(codes: int, scale: int, every: int, d: int, row: int, n: int, query: int, out: int) -> int:
    """Write scale · ⟨codes, query⟩ of n rows, float32[n]. Return −1 for a row outside all rows, else 0."""
    rows, wanted = view_array(row, INT64, n), view_array(query, FLOAT32, d)
    if _find_outside(rows, every):
        return -1
    code, factor = view_array(codes, INT8, every, d), view_array(scale, FLOAT32, every)
    found = view_array(out, FLOAT32, n, written=True)
    for part in divide(n, _AT_A_TIME // max(d, 1)):
        found[part] = _sum_products(code[rows[part]] * wanted) * factor[rows[part]]
    return 0


@np.errstate(all="ignore")
def score_neighbours(
    codes_at: int, scale_at: int, start: int, parts: int, d: int, row: int, n: int, query: int, share: float,
    zeros: int, code_of: int, factor_of: int, alone: int, leaning: int,
) -> int:  # fmt: skip
    """Write the scores of n items alone and with their neighbours, float32[n] each.

    Return −1 for a row outside all parts, else 0. `zeros`, `code_of` and `factor_of` are not needed.
    """
    begin, rows = view_array(start, INT64, parts + 1), view_array(row, INT64, 3, n)
    if ((rows < -1) | (rows >= begin[parts])).any():
        return -1
    held = [view_array(address, UINT64, parts).tolist() for address in (codes_at, scale_at)]
    part_of = np.maximum(np.searchsorted(begin[:parts], rows, "right") - 1, 0)
    wanted, lean = view_array(query, FLOAT32, d), np.float32(share)
    found = view_array(alone, FLOAT32, n, written=True), view_array(leaning, FLOAT32, n, written=True)
    for items in divide(n, _AT_A_TIME // max(d, 1)):
        chosen = rows[:, items]
        code, factor = np.zeros((*chosen.shape, d), np.int8), np.zeros(chosen.shape, np.float32)
        for part in np.unique(part_of[:, items][chosen >= 0]).tolist():
            size = int(begin[part + 1] - begin[part])
            here = (chosen >= 0) & (part_of[:, items] == part)
            local = chosen[here] - begin[part]
            code[here] = view_array(held[0][part], INT8, size, d)[local]
            factor[here] = view_array(held[1][part], FLOAT32, size)[local]
        before, own, after = code * factor[..., None]
        whole = own + lean * (before + after)
        length = np.sqrt(_sum_products(whole * whole))
        found[0][items] = _sum_products(own * wanted)
        found[1][items] = _sum_products(whole * wanted) / np.where(length > _TINY, length, _TINY)
    return 0


@np.errstate(all="ignore")
def score_tokens(
    codes: int, scale: int, every: int, d: int, indptr: int, n: int, query: int, q: int, value: int, best: int, out: int
) -> int:
    """Write the mean over q tokens of a question of the largest product with a token of each passage, float32[n].

    Return −1 for a token outside all tokens, else 0. `value` and `best` are not needed.
    """
    ends = view_array(indptr, INT64, n + 1)
    if ((ends[:-1] < 0) | (ends[1:] < ends[:-1]) | (ends[1:] > every)).any():
        return -1
    filled, most = ends[1:] > ends[:-1], np.zeros((n, q), np.float32)
    if filled.any():  # passages follow each other: those without tokens are between others
        low, high = int(ends[0]), int(ends[-1])
        products = _multiply(codes, scale, every, d, slice(low, high), view_array(query, FLOAT32, q, d))
        products[np.isnan(products)] = -np.inf  # as in C, where no comparison finds it
        most[filled] = np.maximum.reduceat(products, ends[:-1][filled] - low)
    total = np.zeros(n, np.float32)
    for i in range(q):
        total += most[:, i]
    view_array(out, FLOAT32, n, written=True)[:] = np.where(filled, total / np.float32(q), np.float32(0))
    return 0


def _multiply(codes: int, scale: int, every: int, d: int, tokens: slice, query: AnyArray) -> F32:
    """Return scale · ⟨codes, query⟩ of some tokens with each of a question: float32[tokens, q]."""
    code, factor = view_array(codes, INT8, every, d)[tokens], view_array(scale, FLOAT32, every)[tokens]
    out = np.empty((len(code), len(query)), np.float32)
    for part in divide(len(code), _AT_A_TIME // max(query.size, 1)):
        out[part] = factor[part, None] * _sum_products(code[part, None].astype(np.float32) * query)
    return out
