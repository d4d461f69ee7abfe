"""Kind of an item's text as bits: question, first person, standing instruction, decision, an agent's narration."""

from __future__ import annotations

import re
from typing import Final

from helix.text.language_words import has_words
from helix.text.languages import ENGLISH

ASKS: Final = 1
"""Ends with a question mark: the next item may answer it."""

FIRST_PERSON: Final = 2
"""Says I, my or we."""

STANDING: Final = 4
"""A user's instruction for all later work."""

NARRATES: Final = 8
"""An agent only says what it is about to do, or only reads and searches: "Now let me check the tests"."""

DECIDES: Final = 16
"""A user says in few words that something is decided."""

PREFERS: Final = 32
"""A user opens with a preference or a convention."""

LIKES: Final = 64
"""A user says in passing what they prefer: "… and I prefer short functions, so how do I …"."""

NARRATION_WORDS: Final = 40
"""Words of a narration at most; a longer text says more."""

MAX_CHARS: Final = 300
"""Characters of a standing instruction or a decision; a longer text has another subject."""

_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|i've|i'd|my|me|we|our)\b", re.IGNORECASE)
_STANDING: Final = re.compile(
    r"^\s*(?:please )?(?:always|never|from now on|whenever|going forward|make sure (?:to|you)"
    r"|(?:do not|don't)(?! (?:think|know|see|understand|remember|worry|mind|care|believe|feel|have|want to)\b)"
    r"|when i ask)\b|\bwhen(?:ever)? i ask\b",
    re.IGNORECASE,
)

_PREFERS: Final = re.compile(
    r"^\s*(?:(?:(?:i|we)(?:'d| would)? (?:(?:much|really|always|strongly|generally) )?prefer\b"
    r"|(?:i|we)(?:'d| would) rather\b|(?:my|our) preference\b)"
    r"(?!.{0,24}\b(?:option|that one|this one|it|the (?:first|second|latter|former)|\d)\b)"
    r"|in (?:this|our) (?:project|repo(?:sitory)?|code ?base|team),? (?:we|all|every|each|always|never|nothing|no)\b"
    r"|please (?:answer|reply|respond|speak) (?:in|with|without|briefly)\b"
    r"|please use\b.{0,80}\b(?:in|for) (?:all|every|each|your)\b)",
    re.IGNORECASE,
)
_LIKES: Final = re.compile(
    r"\b(?:i|we)(?:'d| would)? (?:(?:much|really|always|usually|generally|strongly|still|also) )?prefer\b"
    r"|\b(?:my|our) (?:\w+ )?preferences?\b",
    re.IGNORECASE,
)
_DECIDES: Final = re.compile(
    r"\b(?:we|i|they|team|it was|has|have|'ve)\b(?: \w+){0,2} (?:decided|chose|agreed|settled|opted|ruled out)\b"
    r"|\bdecision (?:is|was)\b|\bdecision:",
    re.IGNORECASE,
)
_CALL: Final = re.compile(r"(?m)^\[(?P<tool>[^\]\n]{1,80})\] .*$")
_LOOKS: Final = re.compile(r"read|view|open|grep|glob|search|find|list|fetch|todo|task(?:update|create|list|get)", re.I)
_ABOUT_TO: Final = re.compile(
    r"\s*(?:(?:ok(?:ay)?|good|great|perfect|excellent|now|alright|all right|right|sure|so|next|first|then|and|also|hmm"
    r"|good (?:question|point|idea|catch)"
    r"|wait|i see|got it|interesting|clean|done|yes|finally)\b[\s,.!:;—–-]*)*"
    r"(?:let me|let's|let us|i'll|i will|i'm going to|i am going to|i need to|i should|i want to|i can now|time to"
    r"|checking|looking|running|reading|searching|verifying|building|testing)\b",
    re.IGNORECASE,
)


def _narrates(text: str) -> bool:
    """Return whether an agent's text is narration: prose that only announces, with calls that only look."""
    calls = [match["tool"] for match in _CALL.finditer(text)]
    prose = _CALL.sub(" ", text).strip()
    if not prose:
        return bool(calls) and all(_LOOKS.search(tool) for tool in calls)
    if len(prose.split()) > NARRATION_WORDS or not _ABOUT_TO.match(prose):
        return False
    return all(_LOOKS.search(tool) for tool in calls)


def read_cues(text: str, role: str, language: str = ENGLISH) -> int:
    """Return the bits of one text of a role, one of `helix.types.ROLES`, in a language."""
    bits = ASKS if text.rstrip().endswith(("?", "？", "؟")) else 0
    if language != ENGLISH:
        return bits | _read_foreign(text, role, language, asks=bool(bits))
    if _FIRST_PERSON.search(text):
        bits |= FIRST_PERSON
    if role == "user" and len(text) < MAX_CHARS and _STANDING.search(text):
        bits |= STANDING
    if role == "user" and len(text) < MAX_CHARS and not bits & ASKS:
        bits |= (DECIDES if _DECIDES.search(text) else 0) | (PREFERS if _PREFERS.search(text) else 0)
    if role == "user" and _LIKES.search(text):
        bits |= LIKES
    if role == "assistant" and _narrates(text):
        bits |= NARRATES
    return bits


def _read_foreign(text: str, role: str, language: str, *, asks: bool) -> int:
    bits = FIRST_PERSON if has_words(language, text, "first_person") else 0
    if role == "user" and len(text) < MAX_CHARS and not asks:
        for name, bit in (("standing", STANDING), ("decides", DECIDES), ("prefers", PREFERS)):
            bits |= bit if has_words(language, text, "cues", name) else 0
    return bits | (LIKES if role == "user" and has_words(language, text, "cues", "prefers") else 0)
