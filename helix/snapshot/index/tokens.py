"""Token vectors of items, kept for late interaction (ColBERT, Khattab & Zaharia 2020).

A pass writes them after the items are published. Each index covers some rows of one segment. A vector is stored as
int8 codes and one scale, v ≈ scale · code, so files merge by copying.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.checked_arrays import ArrayKind, map_arrays
from helix.snapshot.manifest import Index
from helix.snapshot.segment.arrays import flatten_rows
from helix.types import F32, I8, I64, U32, AnyArray

KIND: Final = "tokens"

_ARRAYS: Final = {
    "rows": ArrayKind(np.uint32, ("q",)),
    "tokens.indptr": ArrayKind(np.int64, ("q + 1",)),
    "tokens.i8": ArrayKind(np.int8, ("t", "d")),
    "tokens.scale": ArrayKind(np.float32, ("t",)),
}

_AT_ONCE: Final = 1 << 26  # bytes of codes merged at a time


@dataclass(frozen=True, slots=True)
class TokenIndex:
    """One index: q rows of a segment with t token vectors of d dimensions."""

    arrays: Mapping[str, AnyArray]

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of the segment."""
        return self.arrays["rows"]


def write_tokens(folder: Path, rows: U32, indptr: I64, codes: I8, scale: F32) -> None:
    """Write the files of an index.

    Args:
        rows: uint32[q], ascending.
        indptr: int64[q + 1]: offsets of each row's tokens.
        codes: int8[t, d].
        scale: float32[t].
    """
    from helix.snapshot.segment.write import save_arrays

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    save_arrays(folder, dict(zip(_ARRAYS, (rows, indptr, codes, scale), strict=True)))


def open_tokens(root: Path, index: Index) -> TokenIndex:
    """Map an index.

    Raises:
        StoreError: a file is missing or damaged.
    """
    folder = root / "indexes" / index.id / KIND
    return TokenIndex(map_arrays(folder, _ARRAYS, {"tokens.indptr": "tokens.scale"}, {"d": index.params["dim"]}))


def select_usable(indexes: Sequence[Index]) -> list[Index]:
    """Return the indexes of the last one's encoder: vectors of two encoders are not comparable."""
    own = [index for index in indexes if index.kind == KIND]
    return [index for index in own if index.params["fingerprint"] == own[-1].params["fingerprint"]]


class KeptTokens(NamedTuple):
    """Token vectors of m of the wanted rows, v ≈ scale · code."""

    position: I64  # int64[m]: of each row among the wanted ones
    indptr: I64  # int64[m + 1]
    codes: I8  # int8[t, d]
    scale: F32  # float32[t]


class TokenVectors:
    """The token vectors of a whole snapshot, all of one encoder.

    Args:
        params: of the indexes.
        parts: indexes, each with the first row of its segment.
    """

    def __init__(self, params: Mapping[str, AnyArray], parts: Sequence[tuple[int, TokenIndex]]) -> None:
        self.model, self.fingerprint, self.dim = str(params["model"]), str(params["fingerprint"]), int(params["dim"])
        self._parts = [(start, held) for start, held in parts if len(held.rows)]

    def gather(self, rows: AnyArray) -> KeptTokens:
        """Read the vectors of the rows that have them; no other row is read."""
        wanted = np.asarray(rows, np.int64)
        positions, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        codes, scales = [np.empty((0, self.dim), np.int8)], [np.empty(0, np.float32)]
        for start, held in self._parts:
            inside = np.flatnonzero((wanted >= start + int(held.rows[0])) & (wanted <= start + int(held.rows[-1])))
            if not len(inside):
                continue
            local = (wanted[inside] - start).astype(np.uint32)  # else the search would copy the rows
            at = np.minimum(held.rows.searchsorted(local), len(held.rows) - 1)
            hit = held.rows[at] == local
            indptr, flat = flatten_rows(held.arrays["tokens.indptr"], at[hit])
            positions.append(inside[hit])
            counts.append(np.diff(indptr))
            codes.append(held.arrays["tokens.i8"].take(flat, axis=0))
            scales.append(held.arrays["tokens.scale"].take(flat))
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]), dtype=np.int64)
        return KeptTokens(np.concatenate(positions), ends, np.concatenate(codes), np.concatenate(scales))


def merge_tokens(folder: Path, parts: Sequence[tuple[TokenIndex, I64]]) -> U32:
    """Merge several indexes into one, block by block, without rounding again. Writes no files if no row is left.

    Args:
        parts: each index with the new row of each of its rows, int64[q], −1 for rows left out. If two indexes have a
            row, the first one counts.

    Returns:
        uint32[q], ascending: its rows.
    """
    from helix.snapshot.segment.write import save_arrays

    new = np.concatenate([np.empty(0, np.int64), *(new for _, new in parts)])
    source = np.arange(len(parts)).repeat([len(new) for _, new in parts])
    place = np.concatenate([np.empty(0, np.int64), *(np.arange(len(new)) for _, new in parts)])
    _, first = np.unique(new, return_index=True)  # ascending, each once
    first = first[new[first] >= 0]
    rows, source, place = new[first].astype(np.uint32), source[first], place[first]
    if not len(rows):
        return rows
    counts = np.empty(len(rows), np.int64)
    for number, (held, _) in enumerate(parts):
        mine = source == number
        counts[mine] = np.diff(held.arrays["tokens.indptr"])[place[mine]]
    indptr = np.cumsum(np.concatenate([np.zeros(1, np.int64), counts]), dtype=np.int64)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy_tokens(folder, [held for held, _ in parts], source, place, indptr)
    save_arrays(folder, {"rows": rows, "tokens.indptr": indptr})
    return rows


def _copy_tokens(folder: Path, parts: Sequence[TokenIndex], source: I64, place: I64, indptr: I64) -> None:
    """Copy codes and scales of rows, each at a place of a source, into two files, a block of rows at a time."""
    dim = parts[0].arrays["tokens.i8"].shape[1]
    each = max(1, _AT_ONCE // max(1, dim * int(np.diff(indptr).max())))  # rows of a block
    for name, dtype, width in (("tokens.i8", np.int8, (dim,)), ("tokens.scale", np.float32, ())):
        with (folder / f"{name}.npy").open("wb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
                "fortran_order": False,
                "shape": (int(indptr[-1]), *width),
            }
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(source), each):
                block = slice(start, start + each)
                ends = indptr[start : start + each + 1] - indptr[start]
                out = np.empty((int(ends[-1]), *width), dtype)
                for number in np.unique(source[block]).tolist():
                    mine = np.flatnonzero(source[block] == number)
                    held = parts[number].arrays
                    flat = flatten_rows(held["tokens.indptr"], place[block][mine])[1]
                    out[flatten_rows(ends, mine)[1]] = held[name].take(flat, axis=0)
                file.write(out.tobytes())
