"""What kind of utterance a piece of text is, as bits: whether it asks, whether its speaker speaks of themselves, and
whether it is a standing instruction ("always answer in metric units").
"""

from __future__ import annotations

import re
from typing import Final

ASKS: Final = 1
"""It ends with a question mark: what follows may answer it."""

FIRST_PERSON: Final = 2
"""Its speaker says I, my or we."""

STANDING: Final = 4
"""A user says how things shall be done from now on."""

LONGEST: Final = 300
"""Characters of a standing instruction; a longer text is about something and has one in it."""

_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|i've|i'd|my|me|we|our)\b", re.IGNORECASE)
_STANDING: Final = re.compile(
    r"^\s*(?:please )?(?:always|never|from now on|whenever|going forward|make sure (?:to|you)|do not|don't"
    r"|when i ask)\b|\bwhen(?:ever)? i ask\b",
    re.IGNORECASE,
)


def cues(text: str, role: str) -> int:
    """The bits of one text.

    Args:
        role: one of ROLES.
    """
    found = ASKS if text.rstrip().endswith(("?", "？", "؟")) else 0
    if _FIRST_PERSON.search(text):
        found |= FIRST_PERSON
    if role == "user" and len(text) < LONGEST and _STANDING.search(text):
        found |= STANDING
    return found
