"""Files of `helix export --jsonl`: each session is a text of its own, as its log was.

So the salience of its turns is judged together, and a file of any length needs memory for one session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from helix.sources.common.exported import FIELD, FORMAT, is_exported
from helix.sources.common.fields import get_mapping, get_text
from helix.sources.common.json_text import try_json
from helix.sources.common.session_text import SessionText

_LONGEST: Final = 16 << 20
"""Bytes of a first line that is looked at."""


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the sessions of exported lines; None for any other file."""
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST) if file.read(2) == b'{"' else b""
    except OSError:
        return None
    if f'"{FIELD}":{{'.encode() not in first or not is_exported(_read_line(b'{"' + first)):
        return None
    return _read_sessions(path)


def is_companion(path: Path) -> bool:
    """Return False: the file of an export is whole."""
    del path
    return False


def _read_sessions(path: Path) -> Iterator[SessionText]:
    seen = Counter[str]()
    with path.open("rb") as file:
        for name, lines in groupby(filter(bytes.strip, file), key=_name_session):
            seen[name] += 1
            part = name if seen[name] == 1 else f"{name}~{seen[name]}"
            yield SessionText(part, b"".join(lines).decode("utf-8", "replace"), None)


def _name_session(line: bytes) -> str:
    record = _read_line(line)
    kind = get_text(get_mapping(record, FIELD), "format")
    return f"{kind if FORMAT.fullmatch(kind) else 'other'}/{get_text(record, 'session')}"


def _read_line(line: bytes) -> dict[str, object]:
    found = try_json(line)
    return found if isinstance(found, dict) else {}
