"""Slots of people: names, places, organisations, professions, languages, diets."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.slots.phrases import AND, TRAILING, cut_at, cut_clause
from helix.enrich.facts.words import (
    AMBIGUOUS_JOBS,
    JOBS,
    LANGUAGES,
    NATIONALITIES,
    NOT_NAMES,
    PATTERNS,
    PIECES,
    VAGUE,
    WORDS,
)
from helix.text.gazetteer import AMBIGUOUS_PLACES, LONG_PLACES, PLACES

NO_PLACE: Final = frozenset(PIECES["MONTHS"].lower().split("|")) | WORDS["no place"]
_NO_COMPANY: Final = NO_PLACE - {"github", "docker", "zoom", "slack"}


def read_people(raw: str) -> list[str]:
    """Return the names of people."""
    match = PATTERNS["name list"].match(raw)
    people: list[str] = []
    for name in AND.split(match[1]) if match else []:
        words = name.split()
        while words and words[-1].lower() in NOT_NAMES:
            words.pop()
        if not words or words[0].lower() in NOT_NAMES or words[0].lower() in NATIONALITIES:
            break
        people.append(" ".join(words))
    return people


def read_person(raw: str) -> list[str]:
    """Return one name of a person."""
    return read_people(raw)[:1]


def read_place(raw: str) -> list[str]:
    """Return a capitalised place, or a known one in lower case."""
    raw = raw.lstrip("`\"'")
    match = PATTERNS["place"].match(raw)
    if match:
        name = match[1].rstrip(TRAILING).removesuffix("'s")
        first = name.lower().partition(" ")[0]
        return [] if first in NO_PLACE or first in NOT_NAMES else [name]
    words = cut_clause(raw).split()
    for take in (3, 2, 1):
        phrase = " ".join(words[:take]).lower()
        if len(words) >= take and (phrase in PLACES or phrase in LONG_PLACES) and phrase not in AMBIGUOUS_PLACES:
            return [phrase]
    return []


def read_organisation(raw: str) -> list[str]:
    """Return the name of a company, or "bakery" of "a bakery"."""
    match = PATTERNS["organisation"].match(raw)
    if match:
        name = match[1].rstrip(TRAILING)
        first = name.lower().partition(" ")[0]
        return [] if first in NOT_NAMES or first in _NO_COMPANY or name[0].isdigit() else [name]
    match = PATTERNS["institution"].match(raw)
    return [match[1]] if match else []


_NO_ROLE: Final = VAGUE | {"well", "team", "expected", "intended"}
_JOB_CUT: Final = re.compile(r" (?:at|in|for|with|on|by|from|and|to|here|of(?! (?:\w+)\Z)|working|turned|by)\b")
_NO_FIELD: Final = VAGUE | WORDS["no field"]
_SUBJECT_CUT: Final = re.compile(
    r" (?:at|in|for|with|on|by|from|to|part-time|full-time|abroad|here|via|through|online|as)\b"
)


def read_profession(raw: str) -> list[str]:
    """Return a known profession with at most three words before it."""
    phrase = cut_at(_JOB_CUT, cut_clause(raw))
    words = phrase.lower().replace("/", " ").split()
    if not words or len(words) > 4 or set(words) & VAGUE:
        return []
    known = words[-1] in JOBS | WORDS["job heads"] if len(words) > 1 else words[-1] in JOBS - AMBIGUOUS_JOBS
    return [phrase] if known and not set(words) & WORDS["no job"] else []


def read_role(raw: str) -> list[str]:
    """Return any role after "work as a": up to four words."""
    phrase = cut_at(_JOB_CUT, cut_clause(raw))
    words = phrase.lower().split()
    return [phrase] if 0 < len(words) <= 4 and not set(words) & _NO_ROLE else []


def read_field(raw: str) -> list[str]:
    """Return subjects of study."""
    phrase = cut_at(_SUBJECT_CUT, cut_clause(raw))
    words = phrase.lower().split()
    if not 0 < len(words) <= 5 or set(words) & _NO_FIELD:
        return []
    return [part for part in AND.split(phrase) if part][:3]


_CALLED: Final = re.compile(r"[`\"'“]?([A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\wß-öø-ÿ'-]{1,30}){0,3})")


def read_languages(raw: str) -> list[str]:
    """Return languages, without how well they are spoken."""
    languages: list[str] = []
    for part in re.split(r",? and |, | & | or |,? but ", raw)[:8]:
        match = re.match(r"[A-Za-z]+", PATTERNS["level"].sub("", PATTERNS["level"].sub("", part.strip())))
        if not match or match[0].lower() not in LANGUAGES:
            break
        languages.append(match[0])
    return languages


def read_diet(raw: str) -> list[str]:
    """Return a diet; "a vegan restaurant" is none."""
    match = PATTERNS["diet"].match(raw)
    return [match[1]] if match else []


def read_called_name(raw: str) -> list[str]:
    """Return the name after "is called"."""
    match = _CALLED.match(raw)
    return [match[1]] if match and match[1].lower().partition(" ")[0] not in NOT_NAMES else []


def read_introduced_name(raw: str) -> list[str]:
    """Return a name on its own: "Hi, I am Farid and …", not "I am Back" or "I am Irish"."""
    match = PATTERNS["introduced"].match(raw)
    return read_person(match[1]) if match else []
