"""Notes that a user or an agent wrote with `helix remember` or over MCP: one JSON object a document.

No file is ever taken for one: a note says who wrote it and may correct an item, so only Helix itself writes it, into
the inbox. What an agent wrote has the role assistant and the origin `note`, and is trusted less than what a user said.
"""

from __future__ import annotations

from helix.errors import InputRefused
from helix.sources.common.fields import get_flag, get_string, get_text
from helix.sources.common.json_text import try_json
from helix.sources.common.sample import Sample
from helix.sources.common.times import parse_iso
from helix.sources.common.tools import TOOL_CHARS
from helix.types import TYPES, Document, Parsed, Session, Step, Turn
from helix.util.note_names import NOTE, NOTES, PINNED

NAME = NOTE
JSON = True
GROWS = False


def detect(sample: Sample) -> bool:
    """Return False: no file is a note."""
    del sample
    return False


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one note.

    Raises:
        InputRefused: it is no note.
    """
    del tool_chars
    raw = try_json(document.text)
    name, text = get_string(raw, "id"), get_string(raw, "text")
    if name is None or text is None:
        raise InputRefused("no note", "write notes with 'helix remember'")
    by_user, kind, replaced = get_string(raw, "by") == "user", get_string(raw, "type"), get_string(raw, "corrects")
    pinned = get_flag(raw, "pinned") is True
    time = parse_iso(get_text(raw, "ts"))
    turn = Turn(
        name,
        text,
        "user" if by_user else "assistant",
        "human" if by_user else "note",
        speaker=get_string(raw, "author"),
        time=time,
        time_quality="exact" if time else "none",
        type=kind if kind in TYPES else None,
        pinned=pinned,
        unique=True,
        steps=(Step(name, "correct", target=replaced),) if replaced else (),
    )
    session = PINNED if pinned else NOTES
    return Parsed((Session(NAME, session, (turn,), get_string(raw, "project"), session),))
