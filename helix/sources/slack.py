"""The export of Slack: a folder for each channel, in it a JSON list of messages for each day.

What is particular to the format:

- A day's file names people by id. A collector adds the names, and makes one document a day (`slack_export`).
- A thread continues for days, each reply in the file of its own day. A thread is a session of its own, with turns from
  any file; the message that opened it belongs to it. The other messages of a channel are one session a day (UTC).
- Texts have entities, and tags for people, channels and links (`slack_text`).
- Joins, renames, pins and calls are messages of a subtype. They are telemetry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from helix.sources.common.fields import get_list, get_mapping, get_objects, get_string, get_text, join_texts
from helix.sources.common.json_text import EXPORT_AGAIN, load_document
from helix.sources.common.names import get_file_stem
from helix.sources.common.sample import Sample
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_epoch
from helix.sources.common.tools import TOOL_CHARS, format_call
from helix.sources.slack_export import DAY_FILE, collect, is_companion, read_profiles
from helix.sources.slack_text import has_answers, is_message, list_files, read_text
from helix.types import Document, Parsed, Session, Turn

__all__ = ["GROWS", "JSON", "NAME", "collect", "detect", "is_companion", "parse"]

NAME = "slack"
JSON = True
GROWS = False

_ROOM_CHANGES: Final = ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")
_NOISE: Final = frozenset(
    [
        *(f"{room}_{change}" for room in ("channel", "group") for change in _ROOM_CHANGES),
        *("channel_convert_to_private", "channel_convert_to_public", "channel_posting_permissions"),
        *("channel_canvas_updated", "tabbed_canvas_updated", "app_conversation_join", "app_conversation_leave"),
        *("bot_add", "bot_remove", "bot_enable", "bot_disable", "ekm_access_denied", "huddle_thread"),
        *("joiner_notification", "message_changed", "message_deleted", "message_replied", "pinned_item"),
        *("unpinned_item", "reminder_add", "reply_broadcast", "sh_room_created", "sh_room_shared", "tombstone"),
    ]
)
_MESSAGES: Final = frozenset(
    [
        *("bot_message", "document_mention", "file_comment", "file_mention", "file_share", "me_message"),
        *("slack_audio", "slack_image", "slack_video", "slackbot_response", "thread_broadcast"),
    ]
)
_BOT: Final = frozenset({"bot_message", "slackbot_response"})
_SLACKBOT: Final = "USLACKBOT"


def detect(sample: Sample) -> bool:
    """Return whether it is a day as it is collected, or as it was exported: a list with a message in it."""
    value = sample.value
    if isinstance(value, dict):
        return value.get("slack") == 1 and isinstance(value.get("messages"), list)
    return isinstance(value, list) and any(is_message(message) for message in value)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the day of a channel and its threads, in the order of their first messages.

    A message's `ts` is the turn's id.

    Raises:
        InputRefused: the document is no JSON.
    """
    cleaner = TextCleaner(tool_chars)
    value = load_document(document.text, EXPORT_AGAIN)
    value = {"messages": value} if isinstance(value, list) else value
    *_, folder, file = ["", *re.split(r"[/\\]", document.path)]
    channel = get_string(value, "channel")  # by default the folder of a day's file, or the name of another file
    channel = channel or (folder if folder and DAY_FILE.fullmatch(file) else get_file_stem(document.path))
    messages = get_objects(value, "messages")
    names = get_mapping(value, "users").items()
    users = {**read_profiles(messages), **{id: name for id, name in names if isinstance(name, str) and name}}
    sessions: dict[str, dict[str, Turn]] = {}
    for message in sorted(filter(is_message, messages), key=lambda message: float(message["ts"])):
        turn = _read_turn(message, users, cleaner)
        if turn:  # in a channel `ts` is unique: a second one is the same message
            sessions.setdefault(f"{channel}/{_name_session(message)}", {}).setdefault(turn.id, turn)
    cleaner.unknown["(no message)"] += len(get_list(value, "messages")) - sum(map(is_message, messages))
    return cleaner.build(Session(NAME, id, tuple(each.values()), title=f"#{channel}") for id, each in sessions.items())


def _name_session(message: Mapping[str, Any]) -> str:
    """Return the thread of a message, or the day it was written on."""
    thread = get_string(message, "thread_ts")
    if thread and (thread != message["ts"] or has_answers(message)):
        return thread
    time = parse_epoch(float(message["ts"]))
    return time.date().isoformat() if time else message["ts"]


def _read_turn(message: Mapping[str, Any], users: Mapping[str, str], cleaner: TextCleaner) -> Turn | None:
    subtype, ts, thread = get_string(message, "subtype"), message["ts"], get_string(message, "thread_ts")
    if subtype in _NOISE or message.get("hidden") is True:
        cleaner.drop("telemetry", get_string(message, "text"))
        return None
    if subtype and subtype not in _MESSAGES:
        cleaner.count_unknown(subtype)
    user = get_string(message, "user") or get_text(message.get("comment"), "user")
    is_bot = subtype in _BOT or bool(message.get("bot_id")) or user == _SLACKBOT
    text = read_text(message, users)
    text = cleaner.clean_output(text) if is_bot else cleaner.clean_prompt(text)
    text = join_texts((text, *(format_call("file", name) for name in list_files(message))))
    if not text:
        return None
    own_name = get_string(message, "username") or get_string(message.get("bot_profile"), "name")
    names = (own_name, users.get(user)) if is_bot else (users.get(user), own_name)
    return Turn(
        id=ts,
        text=text,
        origin="tool" if is_bot else "human",
        speaker=next(filter(None, (*names, user)), None),
        time=parse_epoch(float(ts)),
        parent=thread if thread and thread != ts else None,
    )
