"""Sessions of OpenCode, read from its database or from the small files of earlier versions.

A session is spread over three tables, or over hundreds of files. Each one becomes the JSON of `opencode export`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.sources.common import sqlite
from helix.sources.common.fields import get_mapping, get_string, pick_fields
from helix.sources.common.json_text import try_json
from helix.sources.common.session_text import SessionText, dump_json
from helix.sources.common.sqlite import TOO_LARGE, VALUE_BYTES
from helix.sources.common.times import parse_time

_UNREADABLE: Final = "(not valid JSON)"

# Fields of a session, a message and a part that are parsed, and do not change for other reasons.
_INFO: Final = ("id", "parentID", "directory", "title", "time", "revert")
_REVERT: Final = ("messageID", "partID")
_MESSAGE: Final = ("role", "parentID", "time", "agent", "mode", "path")
_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("type", "text", "synthetic", "ignored"),
    "reasoning": ("type", "text"),
    "tool": ("type", "tool", "state"),
}
_STATE: Final = ("status", "input", "output", "error", "title", "time")

_TABLES: Final = {
    "session": frozenset({"id"}),
    "message": frozenset({"id", "session_id", "time_created", "data"}),
    "part": frozenset({"id", "message_id", "session_id", "time_created", "data"}),
}
_COLUMNS: Final = {"parent_id": "parentID", "directory": "directory", "title": "title"}
_FOLDERS: Final = frozenset(  # next to `session`, with files that belong to the sessions there
    {"message", "part", "todo", "session_diff", "session_share", "permission", "project", "share"}
)


class StoredMessage(NamedTuple):
    """A message as it is stored, with its parts in order."""

    id: str
    info: Mapping[str, Any]
    parts: list[Mapping[str, Any]]


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the sessions of a database, or the session of a session's file; None for any other file.

    Raises:
        InputRefused: the database cannot be read, now or while its sessions are read.
    """
    if sqlite.is_database(path):
        return _read_database(path) if sqlite.has_columns(path, _TABLES) else None
    info = _read_session_file(path)
    return None if info is None else iter([_read_folders(path, info)])


def is_companion(path: Path) -> bool:
    """Return whether a file is a part of a session that is read with another file."""
    if path.suffix != ".json":
        return sqlite.is_sidecar(path)
    folders = list(path.parents)[:2]
    return any(
        folder.name in _FOLDERS and (folder.parent / "session").is_dir() and (folder.parent / "message").is_dir()
        for folder in folders
    )


def _read_database(path: Path) -> Iterator[SessionText]:
    with sqlite.open_database(path) as database:
        sessions = [row[0] for row in database.execute("SELECT id FROM session ORDER BY id")]
        for session in sessions:
            with sqlite.read_transaction(database):
                row = _read_row(database, session)
                messages = _read_messages(database, session) if row else []
            if row is not None:  # else it was deleted while the sessions before it were read
                info: dict[str, Any] = {_COLUMNS.get(name, name): row[name] for name in row}
                info["time"] = {"created": row.get("time_created"), "updated": row.get("time_updated")}
                info["revert"] = try_json(row.get("revert"))
                yield _write_session(str(session), info, messages, _find_last_change(database, session, row))


def _read_row(database: sqlite3.Connection, id: object) -> dict[str, Any] | None:
    known = {*_COLUMNS, "id", "revert", "time_created", "time_updated"}
    names = sorted(sqlite.list_columns(database, "session") & known)
    row = database.execute(f"SELECT {', '.join(names)} FROM session WHERE id = ?", (id,)).fetchone()
    return None if row is None else dict(zip(names, row, strict=True))


def _read_messages(database: sqlite3.Connection, session: object) -> list[StoredMessage]:
    """Return the messages of a session with their parts, in order."""
    data = f"CASE WHEN length(CAST(data AS BLOB)) <= {VALUE_BYTES} THEN data ELSE 0 END"
    parts: dict[str, list[Mapping[str, Any]]] = {}
    query = f"SELECT message_id, id, {data} FROM part WHERE session_id = ? ORDER BY time_created, id"
    for message, id, value in database.execute(query, (session,)):
        parts.setdefault(str(message), []).append({"id": str(id), **_pick_part(value)})
    query = f"SELECT id, {data} FROM message WHERE session_id = ? ORDER BY time_created, id"
    return [
        StoredMessage(str(id), get_mapping(try_json(value)), parts.get(str(id), []))
        for id, value in database.execute(query, (session,))
    ]


def _find_last_change(database: sqlite3.Connection, session: object, row: Mapping[str, Any]) -> datetime | None:
    """Return the time of the last change of a session, a message or a part."""
    times = [row.get("time_created"), row.get("time_updated")]
    for table in ("message", "part"):
        column = "time_updated" if "time_updated" in sqlite.list_columns(database, table) else "time_created"
        times += database.execute(f"SELECT max({column}) FROM {table} WHERE session_id = ?", (session,)).fetchone()
    return max(filter(None, map(parse_time, times)), default=None)


def _read_session_file(path: Path) -> dict[str, Any] | None:
    """Return the content of a session's file; None for another file."""
    if path.suffix != ".json" or path.parent.parent.name != "session":
        return None
    info = _read_file(path)
    if info is None or not isinstance(info.get("time"), dict) or not {"id", "projectID"} <= info.keys():
        return None
    return info


def _read_folders(path: Path, info: Mapping[str, Any]) -> SessionText:
    """Return the session of a file, with the messages and parts in the folders next to it."""
    root = path.parents[2]
    # Some sessions were moved to another folder, and have the id of the old one inside.
    names = (name for name in (get_string(info, "id"), path.stem) if name and _is_folder_name(name))
    folder = next((root / "message" / name for name in names if (root / "message" / name).is_dir()), None)
    files = [(_get_stem(file), _read_file(file) or {}) for file in _list_json_files(folder)] if folder else []
    created = {name: get_mapping(message, "time").get("created") for name, message in files}
    numbers = {name: float(time) for name, time in created.items() if isinstance(time, int | float)}
    files.sort(key=lambda file: numbers.get(file[0], 0.0))  # a stable sort: by name if times are equal
    ids = [(get_string(message, "id") or name, message) for name, message in files]
    messages = [StoredMessage(id, message, _read_parts(root / "part", id)) for id, message in ids]
    holders = (info, *(message for _, message in files))
    times = [time for holder in holders for time in get_mapping(holder, "time").values()]
    mtime = max(filter(None, map(parse_time, times)), default=None)
    return _write_session(get_string(info, "id") or _get_stem(path), dict(info), messages, mtime)


def _read_parts(folder: Path, message: str) -> list[Mapping[str, Any]]:
    own = folder / message
    files = _list_json_files(own) if _is_folder_name(message) and own.is_dir() else []
    if not files and folder.is_dir():
        files = _group_parts(folder, folder.stat().st_mtime_ns).get(message, [])
    parts = [(_get_stem(file), _read_file(file)) for file in files]
    return [{"id": get_string(part, "id") or name, **_pick_part(part)} for name, part in parts]


@lru_cache(maxsize=1)
def _group_parts(folder: Path, mtime_ns: int) -> dict[str, list[Path]]:
    """Return the files of a folder with the parts of all messages, by message. `mtime_ns`: key of the cache."""
    files: dict[str, list[Path]] = {}
    for file in _list_json_files(folder):
        message = get_string(_read_file(file), "messageID")
        if message:
            files.setdefault(message, []).append(file)
    return files


def _list_json_files(folder: Path) -> list[Path]:
    """Return the JSON files by name. A name is an id, and ids ascend with time."""
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".json" and file.is_file())
    except OSError:
        return []


def _read_file(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > VALUE_BYTES:
            return {"type": TOO_LARGE}
        value = try_json(path.read_bytes())
    except OSError:
        return None
    return value if isinstance(value, dict) else None


def _get_stem(path: Path) -> str:
    return path.stem.encode("utf-8", "replace").decode()


def _is_folder_name(id: str) -> bool:
    """Return whether an id can be the name of a folder, and of none elsewhere."""
    return id not in (".", "..") and not re.search(r"[/\\\0]", id) and len(id) < 200


def _pick_part(value: object) -> dict[str, Any]:
    """Return the parsed fields of a part. An unreadable one gets an unknown type, and so is counted."""
    if value == 0:
        return {"type": TOO_LARGE}
    part = value if isinstance(value, dict) else try_json(value)
    if not isinstance(part, dict):
        return {"type": _UNREADABLE}
    kind = part.get("type")
    fields = pick_fields(part, _PART.get(kind, ("type",)) if isinstance(kind, str) else ())
    if isinstance(fields.get("state"), dict):
        fields["state"] = pick_fields(fields["state"], _STATE)
    return fields


def _write_session(
    id: str, info: Mapping[str, Any], messages: Iterable[StoredMessage], mtime: datetime | None
) -> SessionText:
    """Return the JSON of an export. Each part is written alone: one that cannot be written costs no other."""
    fields = pick_fields({**info, "id": id}, _INFO)
    fields["revert"] = pick_fields(revert, _REVERT) if isinstance(revert := fields.get("revert"), dict) else None
    texts = []
    for message in messages:
        own = {"id": message.id, **pick_fields(message.info, _MESSAGE)}
        if message.info.get("summary") is True:
            own["summary"] = True
        parts = ",".join(dump_json(part, {"id": part["id"], "type": _UNREADABLE}) for part in message.parts)
        texts.append(f'{{"info":{dump_json(own, {"id": message.id})},"parts":[{parts}]}}')
    return SessionText(id, f'{{"info":{dump_json(fields, {"id": id})},"messages":[{",".join(texts)}]}}', mtime)
