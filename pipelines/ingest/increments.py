"""Sources that grow at their end, taken in links: each envelope holds what was new and names the one before it.

Bytes are read once, a block of whole lines at a time, so a log of any length is accepted in the same memory. What is
behind the last line feed waits for it: half a line could hold half a secret.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from helix.errors import InputRefused
from helix.redact.paths import redact_log
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger.cursors import Cursor
from helix.sources import registry as sources
from helix.sources.common.decode import decode, decode_lines, decode_text, plain_escapes
from helix.sources.common.sample import sample
from helix.sources.common.shared import load_json
from helix.types import Document, Problem

BLOCK: Final = 2 << 20
"""Bytes of a source in one envelope, to the end of a line: some 15 seconds of embedding."""

ENDS: Final = 4_096
"""Bytes at either end of what was taken in that tell whether a file is still the one that was read."""

_OVERLAP: Final = 1 << 16
"""Bytes before a block that are looked at with it: a secret may lie on the border of two."""


@dataclass(frozen=True, slots=True)
class Link:
    """What one envelope takes of a source, and the cursor behind it."""

    text: str  # redacted
    redacted: dict[str, int]
    problems: tuple[Problem, ...]
    end: Cursor


def growing(first: bytes, whole: bool, path: str, format: str, settings: Settings) -> str:
    """The format of a source that grows, by its first block; empty for any other.

    Args:
        whole: whether the block is all there is.
        format: as given by whoever offers it, or `auto`.
    """
    if first[:2] in (b"\xff\xfe", b"\xfe\xff") or not first.strip():  # UTF-16 is read whole
        return ""
    try:
        text, _ = decode(first if whole else _whole_lines(first), settings.max_line_bytes)
        adapter = sources.detect(Document(path, text)) if format == "auto" else sources.FORMATS[format]
    except InputRefused:
        return ""
    if not adapter.GROWS or (adapter.JSON and not sample(text, path).records):
        return ""
    return adapter.NAME


def goes_on(file: BinaryIO, cursor: Cursor, size: int) -> bool:
    """Whether what was taken in of a file is still there, so that only what is behind it is new."""
    if size < cursor.offset or not begins_as(file, cursor):
        return False
    file.seek(max(cursor.offset - ENDS, 0))
    return _digest(file.read(min(ENDS, cursor.offset))) == cursor.tail


def begins_as(file: BinaryIO, cursor: Cursor) -> bool:
    """Whether the first line is still the one it was: else another source has taken its place."""
    file.seek(0)
    return _digest(_first_line(file.read(ENDS))) == cursor.head


def links(file: BinaryIO, cursor: Cursor, settled: bool, settings: Settings) -> Iterator[Link]:
    """What lies behind the cursor. A last line without an end is left for later, unless it is whole as it is.

    Args:
        settled: nobody has written to the file for a while.

    Raises:
        InputRefused: a text that is not Unicode, or has a line that is too long.
    """
    is_json = sources.FORMATS[cursor.format].JSON
    limit = settings.max_line_bytes
    for data, size, too_long in _blocks(file, cursor.offset, limit):
        if too_long and not is_json:
            raise InputRefused(
                f"line {cursor.lines + 1} is longer than {limit} bytes",
                "break it into lines, or raise HELIX_MAX_LINE_BYTES",
            )
        if not data.endswith(b"\n") and not (_is_value(data) if is_json else settled):
            data = _whole_lines(data)
            size = len(data)
        if not size:
            return
        text, problems = decode_lines(data, limit) if is_json else (decode_text(data, cursor.offset), [])
        problems = [*too_long, *problems]
        before = b"" if is_json else _before(file, cursor.offset)
        clean, redacted = _redacted(text, before, is_json)
        end = replace(
            cursor,
            offset=cursor.offset + size,
            lines=cursor.lines + clean.count("\n"),  # as they are read: a key may have been several
            chars=cursor.chars + len(clean),
            head=cursor.head or _digest(_first_line(data[:ENDS])),
            tail=_tail(file, cursor.offset + size),
        )
        placed = tuple(problem._replace(line=problem.line + cursor.lines) for problem in problems)
        yield Link(clean, redacted, placed, end)
        cursor = end


def _redacted(text: str, before: bytes, is_json: bool) -> tuple[str, dict[str, int]]:
    """The text without secrets, also without the ends of those that begin before it."""
    if is_json:  # a record a line: no secret goes beyond one
        clean, counts = redact_log(plain_escapes(text))
        return clean, dict(counts)
    known = before.decode("utf-8", "replace").replace("\r\n", "\n")
    earlier, known_counts = redact(known)
    clean, counts = redact(known + text)
    # A key that was cut off may have taken the end of what was known with it: what is the same in both is kept already.
    same = os.path.commonprefix([earlier, clean])  # noqa: RUF071  of texts, not of paths
    return clean[len(same) :], dict(counts - known_counts)


# ---------------------------------------------------------------- bytes


def _blocks(file: BinaryIO, offset: int, longest: int) -> Iterator[tuple[bytes, int, list[Problem]]]:
    """(whole lines, how many bytes of the file they are, problems): about `BLOCK` bytes at a time.

    The last one may end in the middle of a line. A line beyond `longest` is passed over and never held: an empty one
    stands in its place.
    """
    while True:
        file.seek(offset)
        data = file.read(BLOCK)
        while len(data) >= BLOCK and b"\n" not in data[-BLOCK:] and len(data) <= longest and (more := file.read(BLOCK)):
            data += more
        if b"\n" not in data and len(data) > longest:
            size = len(data)
            while b"\n" not in data and (data := file.read(BLOCK)):
                size += data.find(b"\n") + 1 or len(data)
            if not data:  # it has not ended yet
                return
            yield b"\n", size, [Problem(1, f"longer than {longest} bytes ({size - 1}); raise HELIX_MAX_LINE_BYTES")]
            offset += size
            continue
        if not data:
            return
        if len(data) >= BLOCK:
            data = _whole_lines(data)
        yield data, len(data), []
        offset += len(data)


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _before(file: BinaryIO, offset: int) -> bytes:
    """Some whole lines before a place in a file."""
    start = max(offset - _OVERLAP, 0)
    file.seek(start)
    data = file.read(offset - start)
    return data if not start else data[data.find(b"\n") + 1 :]


def _tail(file: BinaryIO, offset: int) -> str:
    file.seek(max(offset - ENDS, 0))
    return _digest(file.read(min(ENDS, offset)))


def _first_line(data: bytes) -> bytes:
    return data.split(b"\n", 1)[0]


def _is_value(data: bytes) -> bool:
    """Whether what is behind the last line feed is a JSON object all the same."""
    last = data[data.rfind(b"\n") + 1 :]
    try:
        return isinstance(load_json(last.decode("utf-8")), dict)
    except ValueError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
