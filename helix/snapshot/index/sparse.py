"""Impacts: how much each item is about each entry of a sparse encoder's vocabulary (SPLADE, Formal et al. 2021).

Like the questions of doc2query they come after an item is recallable already: each file set belongs to one segment and
some of its rows, and the leg reads those of all segments as one.

An impact is a weight in steps of 1/1,024, one step for all files: so files are merged by copying, and scores add up
over them without a scale. A step rounds off 0.0005 at most; a code of 8 bits would round off 0.01 of weights up to 5,
and save one byte of a posting's six.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.postings import WEIGHT_STEP, PostingsPart, look_up_rows
from helix.snapshot.checked_arrays import ArrayKind, map_arrays
from helix.snapshot.manifest import Index
from helix.snapshot.segment.arrays import invert_csr
from helix.types import F32, I64, U32, U64, Bool, Sparse

KIND: Final = "sparse"

ENCODER: Final = "sparse_encoder"
"""The kind of the index that is no index: what makes the same weights of a question."""

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "terms.key": ArrayKind(np.uint32, ("t",)),
    "terms.most": ArrayKind(np.uint16, ("t",)),
    "terms.indptr": ArrayKind(np.int64, ("t + 1",)),
    "terms.rows": ArrayKind(np.uint32, ("p",)),
    "terms.impact": ArrayKind(np.uint16, ("p",)),
}

_SMALL: Final = 1 << 15
"""Postings of a term in one index that are not worth an array of their own in a search."""

_AT_ONCE: Final = 1 << 23
"""Postings merged at a time: two hundred megabytes while they are sorted."""

U16 = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class SparseIndex:
    """What one index holds: q rows of one segment that were encoded, p postings of t terms."""

    arrays: Mapping[str, npt.NDArray[Any]]

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of the segment."""
        return self.arrays["rows"]


def quantise_weights(weights: F32) -> U16:
    """Weights in steps: uint16[n]; what is above 64, as only sums over a text may be, is kept as 64."""
    return np.asarray(np.minimum(np.rint(weights / WEIGHT_STEP), np.iinfo(np.uint16).max), np.uint16)


def write_sparse(folder: Path, rows: U32, indptr: I64, terms: U32, weights: F32) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending.
        indptr: int64[q + 1]: where the terms of each row lie.
        terms: uint32[p], different ones in a row.
        weights: float32[p], above 0; what rounds to 0 is left out.
    """
    impact = quantise_weights(weights)
    kept = impact > 0
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    key, starts, at, order = invert_csr(before[indptr], terms[kept].astype(np.uint64))
    _save(folder, rows, key.astype(np.uint32), starts, rows.astype(np.uint32)[at], impact[kept][order])


def _save(folder: Path, rows: U32, key: U32, indptr: I64, at: U32, impact: U16) -> None:
    from helix.snapshot.segment.write import save_array

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    most = np.maximum.reduceat(impact, indptr[:-1]) if len(key) else impact
    arrays = (rows.astype(np.uint32), key, most, indptr, at, impact)
    for name, array in zip(_ARRAYS, arrays, strict=True):
        save_array(folder, name, array)


def open_sparse(root: Path, index: Index) -> SparseIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "indexes" / index.id / KIND
    return SparseIndex(map_arrays(folder, _ARRAYS, {"terms.indptr": "terms.rows"}))


def find_encoder(indexes: Sequence[Index]) -> Index | None:
    """What makes weights of a question; the last one, where a reindex left several."""
    return next((index for index in reversed(indexes) if index.kind == ENCODER), None)


def select_usable(indexes: Sequence[Index]) -> list[Index]:
    """Those made by the model whose query side is there: weights of two models say nothing of one another."""
    encoder = find_encoder(indexes)
    made_by = encoder.params["fingerprint"] if encoder else None
    return [index for index in indexes if index.kind == KIND and index.params["fingerprint"] == made_by]


class SparseField:
    """The impacts of a whole snapshot: what the sparse leg asks of one."""

    def __init__(self, parts: Sequence[tuple[int, SparseIndex]], rows: int, alive: Bool, key: U64) -> None:
        """
        Args:
            parts: indexes, and where the segment of each begins.
            alive: bool[rows].
            key: uint64[rows]: the tie key.
        """
        self._parts = parts
        self.rows = rows
        self.key = key
        self.live = sum(int(np.count_nonzero(alive[start + one.rows.astype(np.int64)])) for start, one in parts)

    def term(self, term: int) -> tuple[int, list[PostingsPart]]:
        """(the largest impact of a term, its postings in parts), deleted rows included; those of small indexes as one.

        Two indexes of a segment hold rows of it in turn, so parts may overlap; a row is in one of them.
        """
        most, large, small = 0, list[PostingsPart](), list[PostingsPart]()
        for start, held in self._parts:
            keys = held.arrays["terms.key"]
            at = int(keys.searchsorted(np.uint32(term)))
            if at < len(keys) and keys[at] == term:
                low, high = held.arrays["terms.indptr"][at : at + 2].tolist()
                most = max(most, int(held.arrays["terms.most"][at]))
                part = start, held.arrays["terms.rows"][low:high], held.arrays["terms.impact"][low:high]
                (small if high - low < _SMALL else large).append(part)
        if len(small) > 1:
            rows = np.concatenate([local + np.uint32(start) for start, local, _ in small])
            order = np.argsort(rows, kind="stable")
            small = [(0, rows[order], np.concatenate([impact for *_, impact in small])[order])]
        return most, [*large, *small]

    def asked(self, question: Sparse) -> tuple[F32, I64, list[list[PostingsPart]]]:
        """The question's terms that some row has, the heaviest first, of equal ones the smaller: (what an impact of 1
        is worth float32[t], the largest impact int64[t], postings of each).

        By the question's weights, not by what the store holds: so hidden rows have no part in the order of a sum.
        """
        worth = (question.weights * np.float32(WEIGHT_STEP)).astype(np.float32)
        found = []
        for i in np.lexsort((question.terms, -worth)).tolist():
            most, parts = self.term(int(question.terms[i]))
            if parts and worth[i] > 0:
                found.append((worth[i], most, parts))
        worths, mosts = np.array([one[0] for one in found], np.float32), np.array([one[1] for one in found], np.int64)
        return worths, mosts, [parts for *_, parts in found]

    def scores(self, rows: npt.NDArray[np.integer], question: Sparse) -> F32:
        """What the search gives each row, to the bit: float32[n]; 0 where it shares no term or was not encoded yet."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order].astype(np.intp)
        score = np.zeros(len(rows), np.float32)
        worth, _, postings = self.asked(question)
        for each, parts in zip(worth, postings, strict=True):
            for found, impact in look_up_rows(parts, ascending):
                score[np.searchsorted(ascending, found)] += impact * each
        out = np.empty_like(score)
        out[order] = score
        return out


class _MergeSource(NamedTuple):
    """An index on its way into another one."""

    held: SparseIndex
    new: I64  # of each row of the segment up to the last one it has, −1 where it is left out

    def between(self, low: int, high: int) -> tuple[U64, U16]:
        """Of the terms low ≤ t < high what is kept: (term and new row as one number uint64[m], impact uint16[m])."""
        arrays = self.held.arrays
        first, last = arrays["terms.key"].searchsorted(np.array([low, high], np.uint64)).tolist()
        indptr = arrays["terms.indptr"][first : last + 1]
        new = self.new[arrays["terms.rows"][indptr[0] : indptr[-1]]]
        key = np.repeat(arrays["terms.key"][first:last].astype(np.uint64), np.diff(indptr))
        kept = new >= 0
        both = key[kept] << np.uint64(32) | new[kept].astype(np.uint64)
        return both, arrays["terms.impact"][indptr[0] : indptr[-1]][kept]


def merge_sparse(folder: Path, parts: Sequence[tuple[SparseIndex, I64]]) -> U32:
    """Write several indexes as one, without a weight being rounded again; returns its rows.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for those left out. Where two have a row,
            the first one counts.

    Returns:
        uint32[q], ascending; nothing is written where there are none.
    """
    taken, sources = np.empty(0, np.int64), list[_MergeSource]()
    for held, new in parts:
        new = np.where(np.isin(new, taken), -1, new)
        taken = np.union1d(taken, new[new >= 0])
        by_row = np.full(int(held.rows[-1]) + 1 if len(held.rows) else 1, -1, np.int64)
        by_row[held.rows] = new
        sources.append(_MergeSource(held, by_row))
    if not len(taken):
        return taken.astype(np.uint32)
    keys, sizes, rows, impacts = [], [np.zeros(1, np.int64)], [], []
    for low, high in _slices(sources):
        found = [source.between(low, high) for source in sources]
        both = np.concatenate([each for each, _ in found])
        order = np.argsort(both, kind="stable")  # each is ascending: a merge of a few runs
        key, size = np.unique((both[order] >> np.uint64(32)).astype(np.uint32), return_counts=True)
        keys.append(key)
        sizes.append(size)
        rows.append(both[order].astype(np.uint32))  # the lower half
        impacts.append(np.concatenate([each for _, each in found])[order])
    indptr = np.cumsum(np.concatenate(sizes), dtype=np.int64)
    whole = [np.concatenate([np.empty(0, np.uint32), *each]).astype(np.uint32) for each in (keys, rows)]
    impact = np.concatenate([np.empty(0, np.uint16), *impacts]).astype(np.uint16)
    _save(folder, taken.astype(np.uint32), whole[0], indptr, whole[1], impact)
    return taken.astype(np.uint32)


def _slices(sources: Sequence[_MergeSource]) -> Iterator[tuple[int, int]]:
    """Ranges of terms that have no more postings than are merged at a time, or one term that has."""
    key = np.concatenate([source.held.arrays["terms.key"] for source in sources])
    size = np.concatenate([np.diff(source.held.arrays["terms.indptr"]) for source in sources])
    terms, at = np.unique(key, return_inverse=True)
    total = np.bincount(at, size, len(terms))
    first, count = 0, 0.0
    for i, n in enumerate(total.tolist()):
        if count and count + n > _AT_ONCE:
            yield int(terms[first]), int(terms[i])
            first, count = i, 0.0
        count += n
    if len(terms):
        yield int(terms[first]), int(terms[-1]) + 1
