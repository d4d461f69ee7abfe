"""Drafts of facts, which become facts with the time, the weight and the sentence that state them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from helix.enrich.facts.relations import Fact
from helix.enrich.facts.slots import make_key
from helix.enrich.facts.times import read_validity
from helix.enrich.facts.values import fold_value
from helix.enrich.facts.words import PATTERNS, VAGUE, VALUES, WORDS
from helix.text.dates import Moment

WEIGHTS: Final = {"user": 1.0, "document": 0.9, "assistant": 0.75}
"""Factor on the confidence of a fact, by role; other roles state none."""

_SENTENCE_CHARS: Final = 300


class Voice(NamedTuple):
    """The speaker of a text and its time."""

    first: str  # the name of "I"; "" for none
    at: datetime | None
    role: str


class Draft(NamedTuple):
    """A fact without its time and its sentence."""

    subject: str
    relation: str
    object: str
    qualifier: str
    closes: bool
    confidence: float  # before the factor of the role
    several: bool = False
    change: bool = False  # a choice between tools of one kind, which end each other


def finish_fact(
    draft: Draft, voice: Voice, sentence: str, *, clause: str = "", spans: Iterable[Moment] = (), reason: str = ""
) -> Fact:
    """Return the fact of a draft.

    Args:
        sentence: as written.
        clause: the part of it that states the fact.
        spans: dates of the clause.
        reason: "" or the reason that the sentence gives.
    """
    valid, until = read_validity(draft.relation, list(spans), clause, voice.at, draft.closes)
    if draft.closes:
        valid = until = valid or until
    key = make_key(draft.object)
    key = _DECISION.sub("", key) if draft.relation == "decided" else fold_value(key)
    return Fact(
        draft.subject,
        make_key(draft.subject),
        draft.relation,
        draft.object,
        key,
        draft.qualifier,
        draft.closes,
        valid,
        until,
        round(draft.confidence * WEIGHTS[voice.role], 4),
        sentence[:_SENTENCE_CHARS],
        reason,
        draft.several,
        draft.change,
    )


_DECISION: Final = re.compile(r"\A(?:to|on|that) ")


# ---------------------------------------------------------------- uses

_VERSIONED: Final = re.compile(r"(.*[A-Za-z+#]\S*) v?(\d{1,5}(?:\.\d{1,5}){0,3})\Z")


def split_versions(drafts: Iterable[Draft], replaces: bool) -> Iterator[Draft]:
    """Yield "we use Python 3.11" as a version, and with "for X" as a use, too.

    Args:
        replaces: the statement ends the use of another tool, so it states a use in any case.
    """
    for draft in drafts:
        match = _VERSIONED.match(draft.object)
        if match:
            yield draft._replace(subject=match[1], relation="version_is", object=match[2], qualifier="", several=False)
            if not (draft.qualifier or replaces):
                continue
            draft = draft._replace(object=match[1])
        yield draft


_INSTEAD: Final = re.compile(r" (?:instead of|rather than|in place of|over|and not) (?P<old>.+)")
_FOR: Final = re.compile(r" (?:for|as(?= (?:the|our|a|an)\b))\b ?(?P<q>[^.,;:!?()]{2,60})")
_PURPOSE_ENDS: Final = re.compile(r"[,;(]| to | (?:which|that|because|since|so|but|and (?:we|I|it))\b")
_NO_PURPOSE: Final = VAGUE | WORDS["no purpose"]


def split_alternative(raw: str) -> tuple[str, str]:
    """Return the object, and the one that it replaces or "": "ruff instead of flake8"."""
    match = _INSTEAD.search(raw)
    return (raw[: match.start()], match["old"]) if match else (raw, "")


def read_purpose(raw: str) -> str:
    """Return the purpose of a use as written, or "": "the queue" of "Redis for the queue"."""
    phrase = _PURPOSE_ENDS.split(raw, maxsplit=1)[0]
    match = _FOR.search(phrase)
    if not match:
        place = VALUES["environment"].search(phrase)
        return place[0].strip() if place else ""
    words = PATTERNS["cut"].split(match["q"])[0].strip(" .,:;'\"")
    first = words.lower().partition(" ")[0]
    bare = re.sub(r"\A(?:the|our|a|an|all) ", "", words.lower()).partition(" ")[0]
    return "" if bare in _NO_PURPOSE - {"all"} or first.isdigit() else words
