"""Terms of a text that the type classifier weighs: words, pairs of words, the opening, the ending and the length."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

MAX_CHARS: Final = 1_500
"""Characters of an item that are read. Later words of a long item seldom tell its type."""

_OPENING: Final = 3  # words
_LONGEST: Final = 7  # log2 of a number of words; longer texts count as it
_MARK: Final = re.compile(r"\{[a-z]+\}| (?=n't\b|'(?:s|re|m|ll|ve|d)\b)")
"""Marks of transcripts, such as {laugh}, and the gap in "do n't"."""
_NAME: Final = re.compile(r"`[^`\n]{1,60}`|[a-zA-Z]+[_./][\w./]+|[a-z]+[A-Z]\w+|\w+\(\)|--\w[\w-]*")
"""Names of code, paths and options: each counts as the same term."""
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?|\d[\d.,:]*|[?`{}\[\]()=<>|#*_/✅⚠❓→]")


def list_terms(text: str) -> set[str]:
    """Return the distinct terms of a text: `word`, `word word`, `^opening`, `$ending` and `#length`.

    A number counts as `0`, and a name of code as a backtick. Takes linear time.
    """
    plain = _NAME.sub(" ` ", _MARK.sub("", text[:MAX_CHARS].replace("’", "'")))
    words = ["0" if word[0].isdigit() else word for word in _WORD.findall(plain.lower())]
    terms = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
    terms.update(f"^{word}" for word in words[:_OPENING])
    terms.update((f"^{' '.join(words[:2])}", f"${' '.join(words[-1:])}"))
    terms.add(f"#{min(_LONGEST, len(words).bit_length())}")
    return terms
