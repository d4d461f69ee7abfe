"""LanceDB, embedded: HNSW over scalar-quantised vectors, its own full-text index, its own hybrid query."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from helix.types import F32
from pipelines.bench.peers.base import DIM, Corpus, make_peer, split_items

# Each search that selects columns writes a warning to stderr, which would be timed. LanceDB reads this on import.
os.environ.setdefault("LANCEDB_LOG", "error")

import lancedb
from lancedb.index import FTS, Bitmap, HnswSq
from lancedb.rerankers import RRFReranker

_TABLE: Final = "items"
_REFINE: Final = 2  # times k rows are read in full and ranked again, against the loss of quantising
_INDEXED: Final = 10_000
"""Least items with a vector index; the documentation advises none for small tables."""

_SCHEMA: Final = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("project", pa.string()), ("vector", pa.list_(pa.float32(), DIM))]
)


def _build_index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    table = lancedb.connect(folder).create_table(_TABLE, _make_batches(corpus), schema=_SCHEMA)
    if corpus.n >= _INDEXED:
        say("lancedb: the vector index")
        partitions = max(1, corpus.n // 1_048_576)  # its documentation's start for HNSW
        table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=partitions))
    table.create_index("text", config=FTS())
    table.create_index("project", config=Bitmap())
    table.optimize()


def _make_batches(corpus: Corpus) -> Iterator[pa.RecordBatch]:
    for start, stop in split_items(corpus.n):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(corpus.vectors(start, stop).reshape(-1)), DIM)
        columns = [
            pa.array(range(start, stop), pa.int64()),
            pa.array(corpus.texts(start, stop), pa.string()),
            pa.array(corpus.project(start, stop), pa.string()),
            vectors,
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


class _LanceDbSearcher:
    def __init__(self, folder: Path) -> None:
        self.table = lancedb.connect(folder).open_table(_TABLE)
        self.indexed = any(index.columns == ["vector"] for index in self.table.list_indices())
        self.reranker = RRFReranker()
        self.ef = PEER.efforts[0]

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        # An empty text counts as missing.
        query = self.table.search(query_type="hybrid").vector(vector).text(text or " ").rerank(self.reranker)
        return self._search(query, k, project)

    def dense(self, vector: F32, k: int) -> list[int]:
        return self._search(self.table.search(vector), k, None)

    def _search(self, query: Any, k: int, project: str | None) -> list[int]:
        if self.indexed:
            query = query.ef(max(self.ef, _REFINE * k)).refine_factor(_REFINE)  # it refuses a lower ef
        if project is not None:
            query = query.where("project = '{}'".format(project.replace("'", "''")))
        ids: list[int] = query.distance_type("cosine").limit(k).select(["id"]).to_arrow()["id"].to_pylist()
        return ids

    def set_effort(self, effort: int) -> None:
        self.ef = effort

    def close(self) -> None:
        """Do nothing: it holds only memory."""


PEER: Final = make_peer("lancedb", _build_index, _LanceDbSearcher)
