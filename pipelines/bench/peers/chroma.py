"""Chroma, persistent client: HNSW. Only its cloud has lexical and hybrid search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import chromadb
from chromadb.config import Settings

from helix.types import F32
from pipelines.bench.peers.base import Corpus, make_peer, split_items

_COLLECTION: Final = "items"


def _open_client(folder: Path) -> Any:
    return chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))


def _build_index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    client = _open_client(folder)
    # By default it would load a model to embed with.
    collection = client.create_collection(
        _COLLECTION, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    for start, stop in split_items(corpus.n, client.get_max_batch_size()):
        collection.add(
            ids=[str(i) for i in range(start, stop)],
            embeddings=corpus.vectors(start, stop),
            documents=corpus.texts(start, stop),
            metadatas=[{"project": name} for name in corpus.project(start, stop)],
        )
    client.close()


class _ChromaSearcher:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open()

    def _open(self) -> None:
        self.client = _open_client(self.folder)
        self.collection = self.client.get_collection(_COLLECTION, embedding_function=None)

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        where = None if project is None else {"project": project}
        answer = self.collection.query(query_embeddings=vector[None], n_results=k, where=where, include=[])
        return [int(name) for name in answer["ids"][0]]

    def dense(self, vector: F32, k: int) -> list[int]:
        return self.hybrid(vector, "", k)

    def set_effort(self, effort: int) -> None:
        self.collection.modify(configuration={"hnsw": {"ef_search": effort}})
        self.client.close()  # an open index does not change its effort
        self._open()

    def close(self) -> None:
        self.client.close()


PEER: Final = make_peer("chroma", _build_index, _ChromaSearcher)
