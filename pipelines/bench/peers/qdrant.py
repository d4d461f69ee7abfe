"""Qdrant's local mode: exact search in Python, the query interface of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import Stemmer
from qdrant_client import QdrantClient, models

from helix.types import F32
from pipelines.bench.peers.base import DIM, Corpus, list_content_words, make_peer, split_items

_COLLECTION: Final = "items"
_DENSE: Final = "dense"
_WORDS: Final = "words"
_UPSERT: Final = 1_000  # points a request
K1, B = 1.2, 0.75
"""BM25's constants in Qdrant's own sparse model."""


def _build_index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    client = QdrantClient(path=str(folder))
    client.create_collection(
        _COLLECTION,
        vectors_config={_DENSE: models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={_WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    lengths = [len(_hash_stems(text)) for start, stop in split_items(corpus.n) for text in corpus.texts(start, stop)]
    mean = max(1.0, float(np.mean(lengths)))
    for start, stop in split_items(corpus.n, _UPSERT):
        vectors, texts, projects = corpus.vectors(start, stop), corpus.texts(start, stop), corpus.project(start, stop)
        points = [
            models.PointStruct(
                id=start + i,
                vector={_DENSE: vector.tolist(), _WORDS: _weigh_terms(_hash_stems(text), mean)},
                payload={"project": project, "text": text},
            )
            for i, (vector, text, project) in enumerate(zip(vectors, texts, projects, strict=True))
        ]
        client.upsert(_COLLECTION, points)
    client.close()


def _hash_stems(text: str) -> list[int]:
    """Return hashed stems, as its own model does, which has to be fetched."""
    return [crc32(stem.encode()) for stem in Stemmer.Stemmer("english").stemWords(list_content_words(text))]


def _weigh_terms(terms: Iterable[int], mean: float) -> models.SparseVector:
    """Return BM25 without the idf, which the collection adds: `tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))`.

    Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009.
    """
    counts = sorted(Counter(terms).items())
    norm = K1 * (1 - B + B * sum(tf for _, tf in counts) / mean)
    values = [tf * (K1 + 1) / (tf + norm) for _, tf in counts]
    return models.SparseVector(indices=[term for term, _ in counts], values=values)


class _QdrantSearcher:
    def __init__(self, folder: Path) -> None:
        self.client = QdrantClient(path=str(folder))

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        project_filter = None
        if project is not None:
            condition = models.FieldCondition(key="project", match=models.MatchValue(value=project))
            project_filter = models.Filter(must=[condition])
        terms = sorted(set(_hash_stems(text)))
        words = models.SparseVector(indices=terms, values=[1.0] * len(terms))
        legs = [
            models.Prefetch(query=vector.tolist(), using=_DENSE, limit=k, filter=project_filter),
            models.Prefetch(query=words, using=_WORDS, limit=k, filter=project_filter),
        ]
        answer = self.client.query_points(
            _COLLECTION, prefetch=legs, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=k, with_payload=False
        )
        return [int(point.id) for point in answer.points]

    def dense(self, vector: F32, k: int) -> list[int]:
        answer = self.client.query_points(_COLLECTION, query=vector.tolist(), using=_DENSE, limit=k, with_payload=False)
        return [int(point.id) for point in answer.points]

    def set_effort(self, effort: int) -> None:
        """Do nothing: local mode is exact."""

    def close(self) -> None:
        self.client.close()


PEER: Final = make_peer("qdrant", _build_index, _QdrantSearcher)
