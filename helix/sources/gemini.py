"""Gemini CLI chats: one JSON document a session, or a log of JSON lines.

What is particular to the format:

- A log is replayed into the messages of the session (`gemini_log`).
- A tool call and its result are inside the message of the answer; in lists from the model's history they are parts of
  messages of their own. Each is read once.
- The client surrounds a prompt with the session's context, the files it names and the texts of hooks. Only the context
  names the working folder; `projectHash` does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from helix.sources.common.fields import get_objects, get_string, get_text, is_type, join_texts
from helix.sources.common.names import is_uuid, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import complete_turn, make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS, is_own_call
from helix.sources.gemini_log import SUMMARY, get_content, is_document, is_record, list_parts, list_texts, replay
from helix.types import Document, Parsed, Turn
from helix.util.workspaces import make_workspace

NAME = "gemini"
JSON = True
GROWS = True  # the lines; a document is written again as a whole

_ROLES: Final = {"user": "user", "gemini": "assistant", "model": "assistant"}
_NOTICES: Final = frozenset({"info", "warning", "error"})

_CONTEXT: Final = ("<session_context>", "</session_context>")
_HOOK: Final = ("<hook_context>", "</hook_context>")
_FILES: Final = ("--- Content from referenced files ---", "--- End of content ---")
_DISCOVERED: Final = ("--- Newly Discovered Project Context ---", "--- End Project Context ---")  # in results of tools
# Texts of the client as the user, and as the model.
_CLIENT_SAYS: Final = (
    "This is the Gemini CLI. We are setting up the context",
    "Here is the user's editor context",
    "Here is a summary of changes in the user's editor context",
    "System: Please continue.",
    "System: Potential loop detected",
)
_CLIENT_ANSWERS: Final = frozenset({"Got it. Thanks for the context!", "Got it. Thanks for the additional context!"})
_FOLDER: Final = re.compile(
    r"(?:Workspace Directories:\*\*|following directories:)[ \t]*\n[ \t]*- (?P<listed>[^\n]{1,500})"
    r"|working in the directory: (?P<one>[^\n]{1,500})"
)
_FOLDER_IN_PATH: Final = re.compile(r"\.gemini[/\\]tmp[/\\](?![0-9a-f]{64}[/\\])(?P<name>[^/\\]+)[/\\]chats[/\\]")

_SHELL: Final = "run_shell_command"
_EXIT_CODE: Final = re.compile(r"(?m)^Exit Code: (-?\d{1,9})[ \t]*$")
_SHELL_NOTES: Final = re.compile(  # lines without news
    r"(?m)^(?:Output: \(empty\)|Error: \(none\)|Exit Code: 0|Signal: (?:0|\(none\))|Background PIDs: \(none\)"
    r"|Process Group PGID: \d{1,9})[ \t]*(?:\n|$)"
)
_BAD: Final = frozenset({"error", "cancelled"})
_MAX_DEPTH: Final = 3  # of lists inside a tool's result


@dataclass(slots=True)
class _Reader:
    """Turns as they are read from the messages."""

    cleaner: TextCleaner
    began: datetime | None
    is_subagent: bool
    turns: list[Turn] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    callers: dict[str, str] = field(default_factory=dict)  # call id → turn that made the call
    answered: set[str] = field(default_factory=set)  # calls with a result
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """One tool call with its result."""

    id: str
    name: str
    arguments: object
    result: object
    status: str | None
    time: datetime | None


def detect(sample: Sample) -> bool:
    """Return whether it is a document of Gemini CLI, or any line a record of it."""
    if isinstance(sample.value, dict) and is_document(sample.value):
        return True
    return any(is_record(record) or is_document(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session after the last record.

    Raises:
        InputRefused: a document over several lines that is no valid JSON.
    """
    cleaner = TextCleaner(tool_chars)
    log = replay(document.text, cleaner)
    reader = _Reader(cleaner, log.began, log.is_subagent)
    for id, message in log.messages.items():
        _read_message(reader, id, message)
    in_path = _FOLDER_IN_PATH.search(document.path)
    workspace = make_workspace(reader.folder or log.folder)
    project = in_path["name"] if in_path and workspace is None else None
    name = log.session or name_session_of_path(document.path)
    return cleaner.build(make_sessions(NAME, name, reader.turns, project=project, workspace=workspace, title=log.title))


def _read_message(reader: _Reader, id: str, message: Mapping[str, Any]) -> None:
    kind = message.get("type", message.get("role"))
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    time = parse_time(message.get("timestamp", message.get("ts")))
    if role == "user":
        _read_user(reader, id, message, time)
    elif role == "assistant":
        _read_answer(reader, id, message, time)
    elif is_type(kind, _NOTICES):
        reader.cleaner.drop("telemetry", *list_texts(get_content(message)))
    else:
        reader.cleaner.count_unknown(kind)


def _read_user(reader: _Reader, id: str, message: Mapping[str, Any], time: datetime | None) -> None:
    content = get_content(message)
    sent = "\n".join(list_texts(content)).strip()
    shown = "\n".join(list_texts(message.get("displayContent"))).strip()
    if sent.startswith(SUMMARY):
        _add_turn(reader, id, id, "assistant", "summary", reader.cleaner.clean_answer(sent), time)
    elif sent:
        typed = reader.cleaner.cut(sent, shown or _strip_client(reader, sent), "host")
        _add_turn(reader, id, id, "user", "human", reader.cleaner.clean_prompt(typed), time)
    for index, part in enumerate(list_parts(content)):
        response = part.get("functionResponse")
        if not isinstance(response, dict):
            continue
        name = get_string(response, "id") or f"#{index}"
        if name not in reader.answered:  # a message of the model's history; the answer itself may list it, too
            call = _Call(name, get_text(response, "name"), None, [part], None, time)
            if not _drop_own(reader, call):
                _add_result(reader, id, call, reader.callers.get(name))


def _strip_client(reader: _Reader, sent: str) -> str:
    """Return the typed part of a text that was sent, and note the folder in its context."""
    if sent.startswith((_CONTEXT[0], _CLIENT_SAYS[0])):
        found = _FOLDER.search(sent)
        if found is not None:
            reader.folder = reader.folder or str(found["listed"] or found["one"]).strip()
    for opening, closing in (_CONTEXT, _HOOK):
        sent = _cut_blocks(sent, opening, closing, is_last=False)
    sent = _cut_blocks(sent, *_FILES, is_last=True).strip()
    return "" if sent.startswith(_CLIENT_SAYS) else sent


def _read_answer(reader: _Reader, id: str, message: Mapping[str, Any], time: datetime | None) -> None:
    cleaner, content = reader.cleaner, get_content(message)
    text = "\n".join(list_texts(content)).strip()
    if text in _CLIENT_ANSWERS:
        text = cleaner.cut(text, "", "host")
    for thought in get_objects(message, "thoughts"):
        cleaner.drop("reasoning", get_string(thought, "subject"), get_string(thought, "description"))
    thoughts = [part for part in list_parts(content) if part.get("thought") is True]
    cleaner.drop("reasoning", *(get_string(part, "text") for part in thoughts))
    calls = [call for call in _list_calls(message, content, time) if not _drop_own(reader, call)]
    lines = (
        cleaner.clean_answer(cleaner.write_call(call.name, call.arguments, call.id if call.id[0] != "#" else None))
        for call in calls
    )
    text = join_texts([cleaner.clean_answer(text), *lines])
    name = _add_turn(reader, id, id, "assistant", "assistant", text, time)
    for call in calls:
        reader.callers.setdefault(call.id, name or id)
        _add_result(reader, id, call, name)


def _drop_own(reader: _Reader, call: _Call) -> bool:
    """Return whether it is a call of Helix, whose result is no news; count the result."""
    if not is_own_call(call.name, call.arguments):
        return False
    reader.cleaner.drop("memory", *_read_output(call.result)[0])
    reader.answered.add(call.id)
    return True


def _list_calls(message: Mapping[str, Any], content: object, time: datetime | None) -> list[_Call]:
    """Return the tool calls that an answer lists, or else those among its parts."""
    listed = message.get("toolCalls")
    if not isinstance(listed, list) or not listed:
        listed = [part.get("functionCall") for part in list_parts(content)]
    return [
        _Call(
            id=get_string(call, "id") or f"#{index}",
            name=get_text(call, "name"),
            arguments=call.get("args"),
            result=call.get("result") or call.get("resultDisplay"),
            status=get_string(call, "status"),
            time=parse_time(call.get("timestamp")) or time,
        )
        for index, call in enumerate(listed)
        if isinstance(call, dict)
    ]


def _add_result(reader: _Reader, id: str, call: _Call, parent: str | None) -> None:
    """Add the turn of a tool's result."""
    texts, failed = _read_output(call.result)
    text = "\n".join(texts)
    failed = failed or call.status in _BAD
    if call.name == _SHELL:
        failed = failed or any(code != "0" for code in _EXIT_CODE.findall(text)[-1:])
        text = reader.cleaner.cut(text, _SHELL_NOTES.sub("", text).removeprefix("Output: "), "telemetry")
    text = reader.cleaner.cut(text, _cut_blocks(text, *_DISCOVERED, is_last=True), "host")
    text = reader.cleaner.clean_output(text, failed, call.id if call.id[0] != "#" else None)
    if _add_turn(reader, id, f"{id}:{call.id}", "tool", "tool", text, call.time, parent) and call.id[0] != "#":
        reader.answered.add(call.id)


def _read_output(value: object, depth: int = _MAX_DEPTH) -> tuple[list[str], bool]:
    """Return the texts of a tool's result, and whether the tool failed."""
    if isinstance(value, str):
        return ([value] if value else []), False
    if isinstance(value, list) and depth > 0:
        outputs = [_read_output(part, depth - 1) for part in value]
        return [text for texts, _ in outputs for text in texts], any(failed for _, failed in outputs)
    if not isinstance(value, dict):
        return [], False
    response = value.get("functionResponse")
    fields = response.get("response") if isinstance(response, dict) else value
    if not isinstance(fields, dict):
        return _read_output(fields, 0)
    failed = bool(fields.get("error")) or fields.get("isError") is True
    if depth <= 0:
        return list(filter(None, [get_string(fields, "text")])), failed
    for name in ("error", "output", "content", "result", "text"):
        texts, _ = _read_output(fields.get(name), depth - 1)
        if texts:
            return texts, failed
    return [], failed


def _cut_blocks(text: str, opening: str, closing: str, is_last: bool) -> str:
    """Return `text` without the blocks between two marks, the first at a line's start.

    `is_last`: there is one block, up to the last closing mark, or else to the end.
    """
    parts, at, look = [], 0, 0
    while (begin := text.find(opening, look)) >= 0:
        look = begin + len(opening)
        if begin > 0 and text[begin - 1] != "\n":
            continue
        end = text.rfind(closing, look) if is_last else text.find(closing, look)
        if end < 0 and not is_last:
            break
        parts.append(text[at:begin].rstrip())
        at = look = len(text) if end < 0 else end + len(closing)
    return join_texts([*parts, text[at:].strip()]) if parts else text


def _add_turn(
    reader: _Reader,
    message: str,
    id: str,
    role: str,
    origin: str,
    text: str,
    time: datetime | None,
    parent: str | None = None,
) -> str | None:
    """Add a turn of a message. Return its id, or None without a text."""
    if not text:
        return None
    name = make_unique(id, reader.names)
    is_unique = name == id and is_uuid(message)
    turn = Turn(name, text, role, origin, time=time, parent=parent, unique=is_unique)
    reader.turns.append(complete_turn(turn, reader.began, reader.is_subagent))
    return name
