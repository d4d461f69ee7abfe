"""Cuts of long turns into pieces, at paragraphs, lines, sentences or words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from helix.text.tokenize import UNSPACED

TAIL_WORDS: Final = 20
"""Words; a smaller last piece joins the one before it within TAIL_ROOM."""

TAIL_ROOM: Final = 1.2
"""Times max_words."""

MAX_WORD: Final = 2_000
"""Characters; a longer run without white space is cut."""

CHARS_PER_WORD: Final = 24
"""Characters that count as one word, so that base64 or minified code counts as many."""

SPREAD: Final = 2
"""Times the characters of a full piece: more white space between two words separates them."""


class _Unit(NamedTuple):
    start: int
    end: int
    size: int


_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.MULTILINE)
_UNSPACED = re.compile(f"[{UNSPACED}]")
# Borders of units, coarse to fine; a border belongs to the unit before it.
_BORDERS: Final = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"\n"),
    re.compile(r"[.!?…][\"')\]”’]*\s+|[。！？｡][\"'」』）)]*\s*"),
    re.compile(r"\s+"),
)


def chunk(text: str, max_words: int = 150) -> list[str]:
    """Cut `text` into pieces of at most `max_words` words; a joined tail may make it 1.2 times as many.

    Only white space at the borders is lost. Code fences stay whole where they fit. Two characters of a script without
    spaces count as a word. White space alone gives no piece. Linear time.
    """
    pieces: list[_Unit] = []
    for unit in _split_blocks(text, max_words):
        last = pieces[-1] if pieces else None
        if last is not None and _may_join(last, unit, max_words, max_words):
            pieces[-1] = _Unit(last.start, unit.end, last.size + unit.size)
        else:
            pieces.append(unit)
    return [text[piece.start : piece.end].strip() for piece in _join_tails(pieces, max_words)]


def _may_join(last: _Unit, unit: _Unit, max_words: int, room: float) -> bool:
    """Return whether two neighbours fit into one piece of `room` words."""
    width = unit.end - last.start
    return width <= SPREAD * CHARS_PER_WORD * max_words and last.size + unit.size <= room


def _join_tails(pieces: list[_Unit], max_words: int) -> list[_Unit]:
    joined: list[_Unit] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and piece.size < TAIL_WORDS and _may_join(last, piece, max_words, TAIL_ROOM * max_words):
            joined[-1] = _Unit(last.start, piece.end, last.size + piece.size)
        else:
            joined.append(piece)
    return joined


def _split_blocks(text: str, max_words: int) -> Iterator[_Unit]:
    """Yield units of at most `max_words`: fences where they fit, else the coarsest units that fit."""
    start = 0
    fence: re.Match[str] | None = None
    for mark in _FENCE.finditer(text):
        if fence is None:
            yield from _split_units(text, start, mark.start(), 0, max_words)
            start, fence = mark.start(), mark
        elif mark[1][0] == fence[1][0] and len(mark[1]) >= len(fence[1]):
            end = text.find("\n", mark.end()) + 1 or len(text)
            yield from _split_fence(text, start, end, max_words)
            start, fence = end, None
    yield from _split_units(text, start, len(text), 0, max_words)


def _split_fence(text: str, start: int, end: int, max_words: int) -> Iterator[_Unit]:
    size = _count_words(text[start:end])
    if size <= max_words:
        yield _Unit(start, end, size)
    else:
        yield from _split_units(text, start, end, 0, max_words)


def _split_units(text: str, start: int, end: int, level: int, max_words: int) -> Iterator[_Unit]:
    """Yield the units of text[start:end] at `level` of `_BORDERS`, too large ones split at the next level."""
    for left, right in _split_level(text, start, end, level):
        size = _count_words(text[left:right])
        if size == 0:
            continue
        if size <= max_words:
            yield _Unit(left, right, size)
        elif level + 1 < len(_BORDERS):
            yield from _split_units(text, left, right, level + 1, max_words)
        else:
            yield from _cut_word(text, left, right, max_words)


def _split_level(text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
    for border in _BORDERS[level].finditer(text, start, end):
        yield start, border.end()
        start = border.end()
    if start < end:
        yield start, end


def _cut_word(text: str, start: int, end: int, max_words: int) -> Iterator[_Unit]:
    """Yield the parts of a word too long for a piece: of MAX_WORD characters, or fewer in a script without spaces."""
    width = 2 * max_words if _UNSPACED.search(text, start, end) else MAX_WORD
    for left in range(start, end, width):
        right = min(left + width, end)
        yield _Unit(left, right, _count_words(text[left:right]))


def _count_words(text: str) -> int:
    """Return the words of `text`; long words and unspaced scripts count by characters, white space counts 0."""
    count = len(text.split())
    if count and not text.isascii():
        count = max(count, (len(_UNSPACED.findall(text)) + 1) // 2)
    return max(count, -(-len(text.strip()) // CHARS_PER_WORD)) if count else 0
