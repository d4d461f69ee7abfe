"""Tasks of Cline, and of Roo Code and Kilo Code, which have its layout: a folder of files for each task.

What is particular to the format:

- The history holds what the model was sent. Earlier versions write calls as tags in an answer, and a result as a text
  after the line `[TOOL for '…'] Result:`; later ones have blocks of their own. Both are read.
- What a person typed is in tags: the task, and later feedback, answers and messages, also inside results.
- The editor's state follows each message, and names the folder.
- Cline's messages have no times: those of the list for the screen say how far the history was. The task's id is the
  time of its start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from helix.sources.cline_tags import find_folder, find_typed, is_host_text, read_header, split_answer, strip_state
from helix.sources.common.agent_log import AgentLog, ToolResult, add_result, add_turn, join_blocks, read_result
from helix.sources.common.fields import (
    get_list,
    get_mapping,
    get_string,
    get_text,
    join_texts,
    list_blocks,
    name_type,
)
from helix.sources.common.json_text import EXPORT_AGAIN, load_document, try_json
from helix.sources.common.names import name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.session_text import SessionText, dump_json
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed
from helix.util.workspaces import make_workspace

NAME = "cline"
JSON = True
GROWS = False

_HISTORY: Final = "api_conversation_history.json"
_SCREEN: Final = "ui_messages.json"
_MAX_BYTES: Final = 1 << 28
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "thoughtSignature"})
_SAID: Final = {"attempt_completion": "result", "ask_followup_question": "question", "plan_mode_respond": "response"}
_BAD: Final = (
    "The tool execution failed with the following error:",
    "[ERROR]",
    "<error>",
    "Error executing",
    "Command execution was not successful",
)


@dataclass(slots=True)
class _Task:
    log: AgentLog
    folder: str = ""
    waiting: deque[str] = field(default_factory=deque)  # calls in tags without a result
    said: set[str] = field(default_factory=set)  # calls that speak to the person
    open: bool = False  # texts belong to the result of the last call


def detect(sample: Sample) -> bool:
    """Return whether it is a collected task, or a history with the editor's state in its first message."""
    return any(_is_task(value) for value in (sample.value, *sample.records[:1]))


def collect(path: Path) -> Iterator[SessionText] | None:
    """Return the history of a task with the times of its messages; None for any other file."""
    if path.name != _HISTORY:
        return None
    history = _read_list(path)
    if history is None:
        return None
    times = _find_times(_read_list(path.with_name(_SCREEN)) or [], len(history))
    task = {"cline": path.absolute().parent.name, "times": times}
    text = f'{dump_json(task)[:-1]},"messages":[{",".join(dump_json(message) for message in history)}]}}'
    last = max((time for time in map(parse_time, times) if time), default=None)
    return iter([SessionText("", text, last)])


def is_companion(path: Path) -> bool:
    """Return whether a file is next to a history, in the folder of a task."""
    is_other = path.suffix in (".json", ".md") and path.name != _HISTORY
    return is_other and path.with_name(_HISTORY).is_file()


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one task.

    Raises:
        InputRefused: it is not JSON.
    """
    value = load_document(document.text, EXPORT_AGAIN)
    messages = value if isinstance(value, list) else get_list(value, "messages")
    id, times = get_text(value, "cline"), get_list(value, "times")
    cleaner = TextCleaner(tool_chars)
    began = parse_time(int(id)) if id.isdecimal() and len(id) < 16 else None
    task = _Task(AgentLog(cleaner, latest=began))
    for index, message in enumerate(messages):
        if isinstance(message, dict):
            stamp = message.get("ts") or (times[index] if index < len(times) else None)
            _read_message(task, str(index), message, parse_time(stamp))
    if not any("ts" in message for message in messages if isinstance(message, dict)):
        task.log.turns = [replace(t, time_quality="derived") if t.time else t for t in task.log.turns]
    workspace = make_workspace(task.folder)
    return cleaner.build(
        make_sessions(NAME, id or name_session_of_path(document.path), task.log.turns, workspace=workspace)
    )


def _is_task(value: object) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("cline"), str) and isinstance(value.get("messages"), list)
    first = value[0] if isinstance(value, list) and value else None
    if not isinstance(first, dict) or first.get("role") != "user":
        return False
    texts = [get_text(block, "text") for block in list_blocks(first.get("content"))]
    return any("<environment_details>" in text for text in texts)


def _read_list(path: Path) -> list[Any] | None:
    try:
        value = try_json(path.read_bytes()) if path.stat().st_size <= _MAX_BYTES else None
    except OSError:
        return None
    return value if isinstance(value, list) else None


def _find_times(shown: list[Any], count: int) -> list[object]:
    """Return for each message of the history the first time at which the screen's list knew it."""
    times: list[object] = [None] * count
    for message in shown:
        at = message.get("conversationHistoryIndex") if isinstance(message, dict) else None
        while type(at) is int and 0 <= at < count and times[at] is None:
            times[at] = message.get("ts")
            at -= 1
    return times


def _read_message(task: _Task, id: str, message: Mapping[str, Any], time: datetime | None) -> None:
    role, log = message.get("role"), task.log
    blocks = list_blocks(message.get("content"))
    if message.get("isSummary") is True:
        text = log.cleaner.clean_answer(join_blocks(message.get("content")))
        add_turn(log, id, "assistant", text, time, origin="summary")
    elif role == "assistant":
        _read_answer(task, id, blocks, time)
    elif role == "user":
        _read_prompt(task, id, blocks, time)
    else:
        log.cleaner.count_unknown(f"role {name_type(role)}")


def _read_answer(task: _Task, id: str, blocks: list[Mapping[str, Any]], time: datetime | None) -> None:
    cleaner, texts, made = task.log.cleaner, list[str](), list[str]()
    task.waiting.clear()
    task.open = False
    for block in blocks:
        kind = name_type(block.get("type"))
        if kind == "text":
            for part in split_answer(get_text(block, "text")):
                if part.tool == "thinking":
                    cleaner.drop("reasoning", part.text)
                elif part.tool:
                    call = f"{id}:{len(made)}"
                    texts.append(_write_call(task, part.tool, part.arguments, call))
                    task.waiting.append(call)
                    made.append(call)
                else:
                    texts.append(cleaner.clean_answer(part.text))
        elif kind in _THOUGHTS:
            cleaner.drop("reasoning", get_string(block, "thinking", "text"))
        elif kind == "tool_use":
            call = get_text(block, "id") or f"{id}:{len(made)}"
            texts.append(_write_call(task, get_text(block, "name"), get_mapping(block, "input"), call))
            made.append(call)
        elif kind != "image":
            cleaner.count_unknown(kind)
    name = add_turn(task.log, id, "assistant", join_texts(texts), time)
    if name is not None:
        task.log.callers.update(dict.fromkeys(made, name))


def _write_call(task: _Task, tool: str, arguments: Mapping[str, Any], id: str) -> str:
    """Return the line of a call, or what a call says to the person."""
    if tool not in _SAID:
        return task.log.cleaner.format_call(tool, arguments, id)
    task.said.add(id)
    return task.log.cleaner.clean_answer(get_text(arguments, _SAID[tool]))


def _read_prompt(task: _Task, id: str, blocks: list[Mapping[str, Any]], time: datetime | None) -> None:
    cleaner, typed, results = task.log.cleaner, list[str](), dict[str, list[str]]()
    flags: dict[str, bool | None] = {}
    for block in blocks:
        kind = name_type(block.get("type"))
        if kind == "tool_result":
            result = read_result(block)
            output, said = find_typed(_strip_state(task, result.output))
            typed += said
            results[result.call or ""] = [output]
            flags[result.call or ""] = result.failed
        elif kind == "text":
            text, said = find_typed(_strip_state(task, get_text(block, "text")))
            typed += said
            _sort_text(task, text, bool(said), typed, results)
        elif kind not in ("image", "document"):
            cleaner.count_unknown(kind)
    for number, (call, texts) in enumerate(results.items()):
        output = join_texts(texts)
        if call in task.said:  # the answer of the person is among what was typed
            cleaner.drop("host", output)
            continue
        failed = True if output.lstrip().startswith(_BAD) else flags.get(call)
        add_result(task.log, f"{id}:{number}", ToolResult(call, output, failed), time)
    add_turn(task.log, id, "user", cleaner.clean_prompt("\n".join(typed)), time)


def _strip_state(task: _Task, text: str) -> str:
    """Return a text without the editor's state, and note the folder in it."""
    task.folder = task.folder or find_folder(text)
    return task.log.cleaner.cut(text, strip_state(text), "host")


def _sort_text(task: _Task, text: str, is_typed: bool, typed: list[str], results: dict[str, list[str]]) -> None:
    """Add a text without tags of a person to a result, or to what was typed."""
    header, output = read_header(text)
    if header:
        call = task.waiting.popleft() if task.waiting else f"#{len(results)}"
        results[call], task.open = [output], True
    elif task.open and results:
        next(reversed(results.values())).append(text)
    elif is_typed or is_host_text(text):
        task.log.cleaner.drop("host", text)
    elif text.strip():
        typed.append(text.strip())
