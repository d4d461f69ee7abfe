"""A part as one object: a line with its digest and length, a header of JSON that names the files, then their bytes.

Equal parts give equal bytes. What comes out is what went in, or nothing: the header is checked against the first line,
each file against the header, and no name leads out of the folder.
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
from helix.snapshot.manifest import File, describe
from helix.snapshot.replication import remote as sync

_FIRST: Final = 76
"""Bytes of the first line: 64 hex digits, a blank, the header's length in ten digits, a newline."""

_LONGEST: Final = 1 << 20
"""Bytes of a header: a part has some thirty files."""

_FILE: Final = re.compile(r"[a-z0-9_]+\.(npy|parquet|json)")


def pack(folder: Path, document: str, fingerprint: str, seal: str) -> Iterator[bytes]:
    """The bytes of a part.

    Args:
        seal: the digest of the envelope it was made from.

    Raises:
        Vanished: the part went away meanwhile.
    """
    try:
        files = [describe(folder, path) for path in sorted(folder.iterdir())]
    except FileNotFoundError:
        raise sync.Vanished(str(folder)) from None
    named = [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in files]
    header = orjson.dumps({"document": document, "fingerprint": fingerprint, "envelope": seal, "files": named}) + b"\n"
    first = f"{hashlib.sha256(header).hexdigest()} {len(header):010d}\n".encode()
    bodies = (
        sync.verified(sync.read_local(folder, file.path), file, str(folder / file.path), "enrich it again")
        for file in files
    )
    return chain([first, header], chain.from_iterable(bodies))


def unpack(blocks: Iterator[bytes], folder: Path, document: str, fingerprint: str, where: str) -> str:
    """Write the files of a part into a new folder; the digest of the envelope it was made from.

    Args:
        where: what a message calls it.

    Raises:
        Damaged: it is not whole, or not the part of this document by this pipeline.
    """
    remedy = "it is removed, and made again"
    stream = _Stream(blocks)
    first = b"".join(stream.take(_FIRST))
    digest, _, length = first.decode("ascii", "replace").strip().partition(" ")
    if len(first) != _FIRST or not length.isdecimal() or int(length) > _LONGEST:
        raise Damaged(f"{where} is damaged: it does not begin as a part", remedy)
    header = b"".join(stream.take(int(length)))
    if hashlib.sha256(header).hexdigest() != digest:
        raise Damaged(f"{where} is damaged: its header does not match its digest", remedy)
    try:
        raw = orjson.loads(header)
        files = [File(entry["path"], entry["bytes"], entry["sha256"]) for entry in raw["files"]]
        told = str(raw["document"]), str(raw["fingerprint"]), str(raw["envelope"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Damaged(f"{where} is damaged: its header is none", remedy) from None
    if told[:2] != (document, fingerprint):
        raise Damaged(f"{where} is the part of another document or pipeline", remedy)
    names = [str(file.path) for file in files]
    if wrong := [name for name in names if not _FILE.fullmatch(name)]:
        raise Damaged(f"{where} names {wrong[0][:80]!r}, which is no file of a part", remedy)
    if len(set(names)) < len(names):
        raise Damaged(f"{where} names a file twice", remedy)
    for file in files:
        handle = os.open(folder / file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as target:
            target.writelines(sync.verified(stream.take(file.bytes), file, f"{where} ({file.path})", remedy))
    if any(stream.take(1)):
        raise Damaged(f"{where} is damaged: it goes on behind its last file", remedy)
    return told[2]


class _Stream:
    """Blocks of any size, taken by number of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def take(self, size: int) -> Iterator[bytes]:
        """The next bytes; fewer where it ends."""
        while size:
            block = self._rest or next(self._blocks, b"")
            if not block:
                return
            self._rest = block[size:]
            size -= len(block[:size])
            yield block[: len(block) - len(self._rest)]
