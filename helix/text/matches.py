"""Places of a text that match the terms of a question, for marking them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from helix.text.tokenize import tokenise

MOST: Final = 400
"""Places of one text."""

_CHUNK: Final = re.compile(r"\S+")
_WORD: Final = re.compile(r"\w+")


def find_matches(text: str, terms: Collection[str], language: str) -> list[tuple[int, int]]:
    """Return (start, end) of each word that has one of the terms, ascending; at most `MOST`.

    Of a path or an identifier only the matching word is a place, if one of its words alone matches; else all of it.

    Args:
        terms: as `tokenise` writes them.
        language: of the text.
    """
    found: list[tuple[int, int]] = []
    for chunk in _CHUNK.finditer(text):
        if len(found) >= MOST:
            break
        if terms and not terms_of(chunk[0], language).isdisjoint(terms):
            words = [
                (chunk.start() + word.start(), chunk.start() + word.end())
                for word in _WORD.finditer(chunk[0])
                if not terms_of(word[0], language).isdisjoint(terms)
            ]
            found += words or [chunk.span()]
    return found[:MOST]


def terms_of(word: str, language: str) -> frozenset[str]:
    """Return the distinct terms of a word."""
    return frozenset(tokenise(word, language))
