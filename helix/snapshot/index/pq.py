"""Search of an inverted file over 4-bit product codes.

It reads only the searched lists, 32 rows at a time (`helix/native/lists.c`). FAISS takes twice as long for one question
on one core.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from helix.native.lists import CODES, GROUP, CodeLists, build_code_table, build_lists, round_to_steps, search_lists
from helix.native.vectors import score_vectors
from helix.snapshot.index.coded_file import read_coded
from helix.snapshot.segment.arrays import quantise_vectors
from helix.types import F32, I8, I32, I64, U8, Bool
from helix.util.threads import WorkStarter

_TOP = 255  # largest entry of a table
_SUM = (1 << 16) - 1  # largest sum of entries
_NEAR = 1 << 24  # largest contribution of a list's centre
_LEAST = 1e-9  # smallest divisor, if all scores are equal
_HALVED = 50_000  # rows in the lists: fewer are searched faster than they are divided
_OF_HALF = 5  # eighths of all candidates that each half of the lists gives: halves are seldom that unequal


class CodedLists(NamedTuple):
    """An open inverted file of n rows, with vectors in m pieces."""

    centre: I8  # int8[lists, d]: centre of each list
    scale: F32  # float32[lists]: scale of each centre
    every: I64  # int64[lists]: 0, 1, 2 …
    book: F32  # float32[dimensions of a piece, m, 16]: vector of each code
    lists: CodeLists
    rows: int

    @property
    def dims(self) -> int:
        """Dimensions of a vector."""
        return int(self.centre.shape[1])


def open_coded(path: Path) -> CodedLists:
    """Map the lists of a file.

    Raises:
        ValueError: it is damaged.
    """
    file = read_coded(path)
    m, _, size = file.book.shape
    padded = m + m % 2
    book = np.zeros((size, padded, CODES), np.float32)
    book[:, :m] = file.book.transpose(2, 0, 1)
    centre, scale = quantise_vectors(file.centres)
    lists = build_lists(file.codes, file.ids, padded)
    return CodedLists(centre, scale, np.arange(len(centre)), book, lists, file.rows)


def pack_codes(codes: U8) -> U8:
    """Pack the codes of a list, uint8[n, m], as `helix/native/lists.c` reads them: uint8[groups · m · 16], m even."""
    n, m = codes.shape
    whole = np.zeros((-(-n // GROUP), GROUP, m + m % 2), np.uint8)
    whole.reshape(-1, m + m % 2)[:n, :m] = codes
    first = np.arange(CODES) // 2 + 8 * (np.arange(CODES) % 2)
    packed = whole[:, first] | whole[:, first + CODES] << 4  # [groups, 16, m]
    return np.ascontiguousarray(packed.transpose(0, 2, 1)).reshape(-1)


def search_coded(
    coded: CodedLists, vector: F32, k: int, lists: int, allowed: Bool | None, start_work: WorkStarter | None
) -> I64:
    """Return the k best allowed rows of the nearest lists, unordered: int64[≤ k].

    Many rows are searched in two halves of the lists, each for five eighths of k: the result may then hold a quarter
    more, or miss some.

    Args:
        vector: float32[d].
        lists: number of lists to search.
        allowed: bool[n]; None allows all.
        start_work: runs one half of many lists; None searches all lists here.
    """
    score = score_vectors(coded.centre, coded.scale, coded.every, vector)
    nearest = np.argpartition(score, len(score) - lists)[len(score) - lists :]
    nearest = nearest[score[nearest].argsort()[::-1]]  # best first, so that worse rows are skipped
    table, near = build_tables(coded, vector, score[nearest])
    if start_work is None or lists * coded.rows < _HALVED * len(coded.every):
        return _search_lists(coded, nearest, near, table, k, allowed)
    each = -(-_OF_HALF * k // 8)
    odd = start_work(_search_lists, coded, nearest[1::2], near[1::2], table, each, allowed)
    even = _search_lists(coded, nearest[::2], near[::2], table, each, allowed)
    return np.concatenate([even, odd()])


def build_tables(coded: CodedLists, vector: F32, score: F32) -> tuple[U8, I32]:
    """Return the contribution of each code of each piece uint8[m, 16] and of each list int32[n] to a row's score.

    They are inner products with the question, in common steps above the least one.

    Args:
        vector: float32[d].
        score: float32[n], of the centres of the lists.
    """
    size, pieces, _ = coded.book.shape
    whole = np.zeros(size * pieces, np.float32)
    whole[: len(vector)] = vector
    part, most = build_code_table(coded.book, whole)
    near = score - score.min()
    steps = min(min(_TOP, _SUM // pieces) / max(most, _LEAST), _NEAR / max(float(near.max()), _LEAST))
    return round_to_steps(part, steps), np.rint(near * np.float32(steps)).astype(np.int32)


def _search_lists(
    coded: CodedLists,
    lists: I64,
    near: I32,
    table: U8,
    k: int,
    allowed: Bool | None,
) -> I64:
    """Return the k best allowed rows of some lists: int64[≤ k]."""
    chosen, given = np.ascontiguousarray(lists), np.ascontiguousarray(near)  # every second one, if halved
    return search_lists(coded.lists, chosen, given, table, allowed, coded.rows, k)
