"""Sessions of Factory Droid: the store of its sessions, and the output of `droid exec` as a stream of JSON.

What is particular to the format:

- A record of the store holds a message of blocks. The first record names the folder and the title.
- The stream has records of its own for calls and results, with fields of two versions. It ends with the last answer.
- Reminders of the client are inside prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_message,
    add_result,
    add_turn,
    clean_text,
    note_calls,
    write_call,
)
from helix.sources.common.fields import get_flag, get_mapping, get_string, get_text, is_type, join_texts, name_type
from helix.sources.common.json_text import read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import dump_json
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "droid"
JSON = True
GROWS = True

_ROLES: Final = frozenset({"user", "assistant"})
_STREAM: Final = frozenset({"tool_call", "tool_result", "completion"})
_ABOUT: Final = frozenset({"session_start", "system"})


@dataclass(slots=True)
class _DroidFacts:
    session: str = ""
    title: str = ""
    folder: str = ""


def detect(sample: Sample) -> bool:
    """Return whether the log begins as one of the store, or any line is a record of the stream."""
    return any(map(_is_record, sample.records))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one log."""
    cleaner = TextCleaner(tool_chars)
    log, facts = AgentLog(cleaner), _DroidFacts()
    for line, record in read_records(document.text, cleaner.problems):
        facts.session = facts.session or _find_session(record)
        facts.folder = facts.folder or get_text(record, "cwd")
        facts.title = get_string(record, "sessionTitle", "title") or facts.title
        _read_record(log, line, record)
    name = facts.session or name_session_of_path(document.path)
    workspace = make_workspace(facts.folder)
    return cleaner.build(make_sessions(NAME, name, log.turns, workspace=workspace, title=facts.title or None))


def _is_record(record: Mapping[str, Any]) -> bool:
    kind, is_stream = record.get("type"), _has_session(record)
    if kind == "session_start":
        return isinstance(record.get("id"), str)
    if kind == "message":
        return is_stream and is_type(record.get("role"), _ROLES) and "text" in record
    return is_stream and is_type(kind, _STREAM) and any(n in record for n in ("toolName", "value", "finalText"))


def _has_session(record: Mapping[str, Any]) -> bool:
    return get_string(record, "session_id", "sessionId") is not None


def _find_session(record: Mapping[str, Any]) -> str:
    own = get_text(record, "id") if record.get("type") == "session_start" else ""
    return own or get_text(record, "session_id", "sessionId")


def _read_record(log: AgentLog, line: int, record: Mapping[str, Any]) -> None:
    kind, time = name_type(record.get("type")), parse_time(record.get("timestamp"))
    id = get_string(record, "id") or str(line)
    message = get_mapping(record, "message")
    role = message.get("role", record.get("role"))
    if kind == "message" and is_type(role, _ROLES):
        content = message.get("content") if message else get_text(record, "text")
        parent = get_string(record, "parentId")
        add_message(log, id, str(role), content, time, parent=parent if parent in log.ids else None)
    elif kind == "message":
        log.cleaner.count_unknown(f"role {name_type(role)}")
    elif kind == "tool_call":
        call = get_string(record, "toolCallId", "id")
        turn = add_turn(log, id, "assistant", write_call(log.cleaner, {**record, "id": call}), time)
        note_calls(log, filter(None, [call]), turn)
    elif kind == "tool_result":
        add_result(log, id, _read_result(record), time)
    elif kind == "completion":
        text = clean_text(log.cleaner, "assistant", get_text(record, "finalText"))
        is_known = bool(log.turns) and log.turns[-1].text == text  # a message before it may have the same text
        add_turn(log, id, "assistant", "" if is_known else text, time)
    elif kind == "reasoning":
        log.cleaner.drop("reasoning", get_string(record, "text", "content"))
    elif kind == "error":
        log.cleaner.drop("telemetry", get_string(record, "message"))
    elif kind not in _ABOUT:
        log.cleaner.count_unknown(kind)


def _read_result(record: Mapping[str, Any]) -> ToolResult:
    """Return the result of a record of the stream: a text, or an object with the streams of a command."""
    value, code = record.get("value"), None
    output = value if isinstance(value, str) else ""
    if isinstance(value, dict):
        code = value.get("exitCode") if type(value.get("exitCode")) is int else None
        output = join_texts(get_text(value, name).rstrip("\n") for name in ("stdout", "stderr", "output", "text"))
        output = output or (dump_json(value) if value.keys() - {"exitCode", "stdout", "stderr"} else "")
    failed = get_flag(record, "isError")
    return ToolResult(
        get_string(record, "toolCallId", "id"), output, code != 0 if failed is None and code else failed, code
    )
