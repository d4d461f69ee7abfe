"""Sessions of Kiro's command line, in the layouts of its three engines.

What is particular to the format:

- The first engine has a row of a database for each conversation; a prompt or results and the answer to them are one
  entry. The second one has a log of messages, and the third one a log of events, each with a file of facts next to it.
- Values are wrapped in their kinds: `{"kind": "text", "data": …}`, or `{"Text": …}` in the database.
- The editor of the same name has logs of other layouts, in which most answers are missing. They are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from helix.sources.common import sqlite
from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_result,
    add_turn,
    clean_text,
    note_calls,
    write_call,
)
from helix.sources.common.companions import join_log, read_facts
from helix.sources.common.fields import (
    get_flag,
    get_list,
    get_mapping,
    get_objects,
    get_string,
    get_text,
    is_type,
    join_texts,
    name_type,
    pick_fields,
)
from helix.sources.common.json_text import read_records, try_json
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText, dump_json
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "kiro"
JSON = True
GROWS = False

_TABLE: Final = {"conversations_v2": frozenset({"key", "conversation_id", "value", "updated_at"})}
_EVENTS: Final = frozenset({"user", "assistant", "tool_call", "tool_result"})
_KINDS: Final = frozenset({"Prompt", "AssistantMessage", "ToolResults"})
_FACTS: Final = ("cwd", "title", "parent_session_id", "created_at", "createdAt")
_VALUE_BYTES: Final = 64 << 20


def detect(sample: Sample) -> bool:
    """Return whether it is a collected session, or a log of the second or third engine."""
    return any(map(_is_record, (sample.value, *sample.records)))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the conversations of a database, or a log with its facts; None for any other file.

    Raises:
        InputRefused: the database cannot be read, now or while its conversations are read.
    """
    if sqlite.is_database(path):
        return _read_database(path) if sqlite.has_columns(path, _TABLE) else None
    facts_path = _find_facts(path)
    facts = read_facts(facts_path) if facts_path else {}
    id = get_string(facts, "session_id", "id")
    if not id:
        return None
    text = join_log(path, {"kiro": id, **pick_fields(facts, _FACTS)})
    last = parse_time(facts.get("updated_at")) or parse_time(facts.get("lastModifiedAt"))
    return None if text is None else iter([SessionText("", text, last)])


def is_companion(path: Path) -> bool:
    """Return whether a file holds the facts of a log next to it, or belongs to a database."""
    if path.suffix != ".json":
        return sqlite.is_sidecar(path)
    log = path.with_name("messages.jsonl") if path.name == "session.json" else path.with_suffix(".jsonl")
    return log.is_file() and _find_facts(log) == path and get_string(read_facts(path), "session_id", "id") is not None


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one log or conversation."""
    cleaner = TextCleaner(tool_chars)
    log, facts = AgentLog(cleaner), dict[str, Any]()
    for line, record in read_records(document.text, cleaner.problems):
        if "kiro" in record and not facts:
            facts = record
            log.is_subagent = get_string(record, "parent_session_id") is not None
            log.latest = parse_time(record.get("created_at")) or parse_time(record.get("createdAt"))
            for index, entry in enumerate(get_objects(record, "history")):
                _read_entry(log, str(index), entry)
        elif isinstance(record.get("payload"), dict):
            _read_event(log, str(line - bool(facts)), record)
        else:
            _read_message(log, str(line - bool(facts)), record)
    id = get_string(facts, "kiro") or name_session_of_path(document.path)
    workspace, title = make_workspace(get_string(facts, "cwd")), get_string(facts, "title")
    return cleaner.build(make_sessions(NAME, id, log.turns, workspace=workspace, title=title))


def _is_record(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    payload = get_mapping(value, "payload")
    if payload:
        named = "operationType" in payload or "toolCallId" in payload or payload.get("type") == "user"
        return is_type(payload.get("type"), _EVENTS) and named and "type" not in value
    if isinstance(value.get("kiro"), str):
        return "history" in value or not {"cwd", "created_at", "createdAt"}.isdisjoint(value)
    return is_type(value.get("kind"), _KINDS) and isinstance(get_mapping(value, "data").get("content"), list)


def _find_facts(log: Path) -> Path | None:
    """Return the file of facts of a log: by its own name, or `session.json` in the folder of a session."""
    if log.name == "messages.jsonl":
        path = log.with_name("session.json")
    elif log.suffix == ".jsonl" and log.parent.name == "cli":
        path = log.with_suffix(".json")
    else:
        return None
    return path if path.is_file() else None


def _read_database(path: Path) -> Iterator[SessionText]:
    with sqlite.open_database(path) as database:
        value = f"CASE WHEN length(CAST(value AS BLOB)) <= {_VALUE_BYTES} THEN value END"
        query = f"SELECT key, conversation_id, {value}, updated_at FROM conversations_v2 ORDER BY conversation_id, key"
        for folder, id, text, changed in database.execute(query):
            conversation = try_json(text)
            history = get_objects(conversation, "history")
            head = {"kiro": str(id), "cwd": folder, "history": history}
            yield SessionText(str(id), dump_json(head, {"kiro": str(id), "history": []}), parse_time(changed))


def _read_entry(log: AgentLog, id: str, entry: Mapping[str, Any]) -> None:
    """Read a prompt, or the results of calls, and the answer to them."""
    user = get_mapping(entry, "user")
    time = parse_time(user.get("timestamp"))
    for kind, value in get_mapping(user, "content").items():
        if prompt := get_string(value, "prompt"):
            add_turn(log, f"{id}:user", "user", clean_text(log.cleaner, "user", prompt), time)
        for number, result in enumerate(get_objects(value, "tool_use_results")):
            status = get_text(result, "status").lower()
            output = _join_values(result.get("content"))
            found = ToolResult(get_string(result, "tool_use_id"), output, status == "error" if status else None)
            add_result(log, f"{id}:{number}", found, time)
        if kind not in ("Prompt", "ToolUseResults", "CancelledToolUses"):
            log.cleaner.count_unknown(kind)
    time = parse_time(get_mapping(entry, "request_metadata").get("stream_end_timestamp_ms")) or time
    for kind, value in get_mapping(entry, "assistant").items():
        if kind not in ("ToolUse", "Response"):
            log.cleaner.count_unknown(kind)
            continue
        calls = get_objects(value, "tool_uses")
        _add_answer(log, get_string(value, "message_id") or f"{id}:assistant", get_text(value, "content"), calls, time)


def _add_answer(log: AgentLog, id: str, text: str, calls: list[dict[str, Any]], time: Any) -> None:
    lines = [write_call(log.cleaner, call) for call in calls]
    name = add_turn(log, id, "assistant", join_texts([log.cleaner.clean_answer(text), *lines]), time)
    note_calls(log, filter(None, (get_string(call, "id") for call in calls)), name)


def _read_message(log: AgentLog, line: str, record: Mapping[str, Any]) -> None:
    """Read a message of the second engine."""
    kind, data = name_type(record.get("kind")), get_mapping(record, "data")
    id, parts = get_string(data, "message_id") or line, get_objects(data, "content")
    time = parse_time(get_mapping(data, "meta").get("timestamp"))
    texts = [value for part in parts if part.get("kind") == "text" and (value := get_string(part, "data"))]
    for part in parts:
        if part.get("kind") in ("thinking", "reasoning"):
            log.cleaner.drop("reasoning", get_string(part, "data") or get_string(part.get("data"), "text"))
        elif part.get("kind") not in ("text", "toolUse", "toolResult", "image"):
            log.cleaner.count_unknown(part.get("kind"))
    if kind == "Prompt":
        add_turn(log, id, "user", clean_text(log.cleaner, "user", "\n".join(texts)), time)
    elif kind == "AssistantMessage":
        found = [get_mapping(part, "data") for part in parts if part.get("kind") == "toolUse"]
        calls = [{**call, "id": call.get("toolUseId")} for call in found]
        _add_answer(log, id, "\n".join(texts), calls, time)
    elif kind == "ToolResults":
        results = [get_mapping(part, "data") for part in parts if part.get("kind") == "toolResult"]
        for number, result in enumerate(results):
            status, output = get_text(result, "status").lower(), _join_values(result.get("content"))
            call = ToolResult(get_string(result, "toolUseId"), output, status != "success" if status else None)
            add_result(log, id if len(results) == 1 else f"{id}:{number}", call, time)
    elif kind == "Compaction":
        text = log.cleaner.clean_answer(get_text(data, "summary"))
        add_turn(log, id, "assistant", text, time, origin="summary")
    else:
        log.cleaner.count_unknown(kind)


def _read_event(log: AgentLog, line: str, record: Mapping[str, Any]) -> None:
    """Read an event of the third engine."""
    payload, time = get_mapping(record, "payload"), parse_time(record.get("timestamp"))
    kind, id, content = name_type(payload.get("type")), get_string(record, "id") or line, payload.get("content")
    text = content if isinstance(content, str) else _join_values(content)
    if kind == "user":
        add_turn(log, id, "user", clean_text(log.cleaner, "user", text), time)
    elif kind == "assistant" and payload.get("operationType") == "Say":
        add_turn(log, id, "assistant", log.cleaner.clean_answer(text), time)
    elif kind == "assistant":
        log.cleaner.drop("reasoning", text)
    elif kind == "tool_call":
        call = {"name": payload.get("toolName"), "args": payload.get("args"), "id": payload.get("toolCallId")}
        _add_answer(log, id, "", [call], time)
    elif kind == "tool_result":
        success = get_flag(payload, "success")
        failed = None if success is None else not success
        add_result(log, id, ToolResult(get_string(payload, "toolCallId"), text, failed), time)
    elif kind != "usage_summary":
        log.cleaner.count_unknown(kind)


def _join_values(content: object) -> str:
    """Return the text of wrapped values; other values as JSON."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in get_list({"parts": content}, "parts"):
        inner = part.get("Json", part.get("data")) if isinstance(part, dict) else part
        text = get_string(part, "Text") or (inner if isinstance(inner, str) else "")
        texts.append(text or (dump_json(inner) if inner else ""))
    return join_texts(texts)
