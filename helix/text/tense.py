"""Tense of the sentence around a date."""

from __future__ import annotations

import re
from typing import Final, Literal

Tense = Literal["past", "future", ""]

_SENTENCE_END: Final = re.compile(r"[.!?;\n](?=\s|\Z)")
_AROUND: Final = 160
"""Characters on each side of a date that are searched for its tense."""
_FUTURE: Final = (
    "(?:will|won't|shall|should|must|can(?:'t)?|could|might|going to|gonna|let's|let us|need to|needs to|have to|has "
    r"to|to be|is|are|am|isn't|aren't|gets?)(?: not| be| being| get| \w{1,20}ly){0,2}(?: \w{1,20}(?:ed|ing))?|"
    r"(?:\w{1,12}['’](?:ll|re|m))(?: be| \w{1,20}ing)?|plans?|planning|hope to|due|deadline|remind me|starts?|begins?|"
    "comes?|opens?|ends?|takes|works|leaves?|flies|arrives?|goes|go|moves?|see you|meet|want|book|submit|send|ship"
)
_PAST: Final = (
    "was|were|wasn't|weren't|had|did|didn't|went|got|made|took|came|saw|met|said|told|found|lost|began|bought|"
    "brought|built|broke|left|felt|gave|heard|kept|knew|paid|ran|sent|sat|slept|spent|spoke|stood|taught|thought|won|"
    "wrote|woke|wore|flew|drove|ate|fell|grew|held|hid|rode|sang|shot|stole|swam|threw|understood|became|caught|"
    r"chose|drank|forgot|fought|hurt|led|sold|shook|has been|have been|['’]ve|(?:has|have) \w{1,20}ed|(?!need|feed|"
    r"speed|indeed|embed|exceed|proceed|hundred|bed|red|wed)\w{2,20}ed"
)
_SIGNAL: Final = re.compile(rf"\b(?:(?P<future>{_FUTURE})|(?P<past>{_PAST}))\b", re.IGNORECASE)
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
