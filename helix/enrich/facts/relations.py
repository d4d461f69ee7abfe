"""Relations of facts, and the fact itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

RELATIONS: Final[Mapping[str, bool]] = {
    "name_is": True,
    "lives_in": True,
    "comes_from": True,
    "works_at": True,
    "works_as": True,
    "studies_at": True,
    "studies": False,
    "born_on": True,
    "spouse": True,
    "partner": True,
    "child": False,
    "parent": False,
    "sibling": False,
    "friend": False,
    "colleague": False,
    "manager": True,
    "pet": False,
    "owns": False,
    "likes": False,
    "dislikes": False,
    "prefers": False,
    "allergic_to": False,
    "diet": True,
    "speaks": False,
    "uses": False,  # unless it has a qualifier
    "decided": False,
    "set_to": True,
    "version_is": True,
    "runs_on": True,
    "located_at": True,
    "owned_by": True,
    "plans": False,
    "due": True,
}
"""Relation → whether it is functional: a subject has one object at a time."""


class Fact(NamedTuple):
    """One triple. A closing (`closes`) ends earlier ones; its `object` is empty where the sentence names none."""

    subject: str
    subject_key: str
    relation: str
    object: str
    object_key: str
    qualifier: str  # "" or a key: the purpose of "uses", the rejected alternative of "prefers"
    closes: bool
    valid: datetime | None  # UTC, where the sentence says it: its begin; of a closing, its end
    until: datetime | None  # UTC, where the sentence says it: its end
    confidence: float  # in [0, 1], by pattern and role
    said: str  # the sentence, at most 300 characters


def is_functional(fact: Fact) -> bool:
    """Return whether a subject has one object at a time: by relation; "we use X for Y" has one X for each Y."""
    return RELATIONS[fact.relation] or (fact.relation == "uses" and fact.qualifier != "")
