"""Array algorithms of the store: compressed sparse rows (CSR), ids and quantisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helix.native.arrays import explain_damage
from helix.types import F32, I8, I64, U32, U64, AnyArray, Bool

BANDS = 16  # of a MinHash signature; a pair at Jaccard 0.8 shares one with probability 1 − (1 − 0.8⁴)¹⁶ = 0.9998


def flatten_rows(indptr: I64, rows: AnyArray) -> tuple[I64, I64]:
    """Find the flat entries of the given rows.

    Args:
        indptr: int64[n + 1].
        rows: integers[m].

    Returns:
        (indptr int64[m + 1] of the result, positions int64[total] in the flat arrays).
    """
    start = indptr[rows]
    counts = indptr[np.asarray(rows) + 1] - start
    out = np.zeros(len(rows) + 1, np.int64)
    counts.cumsum(out=out[1:])
    return out, (start - out[:-1]).repeat(counts) + np.arange(out[-1])


def select_alive(alive: Bool, rows: AnyArray) -> Bool:
    """Return which rows, read from postings, are live: bool[len(rows)].

    Raises:
        StoreError: a row does not exist.
    """
    try:
        return np.asarray(alive[rows])
    except IndexError as error:
        raise explain_damage(f"its postings hold a row that does not exist ({error})") from None


def expand_rows(indptr: I64) -> I64:
    """Return the row of each flat entry: int64[total]."""
    return np.arange(len(indptr) - 1).repeat(indptr[1:] - indptr[:-1])


def invert_csr(indptr: I64, keys: U64) -> tuple[U64, I64, U32, npt.NDArray[np.intp]]:
    """Invert row → keys into key → rows.

    Returns:
        (sorted distinct keys uint64[t], indptr int64[t + 1], rows uint32[p] ascending within a key,
        order intp[p]: flat entry of each posting).
    """
    order = np.argsort(keys, kind="stable")  # stable: rows stay ascending
    ordered = keys[order]
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    return (
        ordered[starts],
        np.append(starts, len(ordered)).astype(np.int64),
        expand_rows(indptr)[order].astype(np.uint32),
        order,
    )


def quantise_vectors(vectors: F32) -> tuple[I8, F32]:
    """Quantise float32[n, d] to (int8[n, d], float32[n]): symmetric, one scale a row, v ≈ scale · code."""
    scale = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(vectors / safe[:, None]).astype(np.int8), scale


def format_hex(values: U64) -> pa.Array:
    """Format uint64[n] as strings of sixteen hex digits, as ids, session keys and entity hashes are written."""
    digits = values.astype(">u8").tobytes().hex().encode()
    offsets = np.arange(0, 16 * len(values) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(digits))


def parse_hex(column: pa.ChunkedArray) -> U64:
    """Parse strings of sixteen hex digits, without nulls: uint64[n]."""
    digits = "".join(column.to_pylist())
    return np.frombuffer(bytes.fromhex(digits), ">u8").astype(np.uint64)


def hash_bands(signatures: U32) -> U32:
    """Hash each band of the signatures: uint32[BANDS, n]."""
    n = len(signatures)
    values = signatures.reshape(n, BANDS, signatures.shape[1] // BANDS).astype(np.uint64)
    mixed = np.full((n, BANDS), 0x9E3779B97F4A7C15, np.uint64)
    for i in range(values.shape[2]):  # multiply and xor-shift, as in splitmix64 (Steele et al. 2014)
        mixed = (mixed ^ values[:, :, i]) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    return np.ascontiguousarray((mixed >> np.uint64(32)).astype(np.uint32).T)


def look_up(keys: U64, rows: U32, wanted: U64) -> I64:
    """Return the row of each wanted key in a sorted key array, −1 if it is absent: int64[len(wanted)]."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, rows[at].astype(np.int64), -1)
