"""Memory at an address as an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np

from helix.types import AnyArray


class _Memory:
    """Some memory, as NumPy's array interface describes it."""

    def __init__(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], written: bool) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": shape,
            "data": (address, not written),
        }


@overload
def view_array(address: int, dtype: np.dtype[Any], *shape: int, written: bool = False) -> AnyArray: ...
@overload
def view_array(address: None, dtype: np.dtype[Any], *shape: int, written: bool = False) -> None: ...
@overload
def view_array(address: int | None, dtype: np.dtype[Any], *shape: int, written: bool = False) -> AnyArray | None: ...


def view_array(address: int | None, dtype: np.dtype[Any], *shape: int, written: bool = False) -> AnyArray | None:
    """Return the array of that dtype and shape at an address, without a copy; None for the address None.

    The memory must outlive the array.

    Args:
        written: the array is written to; others are read-only.
    """
    if address is None:
        return None
    if not all(shape):  # the standard library's empty arrays have no address
        return np.empty(shape, dtype)
    return np.asarray(_Memory(address, dtype, shape, written))


def write_array(address: int, values: AnyArray) -> None:
    """Copy an array to an address."""
    view_array(address, values.dtype, *values.shape, written=True)[...] = values


def divide(n: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many of n numbers, one after the other, so that temporary arrays stay small."""
    for first in range(0, n, max(most, 1)):
        yield slice(first, min(first + max(most, 1), n))
