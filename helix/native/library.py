"""The compiled kernels (`*.c`), loaded once. `hatch_build.py` compiles them when Helix is installed.

Each wrapper in this package checks its arrays (`arrays.check_array`) and passes addresses, lengths and numbers of rows.
Kernels compare every number that says where to read with its range: one outside comes from a damaged file.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Final

from helix.errors import KernelsError

LIBRARY: Final = Path(__file__).with_name("_kernels.so")

VERSION: Final = 5
"""Incremented with every change of a kernel's name or arguments; equal to the number in version.c."""

_REINSTALL: Final = (
    "install Helix again where there is a C compiler: pip install --force-reinstall --no-deps helix-recall; "
    "in a checkout: pip install --no-deps --editable ."
)


def load_library(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    """Load the kernels.

    Raises:
        KernelsError: the library is missing, was built for another machine, or belongs to another release.
    """
    if not LIBRARY.is_file():
        raise KernelsError(f"the compiled kernels are missing: {LIBRARY} does not exist", _REINSTALL)
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


def declare_kernel(library: ctypes.CDLL, name: str, *arguments: Any, result: Any = INT) -> Any:
    """Return a kernel with the types of its arguments and of its result."""
    kernel = getattr(library, name)
    kernel.argtypes, kernel.restype = arguments, result
    return kernel
