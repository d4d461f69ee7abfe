"""Search of an inverted file over 4-bit product codes.

FAISS trains, writes and reads the file. The search is our own, since FAISS takes twice as long for one question on one
core. It reads only the searched lists, 32 rows at a time (`helix/native/lists.c`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from helix.native.lists import CODES, GROUP, CodeLists, build_code_table, build_lists, round_to_steps, search_lists
from helix.native.vectors import score_vectors
from helix.snapshot.segment.arrays import quantise_vectors
from helix.types import F32, I8, I32, I64, U8, AnyArray, Bool
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
    held: Any  # the index that owns the lists' memory


def open_coded(index: Any, faiss: Any) -> CodedLists:
    """Read the lists of an IndexIVFPQFastScan.

    Raises:
        ValueError: its lists do not fit together.
    """
    pq, lists = index.pq, faiss.downcast_InvertedLists(index.invlists)
    quantizer = faiss.downcast_index(index.quantizer)
    pieces = index.M2  # m, padded to an even number
    each = range(index.nlist)
    fits = (
        isinstance(lists, faiss.BlockInvertedLists)
        and (lists.nlist, lists.n_per_block, lists.block_size) == (index.nlist, GROUP, pieces * CODES)
        and (index.bbs, pq.ksub, pieces) == (GROUP, CODES, pq.M + pq.M % 2)
        and pq.M * pq.dsub == index.d == quantizer.d
        and pq.centroids.size() == CODES * index.d
        and quantizer.ntotal == index.nlist
        and sum(map(lists.list_size, each)) == index.ntotal
    )
    if not fits:
        raise ValueError("its lists do not fit together")
    book = np.zeros((pq.dsub, pieces, CODES), np.float32)
    book[:, : pq.M] = faiss.vector_to_array(pq.centroids).reshape(pq.M, CODES, pq.dsub).transpose(2, 0, 1)
    # FAISS checks the number of codes of each list when it reads the file.
    size = [lists.list_size(i) for i in each]
    code = [_wrap_memory(faiss, lists.get_codes(i), -(-size[i] // GROUP) * lists.block_size, np.uint8) for i in each]
    row = [_wrap_memory(faiss, lists.get_ids(i), size[i], np.int64) for i in each]
    centre, scale = quantise_vectors(quantizer.reconstruct_n(0, index.nlist))
    return CodedLists(centre, scale, np.arange(index.nlist), book, build_lists(code, row, pieces), index.ntotal, index)


def _wrap_memory(faiss: Any, at: Any, size: int, dtype: Any) -> AnyArray:
    """Return memory of FAISS as an array, without a copy."""
    return faiss.rev_swig_ptr(at, size) if size else np.empty(0, dtype)


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
