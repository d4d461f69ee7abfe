"""txtai: faiss and its own BM25 over SQLite, vectors from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from txtai import Embeddings

from helix.errors import UsageError
from helix.types import F32
from pipelines.bench.peers.base import Corpus, make_peer, split_items

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


PEER: Final = make_peer("txtai", _build_index, _TxtaiSearcher)
