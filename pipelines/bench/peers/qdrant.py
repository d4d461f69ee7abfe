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
from pipelines.bench.peers import DIM, Corpus, Peer, content_words, slices

_COLLECTION: Final = "items"
_DENSE: Final = "dense"
_WORDS: Final = "words"
_UPSERT: Final = 1_000  # points a request
K1, B = 1.2, 0.75
"""Of BM25, as Qdrant's own sparse model has them."""


def _index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    client = QdrantClient(path=str(folder))
    client.create_collection(
        _COLLECTION,
        vectors_config={_DENSE: models.VectorParams(size=DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={_WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    lengths = [len(_terms(text)) for start, stop in slices(corpus.n) for text in corpus.texts(start, stop)]
    mean = max(1.0, float(np.mean(lengths)))
    for start, stop in slices(corpus.n, _UPSERT):
        vectors, texts, projects = corpus.vectors(start, stop), corpus.texts(start, stop), corpus.project(start, stop)
        points = [
            models.PointStruct(
                id=start + i,
                vector={_DENSE: vector.tolist(), _WORDS: _weights(_terms(text), mean)},
                payload={"project": project, "text": text},
            )
            for i, (vector, text, project) in enumerate(zip(vectors, texts, projects, strict=True))
        ]
        client.upsert(_COLLECTION, points)
    client.close()


def _terms(text: str) -> list[int]:
    """Hashed stems. Its own model does the same, but has to be fetched."""
    return [crc32(stem.encode()) for stem in Stemmer.Stemmer("english").stemWords(content_words(text))]


def _weights(terms: Iterable[int], mean: float) -> models.SparseVector:
    """BM25 without its idf, which the collection multiplies in: `tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))`.

    Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009.
    """
    counts = sorted(Counter(terms).items())
    norm = K1 * (1 - B + B * sum(tf for _, tf in counts) / mean)
    return models.SparseVector(
        indices=[term for term, _ in counts], values=[tf * (K1 + 1) / (tf + norm) for _, tf in counts]
    )


class _Searcher:
    def __init__(self, folder: Path) -> None:
        self.client = QdrantClient(path=str(folder))

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        only = None
        if project is not None:
            condition = models.FieldCondition(key="project", match=models.MatchValue(value=project))
            only = models.Filter(must=[condition])
        terms = sorted(set(_terms(text)))
        words = models.SparseVector(indices=terms, values=[1.0] * len(terms))
        legs = [
            models.Prefetch(query=vector.tolist(), using=_DENSE, limit=k, filter=only),
            models.Prefetch(query=words, using=_WORDS, limit=k, filter=only),
        ]
        found = self.client.query_points(
            _COLLECTION,
            prefetch=legs,
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=k,
            with_payload=False,
        )
        return [int(point.id) for point in found.points]

    def dense(self, vector: F32, k: int) -> list[int]:
        found = self.client.query_points(_COLLECTION, query=vector.tolist(), using=_DENSE, limit=k, with_payload=False)
        return [int(point.id) for point in found.points]

    def set_effort(self, effort: int) -> None:
        """Local mode looks at everything."""

    def close(self) -> None:
        self.client.close()


PEER: Final = Peer(
    name="qdrant",
    packages=("qdrant-client",),
    configured=(
        "local mode (no server): exact search; sparse BM25 vectors made here (English stems, stop words out, k1 1.2, "
        "b 0.75) with Modifier.IDF"
    ),
    fuses="its Fusion.RRF over the first k of each leg",
    lacks=(
        "in local mode an index and more than 20,000 points; a graph, near-duplicates, packing, a token budget; it has "
        "score formulas over stored fields and MMR, which hybrid search uses only when asked"
    ),
    knob="none: exact",
    efforts=(1,),
    index=_index,
    reader=_Searcher,
    most_items=20_000,
)
