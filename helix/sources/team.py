"""Entries of a team's memory, as `helix team pull` writes them: those of one pull are a document.

No file is ever taken for one, since an entry says who wrote it and may replace an item: only Helix itself writes it,
once its signature is checked. What a member signed is trusted as what the user said, under the member's name.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from helix.errors import InputRefused
from helix.sources.common.fields import get_string, get_text
from helix.sources.common.json_text import try_json
from helix.sources.common.sample import Sample
from helix.sources.common.times import parse_iso
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Session, Step, Turn
from helix.util.note_names import TEAM, TEAM_SESSIONS
from helix.util.workspaces import make_workspace

NAME = TEAM
JSON = True
GROWS = False


def detect(sample: Sample) -> bool:
    """Return False: no file is an entry."""
    del sample
    return False


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return a session for each kind and repository of the entries.

    Raises:
        InputRefused: it holds no entries.
    """
    del tool_chars
    raw = try_json(document.text)
    entries = raw.get("entries") if isinstance(raw, dict) else None
    if not isinstance(entries, list):
        raise InputRefused("no entries of a team", "'helix team pull' writes them")
    sessions: dict[tuple[str, ...], tuple[Session, list[Turn]]] = {}
    for number, entry in enumerate(entries):
        kind = get_text(entry, "kind")
        if kind not in TEAM_SESSIONS:
            raise InputRefused("an entry of an unknown kind", "'helix team pull' writes them")
        # A clock that is ahead must not keep an entry from being known today.
        latest = document.mtime - timedelta(seconds=len(entries) - number) if document.mtime else None
        name, place = TEAM_SESSIONS[kind], [get_text(entry, part) for part in ("folder", "remote", "project")]
        session = Session(NAME, name, (), place[2] or None, name, workspace=make_workspace(place[0], None, place[1]))
        sessions.setdefault((name, *place), (session, []))[1].append(_read_turn(entry, latest))
    return Parsed(tuple(replace(session, turns=tuple(turns)) for session, turns in sessions.values()))


def _read_turn(entry: object, latest: datetime | None) -> Turn:
    """Return the turn of an entry, said no later than `latest`."""
    name, time = get_text(entry, "id"), parse_iso(get_text(entry, "ts"))
    time = min(time, latest) if time and latest else time
    replaced = entry.get("replaces") if isinstance(entry, dict) else None
    return Turn(
        name,
        get_text(entry, "text"),
        speaker=get_string(entry, "author"),
        time=time,
        time_quality="exact" if time else "none",
        title=get_string(entry, "title"),
        type="decision" if get_text(entry, "kind") == "decision" else None,
        unique=True,
        steps=tuple(
            Step(f"{name}.{number}", "correct", target=item)
            for number, item in enumerate(replaced if isinstance(replaced, list) else ())
            if isinstance(item, str)
        ),
    )
