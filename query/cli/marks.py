"""Marks in a recalled text: the words that the question has, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.text.tokenize import tokenise

_WORD: Final = re.compile(r"\w+(?:[.'’_-]\w+)*")


def find_marks(text: str, question: str) -> Iterator[tuple[int, int]]:
    """Yield the places, begin and end, of the words of a text whose stem the question has, without stop words."""
    wanted = set(tokenise(question))
    if not wanted:
        return
    for word in _WORD.finditer(text):
        if not wanted.isdisjoint(tokenise(word[0])):
            yield word.span()
