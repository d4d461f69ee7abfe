"""Threads of Zed's agent, from its database: a row for each thread, with compressed JSON.

What is particular to the format:

- A message is an object with one field, its kind. Results are inside the answer, by the ids of the calls. An earlier
  version has roles, segments and lists of calls and results.
- Only a person's messages have ids, and none has a time: a thread is dated by the state of the project at its start.
- What a person mentions, such as a file, is quoted in the message. It is the editor's addition.
- A thread with a parent is a subagent's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common import sqlite
from helix.sources.common.agent_log import AgentLog, ToolResult, add_result, add_turn, note_calls, write_call
from helix.sources.common.fields import (
    get_flag,
    get_list,
    get_mapping,
    get_objects,
    get_string,
    get_text,
    join_texts,
    name_type,
    pick_fields,
)
from helix.sources.common.json_text import load_document, try_json
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText, dump_json
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import Workspace, make_workspace

NAME = "zed"
JSON = True
GROWS = False

_COLUMNS: Final = frozenset({"id", "summary", "updated_at", "data_type", "data"})
_OPTIONAL: Final = frozenset({"parent_id", "folder_paths"})
_THREAD: Final = ("title", "summary", "messages", "initial_project_snapshot", "subagent_context", "version")
_DATA_BYTES: Final = 64 << 20  # of a thread, compressed or not
_NOISE: Final = frozenset({"Resume"})


def detect(sample: Sample) -> bool:
    """Return whether it is a collected thread."""
    return any(
        isinstance(value, dict) and isinstance(value.get("zed"), str) and isinstance(value.get("thread"), dict)
        for value in (sample.value, *sample.records[:1])
    )


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the threads of a database; None for any other file.

    Raises:
        InputRefused: the database cannot be read, now or while its threads are read.
    """
    if not sqlite.is_database(path) or not sqlite.has_columns(path, {"threads": _COLUMNS}):
        return None
    return _read_threads(path)


def is_companion(path: Path) -> bool:
    """Return whether a file is read together with a database."""
    return sqlite.is_sidecar(path)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one thread.

    Raises:
        InputRefused: it is no thread.
    """
    value = load_document(document.text, "give the database: threads.db")
    thread = get_mapping(value, "thread")
    if not isinstance(thread.get("messages"), list):
        raise InputRefused("no thread of Zed: no list of messages", "give the database: threads.db")
    cleaner = TextCleaner(tool_chars)
    snapshot = get_mapping(thread, "initial_project_snapshot")
    is_subagent = bool(get_string(value, "parent_id")) or bool(get_mapping(thread, "subagent_context"))
    log = AgentLog(cleaner, is_subagent, parse_time(snapshot.get("timestamp")))
    for index, message in enumerate(thread["messages"]):
        _read_message(log, str(index), message)
    id = get_string(value, "zed") or name_session_of_path(document.path)
    title = get_string(thread, "title", "summary")
    return cleaner.build(make_sessions(NAME, id, log.turns, workspace=_find_workspace(value, snapshot), title=title))


def _read_threads(path: Path) -> Iterator[SessionText]:
    with sqlite.open_database(path) as database:
        names = sorted(_COLUMNS - {"data"} | (_OPTIONAL & sqlite.list_columns(database, "threads")))
        ids = [row[0] for row in database.execute("SELECT id FROM threads ORDER BY id")]
        for id in ids:
            data = f"CASE WHEN length(CAST(data AS BLOB)) <= {_DATA_BYTES} THEN data END"
            query = f"SELECT {', '.join(names)}, {data} FROM threads WHERE id = ?"
            row = database.execute(query, (id,)).fetchone()
            if row is not None:
                yield _write_thread(dict(zip((*names, "data"), row, strict=True)))


def _write_thread(row: Mapping[str, Any]) -> SessionText:
    """Return the JSON of a thread. One that cannot be read has a message of an unknown kind, and so is counted."""
    thread = _load_thread(row["data"], row["data_type"])
    kept = pick_fields(thread, _THREAD) if thread else {"messages": [{"(not readable)": {}}]}
    head = {"zed": str(row["id"]), **pick_fields(row, sorted(_OPTIONAL)), "thread": kept}
    fallback = {"zed": str(row["id"]), "thread": {"messages": [{"(not readable)": {}}]}}
    return SessionText(str(row["id"]), dump_json(head, fallback), parse_time(row["updated_at"]))


def _load_thread(data: object, kind: object) -> Mapping[str, Any]:
    raw = data.encode() if isinstance(data, str) else data
    if not isinstance(raw, bytes):
        return {}
    if kind == "zstd":
        import pyarrow as pa  # takes a while: only for such a database

        try:
            with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
                raw = stream.read(_DATA_BYTES)
        except (OSError, pa.ArrowException):
            return {}
    value = try_json(raw)
    return value if isinstance(value, dict) else {}


def _find_workspace(value: object, snapshot: Mapping[str, Any]) -> Workspace | None:
    trees = get_objects(snapshot, "worktree_snapshots")
    tree = trees[0] if trees else {}
    state = get_mapping(tree, "git_state")
    listed = re.split(r"[\n\0]", get_text(value, "folder_paths"))[0].strip()
    folder = get_string(tree, "worktree_path") or listed
    return make_workspace(folder, None, get_string(state, "remote_url"), tracked=bool(state))


def _read_message(log: AgentLog, id: str, message: object) -> None:
    if isinstance(message, dict) and ("segments" in message or "role" in message):
        _read_early_message(log, id, message)
        return
    kind, fields = next(iter(message.items()), ("", None)) if isinstance(message, dict) else (message, None)
    if kind == "User":
        _read_prompt(log, get_string(fields, "id") or id, get_list(fields, "content"))
    elif kind == "Agent":
        _read_answer(log, id, get_mapping(message, "Agent"))
    elif not isinstance(kind, str) or kind not in _NOISE:
        log.cleaner.count_unknown(kind)


def _read_prompt(log: AgentLog, id: str, content: list[Any]) -> None:
    texts: list[str] = []
    for part in content:
        kind, value = next(iter(part.items()), ("", None)) if isinstance(part, dict) else (part, None)
        if kind == "Text" and isinstance(value, str):
            texts.append(value)
        elif kind == "Mention":
            log.cleaner.drop("host", get_string(value, "content"))
            texts.append(_name_mention(value))
        elif kind != "Image":
            log.cleaner.count_unknown(kind)
    add_turn(log, id, "user", log.cleaner.clean_prompt("".join(texts)))


def _name_mention(value: object) -> str:
    """Return a mention as it is typed: the last name of its path, or its own name."""
    uri = get_mapping(value, "uri")
    fields: object = next(iter(uri.values()), None)
    name = get_string(fields, "name") or Path(get_text(fields, "abs_path", "path", "url")).name
    return f"@{name} " if name else ""


def _read_answer(log: AgentLog, id: str, answer: Mapping[str, Any]) -> None:
    texts: list[str] = []
    calls: list[str] = []
    for part in get_list(answer, "content"):
        kind, value = next(iter(part.items()), ("", None)) if isinstance(part, dict) else (part, None)
        if kind == "Text" and isinstance(value, str):
            texts.append(log.cleaner.clean_answer(value))
        elif kind in ("Thinking", "RedactedThinking"):
            log.cleaner.drop("reasoning", get_string(value, "text"))
        elif kind == "ToolUse" and isinstance(value, dict):
            texts.append(write_call(log.cleaner, value))
            calls += filter(None, [get_string(value, "id")])
        else:
            log.cleaner.count_unknown(kind)
    name = add_turn(log, id, "assistant", join_texts(texts))
    note_calls(log, calls, name)
    for call, result in get_mapping(answer, "tool_results").items():
        _add_result(log, id, call, result)


def _add_result(log: AgentLog, id: str, call: str | None, result: object) -> None:
    content = result.get("content") if isinstance(result, dict) else None
    parts = content if isinstance(content, list) else [content]
    output = join_texts(part if isinstance(part, str) else get_string(part, "Text", "text") for part in parts)
    failed = get_flag(result, "is_error")
    add_result(log, f"{id}:{call}", ToolResult(call, output, failed))


def _read_early_message(log: AgentLog, id: str, message: Mapping[str, Any]) -> None:
    role, cleaner = message.get("role"), log.cleaner
    segments = get_objects(message, "segments")
    text = "\n".join(get_text(segment, "text") for segment in segments if segment.get("type") == "text")
    cleaner.drop("reasoning", *(get_string(s, "text") for s in segments if s.get("type") == "thinking"))
    if role == "user":
        cleaner.drop("host", get_string(message, "context"))
        add_turn(log, id, "user", cleaner.clean_prompt(text))
    elif role == "assistant":
        calls = get_objects(message, "tool_uses")
        lines = [write_call(cleaner, call) for call in calls]
        name = add_turn(log, id, "assistant", join_texts([cleaner.clean_answer(text), *lines]))
        note_calls(log, filter(None, (get_string(call, "id") for call in calls)), name)
        for result in get_objects(message, "tool_results"):
            _add_result(log, id, get_string(result, "tool_use_id"), result)
    elif role == "system":
        cleaner.drop("host", text)
    else:
        cleaner.count_unknown(f"role {name_type(role)}")
