"""Learned-sparse postings: weights of items for a sparse encoder's vocabulary (SPLADE, Formal et al. 2021).

A pass writes them after the items are published. Each index covers some rows of one segment; the learned-sparse leg
reads all indexes as one.

Weights are stored in steps of 1/1,024, the same for all files: files merge by copying, and scores add up without a
scale. A step rounds by 0.0005 at most. An 8-bit code would round weights up to 5 by 0.01 and save one of a posting's
six bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.ranking.postings import WEIGHT_STEP, PostingsPart, look_up_rows
from helix.snapshot.checked_arrays import ArrayKind, map_arrays
from helix.snapshot.manifest import Index
from helix.snapshot.segment.arrays import invert_csr
from helix.types import F32, I64, U16, U32, U64, AnyArray, Bool, Sparse

KIND: Final = "sparse"

ENCODER: Final = "sparse_encoder"  # kind of the entry that holds the encoder of questions

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "terms.key": ArrayKind(np.uint32, ("t",)),
    "terms.most": ArrayKind(np.uint16, ("t",)),
    "terms.indptr": ArrayKind(np.int64, ("t + 1",)),
    "terms.rows": ArrayKind(np.uint32, ("p",)),
    "terms.impact": ArrayKind(np.uint16, ("p",)),
}

_SMALL: Final = 1 << 15  # postings of a term in one index: fewer are joined into one array for a search
_AT_ONCE: Final = 1 << 23  # postings merged at a time: 200 MB while they are sorted


@dataclass(frozen=True, slots=True)
class SparseIndex:
    """One index: q encoded rows of a segment, p postings of t terms."""

    arrays: Mapping[str, AnyArray]

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of the segment."""
        return self.arrays["rows"]


def quantise_weights(weights: F32) -> U16:
    """Round weights to steps: uint16[n]; weights above 64 become 64."""
    return np.asarray(np.minimum(np.rint(weights / WEIGHT_STEP), np.iinfo(np.uint16).max), np.uint16)


def write_sparse(folder: Path, rows: U32, indptr: I64, terms: U32, weights: F32) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending.
        indptr: int64[q + 1]: offsets of each row's terms.
        terms: uint32[p], distinct within a row.
        weights: float32[p], above 0; those that round to 0 are left out.
    """
    impact = quantise_weights(weights)
    kept = impact > 0
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    key, starts, at, order = invert_csr(before[indptr], terms[kept].astype(np.uint64))
    _save_index(folder, rows, key.astype(np.uint32), starts, rows.astype(np.uint32)[at], impact[kept][order])


def _save_index(folder: Path, rows: U32, key: U32, indptr: I64, at: U32, impact: U16) -> None:
    from helix.snapshot.segment.write import save_arrays

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    most = np.maximum.reduceat(impact, indptr[:-1]) if len(key) else impact
    arrays = (rows.astype(np.uint32), key, most, indptr, at, impact)
    save_arrays(folder, dict(zip(_ARRAYS, arrays, strict=True)))


def open_sparse(root: Path, index: Index) -> SparseIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "indexes" / index.id / KIND
    return SparseIndex(map_arrays(folder, _ARRAYS, {"terms.indptr": "terms.rows"}))


def find_encoder(indexes: Sequence[Index]) -> Index | None:
    """Return the encoder of questions; the last one if a reindex left several."""
    return next((index for index in reversed(indexes) if index.kind == ENCODER), None)


def select_usable(indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes of the current encoder's model: weights of two models are not comparable."""
    encoder = find_encoder(indexes)
    made_by = encoder.params["fingerprint"] if encoder else None
    return [index for index in indexes if index.kind == KIND and index.params["fingerprint"] == made_by]


class SparseField:
    """The learned-sparse postings of a whole snapshot, for the learned-sparse leg."""

    def __init__(self, parts: Sequence[tuple[int, SparseIndex]], rows: int, alive: Bool, key: U64) -> None:
        """Join the indexes of segments.

        Args:
            parts: indexes, each with the first row of its segment.
            alive: bool[rows].
            key: uint64[rows]: the tie key.
        """
        self._parts = parts
        self.rows = rows
        self.key = key
        self.live = sum(int(np.count_nonzero(alive[start + one.rows.astype(np.int64)])) for start, one in parts)

    def read_postings(self, term: int) -> tuple[int, list[PostingsPart]]:
        """Return (largest weight of a term, its postings in parts), deleted rows included; small parts are joined.

        Row ranges of parts may overlap, but each row is in one part.
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

    def find_terms(self, question: Sparse) -> tuple[F32, I64, list[list[PostingsPart]]]:
        """Find the question's terms that have postings, heaviest first, ties by smaller term.

        The order depends only on the question, so hidden rows cannot change the order of a sum.

        Returns:
            (worth of one step float32[t], largest weight in steps int64[t], postings of each term).
        """
        worth = (question.weights * np.float32(WEIGHT_STEP)).astype(np.float32)
        weighted = []
        for i in np.lexsort((question.terms, -worth)).tolist():
            most, parts = self.read_postings(int(question.terms[i]))
            if parts and worth[i] > 0:
                weighted.append((worth[i], most, parts))
        worths = np.array([one[0] for one in weighted], np.float32)
        return worths, np.array([one[1] for one in weighted], np.int64), [parts for *_, parts in weighted]

    def scores(self, rows: npt.NDArray[np.integer], question: Sparse) -> F32:
        """Return the exact search score of each row: float32[n]; 0 without a shared term or before encoding."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order].astype(np.intp)
        score = np.zeros(len(rows), np.float32)
        worth, _, postings = self.find_terms(question)
        for each, parts in zip(worth, postings, strict=True):
            for hits, impact in look_up_rows(parts, ascending):
                score[np.searchsorted(ascending, hits)] += impact * each
        out = np.empty_like(score)
        out[order] = score
        return out


class _MergeSource(NamedTuple):
    """An index to be merged."""

    held: SparseIndex
    new: I64  # new row of each row of the segment, up to the last one it has; −1 leaves it out

    def read_terms(self, low: int, high: int) -> tuple[U64, U16]:
        """Return the retained postings of terms low ≤ t < high: (term << 32 | new row uint64[m], weight uint16[m])."""
        arrays = self.held.arrays
        first, last = arrays["terms.key"].searchsorted(np.array([low, high], np.uint64)).tolist()
        indptr = arrays["terms.indptr"][first : last + 1]
        new = self.new[arrays["terms.rows"][indptr[0] : indptr[-1]]]
        key = np.repeat(arrays["terms.key"][first:last].astype(np.uint64), np.diff(indptr))
        kept = new >= 0
        both = key[kept] << np.uint64(32) | new[kept].astype(np.uint64)
        return both, arrays["terms.impact"][indptr[0] : indptr[-1]][kept]


def merge_sparse(folder: Path, parts: Sequence[tuple[SparseIndex, I64]]) -> U32:
    """Merge several indexes into one, without rounding weights again. Writes no files if no row is left.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for rows left out. If two indexes have a
            row, the first one counts.

    Returns:
        uint32[q], ascending: its rows.
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
    for low, high in _split_terms(sources):
        postings = [source.read_terms(low, high) for source in sources]
        both = np.concatenate([each for each, _ in postings])
        order = np.argsort(both, kind="stable")  # each part is ascending: a merge of a few runs
        key, size = np.unique((both[order] >> np.uint64(32)).astype(np.uint32), return_counts=True)
        keys.append(key)
        sizes.append(size)
        rows.append(both[order].astype(np.uint32))  # the lower half
        impacts.append(np.concatenate([each for _, each in postings])[order])
    indptr = np.cumsum(np.concatenate(sizes), dtype=np.int64)
    whole = [np.concatenate([np.empty(0, np.uint32), *each]).astype(np.uint32) for each in (keys, rows)]
    impact = np.concatenate([np.empty(0, np.uint16), *impacts]).astype(np.uint16)
    _save_index(folder, taken.astype(np.uint32), whole[0], indptr, whole[1], impact)
    return taken.astype(np.uint32)


def _split_terms(sources: Sequence[_MergeSource]) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with at most _AT_ONCE postings, or one term with more."""
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
