"""The voice of an item, for a person: its speaker, else the user, the agent or a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from helix.util.sanitise import sanitise_name

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

YOU: Final = "you"
"""The user of an agent: what an owner reads of an own store."""

_NO_AGENTS: Final = frozenset({"jsonl", "note", "markdown", "captions", "meeting", "slack", "specstory"})
"""Formats that do not name the assistant."""


def name_agents(snapshot: Snapshot, sources: Iterable[str]) -> dict[str, str]:
    """Return the agent of each source that is an agent's log or an assistant's export."""
    from helix.snapshot.ledger.formats import find_formats

    found = find_formats(snapshot.root, snapshot.manifest, sorted(set(sources)))
    return {source: name for source, name in found.items() if name not in _NO_AGENTS}


def find_voices(snapshot: Snapshot, items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return who said each item, by its id; "" for a document."""
    from helix.types import ROLES

    roles = {}
    for item in items:
        row = snapshot.find(item["id"])
        roles[item["id"]] = "document" if row is None else ROLES[snapshot.columns.role[row]]
    silent = [item for item in items if not item["speaker"]]
    agents = name_agents(snapshot, (item["source"] for item in silent if roles[item["id"]] == "assistant"))
    return {
        item["id"]: sanitise_name(item["speaker"] or _name_role(roles[item["id"]], agents.get(item["source"], "")))
        for item in items
    }


def _name_role(role: str, agent: str) -> str:
    if role == "assistant":
        return agent or role
    return {"user": YOU, "document": ""}.get(role, role)
