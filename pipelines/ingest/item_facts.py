"""Facts of items, as records: their slots, their entities, and the texts that they refer to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from helix.enrich.facts.drafts import WEIGHTS
from helix.enrich.facts.extract import extract_facts
from helix.enrich.facts.relations import Fact, is_functional
from helix.snapshot.segment.batch import hash_parts
from helix.types import Entity
from helix.util.undated import place_undated

Record = dict[str, Any]

BEFORE: Final = 3
"""Earlier texts of a session to which a text may refer."""


def list_before(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    """Yield, for each record, the texts of people, assistants and documents before it in its session, nearest first."""
    recent: deque[str] = deque(maxlen=BEFORE)
    session = None
    for record in records:
        if (record["source"], record["session"]) != session:
            session = (record["source"], record["session"])
            recent.clear()
        yield tuple(recent)
        if record["role"] in WEIGHTS and record["origin"] not in ("tool", "runtime_context"):
            recent.appendleft(record["text"])


RELAYED: Final = 0.45
"""Confidence of a fact, at most, that an agent only repeats from what a tool returned."""


def find_facts(
    record: Record, mentions: Sequence[Entity], before: Sequence[str], is_relayed: bool = False
) -> list[Record]:
    """Return the facts an item states, as records of FACTS.

    Args:
        before: texts before it in its session, the nearest first.
        is_relayed: an agent repeats what a tool returned.
    """
    text, speaker, role, origin = (record[name] for name in ("text", "speaker", "role", "origin"))
    found = extract_facts(text, speaker, role, origin, read_said(record), before)
    hashes = {entity.key: int(hash_parts(entity.kind, entity.key), 16) for entity in reversed(mentions)}
    # A fact supersedes others of its group only: never those of another project or of other readers.
    scope = (record["project"], ",".join(record["acl"] or ()))
    facts = [_make_fact(record, fact, hashes, scope) for fact in found]
    return [{**fact, "confidence": min(fact["confidence"], RELAYED)} for fact in facts] if is_relayed else facts


def _make_fact(record: Record, fact: Fact, hashes: Mapping[str, int], scope: tuple[str, ...]) -> Record:
    def entity(key: str, kind: str) -> int:
        return hashes.get(key) or (int(hash_parts(kind, key), 16) if key else 0)

    closes = "closes" if fact.closes else ""
    subject, slot, purpose = fact.slot
    return {
        "id": hash_parts(record["id"], fact.subject_key, fact.relation, fact.qualifier, fact.object_key, closes),
        "item": record["id"],
        "project": record["project"],
        **{key: getattr(fact, key) for key in ("subject", "subject_key", "relation", "object", "object_key")},
        **{key: getattr(fact, key) for key in ("qualifier", "said", "reason")},
        "t_valid": _to_seconds(fact.valid) if fact.valid else _place(record),
        "until": _to_seconds(fact.until),
        "t_ingested": record["t_ingested"],
        "confidence": fact.confidence,
        "functional": is_functional(fact),
        "closes": fact.closes,
        "group": int(hash_parts("fact", *scope, subject, slot, purpose), 16),
        "family": int(hash_parts("fact", *scope, subject, slot, ""), 16),
        "subject_entity": entity(fact.subject_key, "person"),
        "object_entity": entity(fact.object_key, "name"),
    }


def read_said(record: Record) -> datetime | None:
    """Return when an item was said; None if only its file has a time, by which no "yesterday" can be resolved."""
    seconds: int | datetime | None = None if record["time_quality"] == "file" else record["time"]
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else seconds


def _place(record: Record) -> int:
    """Return the second from which a fact holds whose sentence names none: when it was said, or its place."""
    latest: int | datetime = record["t_valid"]
    seconds = latest if isinstance(latest, int) else int(latest.timestamp())
    return seconds if read_said(record) else place_undated(seconds)


def _to_seconds(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None
