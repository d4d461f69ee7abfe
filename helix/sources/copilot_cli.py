"""Sessions of GitHub Copilot's command line: one event a line, each with its id and that of the one before it.

What makes them hard, and what is done about it:

- Most events are about the session. What was said is in `user.message` (as typed; what the model got is beside it),
  `assistant.message` and `tool.execution_complete`, which names the call and not the message that made it.
- Messages of the host have the type of a person's, with a `source`.
- What a subagent says stands among the rest, with the id of the call that started it. It is a session of its own.
- A rewind names the first event that does not count any more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from helix.sources.common.collected import loaded, mapping
from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    folder_name,
    is_uuid,
    json_records,
    one_line,
    session_of_path,
    string,
    unique,
)
from helix.sources.common.tools import TOOL_CHARS, call_line, is_ours
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "copilot-cli"
JSON = True
GROWS = True

_TYPE: Final = re.compile(r"(?:session|user|assistant|tool|hook|system|subagent|skill|permission)\.[a-z_]{2,40}")
_ABOUT: Final = re.compile(  # events that say nothing: of the session, of permissions, of work in progress
    r"abort|(?:hook|permission|subagent|user_input|elicitation|external_tool|command|commands|exit_plan_mode|sampling"
    r"|pending_messages|mcp|mcp_app|model|capabilities|factory|auto_mode_switch|session_limits_exhausted)\.[a-z_]{1,40}"
    r"|session\.(?:start|resume|idle|shutdown|model_change|mode_changed|plan_changed|todos_changed|handoff|truncation"
    r"|workspace_file_changed|snapshot_rewind|context_changed|context_cleared|usage_info|usage_checkpoint"
    r"|compaction_start|compaction_complete|task_complete|title_changed|auto_mode_resolved|permissions_changed"
    r"|remote_steerable_changed|background_tasks_changed|schedule_[a-z]{1,20}|autopilot_objective_changed"
    r"|session_limits_changed|custom_agents_updated|skills_loaded|tools_updated|mcp_[a-z_]{1,40}|extensions_[a-z_]{1,40}"
    r"|fusion_[a-z_]{1,40}|custom_notification|import_legacy|binary_asset)"
    r"|assistant\.(?:turn_start|turn_end|turn_retry|intent|usage|idle|streaming_delta|message_start|message_delta"
    r"|reasoning_delta|tool_call_delta|fusion_[a-z_]{1,40}|server_tool_progress)"
    r"|tool\.execution_(?:start|progress|partial_result)"
)
_NOTICES: Final = frozenset({"session.info", "session.warning", "session.error"})
_OF_HOST: Final = frozenset({"system.message", "system.notification", "skill.invoked"})


@dataclass(slots=True)
class _Log:
    """What is known of the session so far."""

    tool_chars: int
    unknown: Counter[str] = field(default_factory=Counter)
    junk: Counter[str] = field(default_factory=Counter)
    session: str | None = None
    folder: str = ""
    title: str = ""
    turns: list[tuple[int, str, Turn]] = field(default_factory=list)  # line of the event, subagent, what it says
    agents: dict[str, str] = field(default_factory=dict)  # subagent: what it is called
    numbers: dict[str, int] = field(default_factory=dict)  # of events, by id
    turn_of: dict[str, str | None] = field(default_factory=dict)  # event: its turn, or the nearest before it
    callers: dict[str, str] = field(default_factory=dict)  # tool call: turn that made it
    ours: set[str] = field(default_factory=set)  # tool calls that asked Helix itself
    ids: dict[str, int] = field(default_factory=dict)


def detect(sample: Sample) -> bool:
    """Whether any line is an event."""
    return any(
        isinstance(record.get("data"), dict)
        and "parentId" in record
        and isinstance(kind := record.get("type"), str)
        and _TYPE.fullmatch(kind)
        for record in sample.records
    )


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session of one log, and those of its subagents."""
    problems: list[Problem] = []
    log = _Log(tool_chars)
    for line, record in json_records(document.text, problems):
        _read(record, line, log)
    return Parsed(tuple(_sessions(document, log)), tuple(problems), log.unknown, log.junk)


def _sessions(document: Document, log: _Log) -> Iterator[Session]:
    """The session itself, then those of its subagents."""
    turns: dict[str, list[Turn]] = {"": []}
    for _, agent, turn in log.turns:
        turns.setdefault(agent, []).append(turn)
    id = log.session or session_of_path(document.path)
    for agent, found in turns.items():
        named = log.agents.get(agent) if agent else log.title
        title = named or next((turn.text for turn in found if turn.role == "user"), None)
        ids = {turn.id for turn in found}
        own = (turn if turn.parent in ids else replace(turn, parent=None) for turn in found)
        if found:
            yield Session(
                source=NAME,
                id=f"{id}/agent-{agent}" if agent else id,
                turns=tuple(own),
                project=folder_name(log.folder),
                title=one_line(title, TITLE_CHARS) if title else None,
            )


def _read(record: Mapping[str, Any], line: int, log: _Log) -> None:
    kind, data = type_name(record.get("type")), mapping(record.get("data"))
    event = string(record, "id")
    before = log.turn_of.get(string(record, "parentId") or "")
    log.session = log.session or (string(data, "sessionId") if kind == "session.start" else None)
    log.folder = log.folder or string(mapping(data.get("context")), "cwd") or ""
    if kind == "session.title_changed":
        log.title = string(data, "title") or log.title
    elif kind == "session.snapshot_rewind":
        _rewind(string(data, "upToEventId"), log)
        before = log.turns[-1][2].id if log.turns else None
    elif kind == "subagent.started":
        log.agents[string(data, "toolCallId") or ""] = string(data, "agentDisplayName") or ""
    turn = _turn(kind, data, record, event or str(line), before, log)
    if turn is not None:
        log.turns.append((line, _agent(record, data), turn))
        if kind == "assistant.message":
            log.callers.update((id, turn.id) for call in _calls(data) if (id := string(call, "toolCallId")))
    if event:
        log.numbers.setdefault(event, line)
        log.turn_of[event] = turn.id if turn is not None else before


def _turn(
    kind: str, data: Mapping[str, Any], record: Mapping[str, Any], id: str, before: str | None, log: _Log
) -> Turn | None:
    """The turn of an event; None where it says nothing."""
    content = string(data, "content") or ""
    if kind == "user.message" and not string(data, "source"):
        role, text = "user", human(content, log.junk)
    elif kind == "tool.user_requested":
        command = string(mapping(data.get("arguments")), "command")
        role, text = "user", f"$ {command}" if command else ""
    elif kind == "assistant.message":
        role, text = "assistant", _said(data, content, log)
    elif kind == "tool.execution_complete":
        role, text = "tool", _result(data, log)
        before = log.callers.get(string(data, "toolCallId") or "", before)
    elif kind == "session.compaction_complete":
        role, text = "assistant", answer(string(data, "summaryContent") or "", log.junk)
    else:
        _count(kind, data, content, log)
        return None
    if not text:
        return None
    time = moment(record.get("timestamp"))
    return Turn(
        id=unique(id, log.ids),
        text=text,
        role=role,
        origin=_origin(kind, role, _agent(record, data)),
        time=time,
        time_quality="exact" if time else "none",
        parent=before,
        unique=is_uuid(id),
    )


def _origin(kind: str, role: str, agent: str) -> str:
    if kind == "session.compaction_complete":
        return "summary"
    return "subagent" if agent else "human" if role == "user" else role


def _agent(record: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The subagent that an event is of."""
    named = (string(data, "parentToolCallId"), string(data, "parentAgentTaskId"), string(record, "agentId"))
    return next(filter(None, named), "")


def _said(data: Mapping[str, Any], content: str, log: _Log) -> str:
    left_out(len(string(data, "reasoningText") or ""), "reasoning", log.junk)
    lines = (_call(call, log) for call in _calls(data))
    return "\n".join(filter(None, (answer(content, log.junk), *lines)))


def _calls(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = data.get("toolRequests")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _call(call: Mapping[str, Any], log: _Log) -> str:
    name, given = string(call, "name") or "", call.get("arguments")
    given = loaded(given) or given
    if is_ours(name, given):
        log.ours.add(string(call, "toolCallId") or "")
        return ""
    return call_line(name, given)


def _result(data: Mapping[str, Any], log: _Log) -> str:
    failed = data.get("success") is False
    error = string(mapping(data.get("error")), "message") if failed else None
    text = string(mapping(data.get("result")), "content") or error or ""
    if string(data, "toolCallId") in log.ours:
        left_out(len(text), "memory", log.junk)
        return ""
    return output(text, log.tool_chars, failed, log.junk)


def _count(kind: str, data: Mapping[str, Any], content: str, log: _Log) -> None:
    if kind == "assistant.reasoning":
        left_out(len(content), "reasoning", log.junk)
    elif kind in _OF_HOST or kind == "user.message":
        left_out(len(content), "host", log.junk)
    elif kind in _NOTICES:
        left_out(len(string(data, "message") or ""), "telemetry", log.junk)
    elif not _ABOUT.fullmatch(kind):
        log.unknown[kind] += 1


def _rewind(event: str | None, log: _Log) -> None:
    """Drop the turns of an event and of all after it."""
    number = log.numbers.get(event or "")
    while number is not None and log.turns and log.turns[-1][0] >= number:
        log.turns.pop()
