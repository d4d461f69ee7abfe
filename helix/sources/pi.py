"""Sessions of pi, and of OpenClaw, which logs in the same layout.

What is particular to the format:

- Entries form a tree. Going back to an entry and on from there leaves a branch.
- A result is a message of its own. In logs of OpenClaw its parent may be the call.
- A person's own command (`!ls`) is a message with its output.
- Extensions add entries: `custom` for themselves, `custom_message` for the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from helix.sources.common.agent_log import AgentLog, ToolResult, add_message, add_result, add_turn, join_blocks
from helix.sources.common.agent_tree import AgentTree, build_tree, close_record, open_record
from helix.sources.common.fields import get_flag, get_mapping, get_string, get_text, is_type, name_type
from helix.sources.common.json_text import read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "pi"
JSON = True
GROWS = True

_ABOUT: Final = frozenset({"session", "model_change", "thinking_level_change", "label", "custom", "session_info"})
_SUMMARIES: Final = frozenset({"compaction", "branch_summary"})
_SUMMARY_ROLES: Final = frozenset({"compactionSummary", "branchSummary"})
_OF_HOST: Final = frozenset({"custom", "hookMessage", "system"})


@dataclass(slots=True)
class _PiFacts:
    session: str = ""
    title: str = ""
    folder: str = ""


def detect(sample: Sample) -> bool:
    """Return whether any line is the header of a session."""
    return any(map(_is_header, sample.records))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session, and the branches that were left."""
    cleaner = TextCleaner(tool_chars)
    tree, facts = AgentTree(cleaner), _PiFacts()
    for line, record in read_records(document.text, cleaner.problems):
        if _is_header(record):
            facts.session = facts.session or get_text(record, "id")
            facts.folder = facts.folder or get_text(record, "cwd")
            continue
        if record.get("type") == "session_info":
            facts.title = get_string(record, "name") or facts.title
        _read_entry(tree, line, record)
    id = facts.session or name_session_of_path(document.path)
    workspace = make_workspace(facts.folder)
    return cleaner.build(build_tree(tree, NAME, id, title=facts.title or None, workspace=workspace))


def _is_header(record: Mapping[str, Any]) -> bool:
    is_named = all(get_string(record, name) for name in ("id", "timestamp", "cwd"))
    return record.get("type") == "session" and is_named


def _read_entry(tree: AgentTree, line: int, record: Mapping[str, Any]) -> None:
    id, kind = get_string(record, "id") or str(line), name_type(record.get("type"))
    parent = get_string(record, "parentId") if "parentId" in record else tree.leaf  # the first version had no tree
    log, message = open_record(tree, id), get_mapping(record, "message")
    time = parse_time(record.get("timestamp")) or parse_time(message.get("timestamp"))
    if kind == "message":
        _read_message(log, id, message)
    elif kind in _SUMMARIES:
        _add_summary(log, id, record)
    elif kind == "custom_message":
        log.cleaner.drop("host", join_blocks(record.get("content")))
    elif kind not in _ABOUT:
        log.cleaner.count_unknown(kind)
    close_record(tree, id, parent, time, log)


def _read_message(log: AgentLog, id: str, message: Mapping[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    if is_type(role, ("user", "assistant")):
        add_message(log, id, str(role), content)
        log.cleaner.drop("telemetry", get_string(message, "errorMessage"))
    elif role == "toolResult":
        failed = get_flag(message, "isError")
        add_result(log, id, ToolResult(get_string(message, "toolCallId"), join_blocks(content), failed))
    elif role == "bashExecution":
        command = get_text(message, "command").strip()
        name = add_turn(log, id, "user", f"$ {command}" if command else "")
        code = message.get("exitCode") if type(message.get("exitCode")) is int else None
        text = log.cleaner.clean_output(get_text(message, "output"), bool(code) or None, None, code)
        add_turn(log, f"{id}:output", "tool", text, parent=name)
    elif is_type(role, _SUMMARY_ROLES):
        _add_summary(log, id, message)
    elif is_type(role, _OF_HOST):
        log.cleaner.drop("host", join_blocks(content))
    else:
        log.cleaner.count_unknown(f"role {name_type(role)}")


def _add_summary(log: AgentLog, id: str, fields: Mapping[str, Any]) -> None:
    add_turn(log, id, "assistant", log.cleaner.clean_answer(get_text(fields, "summary")), origin="summary")
