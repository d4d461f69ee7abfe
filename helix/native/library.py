"""The kernels: `*.c`, compiled by `hatch_build.py` when Helix is installed; in NumPy (`reference/`) where they are not.

Each wrapper in this package checks its arrays (`arrays.check_array`) and passes addresses, lengths and numbers of rows.
Kernels compare every number that says where to read with its range: one outside comes from a damaged file.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from helix.errors import KernelsError

LIBRARY: Final = Path(__file__).with_name("_kernels.so")

VERSION: Final = 5
"""Incremented with every change of a kernel's name or arguments; equal to the number in version.c."""

CHOICE: Final = "HELIX_KERNELS"
"""The environment variable that chooses the kernels: `reference` ignores a library; `compiled` is the default."""

_REINSTALL: Final = (
    "install Helix again where there is a C compiler: pip install --force-reinstall --no-deps helix-recall; "
    "in a checkout: pip install --no-deps --editable ."
)


def load_library(kind: type[ctypes.CDLL]) -> ctypes.CDLL | None:
    """Load the compiled kernels; None where no library was built, or where the environment chooses the reference.

    Raises:
        KernelsError: the library was built for another machine, or belongs to another release.
    """
    choice = os.environ.get(CHOICE) or "compiled"
    if choice not in ("compiled", "reference"):
        raise KernelsError(f"{CHOICE}={choice!r} names no kernels", "it is 'compiled' or 'reference', or not set")
    if choice == "reference" or not LIBRARY.is_file():
        return None
    try:
        library = kind(str(LIBRARY))
        version = int(library.kernels_version())
    except OSError as error:
        raise KernelsError(f"the compiled kernels cannot be loaded: {error}", _REINSTALL) from None
    except AttributeError:  # releases before the first version number
        version = 1
    if version != VERSION:
        raise KernelsError(f"the compiled kernels have version {version}, not {VERSION}: {LIBRARY} is old", _REINSTALL)
    return library


LONG: Final = load_library(ctypes.CDLL)
"""The library for long calls: they release the interpreter's lock."""

SHORT: Final = load_library(ctypes.PyDLL)
"""The library for calls of microseconds: they hold the lock."""

POINTER, INT, UINT, FLOAT, DOUBLE = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float, ctypes.c_double)


def describe_kernels() -> str:
    """Return the kind of kernels that run: "compiled", or "reference", the slower ones in NumPy."""
    return "reference" if LONG is None else "compiled"


def declare_kernel(library: ctypes.CDLL | None, name: str, *arguments: Any, result: Any = INT) -> Any:
    """Return a kernel with the types of its arguments and of its result; without a library, that of the reference."""
    if library is None:
        from helix.native.reference import kernels  # here: compiled kernels do without them

        return _convert_arguments(getattr(kernels, name), arguments)
    kernel = getattr(library, name)
    kernel.argtypes, kernel.restype = arguments, result
    return kernel


def _convert_arguments(function: Callable[..., Any], kinds: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function, called with numbers that are converted as for C: a float32 is rounded, for example."""

    def call(*given: Any) -> Any:
        converted = (one if kind is POINTER else kind(one).value for kind, one in zip(kinds, given, strict=True))
        try:
            arguments = [*converted]
        except TypeError as error:
            raise ctypes.ArgumentError(str(error)) from None
        return function(*arguments)

    return call
