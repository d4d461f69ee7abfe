"""Sessions of Hermes Agent: one JSON document a session, with messages as OpenAI's API has them.

A message has neither an id nor a time: it is named by its index, and dated by the session's start. The folder is a
field of the session, or of its model's configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_result,
    add_turn,
    clean_text,
    join_blocks,
    note_calls,
    write_call,
)
from helix.sources.common.fields import get_mapping, get_objects, get_string, is_type, join_texts, name_type
from helix.sources.common.json_text import load_document
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "hermes"
JSON = True
GROWS = False

_THOUGHTS: Final = ("reasoning", "reasoning_content")
_NOISE: Final = frozenset({"session_meta"})


def detect(sample: Sample) -> bool:
    """Return whether it is a session."""
    return any(_is_session(value) for value in (sample.value, *sample.records[:1]))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one document.

    Raises:
        InputRefused: it is no session.
    """
    value = load_document(document.text, "copy the file again: nothing is read from a cut file")
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise InputRefused("no session of Hermes: no list of messages", "give the file of a session")
    cleaner = TextCleaner(tool_chars)
    cleaner.drop("host", get_string(value, "system_prompt"))
    log = AgentLog(cleaner, latest=parse_time(value.get("session_start")))
    for index, message in enumerate(value["messages"]):
        if isinstance(message, dict):
            _read_message(log, str(index), message)
    folder = get_string(value, "cwd") or get_string(get_mapping(value, "model_config"), "cwd")
    id = get_string(value, "session_id") or name_session_of_path(document.path)
    title = get_string(value, "title")
    return cleaner.build(make_sessions(NAME, id, log.turns, workspace=make_workspace(folder), title=title))


def _is_session(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return "session_id" in value and "session_start" in value


def _read_message(log: AgentLog, id: str, message: Mapping[str, Any]) -> None:
    role, cleaner = message.get("role"), log.cleaner
    text, time = join_blocks(message.get("content")), parse_time(message.get("timestamp"))
    if is_type(role, ("user", "assistant")):
        thoughts = {get_string(message, name) for name in _THOUGHTS}
        cleaner.drop("reasoning", *thoughts)
        calls = [
            {**get_mapping(call, "function"), "id": get_string(call, "id", "call_id")}
            for call in get_objects(message, "tool_calls")
        ]
        lines = [write_call(cleaner, call) for call in calls]
        name = add_turn(log, id, str(role), join_texts([clean_text(cleaner, str(role), text), *lines]), time)
        note_calls(log, filter(None, (get_string(call, "id") for call in calls)), name)
    elif role == "tool":
        failed = True if message.get("finish_reason") == "error" else None
        add_result(log, id, ToolResult(get_string(message, "tool_call_id"), text, failed), time)
    elif role == "system":
        cleaner.drop("host", text)
    elif not is_type(role, _NOISE):
        cleaner.count_unknown(f"role {name_type(role)}")
