"""Turns as `helix export` writes them: a line of a generic transcript, whose field `helix` makes it exact.

The plain fields are those of any transcript, so other programs read them. `helix` holds what they cannot say, and only
where it is not the usual:

- `format`: the adapter that read the original, a part of every item's id; always there.
- `origin`, `parent`, `branch_of`, `unique`, `steps`: as `Turn` and `Session` have them.
- `title`: the session's title, where `title` is the turn's own.
- `workspace`: where the session worked; it names the project.
- `time_quality`, `time`: `exact` is the usual quality of a turn with `ts`, `none` without. `time` is that of the file
  of an undated turn, which is no `ts`: it was said earlier.
- `types`: type and certainty of each item, as the classifier judged it: of the same text it may judge otherwise among
  other texts, since a batch of vectors is rounded together. Absent where `type` says it.
- `pieces`: number, start and end of each item in the text, where `helix.enrich.chunk` would cut it otherwise.

A text of such a line is not cleaned again: it is byte for byte what the store has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from helix.sources.common.pieces import check_turn, read_step
from helix.types import TYPES, Session, Step, Turn
from helix.util.workspaces import decode_workspace, encode_workspace

FIELD: Final = "helix"
"""Field of an exported line."""

ORIGINS: Final[Mapping[str, str]] = {
    "user": "human",
    "assistant": "assistant",
    "tool": "tool",
    "system": "runtime_context",
    "document": "document",
}
"""The usual origin of each role."""

FORMAT: Final = re.compile(r"[a-z0-9-]{1,40}")
"""Names of formats."""

_STEP: Final = asdict(Step("", "other"))


def write_record(session: Session, turn: Turn, project: str | None) -> dict[str, Any]:
    """Return a turn as an exported line, without fields that say nothing.

    Args:
        project: its name, which the workspace of the session decides when the line is ingested, if there is one.
    """
    is_dated = turn.time_quality in ("exact", "derived")
    record = {
        "session": session.id,
        "id": turn.id,
        "role": turn.role,
        "speaker": turn.speaker,
        "ts": turn.time.isoformat() if turn.time and is_dated else None,
        "project": project,
        "title": turn.title or session.title,
        "type": turn.type,
        "acl": [*turn.acl] or None,
        "pinned": turn.pinned or None,
        "priority": turn.priority,
        "confidence": turn.confidence,
        "text": turn.text,
        FIELD: _write_rest(session, turn, "exact" if is_dated else "none"),
    }
    return {name: value for name, value in record.items() if value is not None}


def _write_rest(session: Session, turn: Turn, usual: str) -> dict[str, Any]:
    rest = {
        "format": session.source,
        "origin": None if turn.origin == ORIGINS[turn.role] else turn.origin,
        "time_quality": None if turn.time_quality == usual else turn.time_quality,
        "time": turn.time.isoformat() if turn.time and turn.time_quality not in ("exact", "derived") else None,
        "title": session.title or "" if turn.title else None,
        "parent": turn.parent,
        "branch_of": session.branch_of,
        "unique": turn.unique or None,
        "workspace": encode_workspace(session.workspace) if session.workspace else None,
        "steps": [*map(_write_step, turn.steps)] or None,
        "types": [[kind, round(certainty, 6)] for kind, certainty in turn.types] or None,
        "pieces": [list(piece) for piece in turn.pieces] or None,
    }
    return {name: value for name, value in rest.items() if value is not None}


def _write_step(step: Step) -> dict[str, Any]:
    return {name: value for name, value in asdict(step).items() if value != _STEP[name] or name in ("call", "action")}


def is_exported(record: Mapping[str, Any]) -> bool:
    """Return whether an export wrote a line."""
    rest = record.get(FIELD)
    return isinstance(rest, dict) and "format" in rest


def read_record(record: Mapping[str, Any]) -> tuple[Session, Turn]:
    """Return the turn of an exported line, and its session without turns.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: no export wrote the line like this.
    """
    rest, title = record[FIELD], record.get("title")
    is_own, workspace = "title" in rest, rest.get("workspace")
    time, quality = _read_time(record, rest)
    turn = Turn(
        id=record["id"],
        text=record["text"],
        role=record["role"],
        origin=rest.get("origin", ORIGINS[record["role"]]),
        speaker=record.get("speaker"),
        time=time,
        time_quality=quality,
        parent=rest.get("parent"),
        title=title if is_own else None,
        type=record.get("type"),
        acl=tuple(record.get("acl", ())),
        pinned=record.get("pinned", False),
        priority=_read_number(record, "priority", 1.0, 2.0),
        confidence=_read_number(record, "confidence", 0.0, 1.0),
        project=None if workspace else record.get("project"),
        unique=rest.get("unique", False),
        steps=tuple(map(read_step, rest.get("steps", ()))),
        types=_read_types(rest.get("types", ())),
        pieces=_read_pieces(rest.get("pieces", ()), len(record["text"])),
    )
    check_turn(turn)
    heading = (rest["title"] or None) if is_own else title
    names = (rest["format"], record["session"], heading or "", rest.get("branch_of") or "")
    if not all(isinstance(name, str) for name in names) or not FORMAT.fullmatch(rest["format"]):
        raise ValueError("no session")
    if not turn.text.strip() or not turn.id or not record["session"] or not all(turn.acl):
        raise ValueError("an empty field")
    place = decode_workspace(workspace) if workspace else None
    return Session(
        rest["format"], record["session"], (), None, heading, rest.get("branch_of"), place, exported=True
    ), turn


def _read_time(record: Mapping[str, Any], rest: Mapping[str, Any]) -> tuple[datetime | None, str]:
    is_dated = "ts" in record
    written = record["ts"] if is_dated else rest.get("time")
    quality = rest.get("time_quality", "exact" if is_dated else "none")
    if quality not in (("exact", "derived") if is_dated else ("file", "none")):
        raise ValueError("no quality of a time")
    return (datetime.fromisoformat(written).astimezone(UTC) if written is not None else None), quality


def _read_number(record: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"no {name}")
    return float(value)


def _read_types(types: Any) -> tuple[tuple[str, float], ...]:
    found = tuple((kind, float(certainty)) for kind, certainty in types)
    if not all(kind in TYPES and 0 <= certainty <= 1 for kind, certainty in found):
        raise ValueError("no types")
    return found


def _read_pieces(pieces: Any, size: int) -> tuple[tuple[int, int, int], ...]:
    found = tuple((number, start, end) for number, start, end in pieces)
    number = start = -1
    for piece in found:
        if (
            not all(type(part) is int for part in piece)
            or piece[0] <= number
            or not start <= piece[1] < piece[2] <= size
        ):
            raise ValueError("no pieces")
        number, start = piece[0], piece[2]
    return found
