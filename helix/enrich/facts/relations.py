"""Relations a fact may have, and the fact itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple


class Relation(NamedTuple):
    """What a relation is: one object at a time or many, how it is shown, whether it stays true however old."""

    functional: bool
    said: str  # with {subject} and {object}
    evergreen: bool


RELATIONS: Final[Mapping[str, Relation]] = {
    "name_is": Relation(True, "{subject} is called {object}", True),
    "lives_in": Relation(True, "{subject} lives in {object}", False),
    "comes_from": Relation(True, "{subject} comes from {object}", True),
    "works_at": Relation(True, "{subject} works at {object}", False),
    "works_as": Relation(True, "{subject} works as {object}", False),
    "studies_at": Relation(True, "{subject} studies at {object}", False),
    "studies": Relation(False, "{subject} studies {object}", False),
    "born_on": Relation(True, "{subject} was born on {object}", True),
    "spouse": Relation(True, "{subject} is married to {object}", False),
    "partner": Relation(True, "{subject} is together with {object}", False),
    "child": Relation(False, "{subject} has the child {object}", True),
    "parent": Relation(False, "{subject} has the parent {object}", True),
    "sibling": Relation(False, "{subject} has the sibling {object}", True),
    "friend": Relation(False, "{subject} is friends with {object}", False),
    "colleague": Relation(False, "{subject} works with {object}", False),
    "manager": Relation(True, "{subject} reports to {object}", False),
    "pet": Relation(False, "{subject} has the pet {object}", False),
    "owns": Relation(False, "{subject} owns {object}", False),
    "likes": Relation(False, "{subject} likes {object}", False),
    "dislikes": Relation(False, "{subject} dislikes {object}", False),
    "prefers": Relation(False, "{subject} prefers {object}", False),
    "allergic_to": Relation(False, "{subject} is allergic to {object}", True),
    "diet": Relation(True, "{subject} eats {object}", False),
    "speaks": Relation(False, "{subject} speaks {object}", True),
    "uses": Relation(False, "{subject} uses {object}", False),  # functional where there is a qualifier
    "decided": Relation(False, "{subject} decided: {object}", False),
    "set_to": Relation(True, "{subject} is set to {object}", False),
    "version_is": Relation(True, "{subject} is at {object}", False),
    "runs_on": Relation(True, "{subject} runs on {object}", False),
    "located_at": Relation(True, "{subject} is in {object}", False),
    "owned_by": Relation(True, "{subject} is looked after by {object}", False),
    "plans": Relation(False, "{subject} plans: {object}", False),
    "due": Relation(True, "{subject} is due {object}", False),
}


class Fact(NamedTuple):
    """One triple. A closing (`closes`) says that it holds no more; its `object` is empty where none was named."""

    subject: str
    subject_key: str
    relation: str
    object: str
    object_key: str
    qualifier: str  # "" or a key: what for ("uses"), over what ("prefers")
    closes: bool
    valid: datetime | None  # UTC: from when it holds, where the sentence says so; of a closing, when it ended
    until: datetime | None  # UTC: when it ended or will end, where the sentence says so
    confidence: float  # 0–1, by pattern and role
    said: str  # the sentence, at most 300 characters


def functional(fact: Fact) -> bool:
    """Whether one object holds at a time: by relation; "we use X for Y" is functional for each Y."""
    return RELATIONS[fact.relation].functional or (fact.relation == "uses" and fact.qualifier != "")
