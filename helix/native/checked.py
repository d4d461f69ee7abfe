"""The one way in which an array reaches a kernel: what is given is checked first, what is written to is made here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.types import U64

_ARRAY: Final = np.ndarray
_READ: Final = 0x101  # NumPy's flags: C contiguous, aligned
_WRITTEN: Final = 0x501  # and writeable

_UINT64: Final = np.dtype(np.uint64)


def pointer(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any], *shape: int, written: bool = False) -> int:
    """Return where the numbers of an array lie. Nothing is converted: a kernel reads what there is.

    Args:
        name: of the array, for the error.
        shape: that it has; for a dimension that may be any, its own length.
        written: the kernel writes into it.

    Raises:
        TypeError: it is no array, of another dtype, in several pieces, not aligned, or not writeable.
        ValueError: it is of another shape.
    """
    needed = _WRITTEN if written else _READ
    if (
        isinstance(array, _ARRAY)
        and array.dtype == dtype
        and array.shape == shape
        and array.flags.num & needed == needed
    ):
        at: int = array.__array_interface__["data"][0]
        return at
    raise _misfit(name, array, dtype, shape)


def _misfit(name: str, array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> TypeError | ValueError:
    """Return what is wrong with an array that no kernel takes."""
    if not isinstance(array, np.ndarray):
        return TypeError(f"{name} is a {type(array).__name__}, where an array of {dtype} belongs")
    if array.dtype != dtype:
        return TypeError(f"{name} is an array of {array.dtype}, where {dtype} belongs")
    if array.shape != shape:
        return ValueError(f"{name} is of shape {array.shape}, where {shape} belongs")
    if not array.flags.c_contiguous:
        return TypeError(f"{name} does not lie in one piece: np.ascontiguousarray makes it one")
    if not array.flags.aligned:
        return TypeError(f"{name} is not aligned")
    return TypeError(f"{name} cannot be written to")


def room(dtype: np.dtype[Any], *shape: int) -> tuple[npt.NDArray[Any], int]:
    """Make an array for a kernel to write to, of any content: (the array, where it lies)."""
    made = np.empty(shape, dtype)
    at: int = made.__array_interface__["data"][0]
    return made, at


class Table(NamedTuple):
    """Arrays of one dtype, as kernels find them."""

    at: U64  # uint64[n], where each lies
    held: tuple[npt.NDArray[Any], ...]  # the arrays


def table(name: str, arrays: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any], sizes: Sequence[int]) -> Table:
    """The table of some arrays of one dimension, of the lengths said.

    Raises:
        TypeError, ValueError: as `pointer`.
    """
    if len(arrays) != len(sizes):
        raise ValueError(f"{name} are {len(arrays)} arrays, where {len(sizes)} belong")
    at = [pointer(name, array, dtype, size) for array, size in zip(arrays, sizes, strict=True)]
    return Table(np.array(at, _UINT64), tuple(arrays))
