"""Terms of a snapshot: postings and BM25 statistics of live items, terms in reading order, titles, expansions."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Final

import numpy as np

from helix.ranking.bm25 import FieldNorms
from helix.snapshot.index.doc2query import QueryField
from helix.snapshot.index.occurrences import count_occurrences
from helix.snapshot.index.sparse import SparseField
from helix.snapshot.reader.row_map import RowMap, concatenate, owners_of
from helix.snapshot.segment.arrays import select_alive
from helix.snapshot.segment.words import find_similar
from helix.text.claims import CLAIMS
from helix.text.languages import CODES, ENGLISH, NUMBERS
from helix.text.titles import build_key_filter
from helix.types import F32, I64, U8, U16, U32, U64, AnyArray

_CACHED_DFS: Final = 65_536  # terms

_MOST_LANGUAGES: Final = 6
"""Languages of a store in which a question's words are stemmed."""

BM25: Final = (0.9, 0.6)
"""k1 and b of most profiles; their norms are made when a snapshot is warmed."""


class Lexical:
    """Items as a field of terms; with the fields of doc2query and of learned-sparse postings.

    Args:
        base: the same of the whole generation, for a view; what is the same in both is taken from it.
    """

    def __init__(self, rows: RowMap, base: Lexical | None = None) -> None:
        self._rows, self._base = rows, base

    def replace_rows(self, rows: RowMap) -> Lexical:
        """Return the same field with other live rows: its lengths stay, document frequencies are counted again."""
        _ = (self.mean_length, self.mean_window_length)  # else the copy would measure its own rows
        other = copy(self)
        for name in ("_dfs", "languages"):
            vars(other).pop(name, None)
        other._rows = rows
        return other

    # ------------------------------------------------------------ a field, as the lexical leg searches it

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._rows.rows

    @property
    def live(self) -> int:
        """The number of live rows."""
        return self._rows.live

    @property
    def key(self) -> U64:
        """The tie key: uint64[rows]."""
        return self._rows.columns.key

    @property
    def length(self) -> F32:
        """Terms of each item: float32[rows]."""
        return self._rows.columns.length

    @cached_property
    def norm(self) -> FieldNorms:
        """BM25's length normalisation of each row."""
        return FieldNorms(self.length, self.mean_length)

    def term(self, term: np.uint64) -> list[tuple[int, U32, U16]]:
        """Return a term's postings by segment, mapped, deleted rows included.

        Returns:
            (first row of the segment, rows within it ascending, term frequencies) each.
        """
        found = []
        for start, segment in self._rows.by_segment():
            keys = segment["terms.key"]
            at = int(keys.searchsorted(term))
            if at < len(keys) and keys[at] == term:
                low, high = segment["terms.indptr"][at : at + 2]
                found.append((start, segment["terms.rows"][low:high], segment["terms.tf"][low:high]))
        return found

    def df(self, term: np.uint64) -> int:
        """Count the live items that hold a term."""
        count = self._dfs.get(int(term))
        if count is None:
            count = sum(self._rows.count_live(start, rows) for start, rows, _ in self.term(term))
            if len(self._dfs) >= _CACHED_DFS:
                self._dfs.clear()
            self._dfs[int(term)] = count
        return count

    @cached_property
    def _dfs(self) -> dict[int, int]:
        """Cached document frequencies by term; with deleted rows, counting reads all postings."""
        return {}

    def short_df(self, term: np.uint32) -> int:
        """Count the live items that hold a term, given by its short id."""
        count = 0
        first = np.uint64(term) << np.uint64(32)
        for start, segment in self._rows.by_segment():
            keys, indptr = segment["terms.key"], segment["terms.indptr"]
            low, high = keys.searchsorted(first), keys.searchsorted(first | np.uint64(0xFFFFFFFF), "right")
            count += self._rows.count_live(start, segment["terms.rows"][indptr[low] : indptr[high]])
        return count

    def postings(self, term: np.uint64) -> tuple[U32, F32]:
        """Return a term's live postings: (rows uint32[p] ascending, term frequencies float32[p])."""
        found = self.term(term)
        if not found:
            return np.empty(0, np.uint32), np.empty(0, np.float32)
        row = np.concatenate([rows + np.uint32(start) for start, rows, _ in found])
        tf = np.concatenate([tfs for _, _, tfs in found]).astype(np.float32)
        if self.live == self.rows:
            return row, tf
        keep = select_alive(self._rows.alive, row)
        return row[keep], tf[keep]

    @cached_property
    def mean_length(self) -> float:
        """Mean terms of a live item, at least one."""
        return max(1.0, float(self.length[self._rows.alive].mean())) if self.live else 1.0

    @cached_property
    def mean_window_length(self) -> float:
        """Mean terms of a live item and the two before and after it, at least one."""
        length, alive, columns = self.length, self._rows.alive, self._rows.columns
        total = 5 * float(length.sum(where=alive, dtype=np.float64))  # each row counts in five windows,
        for end, towards in ((columns.previous, columns.next), (columns.next, columns.previous)):
            last = np.flatnonzero((end < 0) & alive)  # but at the ends of a session in three, and next to them
            inner = towards[last]  # in four
            total -= float(2 * length[last].sum(dtype=np.float64) + length[inner[inner >= 0]].sum(dtype=np.float64))
        return max(1.0, total / self.live) if self.live else 1.0

    # ------------------------------------------------------------ terms of rows

    def occurrences(self, rows: I64, terms: U64, pairs: I64) -> tuple[F32, F32]:
        """Count terms, and pairs of neighbouring terms, in rows.

        Args:
            pairs: int64[2, p], positions in `terms`.

        Returns:
            (float32[terms, rows], float32[p, rows]).
        """
        count = np.empty((len(terms), len(rows)), np.float32)
        follows = np.empty((pairs.shape[1], len(rows)), np.float32)
        for segment, here, local in self._rows.split(rows):
            found = count_occurrences(segment, local, terms, pairs)
            if len(local) == len(rows):
                return found
            count[:, here], follows[:, here] = found
        return count, follows

    def order_of(self, rows: AnyArray) -> tuple[I64, U32]:
        """Return the terms of rows in reading order: (position in `rows` int64[m], short term ids uint32[m])."""
        return self._rows.lists(rows, "order.indptr", "order.term", np.uint32)

    def cues(self, rows: AnyArray) -> U8:
        """Return the bits of `helix.text.cues`: uint8[len(rows)]."""
        out = np.zeros(len(rows), np.uint8)
        for segment, here, local in self._rows.split(rows):
            out[here] = segment["cues"][local]
        return out

    def rows_with(self, bits: int) -> I64:
        """Return the rows whose cues have any of some bits, ascending; they are looked up once."""
        found = self._rows_by_cue.get(bits)
        if found is None:
            parts = [start + np.flatnonzero(segment["cues"] & bits) for start, segment in self._rows.by_segment()]
            found = np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)
            self._rows_by_cue[bits] = found
        return found

    @cached_property
    def _rows_by_cue(self) -> dict[int, I64]:
        return {}

    def languages_of(self, rows: AnyArray) -> list[str]:
        """Return the language of the text of rows, each one of `helix.text.languages.CODES`."""
        return [CODES[number] for number in self.language_numbers(rows).tolist()]

    def language_numbers(self, rows: AnyArray) -> U8:
        """Return the place in CODES of the language of rows; 0 is not known: uint8[len(rows)]."""
        out = np.zeros(len(rows), np.uint8)
        for segment, here, local in self._rows.split(rows):
            out[here] = segment["language"][local]
        return out

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Languages of the live items, the most common first; at most `_MOST_LANGUAGES`, English if there are none."""
        alive, counts = self._rows.alive, np.zeros(len(CODES), np.int64)
        for start, segment in self._rows.by_segment():
            numbers = segment["language"]
            counts += np.bincount(numbers[alive[start : start + len(numbers)]], minlength=len(CODES))
        counts[NUMBERS[ENGLISH]] += counts[0]  # not known
        counts[0] = 0
        order = np.argsort(-counts, kind="stable")[:_MOST_LANGUAGES]
        return tuple(CODES[number] for number in order.tolist() if counts[number]) or (ENGLISH,)

    def claims(self, rows: AnyArray) -> U8:
        """Return the claims of rows, see `helix.text.claims`: uint8[len(rows), columns]."""
        out = np.zeros((len(rows), len(CLAIMS)), np.uint8)
        for segment, here, local in self._rows.split(rows):
            out[here] = segment["claims"][local]
        return out

    # ------------------------------------------------------------ words

    def find_similar(self, word: str) -> dict[str, np.uint64]:
        """Return the words of live items that one typing error makes of a word or an identifier: term id by word."""
        found: dict[str, int] = {}
        for segment in self._rows.segments:
            found |= find_similar(segment.arrays, word)
        return {other: np.uint64(term) for other, term in found.items() if self.df(np.uint64(term))}

    # ------------------------------------------------------------ titles

    def find_titled(self, keys: U64) -> tuple[I64, I64]:
        """Find the live documents with given title keys: (position in `keys` int64[m], row int64[m])."""
        positions: list[I64] = []
        rows: list[I64] = []
        for start, segment in self._rows.by_segment():
            known = segment["titles.key"]
            owner, flat = owners_of(known.searchsorted(keys), known.searchsorted(keys, "right"))
            positions.append(owner)
            rows.append(start + segment["titles.row"][flat].astype(np.int64))
        position, row = concatenate(positions, np.int64), concatenate(rows, np.int64)
        keep = self._rows.alive[row]
        return position[keep], row[keep]

    @cached_property
    def title_bits(self) -> U8:
        """Filter of runs of terms that may be titles; see `helix.text.titles`."""
        if self._base:
            return self._base.title_bits
        return build_key_filter(concatenate([segment["titles.key"] for segment in self._rows.segments], np.uint64))

    # ------------------------------------------------------------ other fields

    @cached_property
    def expansion(self) -> QueryField | None:
        """The doc2query field: questions a model wrote for items; None where no live item has been through it."""
        parts = self._rows.generation.queries
        field = QueryField(parts, self.rows, self._rows.alive, self.key) if parts else None
        return field if field and field.live else None

    @cached_property
    def impacts(self) -> SparseField | None:
        """The field of learned-sparse postings; None where no live item has any."""
        parts = self._rows.generation.impacts
        field = SparseField(parts, self.rows, self._rows.alive, self.key) if parts else None
        return field if field and field.live else None
