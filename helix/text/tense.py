"""Tense of the sentence around a date."""

from __future__ import annotations

import re
from typing import Final, Literal

from helix.util.wordlists import fill_pattern, read_toml

Tense = Literal["past", "future", ""]

_SENTENCE_END: Final = re.compile(r"[.!?;\n](?=\s|\Z)")
_AROUND: Final = 160
"""Characters on each side of a date that are searched for its tense."""
_TENSES: Final = read_toml("helix.text", "date_forms")["tense"]
_VERBS: Final = "|".join(f"(?P<{tense}>{fill_pattern(verbs, {})})" for tense, verbs in _TENSES.items())
_SIGNAL: Final = re.compile(rf"\b(?:{_VERBS})\b", re.IGNORECASE)
_BORDER: Final = 40
"""Characters that a comma or a conjunction adds to the distance between a date and a verb."""
_BORDERS: Final = re.compile(r",|\b(?:and|but|so|because|then)\b")


def read_tense(match: re.Match[str]) -> Tense:
    """Return the tense of the verb nearest to a date in its sentence; a comma or a conjunction adds to the distance."""
    text, start, end = match.string, match.start(), match.end()
    first = max(0, start - _AROUND)
    for border in _SENTENCE_END.finditer(text, first, start):
        first = border.end()
    border_after = _SENTENCE_END.search(text, end, end + _AROUND)
    last = border_after.start() if border_after else min(len(text), end + _AROUND)
    nearest, tense = 10 * _AROUND, ""
    for signal in _SIGNAL.finditer(text, first, last):
        if signal.end() <= start:
            between = (signal.end(), start)
        elif signal.start() >= end:
            between = (end, signal.start())
        else:
            continue
        distance = between[1] - between[0] + _BORDER * sum(1 for _ in _BORDERS.finditer(text, *between))
        if distance < nearest:
            nearest, tense = distance, str(signal.lastgroup)
    return tense  # type: ignore[return-value]
