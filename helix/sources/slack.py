"""The export of Slack: a folder a channel, in it a JSON list of messages a day.

What makes it hard, and what is done about it:

- A day's file names people by id. A collector reads the names in the files beside the channels and gives one document
  a day that explains itself; what changes with each export (links with keys, reactions, avatars) is not in it.
- A thread goes on for days, each reply in the file of its own day. A thread is a session of its own whose turns come
  from any file; the message that opened it belongs to it. The others of a channel are one session a day (UTC).
- Text is written with entities and with tags for people, channels and links; these are resolved to what is shown.
- Joins, renames, pins and calls are messages of a subtype. They are telemetry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import InputRefused
from helix.sources.common.collected import Collected
from helix.sources.common.exports import items, mapping
from helix.sources.common.junk import human, left_out, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import file_stem, load_json, parse_epoch, string
from helix.sources.common.tools import TOOL_CHARS, call_line
from helix.types import Document, Parsed, Session, Turn

NAME = "slack"
JSON = True
GROWS = False

_NOISE: Final = frozenset(
    {
        *(f"channel_{what}" for what in ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")),
        *(f"group_{what}" for what in ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")),
        "channel_convert_to_private",
        "channel_convert_to_public",
        "channel_posting_permissions",
        "channel_canvas_updated",
        "tabbed_canvas_updated",
        "app_conversation_join",
        "app_conversation_leave",
        "bot_add",
        "bot_remove",
        "bot_enable",
        "bot_disable",
        "ekm_access_denied",
        "huddle_thread",
        "joiner_notification",
        "message_changed",
        "message_deleted",
        "message_replied",
        "pinned_item",
        "unpinned_item",
        "reminder_add",
        "reply_broadcast",
        "sh_room_created",
        "sh_room_shared",
        "tombstone",
    }
)
_SAID: Final = frozenset(
    {
        "bot_message",
        "document_mention",
        "file_comment",
        "file_mention",
        "file_share",
        "me_message",
        "slack_audio",
        "slack_image",
        "slack_video",
        "slackbot_response",
        "thread_broadcast",
    }
)
_UNSAID: Final = frozenset({"actions", "input", "image", "divider", "video", "color"})  # blocks without text
_KEPT: Final = ("type", "subtype", "ts", "thread_ts", "user", "username", "bot_id", "text", "hidden")
_BOT: Final = frozenset({"bot_message", "slackbot_response"})
_SLACKBOT: Final = "USLACKBOT"
_INSTEAD: Final = "This content can't be displayed."  # the text of a message that has blocks only

_TS: Final = re.compile(r"\d{1,11}(?:\.\d{1,9})?")
_TAG: Final = re.compile(r"<([^<>\n]+)>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt);")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">"}
_BLANK: Final = re.compile(r"\n\s*\n")
_USER_ID: Final = re.compile(r"\b[UW][A-Z0-9]{2,30}\b")

_DAY_FILE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
_HEAD_BYTES: Final = 1 << 18  # of a file that are looked at to tell what it is
_MAX_BYTES: Final = 1 << 28  # of a day, or of the list of users: larger ones are none
# What lies beside the channels, and a field that its objects have.
_BESIDE: Final[Mapping[str, bytes]] = {
    "users.json": b'"id"',
    "org_users.json": b'"id"',
    "channels.json": b'"id"',
    "groups.json": b'"id"',
    "dms.json": b'"id"',
    "mpims.json": b'"id"',
    "canvases.json": b'"id"',
    "lists.json": b'"id"',
    "integration_logs.json": b'"date"',
}


def detect(sample: Sample) -> bool:
    """Whether this is a day as it is collected, or as it was exported: a list with a message in it."""
    value = sample.value
    if isinstance(value, dict):
        return value.get("slack") == 1 and isinstance(value.get("messages"), list)
    return isinstance(value, list) and any(_is_message(message) for message in value)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The day of a channel and its threads, in the order of their first messages. A message's `ts` is the turn's id.

    Raises:
        InputRefused: the document is no JSON.
    """
    try:
        value = load_json(document.text)
    except ValueError as error:
        raise InputRefused(f"not valid JSON ({error})", "export it again: of a cut file nothing is taken") from None
    if isinstance(value, list):
        value = {"messages": value}
    value = value if isinstance(value, dict) else {}
    channel = string(value, "channel") or _channel(document.path)
    messages = [message for message in items(value, "messages") if isinstance(message, dict)]
    users = {**_profiles(messages), **{id: name for id, name in mapping(value, "users").items() if _is_text(name)}}
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    sessions: dict[str, dict[str, Turn]] = {}
    for message in sorted(filter(_is_message, messages), key=lambda message: float(message["ts"])):
        turn = _turn(message, users, tool_chars, unknown, junk)
        if turn:  # in a channel `ts` is unique: a second one is the same message
            sessions.setdefault(f"{channel}/{_session(message)}", {}).setdefault(turn.id, turn)
    unknown["(no message)"] += len(items(value, "messages")) - sum(map(_is_message, messages))
    found = (Session(NAME, id, tuple(turns.values()), title=f"#{channel}") for id, turns in sessions.items())
    return Parsed(tuple(found), unknown=+unknown, junk=junk)


def _is_message(value: object) -> bool:
    ts = value.get("ts") if isinstance(value, dict) else None
    return (
        isinstance(value, dict) and value.get("type") == "message" and isinstance(ts, str) and bool(_TS.fullmatch(ts))
    )


def _channel(path: str) -> str:
    """The folder of a day's file; what another file is called."""
    *_, folder, file = ["", *re.split(r"[/\\]", path)]
    return folder if folder and _DAY_FILE.fullmatch(file) else file_stem(path)


# ---------------------------------------------------------------- a message


def _session(message: Mapping[str, Any]) -> str:
    """The thread a message belongs to, or the day it was written on."""
    thread = string(message, "thread_ts")
    if thread and (thread != message["ts"] or _is_answered(message)):
        return thread
    time = parse_epoch(float(message["ts"]))
    return time.date().isoformat() if time else message["ts"]


def _is_answered(message: Mapping[str, Any]) -> bool:
    count = message.get("reply_count")
    return message.get("answered") is True or bool(items(message, "replies")) or (isinstance(count, int) and count > 0)


def _turn(
    message: Mapping[str, Any], users: Mapping[str, str], tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> Turn | None:
    subtype, ts, thread = string(message, "subtype"), message["ts"], string(message, "thread_ts")
    if subtype in _NOISE or message.get("hidden") is True:
        left_out(len(string(message, "text") or ""), "telemetry", junk)
        return None
    if subtype and subtype not in _SAID:
        unknown[type_name(subtype)] += 1
    user = string(message, "user") or string(mapping(message, "comment"), "user") or ""
    bot = subtype in _BOT or bool(message.get("bot_id")) or user == _SLACKBOT
    text = _text(message, users)
    text = output(text, tool_chars, False, junk) if bot else human(text, junk)
    text = "\n".join(filter(None, (text, *(call_line("file", name) for name in _files(message)))))
    if not text:
        return None
    named = (string(message, "username") or string(mapping(message, "bot_profile"), "name"), users.get(user))
    return Turn(
        id=ts,
        text=text,
        origin="tool" if bot else "human",
        speaker=next(filter(None, (*(named if bot else reversed(named)), user)), None),
        time=parse_epoch(float(ts)),
        parent=thread if thread and thread != ts else None,
    )


def _text(message: Mapping[str, Any], users: Mapping[str, str]) -> str:
    """What a message says: its text, else that of its blocks, else that of what is attached to it."""
    text = _resolved(_own(message), users).strip()
    return text or _of_blocks(message.get("blocks"), users) or "\n".join(_of_attached(message, users)).strip()


def _own(message: Mapping[str, Any]) -> str:
    text = string(message, "text") or ""
    return "" if text.strip() == _INSTEAD else text


def _files(message: Mapping[str, Any]) -> Iterator[str]:
    for file in (*items(message, "files"), message.get("file")):
        name = (string(file, "name") or string(file, "title")) if isinstance(file, dict) else None
        if name:
            yield name


def _of_attached(message: Mapping[str, Any], users: Mapping[str, str]) -> Iterator[str]:
    for attached in filter(_is_object, items(message, "attachments")):
        fields = filter(_is_object, items(attached, "fields"))
        said = [string(attached, name) for name in ("pretext", "title", "text")]
        said += [": ".join(filter(None, (string(field, "title"), string(field, "value")))) for field in fields]
        for text in filter(None, said if any(said) else [string(attached, "fallback")]):
            yield _resolved(text, users)


def _of_blocks(blocks: object, users: Mapping[str, str]) -> str:
    """The text of blocks. Those within others are pushed on a stack: they may be nested as deep as they like."""
    parts: list[str] = []
    stack = [blocks]
    while stack:
        at = stack.pop()
        if isinstance(at, list):
            stack += reversed(at)
        if not isinstance(at, dict) or string(at, "type") in _UNSAID:
            continue
        leaf = _of_leaf(at, users)
        parts.append("\n" if leaf is None else leaf)
        if leaf is None:  # a line of its own
            stack += [at.get("elements"), at.get("fields"), at.get("text")]
    return _BLANK.sub("\n", "".join(parts)).strip()


def _of_leaf(element: Mapping[str, Any], users: Mapping[str, str]) -> str | None:
    """What an element shows; None for one that holds others."""
    kind, text = string(element, "type") or "", string(element, "text")
    if kind == "user":
        return _tag(f"@{string(element, 'user_id') or ''}", users)
    if kind == "channel":
        return f"#{string(element, 'channel_id') or ''}"
    if kind == "broadcast":
        return f"@{string(element, 'range') or ''}"
    if kind == "emoji":
        return f":{string(element, 'name') or ''}:"
    if kind == "link":
        return _link(string(element, "url") or "", text or "")
    if kind == "text":
        return text or ""
    if text is None:
        return None
    return f"{_resolved(text, users) if kind in ('mrkdwn', 'markdown') else text}\n"


def _resolved(text: str, users: Mapping[str, str]) -> str:
    """Text as it is shown: tags first, as entities are how it writes what is no tag."""
    text = _TAG.sub(lambda match: _tag(match[1], users), text)
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)


def _tag(inner: str, users: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    if target.startswith("@"):
        return f"@{users.get(target[1:]) or label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):  # here, a group, a date
        name = label.removeprefix("@") or target[1:].partition("^")[0]
        return name if target.startswith("!date") else f"@{name}"
    return _link(target, label) if ":" in target else f"<{inner}>"


def _link(url: str, label: str) -> str:
    if url.startswith(("mailto:", "tel:")):
        return label or url.partition(":")[2]
    return url if not label or label in url else f"{label} ({url})"


# ---------------------------------------------------------------- an export


def collect(path: Path) -> Iterator[Collected] | None:
    """The day of a channel with the names of those who occur in it; None where the file is no such day."""
    try:
        messages = _day(path)
        if messages is None:
            return None
        found = path.stat()
        names = {**_profiles(messages), **_users(path.absolute().parent.parent)}
    except OSError:
        return None
    kept = [_kept(message) for message in messages]
    try:
        said = orjson.dumps(kept).decode()
        occurring = set(_USER_ID.findall(said))
        day = {
            "slack": 1,
            "channel": path.absolute().parent.name,
            "users": {id: name for id, name in names.items() if id in occurring},
            "messages": kept,
        }
        text = orjson.dumps(day, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # nested too deep to be written
        return None
    return iter([Collected("", text, datetime.fromtimestamp(found.st_mtime, UTC))])


def belongs(path: Path) -> bool:
    """Whether a file is one of those beside the channels of an export, or a day without messages."""
    try:
        if path.name in _BESIDE:
            head = _head(path)
            return (_BESIDE[path.name] in head or _is_empty(head)) and _is_export(path.absolute().parent)
        if _DAY_FILE.fullmatch(path.name):
            return _is_empty(_head(path)) and _is_export(path.absolute().parent.parent)
        return False
    except OSError:
        return False


def _is_export(folder: Path) -> bool:
    """Whether a folder has lists of users or channels, and in it folders of days."""
    if not any((folder / name).is_file() for name in ("users.json", "org_users.json", "channels.json")):
        return False
    channels = (channel for channel in folder.iterdir() if channel.is_dir())
    return any(_DAY_FILE.fullmatch(file.name) for channel in channels for file in channel.iterdir())


def _is_empty(head: bytes) -> bool:
    return b"".join(head.split()) == b"[]"


def _head(path: Path) -> bytes:
    """The beginning of a JSON list; nothing of another file."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    return head if head.lstrip().startswith(b"[") else b""


def _day(path: Path) -> list[Mapping[str, Any]] | None:
    """The messages of a day; None where the file is none."""
    if b'"ts"' not in _head(path) or path.stat().st_size > _MAX_BYTES:
        return None
    value = _json(path)
    if not isinstance(value, list) or not any(map(_is_message, value)):
        return None
    return [message for message in value if isinstance(message, dict)]


def _json(path: Path) -> Any:
    """The value of a JSON file; None where it is none."""
    try:
        return load_json(path.read_bytes().decode("utf-8-sig"))
    except ValueError:
        return None


def _users(folder: Path) -> Mapping[str, str]:
    """The names of users by id, as the file beside the channels gives them."""
    for name in ("users.json", "org_users.json"):
        try:
            found = (folder / name).stat()
            if found.st_size <= _MAX_BYTES:
                return _read_users(folder / name, found.st_mtime_ns, found.st_size)
        except OSError:
            continue
    return {}


@lru_cache(maxsize=4)  # an export has thousands of days
def _read_users(path: Path, mtime: int, size: int) -> Mapping[str, str]:
    users = _json(path)
    found = {string(user, "id"): _name(user) for user in users if _is_object(user)} if isinstance(users, list) else {}
    return {id: name for id, name in found.items() if id and name}


def _profiles(messages: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The names that messages themselves carry."""
    found = ((string(message, "user"), _name({"profile": message.get("user_profile")})) for message in messages)
    return {id: name for id, name in found if id and name}


def _name(user: Mapping[str, Any]) -> str | None:
    profile = mapping(user, "profile")
    given = (string(profile, "display_name"), string(profile, "real_name"), string(user, "real_name"))
    names = (*given, string(profile, "name"), string(user, "name"))
    return next((name.strip() for name in names if name and name.strip()), None)


def _kept(message: Mapping[str, Any]) -> dict[str, Any]:
    """Of a message what `parse` reads of it: all else differs from one export to the next."""
    names = _KEPT if _own(message).strip() else (*_KEPT, "blocks", "attachments")
    kept = {name: message[name] for name in names if message.get(name)}
    bot = string(mapping(message, "bot_profile"), "name")
    user = string(mapping(message, "comment"), "user")
    files = [{"name": name} for name in _files(message)]
    more = {
        "bot_profile": {"name": bot} if bot else None,
        "comment": {"user": user} if user else None,
        "files": files,
        "answered": _is_answered(message),
    }
    return kept | {name: value for name, value in more.items() if value}


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
