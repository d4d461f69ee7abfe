"""txtai: faiss and its own BM25 over SQLite, vectors from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from txtai import Embeddings

from helix.errors import UsageError
from helix.types import F32
from pipelines.bench.peers import Corpus, Peer, slices

_SETUP: Final = {"method": "external", "hybrid": True, "content": False, "backend": "faiss"}


def _index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    taken = 0

    def transform(texts: list[str]) -> F32:
        # It asks for the vectors of its documents in the order they were given.
        nonlocal taken
        taken += len(texts)
        return corpus.vectors(taken - len(texts), taken)

    embeddings = Embeddings({**_SETUP, "transform": transform})
    embeddings.index(_documents(corpus))
    del embeddings.config["transform"]  # a function cannot be saved
    embeddings.save(str(folder))
    embeddings.close()


def _documents(corpus: Corpus) -> Iterator[tuple[int, str, None]]:
    for start, stop in slices(corpus.n):
        yield from ((start + i, text, None) for i, text in enumerate(corpus.texts(start, stop)))


class _Searcher:
    def __init__(self, folder: Path) -> None:
        self.embeddings: Any = Embeddings()
        self.embeddings.load(str(folder))
        # It wants to make the vector of a question from its text; ours is there already.
        self.vector = np.zeros((1, 0), np.float32)
        self.embeddings.model.transform = lambda _: self.vector

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        if project is not None:
            raise UsageError("txtai filters by SQL over its content store only, after the search", "ask without it")
        self.vector = vector[None]
        return [found for found, _ in self.embeddings.search(text, k)]

    def dense(self, vector: F32, k: int) -> list[int]:
        return [found for found, _ in self.embeddings.ann.search(vector[None], k)[0] if found >= 0]

    def set_effort(self, effort: int) -> None:
        self.embeddings.ann.config["faiss"] = {"nprobe": effort}

    def close(self) -> None:
        self.embeddings.close()


PEER: Final = Peer(
    name="txtai",
    packages=("txtai", "faiss-cpu"),
    configured=(
        "hybrid: faiss IVF of min(4 √n, n / 39) lists, Flat (its default; all in memory; up to 5,000 items exact), "
        "BM25 with its default tokeniser; external vectors, no content store"
    ),
    fuses="its own: normalised scores of the first 10 k of each leg, half and half",
    lacks=(
        "a filter before the search (SQL over its content store, off here, filters what was found), ranking by several "
        "signals, near-duplicates, packing, a token budget; it has a graph, which its hybrid search does not use"
    ),
    knob="nprobe",
    efforts=(4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    index=_index,
    reader=_Searcher,
    filters=False,
)
