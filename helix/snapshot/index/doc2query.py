"""Questions that a model wrote for items (doc2query, Nogueira & Lin 2019), as a lexical field of their own.

A pass writes them after the items are published. Each index covers some rows of one segment. A segment may have
several, of different rows; the lexical leg reads them as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from helix.ranking.bm25 import FieldNorms
from helix.snapshot.checked_arrays import ArrayKind, make_damage_error, map_arrays, map_ipc
from helix.snapshot.manifest import Index
from helix.snapshot.segment.arrays import invert_csr, select_alive
from helix.text.tokenize import hash_terms, tokenise
from helix.types import F32, I64, U16, U32, U64, AnyArray, Bool

KIND = "doc2query"

SCHEMA = pa.schema([("id", pa.string()), ("queries", pa.list_(pa.string()))])

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "length": ArrayKind(np.uint32, ("q",)),
    "terms.key": ArrayKind(np.uint64, ("t",)),
    "terms.indptr": ArrayKind(np.int64, ("t + 1",)),
    "terms.rows": ArrayKind(np.uint32, ("p",)),
    "terms.tf": ArrayKind(np.uint16, ("p",)),
}


@dataclass(frozen=True, slots=True)
class QueryIndex:
    """One index: q rows of a segment that the model has read, some without a question."""

    arrays: Mapping[str, AnyArray]
    text: pa.RecordBatch

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of the segment."""
        return self.arrays["rows"]


def write_queries(folder: Path, rows: U32, ids: Sequence[str], queries: Sequence[Sequence[str]]) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending.
        ids: of the items in these rows.
        queries: of each item; may be empty.
    """
    import pyarrow.parquet as pq  # here: a recall writes none

    from helix.snapshot.segment.write import save_arrays, write_ipc

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    table = pa.table({"id": list(ids), "queries": [list(texts) for texts in queries]}, schema=SCHEMA)
    pq.write_table(table, folder / "queries.parquet", compression="zstd")
    write_ipc(table.select(["queries"]), folder / "queries.arrow", max(1, len(rows)))
    counts = [Counter(tokenise("\n".join(texts))) for texts in queries]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(count) for count in counts], dtype=np.int64)])
    hashes = hash_terms([term for count in counts for term in count])
    tf = np.array([min(n, 65_535) for count in counts for n in count.values()], np.uint16)
    key, term_indptr, at, order = invert_csr(indptr, hashes)
    arrays: dict[str, AnyArray] = {
        "rows": rows.astype(np.uint32),
        "length": np.array([sum(count.values()) for count in counts], np.uint32),
        "terms.key": key,
        "terms.indptr": term_indptr,
        "terms.rows": rows.astype(np.uint32)[at],
        "terms.tf": tf[order],
    }
    save_arrays(folder, arrays)


_QUESTIONS: Final = pa.schema([("queries", pa.list_(pa.string()))])  # queries.arrow


def open_queries(root: Path, index: Index) -> QueryIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "indexes" / index.id / KIND
    arrays = map_arrays(folder, _ARRAYS, {"terms.indptr": "terms.rows"})
    questions = map_ipc(folder / "queries.arrow", _QUESTIONS, full=True)[0]
    if questions.num_rows != len(arrays["rows"]):
        fault = f"it holds {questions.num_rows} rows instead of {len(arrays['rows'])}"
        raise make_damage_error(folder / "queries.arrow", fault)
    return QueryIndex(arrays, questions)


class QueryPart(NamedTuple):
    """An index and the first row of its segment in the snapshot."""

    start: int
    queries: QueryIndex


class QueryField:
    """The questions of a whole snapshot as a lexical field. Only live rows that the model has read count."""

    def __init__(self, parts: Sequence[QueryPart], rows: int, alive: Bool, key: U64) -> None:
        self._parts = parts
        self._alive = alive
        self.rows = rows
        self.key = key
        self.length: F32 = np.zeros(rows, np.float32)
        looked = np.zeros(rows, bool)
        for start, queries in parts:
            at = start + queries.rows.astype(np.int64)
            looked[at] = True
            self.length[at] = queries.arrays["length"]
        self.looked: Bool = looked & alive
        self.live = int(self.looked.sum())
        self.mean_length = max(1.0, float(self.length[self.looked].mean())) if self.live else 1.0
        self.norm = FieldNorms(self.length, self.mean_length)

    def term(self, term: np.uint64) -> list[tuple[int, U32, U16]]:
        """Return the postings of a term: (0, live rows of the snapshot ascending, term frequencies)."""
        rows, tfs = [np.empty(0, np.int64)], [np.empty(0, np.uint16)]
        for start, queries in self._parts:
            keys = queries.arrays["terms.key"]
            at = int(keys.searchsorted(term))
            if at < len(keys) and keys[at] == term:
                low, high = queries.arrays["terms.indptr"][at : at + 2]
                rows.append(start + queries.arrays["terms.rows"][low:high].astype(np.int64))
                tfs.append(queries.arrays["terms.tf"][low:high])
        row, tf = np.concatenate(rows), np.concatenate(tfs)
        order = np.argsort(row, kind="stable")  # rows of two indexes of a segment may alternate
        order = order[select_alive(self._alive, row[order])]
        return [(0, row[order].astype(np.uint32), tf[order])] if len(order) else []

    def df(self, term: np.uint64) -> int:
        """Count live items with a question that contains the term."""
        return sum(len(rows) for _, rows, _ in self.term(term))

    def questions_of(self, rows: AnyArray) -> list[list[str]]:
        """Return the questions of each row."""
        out: list[list[str]] = [[] for _ in range(len(rows))]
        for start, queries in self._parts:
            if not len(queries.rows):
                continue
            local = np.asarray(rows, np.int64) - start
            at = np.minimum(np.searchsorted(queries.rows, np.maximum(local, 0)), len(queries.rows) - 1)
            for place in np.flatnonzero((local >= 0) & (queries.rows[at] == local)).tolist():
                out[place] = queries.text.column("queries")[int(at[place])].as_py()
        return out


def join_queries(parts: Sequence[tuple[QueryIndex, I64]]) -> tuple[U32, list[list[str]]]:
    """Join several indexes.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for rows left out.

    Returns:
        (rows uint32[q] ascending, questions of each).
    """
    rows = np.concatenate([np.empty(0, np.int64), *(new for _, new in parts)])
    questions = [entry for queries, _ in parts for entry in queries.text.column("queries").to_pylist()]
    _, order = np.unique(rows, return_index=True)  # ascending, each once
    order = order[rows[order] >= 0]
    return rows[order].astype(np.uint32), [questions[i] for i in order.tolist()]
