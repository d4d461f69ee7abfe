"""The functions of `lists.c` in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from helix.native.arrays import FLOAT32, INT32, INT64, UINT8, UINT64
from helix.native.reference.memory import divide, view_array, write_array
from helix.types import I64, U8, U64

PIECE: Final = 16
"""Codes of a piece, and bytes of a piece of a group; as in lists.c."""

GROUP: Final = 32
"""Rows of a group; as in lists.c."""

_MOST_NEAR: Final = 1 << 24
_LAST: Final = (1 << 32) - 1
_AT_A_TIME: Final = 1 << 18  # bytes of codes, or products


@np.errstate(all="ignore")
def build_code_table(book: int, size: int, m: int, query: int, table: int) -> float:
    """Write the gain of each code of each piece over the least of its piece, float32[m, 16]; return the largest."""
    codes, wanted = view_array(book, FLOAT32, size, m, PIECE), view_array(query, FLOAT32, m, size)
    out = np.zeros((m, PIECE), np.float32)
    for i in range(size):
        out += wanted[:, i, None] * codes[i]
    least = out[:, 0].copy()
    for c in range(1, PIECE):
        least = np.where(least < out[:, c], least, out[:, c])
    out -= least[:, None]
    write_array(table, out)
    return float(out[out > 0].max(initial=0))


@np.errstate(all="ignore")
def round_to_steps(table: int, n: int, steps: float, out: int) -> None:
    """Write n products with `steps`, rounded: uint8[n]."""
    products = view_array(table, FLOAT32, n) * np.float32(steps)
    write_array(out, np.rint(products).astype(np.int64).astype(np.uint8))


@np.errstate(all="ignore")
def encode_pieces(rows: int, n: int, m: int, size: int, book: int, half: int, out: int) -> None:
    """Write the code of each of m pieces of n rows that is nearest to it, the first of equals: uint8[n, m]."""
    given, codes = view_array(rows, FLOAT32, n, m, size), view_array(book, FLOAT32, m, size, PIECE)
    less, found = view_array(half, FLOAT32, m, PIECE), view_array(out, UINT8, n, m, written=True)
    for part in divide(n, _AT_A_TIME // max(m * PIECE, 1)):
        near = np.zeros((part.stop - part.start, m, PIECE), np.float32)
        for j in range(size):
            near += given[part, :, j, None] * codes[:, j]
        near -= less
        most = near[..., 0].copy()
        for c in range(1, PIECE):
            most = np.where(near[..., c] > most, near[..., c], most)
        equal = near == most[..., None]
        equal[..., -1] = True  # for products that are no number
        found[part] = equal.argmax(axis=-1)


def search_lists(
    code: int, row: int, size: int, lists: int, chosen: int, near: int, n: int, table: int, m: int, allowed: int | None,
    every: int, k: int, registers: int, key: int, out: int,
) -> int:  # fmt: skip
    """Write the top k rows of n lists, in no order: int64. Ties keep the smaller rows.

    Return the number of rows, −1 for a row outside all rows, −2 for registers of more than one byte, −3 for a list
    outside `lists`, −4 for a wrong score of a list. `key` is not needed.
    """
    if registers >= 2:
        return -2
    looked, nearer = view_array(chosen, INT64, n), view_array(near, INT32, n)
    outside = (looked < 0) | (looked >= lists)
    wrong = np.flatnonzero(outside | (nearer < 0) | (nearer > _MOST_NEAR))
    if len(wrong):
        return -3 if outside[wrong[0]] else -4
    addresses = [view_array(at, UINT64, lists).tolist() for at in (code, row)]
    sizes, entries = view_array(size, INT64, lists).tolist(), _pair_entries(view_array(table, UINT8, m, PIECE))
    best = _TopKeys(k, every, view_array(allowed, UINT8, every))
    for at, more in zip(looked.tolist(), nearer.tolist(), strict=True):
        if sizes[at] == 0:
            continue
        rows, groups = view_array(addresses[1][at], INT64, sizes[at]), -(-sizes[at] // GROUP)
        codes = view_array(addresses[0][at], UINT8, groups, m * PIECE)
        for part, sums in _sum_entries(codes, entries):
            here = rows[part.start * GROUP : part.stop * GROUP]
            if not best.add(sums[: len(here)] + more, here):
                return -1
    found = best.list_rows()
    write_array(out, found)
    return len(found)


def _pair_entries(table: U8) -> U64:
    """Return both entries of each byte of each piece as one number, uint64[m · 256]: those of the upper half · 2³²."""
    byte = np.arange(256)
    wide = table.astype(np.uint64)
    return (wide[:, byte & 15] | wide[:, byte >> 4] << np.uint64(32)).reshape(-1)


def _sum_entries(codes: U8, entries: U64) -> Iterator[tuple[slice, I64]]:
    """Yield (some groups of a list, the sum of the entries of each row modulo 2¹⁶), group after group."""
    first = np.repeat(np.arange(0, len(entries), 256), PIECE)
    for part in divide(len(codes), _AT_A_TIME // max(len(first), 1)):
        both = entries[codes[part] + first].reshape(part.stop - part.start, -1, PIECE).sum(axis=1)  # [groups, 16]
        halves = np.stack([both, both >> np.uint64(32)], axis=1) & np.uint64(0xFFFF)  # [groups, 2, 16]
        by_row = halves.reshape(-1, 2, PIECE // 2, 2).swapaxes(2, 3)  # byte j: the row j / 2 + 8 · (j % 2)
        yield part, by_row.reshape(-1).astype(np.int64)


class _TopKeys:
    """The best keys of rows so far: the score, then the inverted row. As in C, 4 · k of them are cut to k."""

    def __init__(self, k: int, every: int, allowed: U8 | None) -> None:
        self._k, self._every, self._allowed = k, every, allowed
        self._keys, self._least = np.empty(0, np.uint64), 0

    def add(self, score: I64, row: I64) -> bool:
        """Add rows in their order; return False for one outside all rows that the best so far do not exclude."""
        outside = (row < 0) | (row >= self._every)
        inside = np.where(outside, 0, row)
        key = score.astype(np.uint64) << np.uint64(32) | (_LAST - inside).astype(np.uint64)
        free = ~outside if self._allowed is None or not self._every else ~outside & (self._allowed[inside] != 0)
        at = 0
        while True:
            wanted = np.flatnonzero(free[at:] & (key[at:] >= self._least))[: 4 * self._k - len(self._keys)] + at
            is_full = len(self._keys) + len(wanted) == 4 * self._k
            end = int(wanted[-1]) + 1 if is_full else len(row)
            if (outside[at:end] & (score[at:end] >= self._least >> 32)).any():
                return False
            self._keys = np.concatenate([self._keys, key[wanted]])
            if not is_full:
                return True
            self._cut()
            self._least, at = int(self._keys.min()), end

    def _cut(self) -> None:
        if len(self._keys) > self._k:
            self._keys = np.partition(self._keys, len(self._keys) - self._k)[len(self._keys) - self._k :]

    def list_rows(self) -> I64:
        """Return the rows of the k best keys."""
        self._cut()
        return _LAST - (self._keys & np.uint64(_LAST)).astype(np.int64)
