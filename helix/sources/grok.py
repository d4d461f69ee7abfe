"""Sessions of Grok Build: a folder with the history of the chat, and a summary with the facts about it.

What is particular to the format:

- Messages have neither ids nor times. A turn is named by its line; its time is that of the session's start.
- Messages of the client have the type of a person's, with a `synthetic_reason`.
- A rewind truncates the history, so it is read whole.
- Other files of the folder repeat the history as events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from helix.sources.common.agent_log import (
    AgentLog,
    add_message,
    add_result,
    add_turn,
    note_calls,
    read_result,
    write_call,
)
from helix.sources.common.companions import join_log, read_facts
from helix.sources.common.fields import get_list, get_mapping, get_objects, get_string, get_text, join_texts, name_type
from helix.sources.common.json_text import read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import Workspace, make_workspace

NAME = "grok"
JSON = True
GROWS = False

_HISTORY: Final = "chat_history.jsonl"
_SUMMARY: Final = "summary.json"
_FACTS: Final = ("created_at", "generated_title", "session_summary", "session_kind", "git_root_dir", "git_remotes")
_FOLDER: Final = re.compile(r"(?m)^Workspace Path: ?([^\n]{1,1000})$")


def detect(sample: Sample) -> bool:
    """Return whether it is a collected session, or a history with more than texts."""
    return any(map(_is_record, sample.records))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return a history with the facts of its summary; None for any other file."""
    if path.name != _HISTORY:
        return None
    summary = read_facts(path.with_name(_SUMMARY))
    info = get_mapping(summary, "info")
    if not get_string(info, "id"):
        return None
    facts = {"grok": info.get("id"), "cwd": info.get("cwd"), **{name: summary.get(name) for name in _FACTS}}
    text = join_log(path, {name: value for name, value in facts.items() if value})
    times = (parse_time(summary.get(name)) for name in ("updated_at", "created_at"))
    return None if text is None else iter([SessionText("", text, next(filter(None, times), None))])


def is_companion(path: Path) -> bool:
    """Return whether a file is next to a history, in the folder of a session."""
    if path.suffix not in (".json", ".jsonl") or path.name == _HISTORY:
        return False
    return path.with_name(_HISTORY).is_file() and path.with_name(_SUMMARY).is_file()


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one history."""
    cleaner = TextCleaner(tool_chars)
    log, facts, folder = AgentLog(cleaner), dict[str, Any](), ""
    for line, record in read_records(document.text, cleaner.problems):
        if get_string(record, "grok") and "type" not in record:
            facts = facts or record
            log.latest = log.latest or parse_time(record.get("created_at"))
            log.is_subagent = record.get("session_kind") == "subagent"
        else:
            folder = folder or _find_folder(record)
            _read_record(log, str(line - bool(facts)), record)
    id = get_text(facts, "grok") or name_session_of_path(document.path)
    title = get_string(facts, "generated_title", "session_summary")
    return cleaner.build(make_sessions(NAME, id, log.turns, workspace=_make_workspace(facts, folder), title=title))


def _is_record(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    if "type" not in record:
        return isinstance(record.get("grok"), str) and not {"created_at", "cwd"}.isdisjoint(record)
    if kind == "assistant":
        return isinstance(record.get("content"), str) and ("tool_calls" in record or "model_id" in record)
    if kind == "user":
        return isinstance(record.get("content"), list) and ("prompt_index" in record or "synthetic_reason" in record)
    return kind == "backend_tool_call" and isinstance(record.get("kind"), dict)


def _make_workspace(facts: Mapping[str, Any], folder: str) -> Workspace | None:
    remotes = [remote for remote in get_list(facts, "git_remotes") if isinstance(remote, str)]
    top = get_string(facts, "git_root_dir")
    return make_workspace(get_string(facts, "cwd") or folder, top, next(iter(remotes), None), tracked=top is not None)


def _find_folder(record: Mapping[str, Any]) -> str:
    if record.get("synthetic_reason") != "environment_context":
        return ""
    found = _FOLDER.search("\n".join(get_text(block, "text") for block in get_objects(record, "content")))
    return found[1].strip() if found else ""


def _read_record(log: AgentLog, id: str, record: Mapping[str, Any]) -> None:
    kind, content = name_type(record.get("type")), record.get("content")
    cleaner = log.cleaner
    if kind == "user" and get_string(record, "synthetic_reason") is None:
        add_message(log, id, "user", content)
    elif kind in ("user", "system"):
        cleaner.drop(
            "host", get_string(record, "content"), *(get_string(b, "text") for b in get_objects(record, "content"))
        )
    elif kind == "assistant":
        calls = get_objects(record, "tool_calls")
        lines = [write_call(cleaner, call) for call in calls]
        name = add_turn(log, id, "assistant", join_texts([cleaner.clean_answer(get_text(record, "content")), *lines]))
        note_calls(log, filter(None, (get_string(call, "id") for call in calls)), name)
    elif kind == "tool_result":
        add_result(log, id, read_result(record))
    elif kind == "backend_tool_call":
        call = get_mapping(record, "kind")
        line = cleaner.format_call(get_text(call, "tool_type"), get_mapping(call, "action"), get_string(call, "id"))
        add_turn(log, id, "assistant", line)
    elif kind == "reasoning":
        cleaner.drop("reasoning", *(get_string(part, "text") for part in get_objects(record, "summary")))
    else:
        cleaner.count_unknown(kind)
