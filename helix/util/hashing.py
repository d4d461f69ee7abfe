"""SHA-256 digests of files."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


def hash_file(path: Path) -> str:
    """Return the hex SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_file_once(path: Path) -> str:
    """Return the hex SHA-256 digest of a file; a file of the same size and time is read once in a process."""
    status = path.stat()
    return _hash_version(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _hash_version(path: Path, size: int, mtime_ns: int) -> str:
    return hash_file(path)
