"""The uuid graph of a Claude Code log: order, branches and anchors of its records.

Parents may be missing or form a cycle. Only prompts of a person make branches: parallel tools and hooks also give one
parent several children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """One record as a node of the graph. Without `text` and `tool` it is noise between two others."""

    uuid: str
    parent: str | None
    session: str
    time: datetime | None = None
    message: str | None = None  # id of the API message that the record is a part of
    role: str = ""
    origin: str = ""
    text: str = ""
    tool: str = ""
    is_prompt: bool = False  # typed by a person, where a rewind can fork
    is_native: bool = True  # the uuid is the log's, not ours

    @property
    def makes_turn(self) -> bool:
        """True with a text or a tool result."""
        return bool(self.text or self.tool)


@dataclass(slots=True)
class RecordPlace:
    """The branch of a record, and the turn that it belongs to or follows."""

    branch: str | None = None
    turn: str | None = None
    anchor: str | None = None  # nearest ancestor that makes a turn, else the start of its chain
    is_dropped: bool = False


def sort_parents_first(records: Mapping[str, GraphRecord]) -> list[GraphRecord]:
    """Return every record once, parents before children, else in file order. A cycle opens at its first record."""
    order: list[GraphRecord] = []
    done: set[str] = set()
    for record in records.values():
        chain: list[GraphRecord] = []
        on_chain: set[str] = set()
        at: GraphRecord | None = record
        while at is not None and at.uuid not in done and at.uuid not in on_chain:
            chain.append(at)
            on_chain.add(at.uuid)
            at = records.get(at.parent) if at.parent else None
        if at is not None and at.uuid in on_chain:
            opening = chain.index(at)
            chain = [*chain[:opening], *chain[opening + 1 :], at]
        order += reversed(chain)
        done |= on_chain
    return order


def find_places(
    records: Mapping[str, GraphRecord], order: Iterable[GraphRecord], is_warmup: Callable[[GraphRecord], bool]
) -> dict[str, RecordPlace]:
    """Return branch and anchor of every record. A subagent that opens with a warm-up is dropped."""
    places: dict[str, RecordPlace] = {}
    forks: dict[tuple[str, str], list[str]] = {}
    for record in order:
        before = places.get(record.parent or "")
        place = places[record.uuid] = RecordPlace(anchor=_find_anchor(record, records, before))
        is_agent = record.origin == "subagent" and record.role == "user"
        place.is_dropped = before.is_dropped if before else is_agent and is_warmup(record)
        if record.is_prompt and place.anchor is not None:
            forks.setdefault((record.session, place.anchor), []).append(record.uuid)

    line = {uuid: number for number, uuid in enumerate(records)}
    abandoned = {uuid for prompts in forks.values() for uuid in sorted(prompts, key=line.__getitem__)[:-1]}
    for record in order:
        before = places.get(record.parent or "")
        if record.uuid in abandoned:
            places[record.uuid].branch = record.uuid
        elif before is not None and record.parent and records[record.parent].session == record.session:
            places[record.uuid].branch = before.branch
    return places


def _find_anchor(record: GraphRecord, records: Mapping[str, GraphRecord], before: RecordPlace | None) -> str | None:
    """Return the record that a prompt answers: two prompts with one anchor are two attempts at the same point."""
    if before is None or record.parent is None:
        return record.parent
    return record.parent if records[record.parent].makes_turn else before.anchor or record.parent
