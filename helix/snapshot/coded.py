"""The rows that an inverted file over 4-bit product codes holds nearest a question.

FAISS trains, fills and writes the file, and reads it; the search is ours, since FAISS takes twice as long for one
question on one core. It reads no more than the lists that are looked into, 32 rows at a time (`helix/native/lists.c`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.beside import Meanwhile
from helix.native import GROUP, addr, best_coded, code_parts, in_steps, inner_products
from helix.snapshot.arrays import quantise
from helix.types import F32, I64, U64, Bool

_TOP = 255  # what a table's entry is at most
_SUM = (1 << 16) - 1  # what all may add up to
_NEAR = 1 << 24  # what a list's centre gives at most
_LEAST = 1e-9  # where all are alike
_HALVED = 50_000  # rows in the lists: fewer are compared sooner than they are divided
_OF_HALF = 5  # eighths of all candidates that each half of the lists gives: halves are seldom that unequal


class Coded(NamedTuple):
    """An open inverted file of n rows in some lists, of vectors in m pieces."""

    centre: U64  # uint64[lists]: where the 8-bit codes of each list's centre lie
    scale: F32  # float32[lists]: of those
    book: F32  # float32[dimensions of a piece, m, 16]: what each code of each piece stands for
    code: U64  # uint64[lists]: where the codes of each list's rows lie
    row: U64  # uint64[lists]: where its rows lie
    size: I64  # int64[lists]: how many they are
    rows: int
    held: tuple[Any, ...]  # what those addresses are of


def open_coded(index: Any, faiss: Any) -> Coded:
    """Where an IndexIVFPQFastScan keeps what is searched.

    Raises:
        ValueError: its lists do not fit together.
    """
    pq, lists = index.pq, index.invlists
    pieces = index.M2  # m, or one more that stands for nothing: an even number
    book = np.zeros((pq.dsub, pieces, 16), np.float32)
    book[:, : pq.M] = faiss.vector_to_array(pq.centroids).reshape(pq.M, 16, pq.dsub).transpose(2, 0, 1)
    each = range(index.nlist)
    size = np.array([lists.list_size(i) for i in each], np.int64)
    if index.bbs != GROUP or size.sum() != index.ntotal:
        raise ValueError("its lists do not fit together")
    code = np.array([int(lists.get_codes(i) or 0) for i in each], np.uint64)
    row = np.array([int(lists.get_ids(i) or 0) for i in each], np.uint64)
    centres, scale = quantise(faiss.downcast_index(index.quantizer).reconstruct_n(0, index.nlist))
    centre = (addr(centres) + np.arange(len(centres)) * centres.shape[1]).astype(np.uint64)
    return Coded(centre, scale, book, code, row, size, index.ntotal, (index, centres))


def nearest_coded(
    coded: Coded, vector: F32, k: int, lists: int, allowed: Bool | None, meanwhile: Meanwhile | None
) -> I64:
    """The k best allowed rows in the nearest lists, in no order: int64[≤ k]. Where these hold many rows, each half of
    them is asked for five eighths: they may be a quarter more then, or fewer than there are.

    Args:
        vector: float32[d].
        lists: how many are looked into.
        allowed: bool[n]; None allows all.
        meanwhile: how half of many lists is looked into; with None they are not divided.
    """
    score = inner_products(coded.centre, coded.scale, vector)
    nearest = np.argpartition(score, len(score) - lists)[len(score) - lists :]
    nearest = nearest[score[nearest].argsort()[::-1]]  # the best first: what is worse than k of those is passed over
    table, near = tables(coded, vector, score[nearest])
    if meanwhile is None or lists * coded.rows < _HALVED * len(coded.size):
        return _looked_into(coded, nearest, near, table, k, allowed)
    each = -(-_OF_HALF * k // 8)
    odd = meanwhile(_looked_into, coded, nearest[1::2], near[1::2], table, each, allowed)
    even = _looked_into(coded, nearest[::2], near[::2], table, each, allowed)
    return np.concatenate([even, odd()])


def tables(coded: Coded, vector: F32, score: F32) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """What each code of each piece adds to a row's score uint8[m, 16], and what each list does int32[n]: inner products
    of the question in steps that are the same for all, from the least there is.

    Args:
        vector: float32[d].
        score: float32[n], of the centres of the lists.
    """
    size, pieces, _ = coded.book.shape
    whole = np.zeros(size * pieces, np.float32)
    whole[: len(vector)] = vector
    part, most = code_parts(coded.book, whole)
    near = score - score.min()
    steps = min(min(_TOP, _SUM // pieces) / max(most, _LEAST), _NEAR / max(float(near.max()), _LEAST))
    return in_steps(part, steps), np.rint(near * np.float32(steps)).astype(np.int32)


def _looked_into(
    coded: Coded,
    lists: I64,
    near: npt.NDArray[np.int32],
    table: npt.NDArray[np.uint8],
    k: int,
    allowed: Bool | None,
) -> I64:
    """The k best allowed rows of some lists: int64[≤ k]."""
    code, row, size = coded.code[lists], coded.row[lists], coded.size[lists]
    return best_coded(code, row, size, np.ascontiguousarray(near), table, allowed, coded.rows, k)
