"""The extent of a question: whether many turns answer it; and whether it asks for advice, on which rules bear."""

from __future__ import annotations

import re
from typing import Final, Literal

from helix.text.language_words import has_words
from helix.text.languages import ENGLISH
from helix.util.wordlists import read_toml

Extent = Literal["order", "count", "comparison", "summary", "list", "about", ""]

WIDE: Final = ("order", "count", "comparison", "summary", "list", "about")
"""Questions that many turns answer, the first that holds deciding."""

_SAID: Final = ("order", "count", "summary", "about")  # of what was said, never for advice

MAX_CHARS: Final = 600
"""Characters of a question that are read."""

_PATTERNS: Final = {
    name: re.compile(text.replace("\n", ""), re.IGNORECASE) for name, text in read_toml("helix.text", "asks").items()
}


def read_extent(text: str, language: str = ENGLISH) -> Extent:
    """Return which extent a question has; "" for one that a turn or two may answer."""
    text = _shorten(text)
    for name in WIDE:
        if _has(text, name, language):
            return name
    return ""


def asks_advice(text: str, language: str = ENGLISH) -> bool:
    """Return whether a question asks for advice or for work, not for what was said: "how did you recommend …"."""
    text = _shorten(text)
    if not _has(text, "advice", language) or _has(text, "past", language):
        return False
    return not any(_has(text, name, language) for name in _SAID)


def _shorten(text: str) -> str:
    return " ".join(text[:MAX_CHARS].replace("’", "'").split())


def _has(text: str, name: str, language: str) -> bool:
    if language == ENGLISH:
        return _PATTERNS[name].search(text) is not None
    return has_words(language, text, "asks", name)
