"""Generic transcripts: JSON lines, one turn a line; only `text` or `content` is required.

A line with a value that cannot be used is left out and reported, never taken in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    is_date_only,
    json_records,
    one_line,
    parse_epoch,
    parse_iso,
    session_of_path,
    unique,
)
from helix.sources.common.strip import strip_memory
from helix.sources.common.tools import TOOL_CHARS
from helix.types import ROLES, TYPES, Document, Parsed, Problem, Session, Turn

NAME = "jsonl"
JSON = True
GROWS = True

_ORIGINS: Final = {
    "user": "human",
    "assistant": "assistant",
    "tool": "tool",
    "system": "runtime_context",
    "document": "document",
}


class _BadValueError(Exception):
    """One value of a line cannot be used; the message says which and why."""


@dataclass(slots=True)
class _Draft:
    project: str | None = None
    title: str | None = None
    turns: list[tuple[int, str | None, Turn]] = field(default_factory=list)  # line, id as given, turn


def detect(sample: Sample) -> bool:
    """Whether any line is an object with `text` or `content`."""
    return any("text" in record or "content" in record for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Sessions in the order in which they first appear."""
    problems: list[Problem] = []
    drafts: dict[str, _Draft] = {}
    fallback = session_of_path(document.path)
    for line, record in json_records(document.text, problems):
        try:
            session = _label(record, "session") or fallback
            given, turn = _label(record, "id"), _turn(record)
        except _BadValueError as bad:
            problems.append(Problem(line, f"{bad}; the line is left out"))
            continue
        if turn is None:
            continue
        draft = drafts.setdefault(session, _Draft())
        draft.project = draft.project or turn.project
        draft.title = draft.title or turn.title
        draft.turns.append((line, given, turn))
    sessions = tuple(_session(name, draft, problems) for name, draft in drafts.items())
    return Parsed(sessions, tuple(sorted(problems)))


def _session(name: str, draft: _Draft, problems: list[Problem]) -> Session:
    """Ids that were given go before line numbers, which step aside; a second use of a given id is a problem."""
    taken: dict[str, int] = {}
    kept: list[tuple[int, str | None, Turn]] = []
    for line, given, turn in draft.turns:
        if given is not None and given in taken:
            problems.append(Problem(line, f"id {given!r} is already that of line {taken[given]}; the line is left out"))
            continue
        if given is not None:
            taken[given] = line
        kept.append((line, given, turn))
    names = dict.fromkeys(taken, 0)
    turns = tuple(replace(turn, id=given or unique(str(line), names)) for line, given, turn in kept)
    title = one_line(draft.title, TITLE_CHARS) if draft.title else None
    return Session(source=NAME, id=name, turns=turns, project=draft.project, title=title)


def _turn(record: Mapping[str, Any]) -> Turn | None:
    """The turn, its id still open; None where nothing but our own memory was in it."""
    text = _text(record)
    if not text.strip():
        raise _BadValueError("the text is empty")
    text = strip_memory(text).strip()
    role, speaker = _who(record)
    time, quality = _time(record.get("ts"))
    kind = _label(record, "type")
    if kind is not None and kind not in TYPES:
        raise _BadValueError(f"type {kind!r} is none of {', '.join(TYPES)}")
    turn = Turn(
        id="",
        text=text,
        role=role,
        origin=_ORIGINS[role],
        speaker=speaker,
        time=time,
        time_quality=quality,
        title=_label(record, "title"),
        type=kind,
        acl=_acl(record.get("acl")),
        pinned=_flag(record.get("pinned")),
        priority=_number(record, "priority", 1.0, 2.0),
        confidence=_number(record, "confidence", 0.0, 1.0),
        project=_label(record, "project"),
    )
    return turn if text else None


def _text(record: Mapping[str, Any]) -> str:
    name = "text" if record.get("text") is not None else "content"
    value = record.get(name)
    if value is None:
        raise _BadValueError("neither text nor content")
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise _BadValueError(f"{name} is not text, nor a list of text blocks")
    return "\n".join(part for part in (_block(block, name) for block in value) if part)


def _block(block: object, name: str) -> str:
    """Text of one block. Other kinds of block (an image, a tool call) have none."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        text = block.get("text")
        if isinstance(text, str):
            return text
        if text is None and block.get("type") not in (None, "text"):
            return ""
    raise _BadValueError(f"a block of {name} holds no text")


def _who(record: Mapping[str, Any]) -> tuple[str, str | None]:
    """Role and speaker. A role nobody knows is a name, where no speaker is given."""
    role, speaker = _label(record, "role"), _label(record, "speaker")
    if role is None:
        return "user", speaker
    if role.lower() in ROLES:
        return role.lower(), speaker
    return "user", speaker or role


def _time(value: object) -> tuple[datetime | None, str]:
    if value is None:
        return None, "none"
    if isinstance(value, str):
        time, quality = parse_iso(value), "derived" if is_date_only(value) else "exact"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        time, quality = parse_epoch(value), "exact"
    else:
        time, quality = None, "none"
    if time is None:
        raise _BadValueError(f"ts {_shown(value)} is neither ISO 8601 nor seconds or milliseconds since 1970")
    return time, quality


def _label(record: Mapping[str, Any], name: str) -> str | None:
    """A short text such as an id; whole numbers are taken as written."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _BadValueError(f"{name} {_shown(value)} is not text")
    return value.strip() or None


def _acl(value: object) -> tuple[str, ...]:
    # Silence here would show a text to people it was not meant for.
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise _BadValueError(f"acl {_shown(value)} is not a list of names")
    return tuple(name.strip() for name in value)


def _flag(value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise _BadValueError(f"pinned {_shown(value)} is not true or false")
    return value is True


def _number(record: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _BadValueError(f"{name} {_shown(value)} is not a number from {low:g} to {high:g}")
    return float(value)


def _shown(value: object) -> str:
    return one_line(repr(value), 60)
