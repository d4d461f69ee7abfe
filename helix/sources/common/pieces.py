"""A text of many megabytes in pieces, each with some of its turns.

A text that is cut unread loses its headings, its speakers and the numbers of its paragraphs. So it is read whole, and
a piece holds turns: a line that names the session, then a line for each turn. The turns of a piece keep their ids.
Only links between items, and scores that depend on other items, end at a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from helix.sources.common.json_text import load_json
from helix.types import ACTIONS, OUTCOMES, ROLES, TYPES, Document, Fault, Parsed, Session, Step, Turn
from helix.util.workspaces import decode_workspace, encode_workspace

PIECE_FORMATS: Final = frozenset({"captions", "markdown", "meeting"})
"""Formats of one session, in which no turn is dropped because of another."""

_HEAD: Final = '{"turns_of":'


class Piece(NamedTuple):
    """Consecutive turns of a session, as text."""

    text: str
    chars: int  # of the turns before them


def cut_session(session: Session, size: int) -> Iterator[Piece]:
    """Yield the pieces of a session. A turn longer than `size` characters is a piece of its own."""
    head = orjson.dumps({"turns_of": session.id, "project": session.project, "title": session.title}).decode()
    lines: list[str] = []
    held = chars = before = 0
    for turn in session.turns:
        line = _write_turn(turn)
        if lines and held + len(line) > size:
            yield Piece("\n".join([head, *lines, ""]), before)
            lines, held, before = [], 0, chars
        lines.append(line)
        held, chars = held + len(line), chars + len(turn.text)
    if lines:
        yield Piece("\n".join([head, *lines, ""]), before)


def write_sessions(sessions: Sequence[Session]) -> str:
    """Return sessions as text, of any format: a text whose other turns stay out. Empty for no session."""
    lines: list[str] = []
    for session in sessions:
        workspace = encode_workspace(session.workspace) if session.workspace else None
        head = {"turns_of": session.id, "project": session.project, "title": session.title}
        lines.append(
            orjson.dumps(
                {
                    **head,
                    "branch_of": session.branch_of,
                    "workspace": workspace,
                    **({"exported": True} if session.exported else {}),
                }
            ).decode()
        )
        lines += map(_write_turn, session.turns)
    return "\n".join([*lines, ""]) if lines else ""


def _read_sessions(document: Document, source: str) -> Iterator[Session]:
    found: list[tuple[dict[str, Any], list[Turn]]] = []
    for raw in (load_json(line) for line in document.text.split("\n") if line):
        if "turns_of" in raw:
            found.append((raw, []))
        else:
            found[-1][1].append(check_turn(_read_turn(raw, document.mtime)))
    for head, turns in found:
        if not _are_texts(head["turns_of"]) or not _are_texts(head["project"] or "", head["title"] or ""):
            raise ValueError("no session")
        if not _are_texts(head["branch_of"] or ""):
            raise ValueError("no branch")
        workspace = decode_workspace(head["workspace"]) if head["workspace"] else None
        parts = (head["project"], head["title"], head["branch_of"], workspace, head.get("exported") is True)
        yield Session(source, head["turns_of"], tuple(turns), *parts)


def check_turn(turn: Turn) -> Turn:
    """Return a turn whose fields have their types: an input of any format may begin like such a text.

    Raises:
        ValueError: one has not.
    """
    texts = (turn.id, turn.text, turn.origin, turn.time_quality, *turn.acl, *_list_step_texts(turn.steps))
    names = (turn.speaker, turn.parent, turn.title, turn.project)
    numbers = (turn.priority, turn.confidence)
    if (
        not _are_texts(*texts, *(name for name in names if name is not None))
        or turn.role not in ROLES
        or turn.type not in (None, *TYPES)
        or not all(number is None or isinstance(number, float) for number in numbers)
        or not all(isinstance(flag, bool) for flag in (turn.pinned, turn.unique))
        or (turn.time is not None and turn.time.tzinfo is None)
        or not all(step.action in ACTIONS and step.outcome in OUTCOMES and _are_counts(step) for step in turn.steps)
    ):
        raise ValueError("no turn")
    return turn


def _list_step_texts(steps: Iterable[Step]) -> Iterator[object]:
    for step in steps:
        yield from (step.call, step.tool, step.target, *step.commits)
        for fault in step.faults:
            yield from (fault.line, fault.kind, fault.message, fault.loose, fault.place)


def _are_counts(step: Step) -> bool:
    numbers = (step.exit_code, *(step.tests or ()))
    is_pair = step.tests is None or len(step.tests) == 2
    return is_pair and all(number is None or (type(number) is int and abs(number) < 1 << 31) for number in numbers)


def _are_texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def read_piece(document: Document, source: str) -> Parsed | None:
    """Return the turns of a piece, or of the sessions that `write_sessions` wrote; None for any other text."""
    if not document.text.startswith(_HEAD):
        return None
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        return Parsed(tuple(_read_sessions(document, source)))
    if source not in PIECE_FORMATS:
        return None
    try:
        head, *turns = (load_json(line) for line in document.text.split("\n") if line)
        turns = [_read_turn(raw, document.mtime) for raw in turns]
        return Parsed((Session(source, head["turns_of"], tuple(turns), head["project"], head["title"]),))
    except (ValueError, TypeError, KeyError, AttributeError):  # another text that begins like a piece
        return None


def _write_turn(turn: Turn) -> str:
    if turn.time_quality == "file":  # the piece has it, so a file that is only touched gives the same pieces
        turn = replace(turn, time=None)
    changed = {each.name: value for each in fields(turn) if (value := getattr(turn, each.name)) != each.default}
    return orjson.dumps(changed).decode()


def _read_turn(raw: dict[str, Any], mtime: datetime | None) -> Turn:
    time = datetime.fromisoformat(raw["time"]) if "time" in raw else None
    acl = tuple(raw.get("acl", ()))
    steps = tuple(map(read_step, raw.get("steps", ())))
    pieces = tuple((int(number), int(start), int(end)) for number, start, end in raw.get("pieces", ()))
    types = tuple((str(kind), float(certainty)) for kind, certainty in raw.get("types", ()))
    time = mtime if raw.get("time_quality") == "file" else time
    return Turn(**{**raw, "time": time, "acl": acl, "steps": steps, "pieces": pieces, "types": types})


def read_step(raw: dict[str, Any]) -> Step:
    """Return the step of a JSON object; see `check_turn`."""
    tests, faults = raw.get("tests"), tuple(Fault(**fault) for fault in raw.get("faults", ()))
    lists = {"faults": faults, "commits": tuple(raw.get("commits", ())), "tests": tests and tuple(tests)}
    return Step(**{**raw, **lists})
