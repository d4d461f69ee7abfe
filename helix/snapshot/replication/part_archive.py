"""A part as one object: a line with digest and length, a JSON header that names the files, then their bytes.

Equal parts give equal bytes. The header is checked against the first line and each file against the header. No name
leads out of the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import orjson

from helix.errors import Damaged
from helix.snapshot.manifest import File, describe_file
from helix.snapshot.replication.object_store import MissingFile
from helix.snapshot.replication.transfer import read_local_blocks, verify_blocks

_FIRST: Final = 76  # bytes of the first line: 64 hex digits, a blank, the header's length in ten digits, a newline
_LONGEST: Final = 1 << 20  # bytes of a header: a part has some thirty files
_FILE: Final = re.compile(r"[a-z0-9_]+\.(npz|npy|parquet|json)")
_REMEDY: Final = "it is removed and made again"


def pack_part(folder: Path, document: str, fingerprint: str, seal: str) -> Iterator[bytes]:
    """Return the bytes of a part.

    Args:
        seal: the digest of the envelope it was made from.

    Raises:
        MissingFile: the part was removed meanwhile.
    """
    try:
        files = [describe_file(folder, path) for path in sorted(folder.iterdir())]
    except FileNotFoundError:
        raise MissingFile(str(folder)) from None
    named = [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in files]
    header = orjson.dumps({"document": document, "fingerprint": fingerprint, "envelope": seal, "files": named}) + b"\n"
    first = f"{hashlib.sha256(header).hexdigest()} {len(header):010d}\n".encode()
    bodies = (
        verify_blocks(read_local_blocks(folder, file.path), file, str(folder / file.path), "enrich it again")
        for file in files
    )
    return chain([first, header], chain.from_iterable(bodies))


def unpack_part(blocks: Iterator[bytes], folder: Path, document: str, fingerprint: str, where: str) -> str:
    """Write the files of a part into a new folder. Return the digest of the envelope it was made from.

    Args:
        where: its name in messages.

    Raises:
        Damaged: it is not whole, or not the part of this document by this pipeline.
    """
    stream = _ByteStream(blocks)
    files, seal = _read_header(stream, document, fingerprint, where)
    for file in files:
        handle = os.open(folder / file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as target:
            target.writelines(verify_blocks(stream.take(file.bytes), file, f"{where} ({file.path})", _REMEDY))
    if any(stream.take(1)):
        raise Damaged(f"{where} is damaged: bytes follow its last file", _REMEDY)
    return seal


def _read_header(stream: _ByteStream, document: str, fingerprint: str, where: str) -> tuple[list[File], str]:
    """Return (files, digest of the envelope)."""
    first = b"".join(stream.take(_FIRST))
    digest, _, length = first.decode("ascii", "replace").strip().partition(" ")
    if len(first) != _FIRST or not length.isdecimal() or int(length) > _LONGEST:
        raise Damaged(f"{where} is damaged: its first line is not that of a part", _REMEDY)
    header = b"".join(stream.take(int(length)))
    if hashlib.sha256(header).hexdigest() != digest:
        raise Damaged(f"{where} is damaged: its header does not match its digest", _REMEDY)
    try:
        raw = orjson.loads(header)
        files = [File(entry["path"], entry["bytes"], entry["sha256"]) for entry in raw["files"]]
        key, seal = (str(raw["document"]), str(raw["fingerprint"])), str(raw["envelope"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Damaged(f"{where} is damaged: its header is malformed", _REMEDY) from None
    if key != (document, fingerprint):
        raise Damaged(f"{where} is the part of another document or pipeline", _REMEDY)
    names = [str(file.path) for file in files]
    if wrong := [name for name in names if not _FILE.fullmatch(name)]:
        raise Damaged(f"{where} names {wrong[0][:80]!r}, which is no file of a part", _REMEDY)
    if len(set(names)) < len(names):
        raise Damaged(f"{where} names a file twice", _REMEDY)
    return files, seal


class _ByteStream:
    """Blocks of any size, read by number of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes; fewer at the end."""
        while size:
            block = self._rest or next(self._blocks, b"")
            if not block:
                return
            self._rest = block[size:]
            size -= len(block[:size])
            yield block[: len(block) - len(self._rest)]
