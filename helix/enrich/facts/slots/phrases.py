"""Ends of phrases, and the keys of names."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.sentences import SPACE
from helix.enrich.facts.words import MONTHS, VAGUE, WORDS

# Ends an object: punctuation, a new clause, a time.
_CUT: Final = re.compile(
    r"(?i)\.(?=\s|\Z)|->|[,;:!?()\[\]\n…\"“”]|\s[-–—]+\s|[\U0001F300-\U0001FAFF]| (?:because|but|so|since|which|who|"
    "that|when|where|while|whilst|after|before|although|though|instead|anymore|now|these days|nowadays|right now|too|"
    "as well|again|yesterday|today|tonight|tomorrow|already|until|till|whenever|every|either|lol|haha|then|like|"
    r"unless|ever|more than|as of|at the moment|for (?:years|ages|now|the|a|an|my|our|me|us|over|about|\d+|two|three|"
    "four|five|six|ten)|and (?:I|we|my|our|he|she|they|it|then|now|am|is|are|have|has|that|you|the)|(?:in|on|by|last|"
    "next|this|from|of) (?:the (?:evenings?|mornings?|weekends?|summer|winter)|"
    rf"(?:early |late |mid-?)?(?:{MONTHS})\b|(?:19|20)\d\d\b|year\b|month\b|week\b|monday|tuesday|wednesday|thursday|"
    r"friday|saturday|sunday)|(?:a )?(?:few|couple of|two|three|\d+) (?:years?|months?|weeks?|days?) ago)(?!\w)"
)
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
    return cut_at(_CUT, raw).strip(TRAILING)


# The end of a decision or a plan.
CLAUSE_END: Final = re.compile(
    r"\.(?=\s|\Z)|[;!?\n(\"“”]|, (?!and \w+ the)| (?:because|so that|since|but|due to|after (?:a|my|our|getting|peer|"
    r"the)|starting (?=[A-Z]|next|in|from)|which means|although|though|lol|haha|after all|instead of having)\b|"
    r"\s[-–—]+\s"
)
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
