"""Sessions of Kimi Code (Kimi CLI): a log of events for each agent of a session.

What is particular to the format:

- An answer has an event for each part: thought, text, tool call. Parts of one step are one turn, up to a result.
- A prompt is logged when it is typed (`turn.prompt`, `turn.steer`), and when the model gets it. The latter counts.
- A message has an origin: a person, an injection of the client, or a trigger such as the call of a subagent.
- The folder is in events, and the session's id only in the path: `…/session_ID/agents/NAME/wire.jsonl`.
- `state.json` holds nothing that the logs have not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from helix.sources.common.agent_log import (
    AgentLog,
    ToolResult,
    add_result,
    add_turn,
    clean_text,
    extend_turn,
    join_blocks,
    write_call,
)
from helix.sources.common.companions import read_facts
from helix.sources.common.fields import get_flag, get_mapping, get_string, get_text, is_type, list_blocks, name_type
from helix.sources.common.json_text import read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "kimi"
JSON = True
GROWS = True

_ABOUT: Final = re.compile(  # events of the session, of requests and of permissions
    r"metadata|config\.update|profile\.bind|plugin\.[a-z_]{1,40}|runtime\.[a-z_]{1,40}|tools\.[a-z_]{1,40}"
    r"|turn\.(?:prompt|steer|cancel|ended)|llm\.[a-z_]{1,40}|usage\.[a-z_]{1,40}|permission\.[a-z_]{1,40}"
    r"|token_counting\.[a-z_]{1,40}|plan_mode\.[a-z_]{1,40}|full_compaction\.[a-z_]{1,40}"
)
_IN_PATH: Final = re.compile(r"[/\\]session_(?P<id>[^/\\]{1,100})[/\\]agents[/\\](?P<agent>[^/\\]{1,100})[/\\]")
_GIT: Final = re.compile(r"\A\s*<git-context>.*?(?:</git-context>|\Z)", re.DOTALL)


@dataclass(slots=True)
class _WireReader:
    log: AgentLog
    folder: str = ""
    step: str = ""  # step of the last turn, while parts may be added to it


def detect(sample: Sample) -> bool:
    """Return whether any line is an event."""
    return any(map(_is_event, sample.records))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return None: each log is read alone."""
    return None


def is_companion(path: Path) -> bool:
    """Return whether a file is the state of a session."""
    if not path.name.endswith("state.json"):
        return False
    state = read_facts(path)
    return isinstance(state.get("agents"), dict) and "createdAt" in state and "isCustomTitle" in state


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one agent's log."""
    cleaner = TextCleaner(tool_chars)
    found = _IN_PATH.search(document.path)
    agent = found["agent"] if found and found["agent"] != "main" else ""
    reader = _WireReader(AgentLog(cleaner, bool(agent)))
    for line, record in read_records(document.text, cleaner.problems):
        _read_record(reader, line, record)
    id = found["id"] if found else name_session_of_path(document.path)
    workspace = make_workspace(reader.folder)
    return cleaner.build(
        make_sessions(NAME, f"{id}/agent-{agent}" if agent else id, reader.log.turns, workspace=workspace)
    )


def _is_event(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    if kind == "metadata":
        return "protocol_version" in record
    inner = {"context.append_message": "message", "context.append_loop_event": "event", "turn.prompt": "origin"}
    return isinstance(kind, str) and kind in inner and isinstance(record.get(inner[kind]), dict)


def _read_record(reader: _WireReader, line: int, record: Mapping[str, Any]) -> None:
    kind, time = name_type(record.get("type")), parse_time(record.get("time"))
    reader.folder = reader.folder or _find_folder(record)
    if kind == "context.append_loop_event":
        _read_event(reader, line, get_mapping(record, "event"), time)
    elif kind == "context.append_message":
        reader.step = ""
        _read_message(reader, line, get_mapping(record, "message"), time)
    elif kind == "context.apply_compaction":
        reader.step = ""
        text = reader.log.cleaner.clean_answer(get_text(record, "summary"))
        add_turn(reader.log, str(line), "assistant", text, time, origin="summary")
    elif _ABOUT.fullmatch(kind):
        reader.log.cleaner.drop("host", get_string(record, "systemPrompt"))
    else:
        reader.log.cleaner.count_unknown(kind)


def _find_folder(record: Mapping[str, Any]) -> str:
    disclosed = get_mapping(record, "environmentDisclosure")
    return (
        get_text(disclosed, "cwd")
        or get_text(record, "cwd")
        or get_text(get_mapping(record, "event", "display"), "cwd")
    )


def _read_message(reader: _WireReader, line: int, message: Mapping[str, Any], time: datetime | None) -> None:
    log, role = reader.log, message.get("role")
    origin = get_mapping(message, "origin")
    is_call = origin.get("kind") == "system_trigger" and origin.get("name") == "subagent"
    if not is_type(role, ("user", "assistant")):
        log.cleaner.count_unknown(f"role {name_type(role)}")
    elif role == "user" and not is_call and origin.get("kind") not in ("user", None):
        log.cleaner.drop("host", join_blocks(message.get("content")))
    else:
        log.is_subagent = log.is_subagent or is_call
        texts = (get_text(block, "text") for block in list_blocks(message.get("content")))
        text = clean_text(log.cleaner, str(role), "\n".join(filter(None, texts)), lambda text: _GIT.sub("", text))
        add_turn(log, str(line), str(role), text, time)


def _read_event(reader: _WireReader, line: int, event: Mapping[str, Any], time: datetime | None) -> None:
    log, kind = reader.log, name_type(event.get("type"))
    part = get_mapping(event, "part")
    if kind == "tool.call":
        call = {**event, "id": event.get("toolCallId")}
        if turn := _add_part(reader, line, event, write_call(log.cleaner, call), time):
            log.callers[get_text(event, "toolCallId")] = turn
    elif kind == "tool.result":
        reader.step = ""
        result = get_mapping(event, "result")
        id, output = get_string(event, "toolCallId"), result.get("output")
        add_result(log, f"{id or line}:result", ToolResult(id, join_blocks(output), get_flag(result, "isError")), time)
    elif kind == "content.part" and part.get("type") == "text":
        _add_part(reader, line, event, log.cleaner.clean_answer(get_text(part, "text")), time)
    elif kind == "content.part" and part.get("type") == "think":
        log.cleaner.drop("reasoning", get_string(part, "think"))
    elif kind == "content.part":
        log.cleaner.count_unknown(part.get("type"))
    elif kind not in ("step.begin", "step.end"):
        log.cleaner.count_unknown(kind)


def _add_part(reader: _WireReader, line: int, event: Mapping[str, Any], text: str, time: datetime | None) -> str | None:
    """Add a part of an answer to the turn of its step. Return the turn's id, or None without a text."""
    step = get_text(event, "stepUuid")
    if not text:
        return None
    if step and step == reader.step:
        extend_turn(reader.log, text)
        return reader.log.turns[-1].id
    reader.step = step
    return add_turn(reader.log, step or str(line), "assistant", text, time)
