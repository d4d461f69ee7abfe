"""Entries of a team's memory, as `helix team pull` writes them: one JSON object a document.

No file is ever taken for one, since an entry says who wrote it and may replace an item: only Helix itself writes it,
once its signature is checked. What a member signed is trusted as what the user said, under the member's name.
"""

from __future__ import annotations

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
    """Return the session of one entry.

    Raises:
        InputRefused: it is no entry.
    """
    del tool_chars
    raw = try_json(document.text)
    name, text, kind = get_string(raw, "id"), get_string(raw, "text"), get_string(raw, "kind")
    if name is None or text is None or kind not in TEAM_SESSIONS:
        raise InputRefused("no entry of a team", "'helix team pull' writes them")
    time = parse_iso(get_text(raw, "ts"))
    if time and document.mtime:  # a clock that is ahead must not keep an entry from being known today
        time = min(time, document.mtime)
    replaced = raw.get("replaces") if isinstance(raw, dict) else None
    turn = Turn(
        name,
        text,
        speaker=get_string(raw, "author"),
        time=time,
        time_quality="exact" if time else "none",
        title=get_string(raw, "title"),
        type="decision" if kind == "decision" else None,
        unique=True,
        steps=tuple(
            Step(f"{name}.{number}", "correct", target=item)
            for number, item in enumerate(replaced if isinstance(replaced, list) else ())
            if isinstance(item, str)
        ),
    )
    session, workspace = TEAM_SESSIONS[kind], make_workspace(get_string(raw, "folder"), None, get_string(raw, "remote"))
    return Parsed((Session(NAME, session, (turn,), get_string(raw, "project"), session, workspace=workspace),))
