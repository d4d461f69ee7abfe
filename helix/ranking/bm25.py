"""Okapi BM25 (Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework"), on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from helix.types import F32


def idf(df: npt.NDArray[Any] | int, n: int) -> Any:
    """ln(1 + (n − df + ½) / (df + ½)): never negative (Lucene's form).

    Args:
        df: documents that hold the term.
        n: documents in all.
    """
    return np.log1p((n - df + 0.5) / (np.asarray(df) + 0.5)).astype(np.float32)


def saturate(tf: F32, length: F32, mean_length: float, k1: float, b: float) -> F32:
    """tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / mean length)), elementwise."""
    norm = np.float32(k1) * (np.float32(1 - b) + np.float32(b / mean_length) * length)
    # Where a document has no terms at all, tf and norm can both be zero.
    return np.asarray(tf * np.float32(k1 + 1) / np.maximum(tf + norm, np.float32(1e-9)), np.float32)


def norms(length: F32, mean_length: float, k1: float, b: float) -> F32:
    """k1 · (1 − b + b · length / mean length), elementwise: what a document's length does to all of its terms."""
    norm = length * np.float32(k1 * b / mean_length)
    norm += np.float32(k1 * (1 - b))
    return norm


class Norms:
    """The norms of one field, made once for each pair of constants it is searched with."""

    def __init__(self, length: F32, mean_length: float) -> None:
        self._of, self._made = (length, mean_length), dict[tuple[float, float], F32]()

    def __call__(self, k1: float, b: float) -> F32:
        """float32[rows]; not to be written to."""
        if (k1, b) not in self._made:
            self._made[k1, b] = norms(*self._of, k1, b)
        return self._made[k1, b]


def gain(tf: npt.NDArray[Any], norm: F32, weight: float, k1: float) -> F32:
    """weight · tf · (k1 + 1) / (tf + norm) where tf is at least 1, in few passes and in place, for long postings.

    Args:
        tf: float32 or uint16[n].
        norm: float32[n], of `norms`; overwritten.
        weight: the term's idf.
    """
    tf = tf.astype(np.float32)
    norm += tf
    np.divide(tf, norm, out=norm)
    norm *= np.float32(weight * (k1 + 1))
    return norm
