"""Known names by kind, and the kind that the words of a longer name tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from helix.text.gazetteer import (
    AMBIGUOUS_GIVEN_NAMES,
    AMBIGUOUS_ORGANISATIONS,
    AMBIGUOUS_PLACES,
    AMBIGUOUS_PROJECTS,
    COMMON_WORDS,
    GIVEN_NAMES,
    HEADING_WORDS,
    LONG_ORGANISATIONS,
    LONG_PLACES,
    LONG_PROJECTS,
    ORGANISATIONS,
    PLACES,
    PROJECTS,
)
from helix.util.wordlists import read_groups

SURE: Final = 3
"""Weight of an unambiguous name and of a decisive cue. An ambiguous name and a hint weigh 1."""

PHRASES: Final = (
    dict.fromkeys(LONG_PROJECTS, "project")
    | dict.fromkeys(LONG_ORGANISATIONS, "organisation")
    | dict.fromkeys(LONG_PLACES, "place")
)
"""Known name of several words → its kind."""


def _weigh_names() -> dict[str, dict[str, int]]:
    weights: dict[str, dict[str, int]] = {}
    for kind, weight, names in (
        ("person", SURE, GIVEN_NAMES),
        ("person", 1, AMBIGUOUS_GIVEN_NAMES),
        ("place", SURE, PLACES - AMBIGUOUS_PLACES),
        ("place", 1, AMBIGUOUS_PLACES),
        ("organisation", SURE, ORGANISATIONS - AMBIGUOUS_ORGANISATIONS),
        ("organisation", 1, AMBIGUOUS_ORGANISATIONS),
        ("project", SURE, PROJECTS),
        ("project", 1, AMBIGUOUS_PROJECTS),
    ):
        for name in names:
            weights.setdefault(name, {}).setdefault(kind, weight)
    return weights


KNOWN: Final = _weigh_names()
"""Known name of one word → kind → weight."""

ALL_GIVEN_NAMES: Final = GIVEN_NAMES | AMBIGUOUS_GIVEN_NAMES

_PARTS: Final = read_groups("helix.text", "name_parts")
_ORGANISATION_STARTS: Final = _PARTS["organisation starts"]
_ORGANISATION_ENDS: Final = _PARTS["organisation ends"]
_PLACE_ENDS: Final = _PARTS["place ends"]
_PLACE_STARTS: Final = _PARTS["place starts"] - _PARTS["directions"]
_AMBIGUOUS: Final = AMBIGUOUS_GIVEN_NAMES | AMBIGUOUS_PLACES
NOUN_ENDINGS: Final = tuple(_PARTS["noun endings"])
NAME_ENDS: Final = _ORGANISATION_ENDS | _PLACE_ENDS


def is_common(word: str) -> bool:
    """Return whether a word is a common word, also with an apostrophe ending."""
    word = word.lower().strip("'.")
    return word in COMMON_WORDS or word.partition("'")[0] in COMMON_WORDS


def weigh_parts(lower: Sequence[str]) -> dict[str, int]:
    """Return the kind that a name of several lower-case words tells: "… University", "Lake …", a given name first."""
    first, last = lower[0], lower[-1]
    named_person = first in GIVEN_NAMES and last in _PARTS["surnames"]
    if first in _ORGANISATION_STARTS and len(lower) > 2:
        return {"organisation": SURE}
    if first in _PLACE_STARTS and last not in HEADING_WORDS:
        return {"place": SURE}
    if first in HEADING_WORDS or is_common(first):
        return {}
    if "&" in lower:
        return {"organisation": SURE} if len(lower) == 3 and last not in HEADING_WORDS else {}
    if last in _PLACE_ENDS and not named_person:
        return {"organisation": SURE} if first in _ORGANISATION_STARTS else {"place": SURE}
    if first in PROJECTS or (first in AMBIGUOUS_PROJECTS and last in _PARTS["project ends"]):
        return {"project": SURE}
    if first in _ORGANISATION_STARTS or (last in _ORGANISATION_ENDS and not named_person):
        return {"organisation": SURE}
    if first in ORGANISATIONS:
        return {"project": SURE}  # Google Maps, Apple Watch
    if last in PLACES and (first in _PARTS["directions"] or first in PLACES):
        return {"place": SURE}
    given = first in GIVEN_NAMES or (first in _AMBIGUOUS and last not in PLACES)
    if given and len(lower) <= 4 and last not in HEADING_WORDS and not is_common(last):
        return {"person": SURE}
    return {}
