"""Relations of facts as English: "we use Jenkins for CI", "Ana no longer lives in Oslo"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from helix.text.gazetteer import AMBIGUOUS_PROJECTS, COMMON_WORDS, GIVEN_NAMES, PROJECTS
from helix.util.wordlists import read_toml


class Relation(NamedTuple):
    """One relation; `data/relations.toml` describes the fields."""

    one: str
    several: str
    functional: bool
    slot: str
    before: str
    over: str
    about: str


@cache
def read_relations() -> Mapping[str, Relation]:
    """Return the relations by name."""
    return {
        name: Relation(
            row["verb"].partition("|")[0],
            row["verb"].rpartition("|")[2],
            row.get("functional", False),
            row.get("slot", name),
            row.get("before", ""),
            row.get("over", ""),
            row.get("about", ""),
        )
        for name, row in read_toml("helix.text", "relations").items()
        if name != "words"
    }


@cache
def _read_words(name: str) -> frozenset[str]:
    return frozenset(read_toml("helix.text", "relations")["words"][name].split())


def describe_fact(subject: str, relation: str, object: str, qualifier: str, closes: bool) -> str:
    """Return a fact as one English sentence, without a full stop.

    A relation that this release does not know keeps its name: "Ana reads_to Ben".
    """
    object = "us" if object == "we" else object
    known = read_relations().get(relation) or Relation(relation, relation, False, relation, "", "", "")
    name, several = _name_subject(subject)
    verb = known.several if several else known.one
    if closes and not object and known.over:
        return f"{name} {known.over}"
    if relation == "plans":
        verb, object = _plan(verb, object, several)
    if relation == "born_on" and re.fullmatch(r"\d{4}|\D+", object):
        verb = verb.replace(" on", " in")
    if relation == "located_at" and _PLACED.match(object):
        verb = verb.removesuffix(" at")
    if relation == "scheduled_for" and (_RECURRING.match(object) or _DATE.search(subject)):
        verb = verb.partition(" ")[0]
    if known.one.startswith("'s"):
        name, verb = _make_possessive(name), known.one[3:]
        if relation == "rule":
            return f"{name} {verb}: {object}"
    if closes:
        verb = _deny(verb) if verb else "no longer"
    words = (name, verb, object, _introduce(known.before, qualifier))
    return " ".join(word for word in words if word)


_PLACED: Final = re.compile(r"(?:in|on|at|under|behind|next to|inside|above|below|with|near|between|over) ")
_RECURRING: Final = re.compile(r"(?:daily|weekly|monthly|nightly|weekdays|weekends|every|each|once|twice)\b")
_DATE: Final = re.compile(r"(?:date|deadline|day|time)\Z")
_BE: Final = re.compile(r"(.*\b(?:is|are|was|were))\b(.*)")


def _deny(verb: str) -> str:
    """Return a verb with "no longer": "is no longer set to", "no longer lives in"."""
    be = _BE.fullmatch(verb)
    return f"{be[1]} no longer{be[2]}" if be else f"no longer {verb}"


def _plan(verb: str, action: str, several: bool) -> tuple[str, str]:
    """Return verb and object of a plan: "are" and "moving to Lisbon", "plan to" and "run a marathon"."""
    if action.partition(" ")[0].endswith("ing"):
        return ("are" if several else "is"), action
    return verb, action


def _introduce(before: str, qualifier: str) -> str:
    """Return a qualifier with its preposition."""
    return f"{before} {qualifier}" if qualifier and before and not _OWN_PREPOSITION.match(qualifier) else qualifier


_OWN_PREPOSITION: Final = re.compile(r"(?:over|for|in|on|at|to|during|from|until|per|as|with|by|under|after|before) ")


# ---------------------------------------------------------------- subjects

_PRONOUNS: Final = {"we": "our", "i": "my", "they": "their", "he": "his", "she": "her"}
_PLURAL: Final = re.compile(r"[A-Za-zé'][a-zé'’-]*[^su'’i_]s\Z|[A-Za-z][a-zé-]+(?:ses|zes|xes|ies)\Z")
_PLAIN: Final = re.compile(r"[a-zé'][a-zé'’-]*\Z")
_TAIL: Final = re.compile(r" (?:of|for|in|on|at|from|to|per|with|by|under|after|before) ")


def _name_subject(subject: str) -> tuple[str, bool]:
    """Return a subject as it opens a sentence, and whether its verb is plural."""
    if subject.lower() in _PRONOUNS:
        return subject.lower(), subject.lower() in ("we", "they", "i")
    return add_article(subject), is_plural(subject)


def is_plural(phrase: str) -> bool:
    """Return whether a noun phrase takes a plural verb: "audit logs", "flags of the command"."""
    head = _TAIL.split(phrase, maxsplit=1)[0]
    return " and " in head or head.startswith(("both ", "all ")) or _is_plural(head.rpartition(" ")[2])


def _is_plural(noun: str) -> bool:
    """Return whether it is the plural of a common noun: "flags", but "Redis" and "James" are names."""
    low = noun.lower()
    named = noun != low and (low in GIVEN_NAMES or low in PROJECTS or low in AMBIGUOUS_PROJECTS)
    return _PLURAL.match(noun) is not None and low not in _read_words("singular") and not named


def _make_possessive(name: str) -> str:
    """Return the owner of a noun: "our", "Ana's"."""
    return _PRONOUNS.get(name) or (
        f"{name}'" if name.islower() and _is_plural(name.rpartition(" ")[2]) else f"{name}'s"
    )


def inflect_verb(verb: str) -> str:
    """Return a verb in the third person: "goes", "tries", "swims"."""
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def add_article(phrase: str) -> str:
    """Return a common noun phrase with "the": "the billing service", but "CI", "Ana", "audit_log" and "a day"."""
    first, _, rest = phrase.partition(" ")
    if not _PLAIN.match(first) or first in _read_words("determiners"):
        return phrase
    named = is_proper(first) or first in _read_words("bare")
    return phrase if not rest and named else f"the {phrase}"


def is_proper(word: str) -> bool:
    """Return whether a word in lower case is a project or a given name, and no common word."""
    return word in PROJECTS or word in AMBIGUOUS_PROJECTS or (word in GIVEN_NAMES and word not in COMMON_WORDS)
