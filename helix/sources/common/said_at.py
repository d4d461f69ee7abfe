"""Times of turns that give none of their own: those of the session's other turns, else that of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from helix.sources.common.times import add_offset
from helix.types import Parsed, Session, Turn

_OF_THE_TURN: Final = ("exact", "derived")
"""Qualities of times that the text or the name of the file gives."""


def date_turns(parsed: Parsed, mtime: datetime | None) -> Parsed:
    """Date the turns without a time; their `time_quality` names its origin.

    A turn has the time of the last dated turn before it, else of the first one after it (`derived`). In a session
    without a time it has that of the file (`file`); of several such sessions each has a second less than the next one,
    so that their order is known.

    Args:
        mtime: of the file; None: unknown, so that such turns stay undated.
    """
    left = sum(map(_is_undated, parsed.sessions))
    dated: list[Session] = []
    for session in parsed.sessions:
        left -= _is_undated(session)
        dated.append(_date_session(session, add_offset(mtime, -left)))
    return replace(parsed, sessions=tuple(dated)) if tuple(dated) != parsed.sessions else parsed


def _is_undated(session: Session) -> bool:
    return not session.exported and not any(turn.time_quality in _OF_THE_TURN for turn in session.turns)


def _date_session(session: Session, mtime: datetime | None) -> Session:
    if session.exported or all(turn.time_quality in _OF_THE_TURN for turn in session.turns):
        return session
    return replace(session, turns=tuple(_date_each(session.turns, mtime)))


def _date_each(turns: tuple[Turn, ...], mtime: datetime | None) -> Iterator[Turn]:
    said = next((turn.time for turn in turns if turn.time_quality in _OF_THE_TURN), None)
    for turn in turns:
        if turn.time_quality in _OF_THE_TURN:
            said = turn.time
            yield turn
        elif said is not None:
            yield replace(turn, time=said, time_quality="derived")
        elif mtime is not None:
            yield replace(turn, time=mtime, time_quality="file")
        else:
            yield turn
