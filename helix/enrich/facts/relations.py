"""Facts, their relations, and the slot that a fact fills: one key whatever the words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from helix.enrich.facts.canonical import find_slot, is_exclusive
from helix.text.relations import read_relations

RELATIONS: Final[Mapping[str, bool]] = {name: relation.functional for name, relation in read_relations().items()}
"""Relation → whether it is functional: a subject has one object at a time."""


class Fact(NamedTuple):
    """One triple. A closing (`closes`) ends earlier ones; its `object` is empty where the sentence names none."""

    subject: str
    subject_key: str
    relation: str
    object: str
    object_key: str
    qualifier: str  # "", the purpose of "uses", the file or environment of a setting, the alternative of "prefers"
    closes: bool
    valid: datetime | None  # UTC, where the sentence says it: its begin; of a closing, its end
    until: datetime | None  # UTC, where the sentence says it: its end
    confidence: float  # in [0, 1], by pattern and role
    said: str  # the sentence, at most 300 characters
    reason: str = ""  # "" or the reason that the sentence gives for it
    several: bool = False  # one of several objects of one statement: "Prometheus and Grafana for monitoring"
    change: bool = False  # a choice between tools of one kind: "switched to DuckDB"

    @property
    def slot(self) -> tuple[str, str, str]:
        """Subject, slot of the relation, and qualifier, as keys: facts of one slot compete."""
        name = read_relations()[self.relation].slot
        return find_slot(self.subject_key, name, self.object_key, self.qualifier, self.closes)


def is_functional(fact: Fact) -> bool:
    """Return whether a subject has one object at a time: by relation; "we use X for Y" has one X for each Y.

    Without a purpose the kind of the tool decides: we have one CI, and one database where the sentence chooses it.
    """
    if fact.relation == "prefers":
        return fact.qualifier != "" and not fact.qualifier.startswith("over ")
    if fact.relation != "uses":
        return RELATIONS[fact.relation]
    subject, _, purpose = fact.slot
    alone = fact.change or fact.qualifier != "" or is_exclusive(purpose) or subject != "we"
    return alone and purpose != "" and not fact.several
