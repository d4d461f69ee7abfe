"""Files that are mapped into memory, and how their pages are released.

A released file stays mapped: the next read of a page takes it from the system's cache, in microseconds, or from the
disk. So a store that no caller asks can stay open for little more than its Python objects.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

_DONTNEED: Final = 4  # MADV_DONTNEED, the same number on Linux and macOS
_CHUNK: Final = 1 << 20

_mapped: weakref.WeakValueDictionary[str, pa.Buffer] = weakref.WeakValueDictionary()  # by path
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_read_only(path: Path) -> pa.Buffer:
    """Map a whole file, read-only.

    Returns:
        a buffer that everything made of it keeps alive as a Python object, so that `release_pages` knows it.

    Raises:
        OSError: the file cannot be opened or mapped.
        pyarrow.ArrowInvalid: it is empty in a way that cannot be mapped.
    """
    with pa.memory_map(str(path)) as file:
        buffer = file.read_buffer()
    _mapped[str(path)] = buffer
    return pa.py_buffer(memoryview(buffer)) if buffer.size else buffer


def release_pages(paths: Iterable[Path]) -> None:
    """Give the pages of files back to the system; one that is not mapped is left.

    Safe while others read: a page that is needed is read again. Nothing is written to such a page, so none is lost.
    """
    for path in paths:
        buffer = _mapped.get(str(path))  # keeps it alive, and mapped, until it is done
        if buffer is not None:
            _libc.madvise(buffer.address, buffer.size, _DONTNEED)


def read_ahead(paths: Iterable[Path]) -> None:
    """Read files into the system's cache, so that no mapped page has to wait for the disk.

    Other threads go on meanwhile, which they do not while Python waits for a page. A file that cannot be read is left.
    """
    buffer = memoryview(bytearray(_CHUNK))
    for path in paths:
        with suppress(OSError), path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
