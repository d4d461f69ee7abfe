"""Cursors: how far each source is ingested, so that only the new end of a growing source is read.

A cursor is a small file, `sources/<key>.json`: the digest of its second line, and JSON. The key hashes the source's
path, format, project and ACL. A cursor only saves work: without it a source is read again, and known items change
nothing.

An export may hold thousands of conversations. One file records them all: `sources/<key>.parts`. Its key does not depend
on the export's name, which changes from one export to the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from helix.snapshot.ledger.digested_file import read_digested, write_digested
from helix.snapshot.segment.batch import hash_parts


@dataclass(frozen=True, slots=True)
class Cursor:
    """Ingested state of one source."""

    device: int
    inode: int
    size: int  # bytes of the whole file when it was last read
    mtime: int  # nanoseconds
    format: str
    document: str  # the last one ingested from it
    offset: int = 0  # bytes ingested; 0 if it is always read whole
    lines: int = 0
    chars: int = 0  # of redacted text
    head: str = ""  # digest of the first ingested bytes
    tail: str = ""  # digest of the last ones
    first: str = ""  # the document with its beginning
    epoch: int = 0
    read: float = 0.0  # seconds since 1970: when it was last looked at
    omitted: int = 0  # lines since the last document that were left out: Helix was off


class ConversationCursor(NamedTuple):
    """Ingested state of one conversation of an export."""

    digest: str  # of its text in the export
    document: str  # the last one ingested from it


_MOVED = "moved-"


def make_key(path: str, format: str, project: str | None, acl: Sequence[str], part: str = "") -> str:
    """Return the key of a source, or of one part of it, such as a session of a database."""
    return hash_parts(path, format, project or "", ",".join(sorted(acl)), part)


def make_moved_key(device: int, inode: int) -> str:
    """Return the key for the cursor of a file whose path another file has now."""
    return f"{_MOVED}{device:x}-{inode:x}"


def index_by_file(root: Path) -> dict[tuple[int, int], str]:
    """Return cursor keys by (device, inode), which finds a renamed file."""
    keys: dict[tuple[int, int], str] = {}
    for path in (root / "sources").glob("*.json"):
        cursor = read_cursor(root, path.stem)
        if cursor is not None:
            keys[cursor.device, cursor.inode] = path.stem
    return keys


def read_cursor(root: Path, key: str) -> Cursor | None:
    """Read the cursor of a source; None if it is missing or damaged."""
    with contextlib.suppress(orjson.JSONDecodeError, TypeError):
        body = read_digested(root / "sources" / f"{key}.json")
        return None if body is None else Cursor(**orjson.loads(body))
    return None


def write_cursor(root: Path, key: str, cursor: Cursor) -> None:
    """Write the cursor of a source."""
    write_digested(root / "sources" / f"{key}.json", orjson.dumps(asdict(cursor)))


def read_conversations(root: Path, key: str) -> dict[str, ConversationCursor]:
    """Read the conversations of exports, by the digests of their ids."""
    with contextlib.suppress(orjson.JSONDecodeError, TypeError, AttributeError):
        body = read_digested(root / "sources" / f"{key}.parts")
        return {} if body is None else {name: ConversationCursor(*entry) for name, entry in orjson.loads(body).items()}
    return {}


def write_conversations(root: Path, key: str, parts: Mapping[str, ConversationCursor]) -> None:
    """Write the ingested conversations of exports."""
    write_digested(root / "sources" / f"{key}.parts", orjson.dumps({name: [*entry] for name, entry in parts.items()}))


def list_files(root: Path) -> list[Path]:
    """List the files of all cursors."""
    return sorted(path for ending in ("json", "parts") for path in (root / "sources").glob(f"*.{ending}"))


def list_damaged(root: Path) -> list[Path]:
    """List the cursor files whose bytes do not match their digest."""
    return [path for path in list_files(root) if read_digested(path) is None]
