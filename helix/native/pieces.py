"""Word-piece counts of plain text (`pieces.c`).

Arrays are of the standard library: these calls take microseconds, and NumPy needs longer to make its arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from helix.native.arrays import INT64, UINT8, UINT64, allocate, check_array
from helix.native.library import INT, POINTER, SHORT, UINT, declare_kernel
from helix.types import AnyArray

_add_pieces = declare_kernel(SHORT, "add_pieces", POINTER, POINTER, INT, INT, POINTER, UINT, result=None)
_count_pieces = declare_kernel(
    SHORT, "count_pieces", *[POINTER] * 2, INT, *[POINTER] * 3, INT, POINTER, UINT, *[INT] * 3, *[POINTER] * 3, INT
)

_LEFT: Final = 64  # first places for chunks that are not plain; the call repeats with more if needed


class Vocabulary(NamedTuple):
    """A vocabulary of word pieces, for `count_pieces`."""

    arguments: tuple[Any, ...]  # of the kernel
    arrays: tuple[AnyArray, ...]  # whose addresses are among the arguments


def build_vocabulary(
    first: Sequence[str], inner: Sequence[str], names: Sequence[str], *, lower: bool, most: int
) -> Vocabulary:
    """Build a vocabulary.

    Args:
        first, inner: plain pieces that begin a word, and that continue one.
        names: tokens with a name.
        lower: capital letters are looked up as small ones.
        most: letters of a word; a longer word is unknown.
    """
    slots = np.zeros(4 << (len(first) + len(inner)).bit_length(), np.uint64)
    mask, slots_at = len(slots) - 1, check_array("slots", slots, UINT64, len(slots), written=True)
    for texts, is_inner in ((first, 0), (inner, 1)):
        text, ends = _join_texts(texts)
        _add_pieces(text, ends.buffer_info()[0], len(ends), is_inner, slots_at, mask)
    kind = np.array([_classify_letter(chr(byte)) for byte in range(256)], np.uint8)
    for letter in {letter for name in names for letter in (name[:1].lower(), name[:1].upper()) if letter.isascii()}:
        kind[list(letter.encode())] |= 8  # a name may begin
    text, ends = _join_texts(names)
    name_ends, longest = np.array(ends, np.int64), max(map(len, (*first, *inner)), default=1)
    hashes, hashes_at = allocate(UINT64, longest)
    name_ends_at = check_array("name_ends", name_ends, INT64, len(names))
    name_arguments = (check_array("kind", kind, UINT8, 256), text, name_ends_at, len(names))
    arguments = (*name_arguments, slots_at, mask, lower, most, longest, hashes_at)
    return Vocabulary(arguments, (kind, name_ends, slots, hashes))


def _classify_letter(letter: str) -> int:
    """Return 1 for a letter or digit, 2 for a sign, 4 for white space, else 0."""
    if not letter.isascii():
        return 0
    return 1 if letter.isalnum() else 4 if letter in " \t\n\r" else 2 if letter.isprintable() else 0


def _join_texts(texts: Sequence[str]) -> tuple[bytes, array[int]]:
    """Return (the bytes of all texts, the end of each)."""
    parts = [text.encode() for text in texts]
    return b"".join(parts), array("q", accumulate(map(len, parts)))


def count_pieces(texts: Sequence[str], vocabulary: Vocabulary) -> tuple[list[int], list[tuple[int, str]]]:
    """Return (the word pieces of the plain chunks of each text, the other chunks as (text's place, chunk)).

    Chunks are separated by white space. Plain ones are printable ASCII without named tokens.
    """
    text, ends = _join_texts(texts)
    n, most, found = len(ends), 0, _LEFT
    while found > most:
        most, tokens, left = found, array("q", bytes(8 * n)), array("q", bytes(24 * found))
        out = (tokens.buffer_info()[0], left.buffer_info()[0], most)
        found = _count_pieces(text, ends.buffer_info()[0], n, *vocabulary.arguments, *out)
    return tokens.tolist(), [(left[i], text[left[i + 1] : left[i + 2]].decode()) for i in range(0, 3 * found, 3)]
