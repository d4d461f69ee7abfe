"""Files that are mapped into memory, and how their pages are released.

A released file stays mapped: the next read of a page takes it from the system's cache, in microseconds, or from the
disk. So a store that no caller asks can stay open for little more than its Python objects.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

_DONTNEED: Final = 4  # MADV_DONTNEED, the same number on Linux and macOS
_CHUNK: Final = 1 << 20

_mapped: dict[str, weakref.WeakValueDictionary[int, pa.Buffer]] = {}  # by folder and address
_lock = threading.Lock()
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
    with _lock:
        _mapped.setdefault(str(path.parent), weakref.WeakValueDictionary())[buffer.address] = buffer
    return pa.py_buffer(memoryview(buffer)) if buffer.size else buffer


def release_pages(folders: Iterable[Path]) -> int:
    """Give the pages of the mapped files of some folders back to the system; return the number of files.

    Safe while others read: a page that is needed is read again. Nothing is written to such a page, so none is lost.
    """
    released = 0
    for folder in folders:
        with _lock:
            buffers = list(_mapped.get(str(folder), {}).values())  # each is kept alive, and mapped, until it is done
            if not buffers:
                _mapped.pop(str(folder), None)
        for buffer in buffers:
            _libc.madvise(buffer.address, buffer.size, _DONTNEED)
        released += len(buffers)
    return released


def read_ahead(paths: Iterable[Path]) -> None:
    """Read files into the system's cache, so that no mapped page has to wait for the disk.

    Other threads go on meanwhile, which they do not while Python waits for a page. A file that cannot be read is left.
    """
    buffer = memoryview(bytearray(_CHUNK))
    for path in paths:
        with suppress(OSError), path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
