"""Generic transcripts: JSON lines, one turn a line; only `text` or `content` is required.

A line with an unusable value is left out whole and reported. A line of `helix export` is read as it was written: see
`helix.sources.common.exported`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from helix.sources.common.exported import FIELD, ORIGINS, is_exported, read_record
from helix.sources.common.fields import join_texts
from helix.sources.common.injected import strip_memory
from helix.sources.common.json_text import read_records
from helix.sources.common.names import fold_line, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.times import is_date_only, parse_epoch, parse_iso
from helix.sources.common.tools import TOOL_CHARS
from helix.types import ROLES, TYPES, Document, Parsed, Problem, Session, Turn

NAME = "jsonl"
JSON = True
GROWS = True

_ROLES: Final = {
    **{"human": "user", "person": "user"},
    **{"ai": "assistant", "bot": "assistant", "model": "assistant", "agent": "assistant"},
    **{"function": "tool", "tool_result": "tool", "developer": "system"},
}
"""Other tools' names of the roles."""


class _BadValueError(Exception):
    """An unusable value of a line. Its message names the value and the reason."""


@dataclass(slots=True)
class _Draft:
    """A session while its lines are read."""

    project: str | None = None
    title: str | None = None
    exported: Session | None = None  # without its turns, of lines of an export
    turns: list[tuple[int, str | None, Turn]] = field(default_factory=list)  # line, id as given, turn


def detect(sample: Sample) -> bool:
    """Return whether any line is an object with `text` or `content`."""
    return any("text" in record or "content" in record for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the sessions in the order of their first turns."""
    problems: list[Problem] = []
    drafts: dict[tuple[str, ...], _Draft] = {}
    fallback = name_session_of_path(document.path)
    for line, record in read_records(document.text, problems):
        try:
            if is_exported(record):
                _add_exported(drafts, line, record)
            else:
                _add_turn(drafts, line, record, fallback)
        except _BadValueError as bad:
            problems.append(Problem(line, f"{bad}; the line is left out"))
    sessions = tuple(_build_session(key[-1], draft, problems) for key, draft in drafts.items())
    return Parsed(sessions, tuple(sorted(problems)))


def _add_turn(drafts: dict[tuple[str, ...], _Draft], line: int, record: Mapping[str, Any], fallback: str) -> None:
    """Add the turn of a line to its session, unless its text is only our own memory."""
    session = _read_label(record, "session") or fallback
    given, turn = _read_label(record, "id"), _read_turn(record)
    if turn is None:
        return
    draft = drafts.setdefault((session,), _Draft())
    draft.project = draft.project or turn.project
    draft.title = draft.title or turn.title
    draft.turns.append((line, given, turn))


def _add_exported(drafts: dict[tuple[str, ...], _Draft], line: int, record: Mapping[str, Any]) -> None:
    """Add the turn of an exported line to its session; sessions of two formats may have one name."""
    try:
        session, turn = read_record(record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _BadValueError(f"{FIELD} {_format(record[FIELD])} is not as an export has it ({error})") from None
    draft = drafts.setdefault((session.source, session.id), _Draft(exported=session))
    if draft.exported and session.workspace != draft.exported.workspace:  # the first line decides for the session
        turn = replace(turn, project=record.get("project"))
    draft.turns.append((line, turn.id, turn))


def _build_session(name: str, draft: _Draft, problems: list[Problem]) -> Session:
    """Return the session of a draft. Given ids take precedence over line numbers; a repeated one is a problem."""
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
    turns = tuple(replace(turn, id=given or make_unique(str(line), names)) for line, given, turn in kept)
    if draft.exported:
        return replace(draft.exported, turns=turns)
    title = fold_line(draft.title) if draft.title else None
    return Session(source=NAME, id=name, turns=turns, project=draft.project, title=title)


def _read_turn(record: Mapping[str, Any]) -> Turn | None:
    """Return the turn, still without id; None if its text is only our own memory."""
    text = _read_text(record)
    if not text.strip():
        raise _BadValueError("the text is empty")
    text = strip_memory(text).strip()
    time, quality = _read_time(record)
    kind = _read_label(record, "type")
    # Many tools call the role so.
    as_role, kind = (kind, None) if kind is not None and _find_role(kind) else (None, kind)
    role, speaker = _read_role(record, as_role)
    if kind is not None and kind not in TYPES:
        raise _BadValueError(f"type {kind!r} is none of {', '.join(TYPES)}")
    turn = Turn(
        id="",
        text=text,
        role=role,
        origin=ORIGINS[role],
        speaker=speaker,
        time=time,
        time_quality=quality,
        title=_read_label(record, "title"),
        type=kind,
        acl=_read_acl(record.get("acl")),
        pinned=_read_pinned(record.get("pinned")),
        priority=_read_number(record, "priority", 1.0, 2.0),
        confidence=_read_number(record, "confidence", 0.0, 1.0),
        project=_read_label(record, "project"),
    )
    return turn if text else None


def _read_text(record: Mapping[str, Any]) -> str:
    name = "text" if record.get("text") is not None else "content"
    value = record.get(name)
    if value is None:
        raise _BadValueError("neither text nor content")
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise _BadValueError(f"{name} is not text, nor a list of text blocks")
    return join_texts(_read_block(block, name) for block in value)


def _read_block(block: object, name: str) -> str:
    """Return the text of one block; an empty one for another kind, such as an image or a tool call."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        text = block.get("text")
        if isinstance(text, str):
            return text
        if text is None and block.get("type") not in (None, "text"):
            return ""
    raise _BadValueError(f"a block of {name} holds no text")


def _read_role(record: Mapping[str, Any], otherwise: str | None) -> tuple[str, str | None]:
    """Return role and speaker. An unknown role is the name of the speaker, if none is given.

    Args:
        otherwise: the role of a record without one.
    """
    role, speaker = _read_label(record, "role") or otherwise, _read_label(record, "speaker")
    if role is None:
        return "user", speaker
    known = _find_role(role)
    return known or "user", speaker if known else speaker or role


def _find_role(name: str) -> str | None:
    """Return the role of a name that some tool has for it; None for any other name."""
    name = name.lower()
    return name if name in ROLES else _ROLES.get(name)


def _read_time(record: Mapping[str, Any]) -> tuple[datetime | None, str]:
    """Return the time of `ts`, or of `timestamp`, as many tools call it, and its quality."""
    name = "ts" if record.get("ts") is not None else "timestamp"
    value = record.get(name)
    if value is None:
        return None, "none"
    if isinstance(value, str):
        time, quality = parse_iso(value), "derived" if is_date_only(value) else "exact"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        time, quality = parse_epoch(value), "exact"
    else:
        time, quality = None, "none"
    if time is None:
        raise _BadValueError(f"{name} {_format(value)} is neither ISO 8601 nor seconds or milliseconds since 1970")
    return time, quality


def _read_label(record: Mapping[str, Any], name: str) -> str | None:
    """Return a short text such as an id; a whole number as written."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _BadValueError(f"{name} {_format(value)} is not text")
    return value.strip() or None


def _read_acl(value: object) -> tuple[str, ...]:
    # An ignored value would show the text to people without access.
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
        raise _BadValueError(f"acl {_format(value)} is not a list of names")
    return tuple(name.strip() for name in value)


def _read_pinned(value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise _BadValueError(f"pinned {_format(value)} is not true or false")
    return value is True


def _read_number(record: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _BadValueError(f"{name} {_format(value)} is not a number from {low:g} to {high:g}")
    return float(value)


def _format(value: object) -> str:
    return fold_line(repr(value), 60)
