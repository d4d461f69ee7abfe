"""Slots of things: tastes, possessions, responsibilities, tools."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.slots.phrases import AND, DETERMINER, cut_clause, read_phrase
from helix.enrich.facts.words import NOT_NAMES, PATTERNS, VAGUE, WORDS
from helix.text.gazetteer import PROJECTS

_STARTS_THE: Final = re.compile(r"the (?![A-Z])")
_RESTRICTED: Final = re.compile(r"[\w'-]+ (?:that|who|which|where|when)\b")
_TAIL_ADVERB: Final = re.compile(r"(?: (?:just|lately|together|alone|recently|so far|overall|myself|indeed|at all))+\Z")
_ADVERBIAL: Final = re.compile(r"(?:really|very|just|also|both|all|so|when|how|most|always|a lot|too)\b")
_BARE_GERUNDS: Final = WORDS["bare gerunds"]
_TOO_GENERAL: Final = (_BARE_GERUNDS - {"reading", "writing"}) | WORDS["no taste"] | {"spending time"}
_OWNABLE: Final = re.compile(r"(?:an?|two|three|four|five|some|my(?: own)?|our(?: own)?) ", re.IGNORECASE)
_NEW: Final = re.compile(
    r"\A(?:(?:my|our|a|an|own|new|used|second-hand|brand|brand-new|first|very first)\s+)+", re.IGNORECASE
)


def _complete_gerund(phrase: str, raw: str) -> str:
    """Return a phrase with the complement of its gerund: "going on road trips"; "" for "going" alone."""
    if phrase.lower() not in _BARE_GERUNDS:
        return phrase
    rest = PATTERNS["complement"].match(cut_clause(raw)[len(phrase) :])
    if not rest:
        return phrase if phrase in ("reading", "writing") else ""
    return phrase + rest.group()


def read_taste(raw: str) -> list[str]:
    """Return bare nouns and gerunds; "the new layout" is an opinion of one day."""
    if _STARTS_THE.match(raw) or _ADVERBIAL.match(raw) or raw[:3] in ("my ", "a l") or _RESTRICTED.match(raw):
        return []
    whole = _TAIL_ADVERB.sub("", read_phrase(raw, 9))
    if " or " in whole:
        return []
    parts = [part.removeprefix("and ") for part in AND.split(_complete_gerund(whole, raw)) if part]
    if any(len(part.split()) > 4 or part.split()[0].lower() in VAGUE or part.lower() in _TOO_GENERAL for part in parts):
        return []
    return parts[:4]


def read_one_thing(raw: str) -> list[str]:
    """Return the first noun phrase."""
    phrase = _complete_gerund(read_phrase(AND.split(raw)[0]), raw)
    if _RESTRICTED.search(raw[: len(phrase) + 8]):
        return []
    # "clear, measurable goals" begins with an adjective.
    adjective = " " not in phrase and phrase.islower() and raw[len(phrase) : len(phrase) + 1] == ","
    return [phrase] if phrase and not adjective and not phrase.lower().startswith("the ") else []


def read_possession(raw: str) -> list[str]:
    """Return a thing with "a", "two" or "my": a possession."""
    if not _OWNABLE.match(raw):
        return []
    phrase = _NEW.sub("", read_phrase(re.sub(r"\A(?:my|our) (?:own )?", "", AND.split(raw)[0]), 6))
    return [phrase] if phrase and len(phrase) > 2 else []


# Only names have a capital, a digit or a dot.
NAMED: Final = re.compile(r"[A-Z0-9_.+#/]")
_NO_TOOL: Final = VAGUE | WORDS["no tool"]


def read_tool(raw: str) -> list[str]:
    """Return tools: names, known tools, or one lower-case word."""
    tools: list[str] = []
    rest = re.sub(r"\A(?:our own|our|the) (?=[A-Z`])", "", raw)
    while len(tools) < 6:
        match = PATTERNS["tool"].match(rest)
        if not match or rest[match.end(1) :].lstrip("`").startswith("'s"):
            break
        first = match[1].rstrip(".,-/")
        head = first.lower()
        if head in _NO_TOOL or head in NOT_NAMES:
            break
        named = NAMED.search(first) is not None or head in PROJECTS
        words = [word.rstrip(".,-/") for word in match[2].split()] if len(first) == len(match[1]) else []
        after = rest[match.end() if words else match.end(1) :].lstrip("`\"'")
        lower = [word for word in words if not (word[:1].isupper() or word in PROJECTS)]
        common = [word for word in lower if not PATTERNS["version"].fullmatch(word)]
        # "Git tags" is a name with one common noun, but "CSS preprocessor like X" is none.
        if common and (not named or common != words[-1:] or not _ends_here(after)):
            break
        if (not words and not _ends_here(after)) or (not named and len(head) < 2):
            break
        tools.append(" ".join([first, *words]))
        listed = re.match(r"(?:,? and |, )(?=[A-Z`])", after)
        if not listed or not named:
            break
        rest = after[listed.end() :]
    return tools


def _ends_here(rest: str) -> bool:
    """Return whether the phrase ends where `rest` begins."""
    return not rest or rest[0] in ".,;:!?)" or PATTERNS["tool ends"].match(rest) is not None


def read_responsibility(raw: str) -> list[str]:
    """Return a thing that somebody is responsible for."""
    phrase = DETERMINER.sub("", read_phrase(AND.split(raw)[0]))
    return [phrase] if phrase else []
