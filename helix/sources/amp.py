"""Threads of Amp: one JSON document a thread, as earlier versions stored it and `amp threads export` writes it.

What is particular to the format:

- A message has a number, which is its place. Its blocks are those of Anthropic's API, but for a result: that has a run
  with a status, and a value of any type.
- Only prompts and the usage of answers have times.
- The thread names the folders and the repositories that were open at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_result,
    add_turn,
    join_blocks,
    note_calls,
    read_content,
    read_result,
)
from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, is_type, list_blocks, name_type
from helix.sources.common.json_text import load_document
from helix.sources.common.names import get_uri_path, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import dump_json
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import Workspace, make_workspace

NAME = "amp"
JSON = True
GROWS = False

_FAILED: Final = frozenset({"error", "failed", "cancelled", "rejected-by-user"})
_DONE: Final = frozenset({"done", "success"})


def detect(sample: Sample) -> bool:
    """Return whether it is a thread."""
    return any(_is_thread(value) for value in (sample.value, *sample.records[:1]))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one thread.

    Raises:
        InputRefused: it is no whole thread.
    """
    thread = load_document(document.text, "export the thread again")
    if not isinstance(thread, dict) or not isinstance(thread.get("messages"), list):
        raise InputRefused("no thread of Amp: no list of messages", "export it with: amp threads export")
    cleaner = TextCleaner(tool_chars)
    log = AgentLog(cleaner, latest=parse_time(thread.get("created")))
    for index, message in enumerate(thread["messages"]):
        if isinstance(message, dict):
            _read_message(log, index, message)
    id = get_string(thread, "id") or name_session_of_path(document.path)
    title = get_string(thread, "title")
    return cleaner.build(make_sessions(NAME, id, log.turns, workspace=_find_workspace(thread), title=title))


def _is_thread(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    return get_text(value, "id").startswith("T-") and ("created" in value or "v" in value)


def _find_workspace(thread: Mapping[str, Any]) -> Workspace | None:
    """Return the first folder, which is the top of its repository where it has one."""
    tree = next(iter(get_objects(get_mapping(thread, "env", "initial"), "trees")), {})
    folder, remote = get_uri_path(tree.get("uri")), get_string(get_mapping(tree, "repository"), "url")
    return make_workspace(folder, folder if remote else None, remote, tracked=remote is not None)


def _read_message(log: AgentLog, index: int, message: Mapping[str, Any]) -> None:
    role, number = message.get("role"), message.get("messageId")
    id = str(number) if type(number) is int else get_string(message, "messageId") or str(index)
    if not is_type(role, ("user", "assistant")):
        log.cleaner.count_unknown(f"role {name_type(role)}")
        return
    blocks = list_blocks(message.get("content"))
    others = [block for block in blocks if block.get("type") != "tool_result"]
    found = read_content(log.cleaner, str(role), others)
    time = _find_time(message)
    name = add_turn(log, id, str(role), found.text, time)
    note_calls(log, found.calls, name)
    for place, block in enumerate(block for block in blocks if block.get("type") == "tool_result"):
        add_result(log, f"{id}:{place}", _read_run(block), time)


def _find_time(message: Mapping[str, Any]) -> datetime | None:
    usage, meta = get_mapping(message, "usage"), get_mapping(message, "meta")
    return parse_time(meta.get("sentAt")) or parse_time(usage.get("timestamp"))


def _read_run(block: Mapping[str, Any]) -> ToolResult:
    """Return the result of a block, whose run may be inside it or next to it."""
    plain = read_result(block)
    run = get_mapping(block, "run") or block
    status, value = run.get("status"), run.get("result", run.get("output"))
    code = value.get("exitCode") if isinstance(value, dict) else None
    code = code if type(code) is int else None
    output = plain.output or _read_value(value) or _read_value(run.get("error"))
    failed = True if is_type(status, _FAILED) or code else False if is_type(status, _DONE) else plain.failed
    return ToolResult(plain.call, output, failed, code)


def _read_value(value: object) -> str:
    if isinstance(value, dict):
        return get_string(value, "output", "content", "message", "text") or (dump_json(value) if value else "")
    return join_blocks(value) or (dump_json(value) if isinstance(value, list) and value else "")
