"""Questions with typing errors, as people make them on a QWERTY keyboard.

One or two words of four letters or more have an error each: a letter is left out, doubled or joined by that of a
neighbouring key, swapped with the next, or replaced by that of a neighbouring key; each kind is as likely (Damerau
1964, "A technique for computer detection and correction of spelling errors", found four of five errors to be one of
them). The first letter is wrong in one word of ten. Parts of identifiers are words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from pipelines.eval.sets.benchmark import Question

_ROWS: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS: Final = {
    letter: row[max(0, i - 1) : i] + row[i + 1 : i + 2] for row in _ROWS for i, letter in enumerate(row)
}
_WORD: Final = re.compile("[A-Za-z]{4,}")
_KINDS: Final = ("omit", "add", "swap", "replace")
_MOST: Final = 2  # words of a question
_FIRST: Final = 0.1  # of the errors are in the first letter


def misspell_questions(questions: Sequence[Question], seed: int = 0) -> list[Question]:
    """Return the questions with typing errors; the same for the same seed."""
    rng = random.Random(seed)
    return [question._replace(text=misspell(question.text, rng)) for question in questions]


def misspell(text: str, rng: random.Random) -> str:
    """Return a text with an error in one or two of its words."""
    words = list(_WORD.finditer(text))
    chosen = rng.sample(words, min(len(words), rng.randint(1, _MOST)))
    for word in sorted(chosen, key=lambda word: -word.start()):
        text = text[: word.start()] + misspell_word(word[0], rng) + text[word.end() :]
    return text


def misspell_word(word: str, rng: random.Random) -> str:
    """Return a word of two letters or more with one error."""
    at = 0 if rng.random() < _FIRST else rng.randrange(1, len(word))
    kind, near = rng.choice(_KINDS), rng.choice(_NEIGHBOURS[word[at].lower()])
    if kind == "omit":
        return word[:at] + word[at + 1 :]
    if kind == "add":
        return word[:at] + rng.choice((word[at], near)) + word[at:]
    if kind == "swap" and word[at : at + 2] != word[at : at + 2][::-1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + near + word[at + 1 :]
