"""Sessions of Qwen Code: a tree of records, whose messages have the parts of Gemini's API.

What is particular to the format:

- A record names the one before it. A rewind is a record below the last one that counts; what it leaves is a branch.
- An answer may be logged in several records of one id.
- A prompt is followed by the texts of hooks, and `displayText` is what was typed. Records of the system have subtypes.
- A crash may leave two records on one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_result,
    add_turn,
    clean_text,
    note_calls,
    write_call,
)
from helix.sources.common.agent_tree import AgentTree, build_tree, close_record, list_path, open_record
from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, is_type, join_texts, name_type
from helix.sources.common.json_text import number_lines, read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import dump_json
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Problem
from helix.util.workspaces import make_workspace

NAME = "qwen"
JSON = True
GROWS = True

_TYPED: Final = frozenset({"mid_turn_user_message"})
_OF_HOST: Final = frozenset({"notification", "cron"})
_NOTES: Final = frozenset(  # subtypes of the system
    {"ui_telemetry", "slash_command", "at_command", "rewind", "custom_title", "session_artifact_snapshot"}
)
_BAD: Final = frozenset({"error", "cancelled"})
_ADDED: Final = "<qwen:"  # beginning of a text that a hook adds
_DECODER: Final = json.JSONDecoder()


@dataclass(slots=True)
class _QwenLog:
    tree: AgentTree
    titles: dict[str, str] = field(default_factory=dict)  # by record
    session: str = ""
    folder: str = ""


def detect(sample: Sample) -> bool:
    """Return whether any line is a record, or begins as one that another follows on the same line."""
    if any(map(is_record, sample.records)):
        return True
    first = sample.head.lstrip().partition("\n")[0]
    return first.startswith('{"uuid"') and any(is_record(record) for record in _split_objects(first[: 1 << 16]))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session, and the branches that rewinds left."""
    cleaner = TextCleaner(tool_chars)
    reader = _QwenLog(AgentTree(cleaner))
    for line, record in _read_glued(document.text, cleaner.problems):
        _read_record(reader, line, record)
    title = next((title for id in list_path(reader.tree) if (title := reader.titles.get(id))), None)
    id = reader.session or name_session_of_path(document.path)
    return cleaner.build(build_tree(reader.tree, NAME, id, title=title, workspace=make_workspace(reader.folder)))


def is_record(record: Mapping[str, Any]) -> bool:
    """Return whether a line is a record: a message of parts, or one of the system."""
    if not {"uuid", "parentUuid", "sessionId"} <= record.keys():
        return False
    has_parts = isinstance(get_mapping(record, "message").get("parts"), list)
    return has_parts or (record.get("type") == "system" and "systemPayload" in record)


def _read_glued(text: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a log with their lines, also those that share a line."""
    for number, line in number_lines(text):
        found: list[Problem] = []
        records = [record for _, record in read_records(line, found)]
        glued = _split_objects(line) if found else []
        yield from ((number, record) for record in (records or glued))
        if found and not glued:
            problems.append(Problem(number, found[0].reason))


def _split_objects(line: str) -> list[dict[str, Any]]:
    """Return the objects that follow each other on a line; none where anything else is on it."""
    found: list[dict[str, Any]] = []
    at, line = 0, line.strip()
    while at < len(line):
        try:
            value, at = _DECODER.raw_decode(line, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append(value)
    return found


def _read_record(reader: _QwenLog, line: int, record: Mapping[str, Any]) -> None:
    id, kind, subtype = get_string(record, "uuid") or str(line), name_type(record.get("type")), record.get("subtype")
    reader.session = reader.session or get_text(record, "sessionId")
    if subtype == "session_artifact_snapshot":  # a note next to the conversation
        return
    reader.folder = reader.folder or get_text(record, "cwd")
    if subtype == "custom_title":
        reader.titles[id] = get_text(get_mapping(record, "systemPayload"), "customTitle")
    log = open_record(reader.tree, id)
    if kind != "system":
        _read_message(log, id, kind, record)
    elif not is_type(subtype, _NOTES):
        log.cleaner.count_unknown(f"system {name_type(subtype)}")
    close_record(reader.tree, id, get_string(record, "parentUuid"), parse_time(record.get("timestamp")), log)


def _read_message(log: AgentLog, id: str, kind: str, record: Mapping[str, Any]) -> None:
    message, subtype = get_mapping(record, "message"), record.get("subtype")
    parts = get_objects(message, "parts")
    texts = [text for part in parts if part.get("thought") is not True and (text := get_string(part, "text"))]
    thoughts = [get_string(part, "text") for part in parts if part.get("thought") is True]
    log.cleaner.drop("reasoning", *thoughts)
    if kind == "user" and (subtype is None or is_type(subtype, _TYPED)):
        sent = "\n".join(texts).strip()
        shown = get_text(get_mapping(record, "systemPayload"), "displayText").strip()
        typed = shown or "\n".join(text for text in texts if not text.lstrip().startswith(_ADDED))
        add_turn(log, id, "user", clean_text(log.cleaner, "user", log.cleaner.cut(sent, typed, "host")))
    elif kind == "user" and is_type(subtype, _OF_HOST):
        log.cleaner.drop("host", *texts)
    elif kind == "assistant":
        calls = [call for part in parts if (call := get_mapping(part, "functionCall"))]
        lines = [write_call(log.cleaner, call) for call in calls]
        name = add_turn(log, id, "assistant", join_texts([log.cleaner.clean_answer("\n".join(texts)), *lines]))
        note_calls(log, filter(None, (get_string(call, "id") for call in calls)), name)
    elif kind == "tool_result":
        status = get_string(get_mapping(record, "toolCallResult"), "status")
        found = [response for part in parts if (response := get_mapping(part, "functionResponse"))]
        for number, response in enumerate(found):
            name = id if len(found) == 1 else f"{id}:{number}"
            add_result(log, name, _read_response(response, status))
    else:
        log.cleaner.count_unknown(kind if subtype is None else f"{kind} {name_type(subtype)}")


def _read_response(response: Mapping[str, Any], status: str | None) -> ToolResult:
    value = response.get("response")
    error, output = get_text(value, "error"), get_text(value, "output", "content", "text")
    if not error and not output and isinstance(value, dict) and value:
        output = dump_json(value)
    failed = True if error or status in _BAD else False if status else None
    return ToolResult(get_string(response, "id"), error or output or get_text(response, "response"), failed)
