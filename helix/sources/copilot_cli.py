"""Sessions of GitHub Copilot's command line: one event a line, each with its id and that of the event before it.

What is particular to the format:

- Most events are about the session. Texts are in `user.message` (as typed; another field has the text for the model),
  `assistant.message` and `tool.execution_complete`. The last one names the call and not the message that made it.
- Messages of the host have the type of a person's, with a `source`.
- Events of a subagent have the id of the call that started it. They are a session of their own.
- A rewind names the first event that no longer counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, join_texts, name_type
from helix.sources.common.json_text import read_records, try_json
from helix.sources.common.names import is_uuid, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import complete_turn, make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Session, Turn
from helix.util.workspaces import Workspace, make_workspace

NAME = "copilot-cli"
JSON = True
GROWS = True

_TYPE: Final = re.compile(r"(?:session|user|assistant|tool|hook|system|subagent|skill|permission)\.[a-z_]{2,40}")
_ABOUT: Final = re.compile(  # events of the session, of permissions, of work in progress
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
    """State of the reader at a line of the log."""

    cleaner: TextCleaner
    session: str | None = None
    workspace: Workspace | None = None
    title: str = ""
    turns: list[tuple[int, str, Turn]] = field(default_factory=list)  # line of the event, subagent, turn
    agents: dict[str, str] = field(default_factory=dict)  # subagent: its display name
    numbers: dict[str, int] = field(default_factory=dict)  # lines of events, by id
    turn_of: dict[str, str | None] = field(default_factory=dict)  # event: its turn, or the nearest before it
    callers: dict[str, str] = field(default_factory=dict)  # tool call: turn that made it
    ids: dict[str, int] = field(default_factory=dict)


def detect(sample: Sample) -> bool:
    """Return whether any line is an event."""
    return any(
        isinstance(record.get("data"), dict) and "parentId" in record and _TYPE.fullmatch(get_text(record, "type"))
        for record in sample.records
    )


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one log, and those of its subagents."""
    log = _Log(TextCleaner(tool_chars))
    for line, record in read_records(document.text, log.cleaner.problems):
        _read_event(record, line, log)
    return log.cleaner.build(_build_sessions(document, log))


def _build_sessions(document: Document, log: _Log) -> Iterator[Session]:
    turns: dict[str, list[Turn]] = {"": []}
    for _, agent, turn in log.turns:
        turns.setdefault(agent, []).append(turn)
    id = log.session or name_session_of_path(document.path)
    for agent, spoken in turns.items():
        ids = {turn.id for turn in spoken}
        yield from make_sessions(
            NAME,
            f"{id}/agent-{agent}" if agent else id,
            (turn if turn.parent in ids else replace(turn, parent=None) for turn in spoken),
            workspace=log.workspace,
            title=log.agents.get(agent) if agent else log.title,
        )


def _read_event(record: Mapping[str, Any], line: int, log: _Log) -> None:
    kind, data = name_type(record.get("type")), get_mapping(record, "data")
    event = get_string(record, "id")
    before = log.turn_of.get(get_text(record, "parentId"))
    log.session = log.session or (get_string(data, "sessionId") if kind == "session.start" else None)
    log.workspace = log.workspace or _find_workspace(get_mapping(data, "context"))
    if kind == "session.title_changed":
        log.title = get_string(data, "title") or log.title
    elif kind == "session.snapshot_rewind":
        number = log.numbers.get(get_text(data, "upToEventId"))
        while number is not None and log.turns and log.turns[-1][0] >= number:
            log.turns.pop()
        before = log.turns[-1][2].id if log.turns else None
    elif kind == "subagent.started":
        log.agents[get_text(data, "toolCallId")] = get_text(data, "agentDisplayName")
    turn = _make_turn(kind, data, record, event or str(line), before, log)
    if turn is not None:
        log.turns.append((line, _find_agent(record, data), turn))
        if kind == "assistant.message":
            calls = get_objects(data, "toolRequests")
            log.callers.update((id, turn.id) for call in calls if (id := get_string(call, "toolCallId")))
    if event:
        log.numbers.setdefault(event, line)
        log.turn_of[event] = turn.id if turn is not None else before


def _find_workspace(context: Mapping[str, Any]) -> Workspace | None:
    """Return the folder and the repository of a session; None without a folder."""
    folder, top, name = get_string(context, "cwd"), get_string(context, "gitRoot"), get_string(context, "repository")
    host = get_string(context, "repositoryHost") or ("github.com" if context.get("hostType") == "github" else None)
    remote = f"{host}/{name}" if host and name else None
    return make_workspace(folder, top, remote, tracked=top is not None) if folder else None


def _make_turn(
    kind: str, data: Mapping[str, Any], record: Mapping[str, Any], id: str, before: str | None, log: _Log
) -> Turn | None:
    """Return the turn of an event; None for an event without text."""
    content = get_text(data, "content")
    if kind == "user.message" and not get_string(data, "source"):
        role, text = "user", log.cleaner.clean_prompt(content)
    elif kind == "tool.user_requested":
        command = get_string(data.get("arguments"), "command")
        role, text = "user", f"$ {command}" if command else ""
    elif kind == "assistant.message":
        role, text = "assistant", _read_answer(data, content, log.cleaner)
    elif kind == "tool.execution_complete":
        role, text = "tool", _read_result(data, log.cleaner)
        before = log.callers.get(get_text(data, "toolCallId"), before)
    elif kind == "session.compaction_complete":
        role, text = "assistant", log.cleaner.clean_answer(get_text(data, "summaryContent"))
    else:
        _count_dropped(kind, data, content, log.cleaner)
        return None
    if not text:
        return None
    origin = "summary" if kind == "session.compaction_complete" else "human" if role == "user" else role
    time, name = parse_time(record.get("timestamp")), make_unique(id, log.ids)
    turn = Turn(name, text, role, origin, time=time, parent=before, unique=is_uuid(id))
    return complete_turn(turn, None, bool(_find_agent(record, data)))


def _find_agent(record: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    return get_string(data, "parentToolCallId", "parentAgentTaskId") or get_text(record, "agentId")


def _read_answer(data: Mapping[str, Any], content: str, cleaner: TextCleaner) -> str:
    cleaner.drop("reasoning", get_string(data, "reasoningText"))
    return join_texts(
        [cleaner.clean_answer(content), *(_format_call(call, cleaner) for call in get_objects(data, "toolRequests"))]
    )


def _format_call(call: Mapping[str, Any], cleaner: TextCleaner) -> str:
    arguments = call.get("arguments")
    return cleaner.format_call(get_text(call, "name"), try_json(arguments) or arguments, get_string(call, "toolCallId"))


def _read_result(data: Mapping[str, Any], cleaner: TextCleaner) -> str:
    failed = data.get("success") is False
    error = get_text(data.get("error"), "message") if failed else ""
    text = get_string(data.get("result"), "content") or error
    if get_string(data, "toolCallId") in cleaner.own_calls:
        return cleaner.cut(text, "", "memory")
    return cleaner.clean_output(text, failed, get_string(data, "toolCallId"))


def _count_dropped(kind: str, data: Mapping[str, Any], content: str, cleaner: TextCleaner) -> None:
    if kind == "assistant.reasoning":
        cleaner.drop("reasoning", content)
    elif kind in _OF_HOST or kind == "user.message":
        cleaner.drop("host", content)
    elif kind in _NOTICES:
        cleaner.drop("telemetry", get_string(data, "message"))
    elif not _ABOUT.fullmatch(kind):
        cleaner.count_unknown(kind)
