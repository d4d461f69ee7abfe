"""Names of files, folders and turns, and titles."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from helix.sources.common.fields import get_string

TITLE_CHARS: Final = 80

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def get_file_name(path: str) -> str:
    """Return the last component of a path, POSIX or Windows."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def get_file_stem(path: str) -> str:
    """Return a file's name without its last suffix."""
    name = get_file_name(path)
    return name.rsplit(".", 1)[0] or name or "input"


def get_uri_path(uri: object) -> str | None:
    """Return the path of a URI, which may be a text or an object of its parts."""
    if isinstance(uri, dict):
        return get_string(uri, "fsPath", "path")
    if not isinstance(uri, str):
        return None
    try:
        return unquote(urlsplit(uri).path) or None
    except ValueError:
        return None


def name_session_of_path(path: str) -> str:
    """Return a session id for a source without one: readable, and always the same for one path."""
    return f"{get_file_stem(path)}-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def is_uuid(name: str | None) -> bool:
    """Return whether an id is unique across sessions, so that a copy of it is the same turn."""
    return name is not None and _UUID.fullmatch(name) is not None


def make_unique(name: str, taken: dict[str, int]) -> str:
    """Return `name`, or `name-2`, `name-3`, …, and add it to `taken`, whose values are the last number tried."""
    found, number = name, taken.get(name, 0)
    while found in taken:
        number += 1
        found = f"{name}-{number + 1}"
    if number:
        taken[name] = number
    taken[found] = 0
    return found


def fold_line(text: str, limit: int = TITLE_CHARS) -> str:
    """Return the text on one line with single spaces, at most `limit` characters."""
    line = " ".join(text[: limit * 20].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
