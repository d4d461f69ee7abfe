"""Okapi BM25 on arrays (Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework")."""

from __future__ import annotations

from typing import Any

import numpy as np

from helix.types import F32, AnyArray


def compute_idf(df: AnyArray | int, n: int) -> Any:
    """Return ln(1 + (n − df + ½) / (df + ½)), never negative (Lucene's form).

    Args:
        df: number of documents with the term.
        n: number of documents.
    """
    return np.log1p((n - df + 0.5) / (np.asarray(df) + 0.5)).astype(np.float32)


def saturate_tf(tf: F32, length: F32, mean_length: float, k1: float, b: float) -> F32:
    """Return tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / mean length)), elementwise."""
    norm = np.float32(k1) * (np.float32(1 - b) + np.float32(b / mean_length) * length)
    # In a document without terms, tf and norm can both be zero.
    return np.asarray(tf * np.float32(k1 + 1) / np.maximum(tf + norm, np.float32(1e-9)), np.float32)


def compute_norms(length: F32, mean_length: float, k1: float, b: float) -> F32:
    """Return k1 · (1 − b + b · length / mean length), elementwise: the part of a document's length in each gain."""
    norm = length * np.float32(k1 * b / mean_length)
    norm += np.float32(k1 * (1 - b))
    return norm


class FieldNorms:
    """The norms of one field, computed once for each pair of constants."""

    def __init__(self, length: F32, mean_length: float) -> None:
        self._length, self._mean_length = length, mean_length
        self._norms: dict[tuple[float, float], F32] = {}

    def __call__(self, k1: float, b: float) -> F32:
        """Return float32[rows], which callers must not write to."""
        if (k1, b) not in self._norms:
            self._norms[k1, b] = compute_norms(self._length, self._mean_length, k1, b)
        return self._norms[k1, b]


def compute_gain(tf: AnyArray, norm: F32, weight: float, k1: float) -> F32:
    """Return weight · tf · (k1 + 1) / (tf + norm) for tf ≥ 1, in place and in few passes, for long postings.

    Args:
        tf: float32 or uint16[n].
        norm: float32[n], of `compute_norms`; overwritten.
        weight: the idf of the term.
    """
    tf = tf.astype(np.float32)
    norm += tf
    np.divide(tf, norm, out=norm)
    norm *= np.float32(weight * (k1 + 1))
    return norm
