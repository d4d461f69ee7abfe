"""Chroma, persistent client: HNSW. Its lexical and hybrid search are of its cloud alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import chromadb
from chromadb.config import Settings

from helix.types import F32
from pipelines.bench.peers import Corpus, Peer, slices

_COLLECTION: Final = "items"


def _client(folder: Path) -> Any:
    return chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))


def _index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    client = _client(folder)
    # Without a function it would load a model to embed with.
    collection = client.create_collection(
        _COLLECTION, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    for start, stop in slices(corpus.n, client.get_max_batch_size()):
        collection.add(
            ids=[str(i) for i in range(start, stop)],
            embeddings=corpus.vectors(start, stop),
            documents=corpus.texts(start, stop),
            metadatas=[{"project": name} for name in corpus.project(start, stop)],
        )
    client.close()


class _Searcher:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open()

    def _open(self) -> None:
        self.client = _client(self.folder)
        self.collection = self.client.get_collection(_COLLECTION, embedding_function=None)

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        where = None if project is None else {"project": project}
        found = self.collection.query(query_embeddings=vector[None], n_results=k, where=where, include=[])
        return [int(name) for name in found["ids"][0]]

    def dense(self, vector: F32, k: int) -> list[int]:
        return self.hybrid(vector, "", k)

    def set_effort(self, effort: int) -> None:
        self.collection.modify(configuration={"hnsw": {"ef_search": effort}})
        self.client.close()  # an index that is open keeps the effort it was opened with
        self._open()

    def close(self) -> None:
        self.client.close()


PEER: Final = Peer(
    name="chroma",
    packages=("chromadb",),
    configured="persistent client, HNSW by default (cosine, ef_construction 100, 16 neighbours), texts stored with it",
    fuses="nothing: no lexical leg; vector search alone is measured",
    lacks=(
        "ranked lexical search and with it hybrid search (in its cloud alone; here $contains filters), a graph, "
        "ranking by several signals, near-duplicates, packing, a token budget"
    ),
    knob="ef_search",
    efforts=(100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3600, 4800, 7200, 9600, 14400, 19200, 28800),
    index=_index,
    reader=_Searcher,
    hybrid=False,
)
