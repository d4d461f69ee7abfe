"""A text of many megabytes in pieces, each with some of its turns.

A text that is cut unread loses its headings, its speakers and the numbers of its paragraphs. So it is read whole, and
a piece holds turns: a line that names the session, then a line for each turn. The turns of a piece keep their ids.
Only links between items, and scores that depend on other items, end at a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from helix.sources.common.json_text import load_json
from helix.types import Document, Parsed, Session, Turn

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


def read_piece(document: Document, source: str) -> Parsed | None:
    """Return the turns of a piece; None for any other text."""
    if source not in PIECE_FORMATS or not document.text.startswith(_HEAD):
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
    return Turn(**{**raw, "time": mtime if raw.get("time_quality") == "file" else time})
