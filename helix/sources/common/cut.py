"""A text of many megabytes in pieces: the turns that were read from it, some in each.

Where a text is cut unread, what follows lacks its headings, its speakers and the numbers of its paragraphs. So it is
read whole, and the pieces hold turns: a line that names the session, then a line a turn. Read again they are what they
were, ids and all; only links between items, and what items matter by, do not go beyond a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from helix.sources.common.shared import load_json
from helix.types import Document, Parsed, Session, Turn

FORMATS: Final = frozenset({"captions", "markdown", "meeting"})
"""Formats of one session, of which no turn is left out for the sake of another."""

_HEAD: Final = '{"turns_of":'


class Piece(NamedTuple):
    """Some turns in a row."""

    text: str
    chars: int  # of the turns before them


def cut(session: Session, size: int) -> Iterator[Piece]:
    """The pieces of a session. A turn that is longer than `size` characters is one of its own."""
    head = orjson.dumps({"turns_of": session.id, "project": session.project, "title": session.title}).decode()
    lines: list[str] = []
    held = chars = before = 0
    for turn in session.turns:
        line = _line(turn)
        if lines and held + len(line) > size:
            yield Piece("\n".join([head, *lines, ""]), before)
            lines, held, before = [], 0, chars
        lines.append(line)
        held, chars = held + len(line), chars + len(turn.text)
    if lines:
        yield Piece("\n".join([head, *lines, ""]), before)


def uncut(document: Document, source: str) -> Parsed | None:
    """What a piece says; None for any other text."""
    if source not in FORMATS or not document.text.startswith(_HEAD):
        return None
    try:
        head, *turns = (load_json(line) for line in document.text.split("\n") if line)
        turns = [_turn(raw, document.mtime) for raw in turns]
        return Parsed((Session(source, head["turns_of"], tuple(turns), head["project"], head["title"]),))
    except (ValueError, TypeError, KeyError, AttributeError):  # somebody's text that begins like one
        return None


def _line(turn: Turn) -> str:
    if turn.time_quality == "file":  # that of the piece, so that a file that is only touched gives the same pieces
        turn = replace(turn, time=None)
    said = {each.name: value for each in fields(turn) if (value := getattr(turn, each.name)) != each.default}
    return orjson.dumps(said).decode()


def _turn(raw: dict[str, Any], mtime: datetime | None) -> Turn:
    time = datetime.fromisoformat(raw["time"]) if "time" in raw else None
    return Turn(**{**raw, "time": mtime if raw.get("time_quality") == "file" else time})
