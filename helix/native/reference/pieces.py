"""The functions of `pieces.c` in Python."""

from __future__ import annotations

import re
from typing import Final

from helix.native.arrays import INT64, UINT8, UINT64
from helix.native.reference.memory import view_array

_FIRST: Final = 14695981039346656037  # start of the hash of a piece that begins a word
_INNER: Final = 0x9E3779B97F4A7C15  # of another piece
_PRIME: Final = 1099511628211
_BITS: Final = (1 << 64) - 1

# Runs of bytes by class: 1 for a letter, 2 for a sign, 4 for white space; 8 is added where a named token may begin.
_CHUNK: Final = re.compile(rb"[^\x04-\x07\x0c-\x0f]+")
_WORD: Final = re.compile(rb"[\x01\x03\x09\x0b]+")
_NAMED: Final = re.compile(rb"[\x08-\x0f]")


def _hash_beginnings(letters: bytes, inner: int) -> list[int]:
    """Return the hash of each beginning of a piece, the empty one first."""
    value = _INNER if inner else _FIRST
    hashes = [value]
    for letter in letters:
        value = (value ^ letter) * _PRIME & _BITS
        hashes.append(value)
    return hashes


def _find_place(table: memoryview, mask: int, value: int) -> int:
    """Return the place of a hash in the table, or the free place that it would take."""
    at = (value ^ value >> 32) & mask
    while (there := table[at]) and there != value:
        at = at + 1 & mask
    return at


def add_pieces(text: bytes, end: int, n: int, inner: int, table: int, mask: int) -> None:
    """Add the hashes of n adjacent pieces of text to a table, uint64[mask + 1]; each piece ends at its `end`."""
    places, at = view_array(table, UINT64, mask + 1, written=True).data, 0
    for stop in view_array(end, INT64, n).tolist():
        value = _hash_beginnings(text[at:stop], inner)[-1]
        places[_find_place(places, mask, value)] = value
        at = max(at, stop)


def _count_in_word(word: bytes, table: memoryview, mask: int, longest: int) -> int:
    """Return the number of pieces of a word: the longest known ones from its start, or 1 if one is unknown."""
    found = at = 0
    while at < len(word):
        hashes = _hash_beginnings(word[at : at + longest], at)
        size = len(hashes) - 1
        while size and not table[_find_place(table, mask, hashes[size])]:
            size -= 1
        if not size:
            return 1
        at += size
        found += 1
    return found


def count_pieces(
    text: bytes, end: int, n: int, kind: int, name: bytes, name_end: int, names: int, table: int, mask: int, lower: int,
    most: int, longest: int, hashes: int, tokens: int, left: int, room: int,
) -> int:  # fmt: skip
    """Write the number of pieces in the plain chunks of n adjacent texts, int64[n], and the other chunks.

    Return the number of other chunks; only `room` of them are written: (text, begin, end) as int64[room, 3]. `hashes`
    is not needed.
    """
    kinds = text.translate(view_array(kind, UINT8, 256).tobytes())
    lowered, name = text.lower(), name.lower()
    name_ends, ends = view_array(name_end, INT64, names).tolist(), view_array(end, INT64, n).tolist()
    named = tuple(name[begin:stop] for begin, stop in zip([0, *name_ends], name_ends, strict=False))
    places, words = view_array(table, UINT64, mask + 1).data, lowered if lower else text
    known: dict[bytes, int] = {}  # by word
    counts, others = [0] * n, []

    def count_word(word: bytes) -> int:
        if word not in known:
            known[word] = 1 if len(word) > most else _count_in_word(word, places, mask, longest)
        return known[word]

    for i, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        for chunk in _CHUNK.finditer(kinds, start, stop):
            begin, last = chunk.span()
            if b"\0" in chunk[0] or any(
                lowered.startswith(named, at.start(), stop) for at in _NAMED.finditer(kinds, begin, last)
            ):
                others.append((i, begin, last))
                continue
            spans = [word.span() for word in _WORD.finditer(kinds, begin, last)]
            letters = sum(high - low for low, high in spans)
            counts[i] += last - begin - letters + sum(count_word(words[low:high]) for low, high in spans)
    view_array(tokens, INT64, n, written=True)[:] = counts
    if written := others[:room]:
        view_array(left, INT64, len(written), 3, written=True)[:] = written
    return len(others)
