"""Transcripts of Antigravity's agent: a step a line.

What is particular to the format:

- A call is in the step of the answer, with arguments that are JSON as text. Its result is a step whose type names the
  tool; neither names the other, so results follow the calls in order.
- A prompt is in `<USER_REQUEST>`; what surrounds it is the client's.
- A step is named by its number. The conversation is named by its folder: `…/brain/ID/.system_generated/logs/`.
- Of two transcripts, `transcript.jsonl` has shortened texts, so it is left out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from helix.sources.common.agent_log import AgentLog, ToolResult, add_result, add_turn, clean_text, note_calls
from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, join_texts, name_type
from helix.sources.common.json_text import expand_json, read_records
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "antigravity"
JSON = True
GROWS = True

_RESULTS: Final = frozenset(
    {
        *("LIST_DIRECTORY", "VIEW_FILE", "RUN_COMMAND", "COMMAND_STATUS", "CODE_ACTION", "GREP_SEARCH", "FIND"),
        *("SEARCH_WEB", "READ_URL_CONTENT", "GENERIC"),
    }
)
_REQUEST: Final = re.compile(r"(?s)<USER_REQUEST>(.*?)(?:</USER_REQUEST>|\Z)")
_STAMPS: Final = re.compile(r"(?m)^(?:Created|Completed) At: [^\n]{0,60}\n?")
_FAILED: Final = re.compile(
    r"(?:\A|\n)[^\n]{0,40}\bcommand (?:failed|exited with) [^\n]{0,20}?\b(?:code|status):? (\d{1,3})"
)
_IN_PATH: Final = re.compile(r"[/\\]brain[/\\](?P<id>[^/\\]{1,100})[/\\]")
_FULL: Final = "transcript_full.jsonl"
_FOLDERS: Final = ("Cwd", "cwd")


@dataclass(slots=True)
class _Transcript:
    log: AgentLog
    waiting: deque[str] = field(default_factory=deque)  # calls without a result
    folder: str = ""


def detect(sample: Sample) -> bool:
    """Return whether any line is a step."""
    return any(map(_is_step, sample.records))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return None: each transcript is read alone."""
    return None


def is_companion(path: Path) -> bool:
    """Return whether a file is the shortened transcript next to a full one."""
    return path.name == "transcript.jsonl" and path.with_name(_FULL).is_file()


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one transcript."""
    cleaner = TextCleaner(tool_chars)
    reader = _Transcript(AgentLog(cleaner))
    for line, record in read_records(document.text, cleaner.problems):
        _read_step(reader, line, record)
    found = _IN_PATH.search(document.path)
    id = found["id"] if found else name_session_of_path(document.path)
    return cleaner.build(make_sessions(NAME, id, reader.log.turns, workspace=make_workspace(reader.folder)))


def _is_step(record: Mapping[str, Any]) -> bool:
    return "step_index" in record and all(isinstance(record.get(name), str) for name in ("source", "type", "status"))


def _read_step(reader: _Transcript, line: int, record: Mapping[str, Any]) -> None:
    log, kind, content = reader.log, name_type(record.get("type")), get_text(record, "content")
    number = record.get("step_index")
    id = str(number) if type(number) is int else f"line {line}"
    time = parse_time(record.get("created_at"))
    if kind == "USER_INPUT":
        add_turn(log, id, "user", clean_text(log.cleaner, "user", content, _strip), time)
    elif kind == "PLANNER_RESPONSE":
        _read_answer(reader, id, record, content, time)
    elif kind == "CHECKPOINT":
        add_turn(log, id, "assistant", log.cleaner.clean_answer(content), time, origin="summary")
    elif kind in _RESULTS:
        _read_result(reader, id, record, time)
    elif record.get("source") == "SYSTEM":
        log.cleaner.drop("host", content)
    else:
        log.cleaner.count_unknown(kind)


def _strip(text: str) -> str:
    requests = [found.strip() for found in _REQUEST.findall(text)]
    return join_texts(requests) if requests else text


def _read_answer(reader: _Transcript, id: str, record: Mapping[str, Any], content: str, time: datetime | None) -> None:
    log = reader.log
    log.cleaner.drop("reasoning", get_string(record, "thinking"))
    reader.waiting.clear()
    lines = []
    for number, call in enumerate(get_objects(record, "tool_calls")):
        arguments = {name: expand_json(value) for name, value in get_mapping(call, "args").items()}
        shown = {name: value for name, value in arguments.items() if name not in ("toolSummary", "toolAction")}
        reader.folder = reader.folder or get_text(arguments, *_FOLDERS)
        name = f"{id}:{number}"
        lines.append(log.cleaner.format_call(get_text(call, "name"), shown or arguments, name))
        reader.waiting.append(name)
    turn = add_turn(log, id, "assistant", join_texts([log.cleaner.clean_answer(content), *lines]), time)
    note_calls(log, reader.waiting, turn)


def _read_result(reader: _Transcript, id: str, record: Mapping[str, Any], time: datetime | None) -> None:
    log, content = reader.log, get_text(record, "content")
    call = reader.waiting.popleft() if reader.waiting else None
    output = log.cleaner.cut(content, _STAMPS.sub("", content), "telemetry")
    code = _FAILED.search(output)
    failed = record.get("status") == "ERROR" or (code is not None and code[1] != "0") or None
    add_result(log, id, ToolResult(call, output, failed, int(code[1]) if code else None), time)
