"""Checked arrays: the only way in which numbers reach a kernel. Nothing is copied or converted.

Every wrapper in this package raises TypeError or ValueError for an array of a wrong kind or a shape that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any, Final, NamedTuple

import numpy as np

from helix.errors import StoreError
from helix.types import U64, AnyArray

BOOL: Final = np.dtype(np.bool_)
INT8, INT32, INT64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64)
UINT8, UINT16, UINT32, UINT64 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_ARRAY: Final = np.ndarray
_READABLE: Final = 0x101  # NumPy's flags: C contiguous, aligned
_WRITABLE: Final = 0x501  # the same and writeable


def check_array(name: str, array: AnyArray, dtype: np.dtype[Any], *shape: int, written: bool = False) -> int:
    """Check an array for a kernel and return its address.

    Args:
        name: of the array, for the error.
        shape: the required shape; for a free dimension, the array's own length.
        written: the kernel writes to the array.

    Raises:
        TypeError: not an array, or of another dtype, not contiguous, not aligned, not writeable.
        ValueError: of another shape.
    """
    flags = _WRITABLE if written else _READABLE
    if isinstance(array, _ARRAY) and array.dtype == dtype and array.shape == shape and array.flags.num & flags == flags:
        return _find_address(array)
    raise _explain_misfit(name, array, dtype, shape)


def _explain_misfit(name: str, array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> TypeError | ValueError:
    if not isinstance(array, np.ndarray):
        return TypeError(f"{name} is a {type(array).__name__}, not an array of {dtype}")
    if array.dtype != dtype:
        return TypeError(f"{name} is an array of {array.dtype}, not of {dtype}")
    if array.shape != shape:
        return ValueError(f"{name} has the shape {array.shape}, not {shape}")
    if not array.flags.c_contiguous:
        return TypeError(f"{name} is not contiguous: pass it through np.ascontiguousarray")
    if not array.flags.aligned:
        return TypeError(f"{name} is not aligned")
    return TypeError(f"{name} is not writeable")


def allocate(dtype: np.dtype[Any], *shape: int) -> tuple[AnyArray, int]:
    """Return an uninitialised array for a kernel to write to, and its address."""
    array = np.empty(shape, dtype)
    return array, _find_address(array)


def _find_address(array: AnyArray) -> int:
    if array.size and array.flags.writeable:
        return addressof(c_char.from_buffer(array.data))  # a third of the time that the interface takes
    address: int = array.__array_interface__["data"][0]
    return address


class ArrayTable(NamedTuple):
    """The addresses of some arrays of one dtype, and the arrays, which must outlive them."""

    addresses: U64  # uint64[n]
    arrays: tuple[AnyArray, ...]


def build_table(name: str, arrays: Sequence[AnyArray], dtype: np.dtype[Any], sizes: Sequence[int]) -> ArrayTable:
    """Build the table of some one-dimensional arrays of given lengths.

    Raises:
        TypeError, ValueError: as `check_array`.
    """
    if len(arrays) != len(sizes):
        raise ValueError(f"{name} are {len(arrays)} arrays, not {len(sizes)}")
    addresses = [check_array(name, array, dtype, size) for array, size in zip(arrays, sizes, strict=True)]
    return ArrayTable(np.array(addresses, UINT64), tuple(arrays))


def explain_damage(what: str) -> StoreError:
    """Return the error for a number, read from a file, that points outside the store."""
    return StoreError(
        f"the store is damaged: {what}",
        "restore it from a backup or another copy ('helix pull'), or return to an earlier generation with "
        "'helix rollback'; 'helix verify' names files whose bytes have changed",
    )
