"""Files that are read together: a log of JSON lines, and the file next to it with the facts about its session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from helix.sources.common.json_text import try_json
from helix.sources.common.session_text import dump_json

_MAX_BYTES: Final = 1 << 28  # of a log; a longer one is read without its facts
_FACTS_BYTES: Final = 4 << 20


def read_facts(path: Path) -> Mapping[str, Any]:
    """Return the object of a small JSON file; an empty one for any other file."""
    try:
        value = try_json(path.read_bytes()) if path.stat().st_size <= _FACTS_BYTES else None
    except OSError:
        return {}
    return value if isinstance(value, dict) else {}


def join_log(path: Path, facts: Mapping[str, Any]) -> str | None:
    """Return a line with facts, then the whole lines of a log; None for a file that is too long or unreadable."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    whole, _, last = text.rpartition("\n")
    if last.strip() and try_json(last) is None:  # still being written
        text = whole
    return f"{dump_json(facts, {})}\n{text}"
