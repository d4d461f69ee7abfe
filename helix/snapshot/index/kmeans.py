"""Training of an inverted file over product codes: k-means of vectors, and of the pieces of what is left of them.

Dhillon & Modha 2001, "Concept decompositions for large sparse text data using clustering" (spherical k-means); Jégou,
Douze & Schmid 2011, "Product quantization for nearest neighbor search" (a book of codes a piece).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.native.lists import CODES, encode_pieces
from helix.types import F32, I64

_BATCH: Final = 16_384  # vectors compared with all centres at a time
_TRAINED: Final = 4_096  # vectors that a book is trained on
_ROUNDS: Final = 12  # of k-means for the books


def fit_centres(vectors: F32, count: int, rounds: int, rng: np.random.Generator) -> F32:
    """Return the centres of unit length, float32[count, d], that spherical k-means finds in float32[n, d].

    A centre without vectors moves to one of those that are the furthest from theirs.
    """
    centres = vectors[np.sort(rng.choice(len(vectors), count, replace=False))]
    for _ in range(rounds):
        nearest, score = assign_vectors(vectors, centres)
        centres = _sum_lists(vectors, nearest, count)
        size = np.bincount(nearest, minlength=count)
        if lonely := int((size == 0).sum()):
            centres[size == 0] = vectors[np.argpartition(score, lonely - 1)[:lonely]]
        centres = _normalise(centres)
    return centres


def _normalise(vectors: F32) -> F32:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), np.float32)


def assign_vectors(vectors: F32, centres: F32) -> tuple[I64, F32]:
    """Return (the centre with the largest inner product of each vector int64[n]; that product float32[n])."""
    nearest, score = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    turned = np.ascontiguousarray(centres.T)
    for start in range(0, len(vectors), _BATCH):
        products = vectors[start : start + _BATCH] @ turned
        nearest[start : start + _BATCH] = products.argmax(1)
        score[start : start + _BATCH] = products.max(1)
    return nearest, score


def _sum_lists(vectors: F32, nearest: I64, count: int) -> F32:
    """Return the sum of the vectors of each centre: float32[count, d]."""
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    for start in range(0, len(vectors), _BATCH):
        own = nearest[start : start + _BATCH]
        order = np.argsort(own, kind="stable")
        present, first = np.unique(own[order], return_index=True)
        sums[present] += np.add.reduceat(vectors[start : start + _BATCH][order], first, axis=0)
    return sums


def fit_book(left: F32, size: int, rng: np.random.Generator) -> F32:
    """Return the book of codes, float32[m, size, 16], of vectors cut into m pieces of `size` dimensions.

    Args:
        left: float32[n, m · size]: what is left of each vector without its centre.
    """
    sample = left[rng.choice(len(left), min(len(left), _TRAINED), replace=False)]
    pieces = np.ascontiguousarray(sample.reshape(len(sample), -1, size).transpose(1, 0, 2))  # [m, n, size]
    codes = rng.permutation(np.arange(CODES) % len(sample))
    book = np.ascontiguousarray(pieces[:, codes].transpose(0, 2, 1))  # [m, size, 16]
    if len(sample) < CODES:  # no two codes of a piece are equal
        book += 1e-3 * rng.normal(size=book.shape).astype(np.float32)
    m, first = len(pieces), np.arange(len(pieces))[:, None] * CODES
    for _ in range(_ROUNDS):
        code = (encode_pieces(sample, book).T + first).ravel()
        count = np.bincount(code, minlength=m * CODES).reshape(m, CODES)
        for j in range(size):
            sums = np.bincount(code, pieces[:, :, j].ravel(), m * CODES).reshape(m, CODES)
            book[:, j] = np.where(count > 0, sums / np.maximum(count, 1), book[:, j])
    return book
