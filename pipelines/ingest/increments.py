"""Sources that grow at their end, read in increments: each envelope holds the new lines and names the one before it.

Bytes are read once, a block of whole lines at a time, so memory does not grow with a log's length. Text after the
last line feed waits for its line feed: half a line could hold half a secret.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from helix.errors import InputRefused
from helix.redact.paths import redact_log
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger.cursors import Cursor
from helix.sources import registry as sources
from helix.sources.common.decode import decode, decode_lines, decode_text, unescape_ascii
from helix.sources.common.json_text import load_json
from helix.sources.common.sample import take_sample
from helix.types import Document, Problem

BLOCK: Final = 1 << 19
"""Bytes of a source in one envelope, up to a line's end: about three seconds of embedding."""

ENDS: Final = 4_096
"""Bytes at either end of the accepted text that identify a file."""

_OVERLAP: Final = 1 << 16
"""Bytes before a block that are redacted with it: a secret may cross the border of two blocks."""


@dataclass(frozen=True, slots=True)
class Increment:
    """The text of one envelope, and the cursor after it."""

    text: str  # redacted
    redacted: dict[str, int]
    problems: tuple[Problem, ...]
    end: Cursor
    omitted: int = 0  # lines that stay out; they are empty in the text


def detect_growing(first: bytes, whole: bool, path: str, format: str, settings: Settings) -> str:
    """Return the format of a growing source, judged by its first block; empty for any other source.

    Args:
        whole: the block is the whole source.
        format: the caller's choice, or `auto`.
    """
    if first[:2] in (b"\xff\xfe", b"\xfe\xff") or not first.strip():  # UTF-16 is read whole
        return ""
    try:
        text, _ = decode(first if whole else _cut_to_lines(first), settings.max_line_bytes)
        adapter = sources.detect(Document(path, text)) if format == "auto" else sources.FORMATS[format]
    except InputRefused:
        return ""
    if not adapter.GROWS or (adapter.JSON and not take_sample(text, path).records):
        return ""
    return adapter.NAME


def is_continued(file: BinaryIO, cursor: Cursor, size: int) -> bool:
    """Return whether the file still holds the accepted text, so that only later bytes are new."""
    return size >= cursor.offset and has_same_head(file, cursor) and _digest_tail(file, cursor.offset) == cursor.tail


def has_same_head(file: BinaryIO, cursor: Cursor) -> bool:
    """Return whether the first line is unchanged; otherwise another source has replaced the file."""
    file.seek(0)
    return _digest(_read_first_line(file.read(ENDS))) == cursor.head


def read_increments(
    file: BinaryIO,
    cursor: Cursor,
    settled: bool,
    settings: Settings,
    blank_lines: Callable[[bytes], tuple[bytes, int]] = lambda data: (data, 0),
) -> Iterator[Increment]:
    """Yield the text after the cursor. A last line without a line feed is left for later unless it is whole.

    Args:
        settled: the file was not written to for a while.
        blank_lines: empties the lines that stay out; it returns the text and their number.

    Raises:
        InputRefused: the text is not Unicode, or a line is too long.
    """
    is_json = sources.FORMATS[cursor.format].JSON
    limit = settings.max_line_bytes
    for data, size, too_long in _read_blocks(file, cursor.offset, limit):
        if too_long and not is_json:
            raise InputRefused(
                f"line {cursor.lines + 1} is longer than {limit} bytes",
                "break it into lines, or raise HELIX_MAX_LINE_BYTES",
            )
        if not data.endswith(b"\n") and not (_is_object_end(data) if is_json else settled):
            data = _cut_to_lines(data)
            size = len(data)
        if not size:
            return
        kept, omitted = blank_lines(data)
        text, problems = decode_lines(kept, limit) if is_json else (decode_text(kept, cursor.offset), [])
        problems = [*too_long, *problems]
        before = b"" if is_json else _read_before(file, cursor.offset)
        clean, redacted = _redact(text, before, is_json)
        end = replace(
            cursor,
            offset=cursor.offset + size,
            lines=cursor.lines + clean.count("\n"),  # after redaction: a key may have spanned several
            chars=cursor.chars + len(clean),
            head=cursor.head or _digest(_read_first_line(data[:ENDS])),
            tail=_digest_tail(file, cursor.offset + size),
        )
        placed = tuple(problem._replace(line=problem.line + cursor.lines) for problem in problems)
        yield Increment(clean, redacted, placed, end, omitted)
        cursor = end


def add_omitted_lines(cursor: Cursor, increment: Increment, header: str) -> tuple[Cursor, Increment]:
    """Put the omitted lines since the last document before an increment, as empty ones; return its start and it.

    Args:
        header: takes the place of the log's first line if that was omitted: later lines need it.
    """
    omitted, text, end = cursor.omitted, increment.text, increment.end
    if not omitted and not increment.omitted:
        return cursor, increment
    start = replace(cursor, lines=cursor.lines - omitted, chars=cursor.chars - omitted, omitted=0)
    text = "\n" * omitted + text
    end = replace(end, omitted=0)
    if not cursor.document and header and text.startswith("\n"):
        text, end = header + text, replace(end, chars=end.chars + len(header))
    return start, replace(increment, text=text, end=end)


def _redact(text: str, before: bytes, is_json: bool) -> tuple[str, dict[str, int]]:
    """Return the text without secrets, also without the ends of secrets that begin before it."""
    if is_json:  # one record a line: no secret crosses it
        clean, counts = redact_log(unescape_ascii(text))
        return clean, dict(counts)
    known = before.decode("utf-8", "replace").replace("\r\n", "\n")
    earlier, known_counts = redact(known)
    clean, counts = redact(known + text)
    # A secret that was cut off may change the end of the known text: only the common beginning is accepted already.
    same = os.path.commonprefix([earlier, clean])  # noqa: RUF071  of texts, not of paths
    return clean[len(same) :], dict(counts - known_counts)


# ---------------------------------------------------------------- bytes


def _read_blocks(file: BinaryIO, offset: int, longest: int) -> Iterator[tuple[bytes, int, list[Problem]]]:
    """Yield (whole lines, their bytes in the file, problems), about `BLOCK` bytes at a time.

    The last block may end inside a line. A line longer than `longest` is skipped without being held; an empty line
    replaces it.
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
            data = _cut_to_lines(data)
        yield data, len(data), []
        offset += len(data)


def _cut_to_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _read_before(file: BinaryIO, offset: int) -> bytes:
    """Return some whole lines before an offset."""
    start = max(offset - _OVERLAP, 0)
    file.seek(start)
    data = file.read(offset - start)
    return data if not start else data[data.find(b"\n") + 1 :]


def _digest_tail(file: BinaryIO, offset: int) -> str:
    file.seek(max(offset - ENDS, 0))
    return _digest(file.read(min(ENDS, offset)))


def _read_first_line(data: bytes) -> bytes:
    return data.split(b"\n", 1)[0]


def _is_object_end(data: bytes) -> bool:
    """Return whether the text after the last line feed is a whole JSON object."""
    last = data[data.rfind(b"\n") + 1 :]
    try:
        return isinstance(load_json(last.decode("utf-8")), dict)
    except ValueError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
