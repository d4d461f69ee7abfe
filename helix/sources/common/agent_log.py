"""Turns of an agent's session while its log is read: messages, tool calls and their results.

Many agents log messages whose content is a list of blocks: texts, thoughts, tool calls, and results that name their
call. Names of types and fields differ little; here they are read once for all of these agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from helix.sources.common.fields import (
    get_block_text,
    get_flag,
    get_string,
    get_text,
    join_texts,
    list_blocks,
    name_type,
)
from helix.sources.common.json_text import expand_json
from helix.sources.common.names import is_uuid, make_unique
from helix.sources.common.sessions import complete_turn
from helix.sources.common.text_cleaner import TextCleaner
from helix.types import Turn

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})
_CALLS: Final = frozenset({"tool_use", "toolCall", "tool_call", "tool-call"})
_RESULTS: Final = frozenset({"tool_result", "toolResult", "tool-result"})
_MEDIA: Final = frozenset({"image", "image_url", "audio", "video", "file", "document"})
_ORIGINS: Final = {"user": "human", "assistant": "assistant", "tool": "tool"}


@dataclass(slots=True)
class AgentLog:
    """Turns of one session so far."""

    cleaner: TextCleaner
    is_subagent: bool = False
    latest: datetime | None = None  # time of the last turn with one, or of the session's start
    turns: list[Turn] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)  # tool call: turn that made it


class ToolResult(NamedTuple):
    """The result of a tool call, as a log has it."""

    call: str | None  # id of the call
    output: str
    failed: bool | None = None
    exit_code: int | None = None


class Content(NamedTuple):
    """The content of a message."""

    text: str  # cleaned, with a line for each tool call
    calls: tuple[str, ...]  # ids
    results: tuple[ToolResult, ...]


def add_turn(
    log: AgentLog,
    id: str,
    role: str,
    text: str,
    time: datetime | None = None,
    *,
    origin: str | None = None,
    parent: str | None = None,
) -> str | None:
    """Add a turn with a cleaned text. Return its id, or None without a text."""
    if not text:
        return None
    name = make_unique(id, log.ids)
    turn = Turn(name, text, role, origin or _ORIGINS[role], time=time, parent=parent, unique=name == id and is_uuid(id))
    log.turns.append(complete_turn(turn, log.latest, log.is_subagent))
    log.latest = time or log.latest
    return name


def extend_turn(log: AgentLog, text: str) -> None:
    """Add a cleaned text to the last turn."""
    last = log.turns[-1]
    log.turns[-1] = replace(last, text=join_texts([last.text, text]))


def add_result(
    log: AgentLog, id: str, result: ToolResult, time: datetime | None = None, parent: str | None = None
) -> str | None:
    """Add the turn of a tool's result, below that of its call. A result of Helix itself is only counted."""
    if result.call in log.cleaner.own_calls:
        log.cleaner.drop("memory", result.output)
        return None
    text = log.cleaner.clean_output(result.output, result.failed, result.call, result.exit_code)
    return add_turn(log, id, "tool", text, time, parent=log.callers.get(result.call or "", parent))


def note_calls(log: AgentLog, calls: Iterable[str], turn: str | None) -> None:
    """Note the turn that made calls."""
    if turn is not None:
        log.callers.update(dict.fromkeys(calls, turn))


def add_message(
    log: AgentLog,
    id: str,
    role: str,
    content: object,
    time: datetime | None = None,
    *,
    parent: str | None = None,
    origin: str | None = None,
    strip: Callable[[str], str] | None = None,
) -> str | None:
    """Add the turn of a message and those of the results in it. Return the id of the last turn.

    Args:
        strip: returns the typed part of a person's text; the rest is counted as the host's.
    """
    found = read_content(log.cleaner, role, content, strip)
    name = add_turn(log, id, role, found.text, time, parent=parent, origin=origin)
    note_calls(log, found.calls, name)
    for number, result in enumerate(found.results):
        name = add_result(log, _name_result(id, number, found), result, time, parent) or name
    return name


def _name_result(id: str, number: int, content: Content) -> str:
    # A message that is one result has the id to itself.
    return id if not content.text and len(content.results) == 1 else f"{id}:{number}"


def read_content(
    cleaner: TextCleaner, role: str, content: object, strip: Callable[[str], str] | None = None
) -> Content:
    """Return the texts, calls and results of a message's blocks."""
    texts: list[str] = []
    calls: list[str] = []
    results: list[ToolResult] = []
    for block in list_blocks(content):
        kind = name_type(block.get("type"))
        if kind == "text":
            texts.append(clean_text(cleaner, role, get_text(block, "text"), strip))
        elif kind in _THOUGHTS:
            cleaner.drop("reasoning", get_string(block, "thinking", "text", "think", "content"))
        elif kind in _CALLS:
            texts.append(write_call(cleaner, block))
            calls += filter(None, [get_string(block, "id", "toolCallId")])
        elif kind in _RESULTS:
            results.append(read_result(block))
        elif kind not in _MEDIA:
            cleaner.count_unknown(kind)
    return Content(join_texts(texts), tuple(calls), tuple(results))


def clean_text(cleaner: TextCleaner, role: str, text: str, strip: Callable[[str], str] | None = None) -> str:
    """Return the text of a message without additions."""
    if role != "user":
        return cleaner.clean_answer(text)
    return cleaner.clean_prompt(cleaner.cut(text.strip(), strip(text).strip(), "host") if strip else text)


def write_call(cleaner: TextCleaner, call: Mapping[str, Any]) -> str:
    """Return the line for a tool call with a name and arguments, which may be JSON as text."""
    named = next((call[name] for name in ("input", "arguments", "args", "parameters") if name in call), None)
    name = get_text(call, "name", "toolName", "tool_name")
    return cleaner.format_call(name, expand_json(named), get_string(call, "id", "toolCallId", "tool_call_id"))


def read_result(block: Mapping[str, Any]) -> ToolResult:
    """Return the result of a block that names its call."""
    failed = next((flag for name in ("is_error", "isError") if (flag := get_flag(block, name)) is not None), None)
    call = get_string(block, "tool_use_id", "toolUseID", "toolCallId", "tool_call_id")
    return ToolResult(call, join_blocks(block.get("content")), failed)


def join_blocks(content: object) -> str:
    """Return the text of a content that is a text or a list of blocks."""
    return join_texts(map(get_block_text, list_blocks(content)))
