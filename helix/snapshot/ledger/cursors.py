"""How far each source has been taken in, so that of one that grows only what is new is read.

A cursor is one small file, `sources/<key>.json`: the digest of its second line, and JSON. The key is a digest of the
source's path and of what it is taken as. It is a note to save work, never the truth: without it, or with an old one, a
source is taken in anew, and items that are there already change nothing.

Of an export, which may hold thousands of conversations, one file says all: `sources/<key>.parts`. It does not name the
export, for the next one has another name, and the same conversations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from helix.snapshot import paths
from helix.snapshot.segment.batch import digest


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


class Known(NamedTuple):
    """What is known of one conversation of an export."""

    digest: str  # of its text as the export has it
    document: str  # the last one taken from it


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
    with contextlib.suppress(orjson.JSONDecodeError, TypeError):
        body = _read(root / "sources" / f"{key}.json")
        return None if body is None else Cursor(**orjson.loads(body))
    return None


def write(root: Path, key: str, cursor: Cursor) -> None:
    """Note how far a source has been taken in."""
    _write(root / "sources" / f"{key}.json", orjson.dumps(asdict(cursor)))


def read_parts(root: Path, key: str) -> dict[str, Known]:
    """What is known of the conversations of exports, by the digests of their ids."""
    with contextlib.suppress(orjson.JSONDecodeError, TypeError, AttributeError):
        body = _read(root / "sources" / f"{key}.parts")
        return {} if body is None else {name: Known(*known) for name, known in orjson.loads(body).items()}
    return {}


def write_parts(root: Path, key: str, parts: Mapping[str, Known]) -> None:
    """Note which conversations have been taken in."""
    _write(root / "sources" / f"{key}.parts", orjson.dumps({name: [*known] for name, known in parts.items()}))


def files(root: Path) -> list[Path]:
    """All there are."""
    return sorted(path for ending in ("json", "parts") for path in (root / "sources").glob(f"*.{ending}"))


def damaged(root: Path) -> list[Path]:
    """Those whose bytes do not match their digest."""
    return [path for path in files(root) if _read(path) is None]


def _read(path: Path) -> bytes | None:
    """What is in a file; None where it is not there, or damaged."""
    try:
        claimed, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if claimed == digest(body.decode("utf-8", "replace")).encode() else None


def _write(path: Path, body: bytes) -> None:
    paths.write_file(path, digest(body.decode()).encode() + b"\n" + body)
