"""Ends of phrases, and the keys of names."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.sentences import SPACE
from helix.enrich.facts.words import PATTERNS, VAGUE, WORDS

DETERMINER: Final = re.compile(r"\A(?:(?:the|a|an|my|our|his|her|their|your|its)\s+){1,2}", re.IGNORECASE)
TRAILING: Final = " .,;:!?'\"`*_)(-–—…"
AND: Final = re.compile(r",? and |, | & ")


def make_key(text: str) -> str:
    """Return the key of a name: lower case, without leading determiner, quotes and trailing punctuation."""
    text = SPACE.sub(" ", text.lower()).strip(TRAILING)
    return DETERMINER.sub("", text, count=1) if " " in text else text


def cut_at(border: re.Pattern[str], phrase: str) -> str:
    """Return a phrase up to a border."""
    match = border.search(phrase)
    return phrase[: match.start()] if match else phrase


def cut_clause(raw: str) -> str:
    """Return `raw` up to the end of its clause."""
    return cut_at(PATTERNS["cut"], raw).strip(TRAILING)


_THING_CUT: Final = re.compile(
    r" (?:for|at|in|with|on|from|by|to|as|about|since|over|the most|a lot|very much|so much|most)\b(?! (?:general))"
)


def read_phrase(raw: str, longest: int = 5) -> str:
    """Return a noun phrase of at most `longest` words; "" for a pronoun or a reference."""
    phrase = cut_at(_THING_CUT, cut_clause(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= longest or words[0] in VAGUE or set(words) & WORDS["refers back"]:
        return ""
    return phrase.strip(TRAILING)
