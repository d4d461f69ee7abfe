"""Days of channels, read from the folders of a Slack export.

A day's file names people by id. Each day becomes one document with the names of its people, and without the fields that
change with each export: links with keys, reactions, avatars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from helix.sources.common.fields import get_mapping, get_string, pick_objects
from helix.sources.common.json_text import load_json
from helix.sources.common.session_text import SessionText
from helix.sources.slack_text import get_own_text, has_answers, is_message, list_files

DAY_FILE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")

_MESSAGE: Final = ("type", "subtype", "ts", "thread_ts", "user", "username", "bot_id", "text", "hidden")
_USER_ID: Final = re.compile(r"\b[UW][A-Z0-9]{2,30}\b")
_HEAD_BYTES: Final = 1 << 18  # of a file, read to identify it
_MAX_BYTES: Final = 1 << 28  # of a day, or of the list of users: a larger file is neither
_USER_FILES: Final = ("users.json", "org_users.json")
# Files next to the channels, and a field of their objects.
_LISTS: Final[Mapping[str, bytes]] = {
    **dict.fromkeys((*_USER_FILES, "channels.json", "groups.json", "dms.json", "mpims.json"), b'"id"'),
    **dict.fromkeys(("canvases.json", "lists.json"), b'"id"'),
    "integration_logs.json": b'"date"',
}


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the day of a channel with the names of its people; None for any other file."""
    try:
        messages = _read_day(path)
        if messages is None:
            return None
        status = path.stat()
        names = {**read_profiles(messages), **_find_users(path.absolute().parent.parent)}
    except OSError:
        return None
    fields = [_pick_message(message) for message in messages]
    try:
        ids = set(_USER_ID.findall(orjson.dumps(fields).decode()))
        day = {
            "slack": 1,
            "channel": path.absolute().parent.name,
            "users": {id: name for id, name in names.items() if id in ids},
            "messages": fields,
        }
        text = orjson.dumps(day, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # nested too deep
        return None
    return iter([SessionText("", text, datetime.fromtimestamp(status.st_mtime, UTC))])


def is_companion(path: Path) -> bool:
    """Return whether a file is a list next to the channels of an export, or a day without messages."""
    try:
        if path.name in _LISTS:
            head = _read_head(path)
            return (_LISTS[path.name] in head or _is_empty(head)) and _is_export(path.absolute().parent)
        if DAY_FILE.fullmatch(path.name):
            return _is_empty(_read_head(path)) and _is_export(path.absolute().parent.parent)
        return False
    except OSError:
        return False


def read_profiles(messages: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of users, by id, from the messages themselves."""
    names = ((get_string(each, "user"), _read_name({"profile": each.get("user_profile")})) for each in messages)
    return {id: name for id, name in names if id and name}


def _is_export(folder: Path) -> bool:
    """Return whether a folder has a list of users or channels, and in it folders of days."""
    if not any((folder / name).is_file() for name in (*_USER_FILES, "channels.json")):
        return False
    channels = (channel for channel in folder.iterdir() if channel.is_dir())
    return any(DAY_FILE.fullmatch(file.name) for channel in channels for file in channel.iterdir())


def _is_empty(head: bytes) -> bool:
    return b"".join(head.split()) == b"[]"


def _read_head(path: Path) -> bytes:
    """Return the beginning of a JSON list; nothing of another file."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    return head if head.lstrip().startswith(b"[") else b""


def _read_day(path: Path) -> list[dict[str, Any]] | None:
    """Return the messages of a day; None for another file."""
    if b'"ts"' not in _read_head(path) or path.stat().st_size > _MAX_BYTES:
        return None
    value = _read_json(path)
    return pick_objects(value) if any(map(is_message, value)) else None


def _read_json(path: Path) -> list[Any]:
    """Return the JSON list of a file; an empty one for another file."""
    try:
        value = load_json(path.read_bytes().decode("utf-8-sig"))
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def _find_users(folder: Path) -> Mapping[str, str]:
    """Return the names of users by id, from the file next to the channels."""
    for name in _USER_FILES:
        try:
            status = (folder / name).stat()
            if status.st_size <= _MAX_BYTES:
                return _read_users(folder / name, status.st_mtime_ns, status.st_size)
        except OSError:
            continue
    return {}


@lru_cache(maxsize=4)  # an export has thousands of days
def _read_users(path: Path, mtime_ns: int, size: int) -> Mapping[str, str]:
    names = {get_string(user, "id"): _read_name(user) for user in pick_objects(_read_json(path))}
    return {id: name for id, name in names.items() if id and name}


def _read_name(user: Mapping[str, Any]) -> str | None:
    profile = get_mapping(user, "profile")
    given = (get_string(profile, "display_name"), get_string(profile, "real_name"), get_string(user, "real_name"))
    names = (*given, get_string(profile, "name"), get_string(user, "name"))
    return next((name.strip() for name in names if name and name.strip()), None)


def _pick_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message that are parsed: all others differ from one export to the next."""
    names = _MESSAGE if get_own_text(message).strip() else (*_MESSAGE, "blocks", "attachments")
    bot = get_string(message.get("bot_profile"), "name")
    user = get_string(message.get("comment"), "user")
    fields = {
        **{name: message.get(name) for name in names},
        "bot_profile": {"name": bot} if bot else None,
        "comment": {"user": user} if user else None,
        "files": [{"name": name} for name in list_files(message)],
        "answered": has_answers(message),
    }
    return {name: value for name, value in fields.items() if value}
