"""Compressed sparse rows, the one shape of every list in the store: postings, mentions, terms of an item."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from helix.types import I64


def flat_index(indptr: I64, rows: npt.NDArray[Any]) -> tuple[I64, I64]:
    """Where the entries of the given rows lie.

    Args:
        indptr: int64[n + 1].
        rows: integers[m].

    Returns:
        (indptr int64[m + 1] of the answer, positions int64[total] into the flat arrays).
    """
    start = indptr[rows]
    counts = indptr[np.asarray(rows) + 1] - start
    out = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out, np.repeat(start - out[:-1], counts) + np.arange(out[-1])


def owners(indptr: I64) -> I64:
    """The row each flat entry belongs to: int64[total]."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def invert(
    indptr: I64, keys: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], I64, npt.NDArray[np.uint32], npt.NDArray[np.intp]]:
    """Row → keys becomes key → rows.

    Returns:
        (sorted distinct keys uint64[t], indptr int64[t + 1], rows uint32[p] ascending within a key,
        order intp[p]: which flat entry each posting came from).
    """
    order = np.argsort(keys, kind="stable")  # stable: rows stay ascending
    ordered = keys[order]
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    return (
        ordered[starts],
        np.append(starts, len(ordered)).astype(np.int64),
        owners(indptr)[order].astype(np.uint32),
        order,
    )


def quantise(vectors: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """float32[n, d] → (int8[n, d], float32[n]): symmetric, one scale a row, v ≈ scale · code."""
    scale = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(vectors / safe[:, None]).astype(np.int8), scale
