"""txtai: faiss and its own BM25 over SQLite, vectors from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from txtai import Embeddings

from helix.errors import UsageError
from helix.types import F32
from pipelines.bench.peers.base import Corpus, Peer, split_items

_SETUP: Final = {"method": "external", "hybrid": True, "content": False, "backend": "faiss"}


def _build_index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    done = 0

    def transform(texts: list[str]) -> F32:
        # It asks for the vectors of its documents in their order.
        nonlocal done
        done += len(texts)
        return corpus.vectors(done - len(texts), done)

    embeddings = Embeddings({**_SETUP, "transform": transform})
    embeddings.index(_list_documents(corpus))
    del embeddings.config["transform"]  # a function cannot be saved
    embeddings.save(str(folder))
    embeddings.close()


def _list_documents(corpus: Corpus) -> Iterator[tuple[int, str, None]]:
    for start, stop in split_items(corpus.n):
        yield from ((start + i, text, None) for i, text in enumerate(corpus.texts(start, stop)))


class _TxtaiSearcher:
    """The open index; see `Searcher`."""

    def __init__(self, folder: Path) -> None:
        self.embeddings: Any = Embeddings()
        self.embeddings.load(str(folder))
        # It would make the vector of a question from its text; ours exists.
        self.vector = np.zeros((1, 0), np.float32)
        self.embeddings.model.transform = lambda _: self.vector

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        if project is not None:
            raise UsageError("txtai filters by SQL over its content store only, after the search", "ask without it")
        self.vector = vector[None]
        return [row for row, _ in self.embeddings.search(text, k)]

    def dense(self, vector: F32, k: int) -> list[int]:
        return [row for row, _ in self.embeddings.ann.search(vector[None], k)[0] if row >= 0]

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
    index=_build_index,
    reader=_TxtaiSearcher,
    filters=False,
)
