"""The request and the response of a recall, for every surface: one schema, so that none can drift."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from helix.memory import Memory
from helix.snapshot.reader import Snapshot
from helix.types import TYPES, Bundle, Item


class RecallRequest(BaseModel):
    """The arguments of one recall. Ranges are checked by the library, so that every surface says the same."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="the question", examples=["What did I tell Priya about vacation?"])
    k: int = Field(default=10, description="items to return")
    budget: int = Field(default=2000, description="tokens the context may take")
    project: str | None = Field(default=None, description="only this project")
    type: str | None = Field(default=None, description="episodic, semantic, procedural, decision or code")
    since: str | None = Field(default=None, description="ISO 8601, or an age like 7d")
    until: str | None = Field(default=None, description="ISO 8601, or an age like 7d")
    as_of: str | None = Field(default=None, description="what was known and valid then")
    session: str | None = Field(default=None, description="only this session")
    speaker: str | None = Field(default=None, description="only this speaker")
    current_only: bool = Field(default=False, description="nothing whose facts no longer hold")
    entities: list[str] = Field(default_factory=list, description="names the graph walk starts from")
    principal: str | None = Field(default=None, description="who asks")
    profile: str = Field(default="helix", description="the constants in force")
    now: str | None = Field(default=None, description="the moment of asking, ISO 8601")
    rerank: str | None = Field(default=None, description="late or cross: score the best items anew, at a price")
    rerank_top: int = Field(default=20, description="items that are scored anew, at most 30")
    explain: bool = Field(default=False, description="say what every stage did")
    why_not: str | None = Field(default=None, description="an item id: say at which stage it fell out")


class FeedbackRequest(BaseModel):
    """What became of one item."""

    model_config = ConfigDict(extra="forbid")

    item: str = Field(max_length=64, description="an item id, as recall shows it")
    kind: Literal["used", "helpful", "wrong", "fetched"] = Field(description="wrong does not count as an access")
    principal: str | None = Field(default=None, description="who says so")


def answer(memory: Memory, request: RecallRequest) -> dict[str, Any]:
    """Run one recall and give the response every surface gives.

    Raises:
        UsageError: see `Memory.recall`.
    """
    arguments = request.model_dump()
    return response(memory.recall(arguments.pop("query"), **arguments))


def response(bundle: Bundle) -> dict[str, Any]:
    """The promised JSON shape."""
    found: dict[str, Any] = {
        "snapshot": bundle.snapshot,
        "profile": bundle.profile,
        "skipped": bundle.skipped,
        "degraded": list(bundle.degraded),
        "items": [item_response(item) for item in bundle.items],
        "context": bundle.context,
        "tokens": bundle.tokens,
        "budget": bundle.budget,
        "counter": bundle.counter,
        "ms": dict(bundle.ms),
    }
    if bundle.trace is not None:
        found["trace"] = dict(bundle.trace)
    return found


def item_response(item: Item) -> dict[str, Any]:
    """One item of the response."""
    return {
        "id": item.id,
        "score": item.score,
        "type": item.type,
        "text": item.text,
        "session": item.session,
        "turns": list(item.turns),
        "speaker": item.speaker,
        "time": item.time,
        "project": item.project,
        "source": item.source,
        "why": dict(item.why),
    }


def visible_row(snap: Snapshot, identity: str, principal: str | None) -> int | None:
    """The row of a live item that the principal may see. No such item and a hidden one are the same: None."""
    return snap.seen_by(principal).find(identity)


def stored_item(snap: Snapshot, row: int, principal: str | None) -> dict[str, Any]:
    """One item as it is stored: the fields of a recalled one that need no question, its title and its neighbours."""
    entry, seen = snap.text(np.array([row]))[0], snap.seen_by(principal).columns
    item = Item(
        id=entry["id"],
        score=0.0,
        type=TYPES[snap.columns.type[row]],
        text=entry["text"],
        session=entry["session"],
        turns=tuple(entry["turns"]),
        speaker=entry["speaker"],
        time=entry["time"].replace(tzinfo=None).isoformat() + "Z" if entry["time"] else None,
        project=entry["project"],
        source=entry["path"],
        why={},
    )

    def neighbour(other: int) -> str | None:
        return f"{int(seen.key[other]):016x}" if other >= 0 else None

    return {
        **{name: value for name, value in item_response(item).items() if name not in ("score", "why")},
        "title": entry["title"],
        "previous": neighbour(int(seen.previous[row])),
        "next": neighbour(int(seen.next[row])),
    }
