"""Subjects of slots: things, parts of a system, and the purposes that tools serve."""

from __future__ import annotations

import re
from typing import Final

from helix.enrich.facts.canonical import find_purpose, is_component, is_ours
from helix.enrich.facts.masks import MARK, OPAQUE
from helix.enrich.facts.slots import make_key
from helix.enrich.facts.words import NOT_NAMES, PATTERNS, TITLES, VAGUE, WORDS
from helix.text.gazetteer import AMBIGUOUS_PROJECTS, COMMON_WORDS, GIVEN_NAMES, ORGANISATIONS, PLACES, PROJECTS

_THING_ADVERB: Final = re.compile(
    r"(?: (?:already|now|also|currently|just|still|all|both|only|actually|mostly|again|itself|themselves|always|first|"
    r"then))+\Z"
)
_WHOLE: Final = frozenset(("every", "each", "both", "all"))
_CODE: Final = re.compile(r"[\d_./A-Z`-]")
_NO_BEGIN: Final = (
    (NOT_NAMES - WORDS["thing names"] - _WHOLE)
    | (VAGUE - _WHOLE)
    | (WORDS["quantifiers"] - _WHOLE)
    | WORDS["no subject"]
)
_VERBS: Final = WORDS["thing verbs"] | WORDS["finite verbs"]


def read_subject(words: str, determined: bool) -> str:
    """Return a thing at the begin of a clause as written, without its determiner; "" where it is no single thing."""
    name = _THING_ADVERB.sub("", words.replace('"', "").strip("' .,:"))
    parts = name.lower().split()
    if (
        not parts
        or (parts[0] in _NO_BEGIN and name[0] != "`" and parts[:2] != ["first", "aid"])
        or not _VERBS.isdisjoint(parts)
    ):
        return ""
    if (
        not _PRONOUNS.isdisjoint(parts)
        or (parts[0].endswith("ing") and len(parts) > 1 and not determined)
        or _OPERATOR.search(name)
    ):
        return ""
    if parts[-1] in WORDS["dangling"] or parts[-1] in _WHOLE or parts[-1].endswith("ly") or name.count("`") % 2:
        return ""
    if WORDS["no subject alone"].issuperset(parts) or _LINES.match(name):
        return ""
    if not determined and len(parts) > 3 and not _CODE.search(name) and not is_setting(name):
        return ""
    if any(part.endswith(".") for part in parts[:-1]) or (not determined and parts[0] in WORDS["imperatives"]):
        return ""
    if OPAQUE in name or _ARTICLE.search(name):
        return ""
    if _SPAN.fullmatch(name):
        return name if MARK in name or (name[1:-1].isalpha() and name.islower()) else name[1:-1]
    return _lower_first(name).replace("`", "")


_LINES: Final = re.compile(r"[Ll]ines? \d")
_SPAN: Final = re.compile(r"`[^`]+`")
# "The comment notes the route": an article inside a phrase follows a verb, or one of these.
_ARTICLE: Final = re.compile(r"(?<! (?:of|in|on|to|at|by))(?<! (?:for|and))(?<! (?:from|with)) (?:the|an?) ")


def _lower_first(name: str) -> str:
    """Return a phrase that opens a sentence as inside one: "filename generation", but "Kettle Pond"."""
    first, _, rest = name.partition(" ")
    low = first.lower().removesuffix("'s")
    if low in _WHOLE:
        return name[0].lower() + name[1:]
    if not rest or not first.istitle() or not rest.replace("`", "").islower():
        return name
    if low in GIVEN_NAMES or low in PROJECTS or low in AMBIGUOUS_PROJECTS or low in PLACES or low in ORGANISATIONS:
        return name
    return name[0].lower() + name[1:]


_PRONOUNS: Final = frozenset(
    [
        "it",
        "they",
        "them",
        "you",
        "we",
        "i",
        "he",
        "she",
        "this",
        "that",
        "there",
        "these",
        "those",
        "its",
        "their",
        "your",
        "his",
        "her",
        "my",
        "which",
    ]
)
_OPERATOR: Final = re.compile(r"[=+<>|&{}]")


_TAIL: Final = re.compile(r" (?:of|for|in|on|at|per|between|before|after|from|to) ")


def get_head(phrase: str) -> str:
    """Return the head noun of a phrase: "window" of "retention window for audit logs"."""
    return _TAIL.split(phrase, maxsplit=1)[0].rpartition(" ")[2].lower()


def is_setting(phrase: str) -> bool:
    """Return whether a phrase names a value that somebody sets: "upload limit", "RETRY_MAX"."""
    head = get_head(phrase)
    limit = phrase.lower().startswith(("max ", "min ", "maximum ", "minimum "))
    return limit or PATTERNS["setting"].search(head) is not None or head in WORDS["settings"]


def is_no_thing(phrase: str, relation: str) -> bool:
    """Return whether it has no slot: "the error" has no place, "that line" no value."""
    head = get_head(phrase)
    if relation in _OF_ANYTHING:
        return head in WORDS["no place for"]
    return head in WORDS["no thing"] | WORDS["no slot"]


_OF_ANYTHING: Final = frozenset(
    ("requires", "located_at", "scheduled_for", "called", "owned_by", "held_by", "kept_for")
)


_IDENTIFIER: Final = re.compile(r"`[^`]+`|\w+(?:[_-]\w+)+|\w+\(\)|[\w-]+\.[a-z]{1,5}")


def is_part(phrase: str) -> bool:
    """Return whether a phrase names a part of a system: code, or a phrase that ends with code or such a part."""
    last = phrase.rpartition(" ")[2]
    first = phrase.partition(" ")[0]
    coded = _IDENTIFIER.fullmatch(last) or _IDENTIFIER.fullmatch(first)
    return coded is not None or (is_component(phrase) and get_head(phrase) == last.lower())


_OWNED: Final = re.compile(
    r"(?P<owner>.{2,60}?)(?:'s|s') (?P<what>.+)|(?P<noun>.+?) (?:of|for) (?:the |our )?(?P<of>.+)"
)


def split_purpose(thing: str) -> tuple[str, str] | None:
    """Return (subject, purpose) of a thing that names a purpose: "CI", "the billing service's database", or None."""
    if find_purpose(thing):
        return "we", thing
    match = _OWNED.fullmatch(thing)
    if not match:
        return None
    owner, what = (match["owner"] or match["of"]), (match["what"] or match["noun"])
    if not find_purpose(what):
        return None
    return ("we" if is_ours(make_key(owner)) else owner), what


def place_use(subject: str, qualifier: str) -> tuple[str, str]:
    """Return subject and purpose of a use: "we" use it "for the billing service" is a use of the billing service."""
    if subject == "we" and is_component(qualifier) and not find_purpose(qualifier):
        return make_name(qualifier), ""
    return subject, qualifier


def make_name(phrase: str) -> str:
    """Return a phrase without its determiner."""
    return re.sub(r"\A(?:the|our|my|all|a|an|its|their|this) ", "", phrase, count=1)


def is_person(name: str) -> bool:
    """Return whether a capitalised name is plausibly one of a person."""
    words = name.split()
    first = words[0].lower().rstrip(".")
    if first in TITLES:
        return len(words) > 1
    if first in GIVEN_NAMES:
        return True
    low = name.lower()
    return not (first in COMMON_WORDS or first in PROJECTS or low in NOT_NAMES or first in WORDS["no subject"])
