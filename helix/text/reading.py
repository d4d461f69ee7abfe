"""Reading of a question: whether it asks for what holds now, for what held then, or for why it changed."""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np

from helix.text.language_words import has_words
from helix.text.languages import ENGLISH
from helix.types import F32
from helix.util.wordlists import read_toml

Kind = Literal["now", "then", "why", ""]

ASKED: Final = ("who", "when", "where", "number", "how", "yes")
"""What a question asks for, by its words; several may hold."""

HINTS: Final = (*ASKED, "now", "first", "before", "after", "second")
"""Cues of a question, in order."""

MAX_CHARS: Final = 500
"""Characters of a question that are read."""


_TABLE: Final = read_toml("helix.text", "reading")
_HINTS: Final = tuple(re.compile(_TABLE["hints"][name].replace("\n", ""), re.I) for name in HINTS)
_KINDS: Final = {name: re.compile(text.replace("\n", ""), re.I) for name, text in _TABLE["kinds"].items()}


def read_kind(text: str, language: str = ENGLISH) -> Kind:
    """Return what a question is about; "" where its tense tells neither.

    A past tense asks for then, a present tense or "now" for now; a question word without a verb ("what CI") for now.
    What is asked of a whole course, such as a summary or a count of days between two, asks for neither.
    """
    text = _shorten(text)
    if language != ENGLISH:
        kinds: dict[str, Kind] = {"why": "why", "past": "then", "present": "now"}
        return next((kind for name, kind in kinds.items() if has_words(language, text, "questions", name)), "")
    if _KINDS["why"].search(text):
        return "why"
    if _KINDS["neither"].search(text):
        return ""
    if _KINDS["past"].search(text):
        return "then"
    return "now" if _KINDS["present"].search(text) else ""


def read_hints(text: str, language: str = ENGLISH) -> F32:
    """Return the cues of a question: float32[HINTS], 1 where the cue is there."""
    text = _shorten(text)
    if language != ENGLISH:
        return np.array([has_words(language, text, "questions", name) for name in HINTS], np.float32)
    return np.array([pattern.search(text) is not None for pattern in _HINTS], np.float32)


def _shorten(text: str) -> str:
    return " ".join(text[:MAX_CHARS].replace("’", "'").split())
