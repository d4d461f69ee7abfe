"""Bytes → text, or a refusal with its reason. Memory and time are linear in the input."""

from __future__ import annotations

import codecs
import re
from typing import Final

from helix.errors import InputRefused
from helix.types import Problem

# UTF-32 first: its little-endian mark begins with the one of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TO_UTF8: Final = "convert it to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8"
_EMPTY: Final = ("empty input", "give a file that has text in it")

# JSON may write any character as \uXXXX (some writers do so for & < >) and a slash as \/. After an escaped backslash it
# is text instead. A search for a pattern that begins with a plain character is a hundred times as fast.
_ESCAPE: Final = re.compile(r"\\(?:\\|u00([2-7][0-9a-fA-F])|(/))")


def unescape_ascii(text: str) -> str:
    """Return equal JSON text without escapes for printable ASCII, so that a pattern finds all of it.

    Quotes, backslashes and control characters keep their escapes.
    """
    if "\\u00" not in text and "\\/" not in text:
        return text
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    char = match[2] or (chr(int(match[1], 16)) if match[1] else "\\")
    return match[0] if char in '"\\\x7f' else char


def decode(data: bytes, max_line_bytes: int) -> tuple[str, list[Problem]]:
    """Return the text of one input, line feeds only, without byte order mark.

    Of JSON lines, a line that is invalid UTF-8 or longer than `max_line_bytes` (of UTF-8, without the line end) is a
    problem. An empty line replaces it, so that line numbers stay right.

    Raises:
        InputRefused: empty; binary; not Unicode; a line too long, outside JSON lines and JSON lists; no line left.
    """
    data, mark = _to_utf8(data)
    given = data
    if not data or data.isspace():
        raise InputRefused(*_EMPTY)
    nul = data.find(b"\0")
    if nul >= 0:
        remedy = "give text; UTF-16 needs its byte order mark"
        raise InputRefused(f"binary input: a NUL byte at offset {nul + mark}", remedy)
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    long_line = 0 if _is_document(data) else _find_long_line(data, max_line_bytes)
    if re.match(rb"\s*\{", data):
        text, problems = decode_lines(data, max_line_bytes)
        if problems and (not text or text.isspace()):
            raise InputRefused(f"no usable line: line {problems[0].line} is {problems[0].reason}", "nothing was read")
        return text, problems
    if long_line:
        raise InputRefused(
            f"line {long_line} is longer than {max_line_bytes} bytes",
            "break it into lines, or raise HELIX_MAX_LINE_BYTES",
        )
    text = decode_text(given, mark)
    if text.isspace():
        raise InputRefused(*_EMPTY)
    return text, []


def decode_text(data: bytes, offset: int = 0) -> str:
    """Return the text of a piece of UTF-8, line feeds only. `offset`: bytes of its file before it.

    Raises:
        InputRefused: it is not UTF-8.
    """
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputRefused(f"not UTF-8: byte offset {error.start + offset}", _TO_UTF8) from None


def _to_utf8(data: bytes) -> tuple[bytes, int]:
    """Return the same text as UTF-8 without its mark, and the bytes of that mark."""
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :], len(codecs.BOM_UTF8)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding).encode("utf-8"), 0
            except UnicodeDecodeError as error:
                raise InputRefused(f"not {encoding.upper()}: byte offset {error.start}", "save it as UTF-8") from None
    return data, 0


def _is_document(data: bytes) -> bool:
    """Return whether it may be a JSON list, as exports are: one value, in which lines mean nothing."""
    return re.match(rb"\s*\[\s*[\[{\"\]]", data) is not None


def _find_long_line(data: bytes, limit: int) -> int:
    """Return the number of the first line over `limit` bytes, from 1; 0: none. It looks once in every `limit` bytes."""
    start = 0
    while len(data) - start > limit:
        end = data.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            return data.count(b"\n", 0, start) + 1
        start = end + 1
    return 0


def decode_lines(data: bytes, limit: int) -> tuple[str, list[Problem]]:
    """Return the text of JSON lines, or of a piece of them, with the problems that `decode` reports."""
    data = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    if not _find_long_line(data, limit):
        try:
            return data.decode("utf-8"), []
        except UnicodeDecodeError:
            pass
    lines: list[str] = []
    problems: list[Problem] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        kept = ""
        if len(line) > limit:
            problems.append(Problem(number, f"longer than {limit} bytes ({len(line)}); raise HELIX_MAX_LINE_BYTES"))
        else:
            try:
                kept = line.decode("utf-8")
            except UnicodeDecodeError as error:
                problems.append(Problem(number, f"not UTF-8 at byte {error.start} of the line; {_TO_UTF8}"))
        lines.append(kept)
    return "\n".join(lines), problems
