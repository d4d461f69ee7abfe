"""Small files whose first line is the digest of the rest."""

from __future__ import annotations

from pathlib import Path

from helix.snapshot import paths
from helix.snapshot.segment.batch import hash_parts


def read_digested(path: Path) -> bytes | None:
    """Return the body of a file; None if it is missing or damaged."""
    try:
        claimed, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if claimed == hash_parts(body.decode("utf-8", "replace")).encode() else None


def write_digested(path: Path, body: bytes) -> None:
    """Write a file whole or not at all. The body is UTF-8."""
    paths.write_file(path, hash_parts(body.decode()).encode() + b"\n" + body)
