"""How far each source has been taken in, so that of one that grows only what is new is read.

A cursor is one small file, `sources/<key>.json`: the digest of its second line, and JSON. The key is a digest of the
source's path and of what it is taken as. It is a note to save work, never the truth: without it, or with an old one, a
source is taken in anew, and items that are there already change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from helix.snapshot import paths
from helix.snapshot.rows import digest


@dataclass(frozen=True, slots=True)
class Cursor:
    """What is known of one source."""

    device: int
    inode: int
    size: int  # of the whole file when it was last looked at
    mtime: int  # nanoseconds
    format: str
    document: str  # the last one taken from it
    offset: int = 0  # bytes taken in; 0 where it is always read whole
    lines: int = 0
    chars: int = 0  # of redacted text
    head: str = ""  # digest of the first bytes taken in
    tail: str = ""  # digest of the last ones
    first: str = ""  # the document with its beginning
    epoch: int = 0


_MOVED = "moved-"


def key_of(path: str, format: str, project: str | None, acl: Sequence[str], part: str = "") -> str:
    """The name of the cursor of a source, or of one part of it: a session of a database."""
    return digest(path, format, project or "", ",".join(sorted(acl)), part)


def moved(device: int, inode: int) -> str:
    """The name under which the cursor of a file is kept whose path another one has taken."""
    return f"{_MOVED}{device:x}-{inode:x}"


def by_file(root: Path) -> dict[tuple[int, int], str]:
    """Key of the cursor of each file that is known, by device and inode: a file that was renamed is found by it."""
    found: dict[tuple[int, int], str] = {}
    for path in (root / "sources").glob("*.json"):
        cursor = read(root, path.stem)
        if cursor is not None:
            found[cursor.device, cursor.inode] = path.stem
    return found


def read(root: Path, key: str) -> Cursor | None:
    """The cursor of a source; None where there is none, or a damaged one."""
    try:
        data = (root / "sources" / f"{key}.json").read_bytes()
    except OSError:
        return None
    body = _body(data)
    with contextlib.suppress(orjson.JSONDecodeError, TypeError):
        return None if body is None else Cursor(**orjson.loads(body))
    return None


def write(root: Path, key: str, cursor: Cursor) -> None:
    """Note how far a source has been taken in."""
    body = orjson.dumps(asdict(cursor))
    paths.write_file(root / "sources" / f"{key}.json", digest(body.decode()).encode() + b"\n" + body)


def damaged(root: Path) -> list[Path]:
    """Cursors whose bytes do not match their digest."""
    found = sorted((root / "sources").glob("*.json"))
    return [path for path in found if _body(path.read_bytes()) is None]


def _body(data: bytes) -> bytes | None:
    claimed, _, body = data.partition(b"\n")
    return body if claimed == digest(body.decode("utf-8", "replace")).encode() else None
