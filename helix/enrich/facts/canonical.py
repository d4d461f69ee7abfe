"""Keys of slots: one subject, one purpose and one value, whatever the words."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, NamedTuple

from helix.enrich.facts.words import WORDS
from helix.util.wordlists import read_toml


class _Kinds(NamedTuple):
    """Kinds of tools, by tool and by purpose."""

    of_tool: dict[str, str]
    of_purpose: dict[str, str]
    exclusive: frozenset[str]


@cache
def _read_kinds() -> _Kinds:
    table = read_toml("helix.enrich", "tool_kinds")

    def invert(column: str) -> dict[str, str]:
        pairs = [(word.strip(), kind) for kind, row in table.items() for word in row[column].split(",")]
        return {word.replace("\n", " "): kind for word, kind in reversed(pairs)}  # the first kind of a word counts

    exclusive = frozenset(kind for kind, row in table.items() if row.get("exclusive"))
    return _Kinds(invert("tools"), invert("purposes"), exclusive)


def find_kind(tool: str) -> str:
    """Return the kind of a tool by its key, or "": "postgresql 16" is a database."""
    kinds = _read_kinds().of_tool
    return kinds.get(tool) or kinds.get(tool.rsplit(" ", 1)[0], "")


def find_purpose(words: str) -> str:
    """Return the kind of tools that a purpose names, or "": "the build server" is "ci"."""
    return _read_kinds().of_purpose.get(_cut_determiner(words.lower().strip("`\"' ")), "")


_DETERMINER: Final = re.compile(r"\A(?:the|our|my|a|an|their|its|this|all|all the|all of our|every|each|any) ")


def _cut_determiner(words: str) -> str:
    return _DETERMINER.sub("", words, count=1)


def is_component(phrase: str) -> bool:
    """Return whether it is a part of a system, which has slots of its own: "billing service"."""
    words = phrase.lower().split()
    return bool(words) and words[-1] in WORDS["components"]


def is_ours(phrase: str) -> bool:
    """Return whether it is another word for "we": "the project"."""
    return _cut_determiner(phrase.lower()) in WORDS["ourselves"]


_OWNER: Final = re.compile(r"(.{2,60}?)(?:'s|s') (.+)")
_OF: Final = re.compile(r"(.{2,60}?) (?:of|for|in|on|at) (?:the |our |my |all )?(.+)")
_WORD: Final = re.compile(r"[a-z]{2,}[^su'’i_]s\Z")


def _fold_word(word: str) -> str:
    """Return a word without its plural."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if _WORD.match(word) else word


@lru_cache(maxsize=4_096)
def fold_subject(key: str) -> str:
    """Return the key of a subject in one order: "retention window for audit logs" is "audit log retention window"."""
    key = _cut_determiner(key)
    if " " not in key:
        return _fold_word(key)
    owned = _OWNER.fullmatch(key)
    if owned:
        key = f"{owned[1]} {_cut_determiner(owned[2])}"
    of = _OF.fullmatch(key)
    if of:
        key = f"{of[2]} {of[1]}"
    words = [_fold_word(word) for word in key.replace("-", " ").split() if word not in WORDS["empty words"]]
    return " ".join(words) or key


def is_exclusive(kind: str) -> bool:
    """Return whether a project has one tool of a kind at a time: one CI, but several databases."""
    return kind in _read_kinds().exclusive


# A value that names no scope is one of these.
_MAIN_SCOPES: Final = frozenset(("production", "prod", ".env"))


def find_slot(subject: str, relation: str, object: str, qualifier: str, closes: bool) -> tuple[str, str, str]:
    """Return (subject, relation, qualifier) as keys of a slot.

    Args:
        subject: key of the subject.
        relation: name of the relation's slot.
        object: key of the object.
        qualifier: as written.
        closes: the fact ends others; without a purpose it ends the tool in every slot.
    """
    subject = "we" if is_ours(subject) else fold_subject(subject)
    qualifier = _cut_determiner(qualifier.lower())
    if relation == "does":
        return subject, relation, _fold_word(object.partition(" ")[0])
    if relation == "has":  # each thing there is, is a slot of its own
        place = f" in {qualifier}" if qualifier else ""
        return subject, relation, "" if closes and not place else f"{object}{place}"
    if relation != "uses":
        return subject, relation, "" if qualifier in _MAIN_SCOPES else qualifier
    if qualifier:
        return subject, relation, find_purpose(qualifier) or fold_subject(qualifier)
    return subject, relation, "" if closes else find_kind(object)
