"""The file of an inverted file over 4-bit product codes: that of FAISS's IndexIVFPQFastScan ("IwPf", FAISS 1.15).

Layout, little-endian: a header, the centres of the lists as a flat index ("IxFI"), the book of codes, and for each list
its row numbers and its packed codes ("ilbl"). Read by memory map, without FAISS.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from helix.native.lists import CODES, GROUP
from helix.snapshot.mapped_files import map_read_only
from helix.types import F32, I64, U8, AnyArray

KIND: Final = b"IwPf"
_FLAT: Final = b"IxFI"
_LISTS: Final = b"ilbl"
_HEADER: Final = "iqqq?i"  # dimensions, vectors, twice an unused number, trained, metric
_UNUSED: Final = 1 << 20
_INNER_PRODUCT: Final = 0
_ANY_SIZE: Final = (1 << 64) - 1  # "code size" of packed lists
_BITS: Final = 4  # of a code


class CodedFile(NamedTuple):
    """The content of a file of n rows, whose vectors have m pieces."""

    rows: int  # n
    centres: F32  # float32[lists, d]
    book: F32  # float32[m, 16, d / m]: the vector of each code of each piece
    ids: Sequence[I64]  # of each list: its rows
    codes: Sequence[U8]  # of each list: their codes, packed as `helix/native/lists.c` says


class _MappedBytes:
    """A place in a mapped file."""

    def __init__(self, data: AnyArray) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Read values of `struct`'s form."""
        size = struct.calcsize(f"<{form}")
        return struct.unpack(f"<{form}", self.take_bytes(size).tobytes())

    def take_bytes(self, size: int) -> AnyArray:
        """Return the next bytes, mapped."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(f"it ends at byte {len(self.data)}, {size} more bytes are expected at {self.at}")
        self.at += size
        return self.data[self.at - size : self.at]

    def take_array(self, dtype: Any) -> AnyArray:
        """Return an array after its length, mapped."""
        (count,) = self.take("Q")
        if count > len(self.data):
            raise ValueError(f"an array of {count} numbers does not fit into it")
        return self.take_bytes(count * np.dtype(dtype).itemsize).view(dtype)

    def expect(self, name: bytes) -> None:
        """Read a name. Raises ValueError if it is another one."""
        if (found := self.take_bytes(len(name)).tobytes()) != name:
            raise ValueError(f"{name!r} is expected at byte {self.at - len(name)}, found {found!r}")


def read_kind(path: Path) -> bytes:
    """Return the four bytes that name the kind of an index."""
    with path.open("rb") as file:
        return file.read(len(KIND))


def read_coded(path: Path) -> CodedFile:
    """Map a file.

    Raises:
        ValueError: it is damaged, or no such file.
    """
    cursor = _MappedBytes(np.frombuffer(map_read_only(path), np.uint8))
    cursor.expect(KIND)
    d, n, *_ = _take_header(cursor)
    lists, _ = cursor.take("QQ")  # the second: lists to search by default
    cursor.expect(_FLAT)
    _take_header(cursor)
    centres = cursor.take_array("<f4")
    cursor.take("BQ")  # no map from rows to lists
    is_residual, _, group, padded, _, _ = cursor.take("?QiQiQ")
    dims, pieces, bits = cursor.take("QQQ")
    book = cursor.take_array("<f4")
    cursor.expect(_LISTS)
    shape = cursor.take("QQQQ")
    fits = (
        is_residual
        and dims == d
        and 0 < pieces <= d
        and d % pieces == 0
        and (group, bits, padded) == (GROUP, _BITS, pieces + pieces % 2)
        and (len(centres), len(book)) == (lists * d, CODES * d)
        and (shape[0], *shape[2:]) == (lists, GROUP, padded * CODES)
    )
    if not fits:
        raise ValueError("its lists do not fit together")
    ids, codes = _take_lists(cursor, lists, padded * CODES)
    if sum(map(len, ids)) != n:
        raise ValueError(f"its lists have {sum(map(len, ids))} rows, not {n}")
    return CodedFile(n, centres.reshape(lists, d), book.reshape(pieces, CODES, -1), ids, codes)


def _take_header(cursor: _MappedBytes) -> tuple[Any, ...]:
    header = cursor.take(_HEADER)
    if header[-1] != _INNER_PRODUCT:
        raise ValueError(f"its metric is {header[-1]}, not the inner product")
    return header


def _take_lists(cursor: _MappedBytes, lists: int, size: int) -> tuple[list[I64], list[U8]]:
    ids, codes = [], []
    for _ in range(lists):
        ids.append(cursor.take_array("<i8"))
        codes.append(cursor.take_array(np.uint8))
        if len(codes[-1]) != -(-len(ids[-1]) // GROUP) * size:
            raise ValueError(f"a list of {len(ids[-1])} rows has {len(codes[-1])} bytes of codes")
    return ids, codes


def write_coded(path: Path, index: CodedFile, probes: int) -> None:
    """Write a file; `probes` is the number of lists that FAISS would search by default."""
    lists, d = index.centres.shape
    pieces = len(index.book)
    padded = pieces + pieces % 2
    with path.open("wb") as file:
        file.write(KIND + _format_header(d, index.rows) + struct.pack("<QQ", lists, probes))
        file.write(_FLAT + _format_header(d, lists))
        _write_array(file, index.centres, "<f4")
        file.write(struct.pack("<BQ", 0, 0))
        file.write(struct.pack("<?QiQiQ", True, -(-pieces * _BITS // 8), GROUP, padded, 0, 0))
        file.write(struct.pack("<QQQ", d, pieces, _BITS))
        _write_array(file, index.book, "<f4")
        file.write(_LISTS + struct.pack("<QQQQ", lists, _ANY_SIZE, GROUP, padded * CODES))
        for rows, codes in zip(index.ids, index.codes, strict=True):
            _write_array(file, rows, "<i8")
            _write_array(file, codes, np.uint8)


def _format_header(d: int, rows: int) -> bytes:
    return struct.pack(f"<{_HEADER}", d, rows, _UNUSED, _UNUSED, True, _INNER_PRODUCT)


def _write_array(file: BinaryIO, array: AnyArray, dtype: Any) -> None:
    file.write(struct.pack("<Q", array.size) + np.ascontiguousarray(array, dtype).tobytes())
