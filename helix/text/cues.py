"""Kind of an item's text as bits: a question, first person, a standing instruction ("always use metric units")."""

from __future__ import annotations

import re
from typing import Final

ASKS: Final = 1
"""Ends with a question mark: the next item may answer it."""

FIRST_PERSON: Final = 2
"""Says I, my or we."""

STANDING: Final = 4
"""A user's instruction for all later work."""

MAX_CHARS: Final = 300
"""Characters of a standing instruction; a longer text has another subject."""

_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|i've|i'd|my|me|we|our)\b", re.IGNORECASE)
_STANDING: Final = re.compile(
    r"^\s*(?:please )?(?:always|never|from now on|whenever|going forward|make sure (?:to|you)"
    r"|(?:do not|don't)(?! (?:think|know|see|understand|remember|worry|mind|care|believe|feel|have|want to)\b)"
    r"|when i ask)\b|\bwhen(?:ever)? i ask\b",
    re.IGNORECASE,
)


def read_cues(text: str, role: str) -> int:
    """Return the bits of one text of a role, one of `helix.types.ROLES`."""
    bits = ASKS if text.rstrip().endswith(("?", "？", "؟")) else 0
    if _FIRST_PERSON.search(text):
        bits |= FIRST_PERSON
    if role == "user" and len(text) < MAX_CHARS and _STANDING.search(text):
        bits |= STANDING
    return bits
