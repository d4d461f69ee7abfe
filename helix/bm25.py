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


def gain(tf: npt.NDArray[Any], length: F32, weight: float, mean_length: float, k1: float, b: float) -> F32:
    """weight · saturate(…) where tf is at least 1, in few passes and in place, for long postings.

    Args:
        tf: float32 or uint16[n].
        length: float32[n]; overwritten.
        weight: the term's idf.
    """
    length *= np.float32(k1 * b / mean_length)
    length += np.float32(k1 * (1 - b))
    tf = tf.astype(np.float32)
    length += tf
    np.divide(tf, length, out=length)
    length *= np.float32(weight * (k1 + 1))
    return length
