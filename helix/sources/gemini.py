"""Gemini CLI chats: one JSON document a session, or a log of JSON lines that is replayed into one.

What makes them hard, and what is done about it:

- A message that comes again under its id takes the place of the first: answers are written anew when their tools are
  done. `{"$rewindTo": id}` drops that message and all behind it; an id that is not there drops nothing.
- `{"$set": {"messages": [...]}}` puts a list in the place of all messages before it. When a history got too long, that
  list begins with a summary (`<state_snapshot>`) of what it leaves out. That was said all the same: it is kept.
- A tool call and its result are inside the message of the answer; in lists from the model's history they are parts of
  messages of their own. Each is taken once.
- Around a prompt stands what the client adds: the session's context, the files it names, what hooks say. The context
  is the one place that names the working folder; `projectHash` says nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    folder_name,
    is_uuid,
    json_records,
    load_json,
    one_line,
    session_of_path,
    string,
    unique,
)
from helix.sources.common.tools import TOOL_CHARS, call_line, is_ours
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "gemini"
JSON = True
GROWS = True  # the lines; a document is written anew as a whole

_ROLES: Final = {"user": "user", "gemini": "assistant", "model": "assistant"}
_NOTICES: Final = frozenset({"info", "warning", "error"})
_LISTS: Final = ("messages", "history")

_SUMMARY: Final = "<state_snapshot>"
_CONTEXT: Final = ("<session_context>", "</session_context>")
_HOOK: Final = ("<hook_context>", "</hook_context>")
_FILES: Final = ("--- Content from referenced files ---", "--- End of content ---")
_FOUND: Final = ("--- Newly Discovered Project Context ---", "--- End Project Context ---")  # in results of tools
# What the client says as the user, and puts into the model's mouth.
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
_SHELL_NOTES: Final = re.compile(  # that nothing happened
    r"(?m)^(?:Output: \(empty\)|Error: \(none\)|Exit Code: 0|Signal: (?:0|\(none\))|Background PIDs: \(none\)"
    r"|Process Group PGID: \d{1,9})[ \t]*(?:\n|$)"
)
_BAD: Final = frozenset({"error", "cancelled"})
_MAX_DEPTH: Final = 3  # of lists inside a tool's result


@dataclass(slots=True)
class _Log:
    """What replaying the records has come to."""

    session: str | None = None
    began: datetime | None = None
    title: str | None = None
    folder: str | None = None
    subagent: bool = False
    messages: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by id, in reading order
    again: set[str] = field(default_factory=set)  # ids under which messages that are there came once more


@dataclass(slots=True)
class _Reading:
    """Turns as they are read off the messages."""

    tool_chars: int
    began: datetime | None
    subagent: bool
    turns: list[Turn] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)  # call id → turn that made the call
    answered: set[str] = field(default_factory=set)  # calls whose result is there
    project: str | None = None
    junk: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Call:
    """One tool call with its result, wherever the log has them."""

    id: str
    name: str
    given: object
    result: object
    status: str | None
    time: datetime | None


def detect(sample: Sample) -> bool:
    """Whether it is a document of Gemini CLI, or any line a record of it."""
    if isinstance(sample.value, dict) and _is_document(sample.value):
        return True
    return any(_is_record(record) or _is_document(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session as it stands after the last record.

    `tool_chars`: characters kept of one tool result, half from each end.

    Raises:
        InputRefused: a document over several lines that is no valid JSON.
    """
    problems: list[Problem] = []
    log = _Log()
    unknown: Counter[str] = Counter()
    for line, record in _records(document.text, problems):
        _replay(log, line, record, unknown)
    reading = _Reading(tool_chars, log.began, log.subagent, unknown=unknown)
    for id, message in log.messages.items():
        _read(reading, id, message)
    return Parsed(tuple(_sessions(log, reading, document.path)), tuple(problems), unknown, reading.junk)


# ---------------------------------------------------------------- records


def _is_document(value: Mapping[str, Any]) -> bool:
    for name in _LISTS:
        messages = value.get(name)
        if isinstance(messages, list):
            named = "sessionId" in value and "projectHash" in value
            return named or any(isinstance(message, dict) and _is_answer(message) for message in messages)
    return False


def _is_answer(message: Mapping[str, Any]) -> bool:
    if message.get("type") == "gemini":
        return True
    return message.get("role") in ("gemini", "model") and isinstance(message.get("parts"), list)


def _is_record(raw: Mapping[str, Any]) -> bool:
    if isinstance(raw.get("$set"), dict) or isinstance(raw.get("$rewindTo"), str):
        return True
    if "type" not in raw:
        return all(isinstance(raw.get(name), str) for name in ("sessionId", "projectHash"))
    return raw["type"] == "gemini" and "content" in raw


def _records(text: str, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records of a log; a document is one record."""
    first = text.lstrip()[:10_000].partition("\n")
    if not first[1] or not first[0].rstrip().endswith(("{", "[", ",")):
        yield from json_records(text, problems)
        return
    try:
        value = load_json(text)
    except ValueError as error:
        found: list[Problem] = []
        records = list(json_records(text, found))
        if not any(_is_record(record) for _, record in records):
            remedy = "copy the file again: of a cut one nothing is taken"
            raise InputRefused(f"not valid JSON ({error})", remedy) from None
        problems += found  # lines after all, the first of them broken
        yield from records
        return
    if isinstance(value, dict):
        yield 0, value
    else:
        problems.append(Problem(0, "not a JSON object; a chat is one with a list of messages"))


def _replay(log: _Log, line: int, record: Mapping[str, Any], unknown: Counter[str]) -> None:
    changes, messages = record.get("$set"), next((v for n in _LISTS if isinstance(v := record.get(n), list)), None)
    if isinstance(record.get("$rewindTo"), str):
        _rewind(log, record["$rewindTo"])
    elif isinstance(changes, dict):
        _note(log, changes)
        if isinstance(changes.get("messages"), list):
            _put(log, changes["messages"], "#")
    elif messages is not None:
        _note(log, record)
        _put(log, messages, "")
    elif "type" in record or "role" in record:
        log.messages[string(record, "id") or str(line)] = record
    elif "sessionId" in record:
        _note(log, record)
    else:
        unknown[type_name(None)] += 1


def _note(log: _Log, fields: Mapping[str, Any]) -> None:
    """What is said about the whole session. Its id and its start are those said first."""
    log.session = log.session or string(fields, "sessionId")
    log.began = log.began or moment(fields.get("startTime", fields.get("start_time")))
    log.title = string(fields, "summary") or log.title
    log.subagent = log.subagent or fields.get("kind") == "subagent"
    folders = fields.get("directories")
    if isinstance(folders, list) and folders and isinstance(folders[0], str):
        log.folder = log.folder or folder_name(folders[0])


def _rewind(log: _Log, id: str) -> None:
    if id in log.messages:
        ids = list(log.messages)
        for dropped in ids[ids.index(id) :]:
            del log.messages[dropped]


def _put(log: _Log, messages: list[Any], mark: str) -> None:
    """A list in the place of all messages, or, where it has a summary, behind them. Without an id, the index names."""
    listed: dict[str, Mapping[str, Any]] = {
        string(message, "id") or f"{mark}{index}": message
        for index, message in enumerate(messages)
        if isinstance(message, dict)
    }
    summaries = {id for id, message in listed.items() if _is_summary(message)}
    if not summaries:
        log.messages = listed
        return
    if summaries - log.messages.keys():  # summed up just now: what was left as it is may have got new ids
        said = {_said(message) for message in log.messages.values()}
        log.again |= {id for id in listed.keys() - log.messages.keys() if _said(listed[id]) in said}
    log.messages |= {id: message for id, message in listed.items() if id not in log.again}


def _is_summary(message: Mapping[str, Any]) -> bool:
    return message.get("type", message.get("role")) == "user" and _said(message)[1].startswith(_SUMMARY)


def _said(message: Mapping[str, Any]) -> tuple[object, str, tuple[str, ...]]:
    """What a message says, whatever its id: its kind, its text, its calls."""
    calls = message.get("toolCalls")
    ids = (string(call, "id") for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()
    return str(message.get("type", message.get("role"))), "\n".join(_texts(_content(message))), tuple(filter(None, ids))


# ---------------------------------------------------------------- messages


def _content(message: Mapping[str, Any]) -> object:
    return message.get("content", message.get("parts"))


def _parts(content: object) -> list[Mapping[str, Any]]:
    """Parts of a content: a list of them, one, or a string."""
    parts = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else part for part in parts if isinstance(part, str | dict)]


def _texts(content: object) -> list[str]:
    """The texts among the parts, without thoughts."""
    parts = _parts(content)
    return [text for part in parts if part.get("thought") is not True and (text := string(part, "text"))]


def _read(reading: _Reading, id: str, message: Mapping[str, Any]) -> None:
    kind = message.get("type", message.get("role"))
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    time = moment(message.get("timestamp", message.get("ts")))
    if role == "user":
        _user(reading, id, message, time)
    elif role == "assistant":
        _assistant(reading, id, message, time)
    elif isinstance(kind, str) and kind in _NOTICES:
        left_out(sum(map(len, _texts(_content(message)))), "telemetry", reading.junk)
    else:
        reading.unknown[type_name(kind)] += 1


def _user(reading: _Reading, id: str, message: Mapping[str, Any], time: datetime | None) -> None:
    content = _content(message)
    sent = "\n".join(_texts(content)).strip()
    shown = "\n".join(_texts(message.get("displayContent"))).strip()
    if sent.startswith(_SUMMARY):
        _add(reading, id, id, "assistant", "summary", answer(sent, reading.junk), time)
    elif sent:
        typed = shown or _typed(reading, sent)
        left_out(len(sent) - len(typed), "host", reading.junk)
        _add(reading, id, id, "user", "human", human(typed, reading.junk), time)
    for index, part in enumerate(_parts(content)):
        response = part.get("functionResponse")
        if not isinstance(response, dict):
            continue
        name = string(response, "id") or f"#{index}"
        if name not in reading.answered:  # a message of the model's history; the answer itself may list it, too
            call = _Call(name, string(response, "name") or "", None, [part], None, time)
            if not _asks_us(reading, call):
                _result(reading, id, call, reading.called.get(name))


def _typed(reading: _Reading, sent: str) -> str:
    """What a person typed of a text that was sent."""
    if sent.startswith((_CONTEXT[0], _CLIENT_SAYS[0])):
        found = _FOLDER.search(sent)
        if found is not None:
            reading.project = reading.project or folder_name((found["listed"] or found["one"]).strip())
    for open, close in (_CONTEXT, _HOOK):
        sent = _without(sent, open, close, last=False)
    sent = _without(sent, *_FILES, last=True).strip()
    return "" if sent.startswith(_CLIENT_SAYS) else sent


def _assistant(reading: _Reading, id: str, message: Mapping[str, Any], time: datetime | None) -> None:
    content = _content(message)
    text = "\n".join(_texts(content)).strip()
    if text in _CLIENT_ANSWERS:
        left_out(len(text), "host", reading.junk)
        text = ""
    left_out(_thought(message, content), "reasoning", reading.junk)
    calls = [call for call in _calls(message, content, time) if not _asks_us(reading, call)]
    said = [answer(text, reading.junk), *(answer(call_line(call.name, call.given), reading.junk) for call in calls)]
    name = _add(reading, id, id, "assistant", "assistant", "\n".join(filter(None, said)), time)
    for call in calls:
        reading.called.setdefault(call.id, name or id)
        _result(reading, id, call, name)


def _asks_us(reading: _Reading, call: _Call) -> bool:
    """Whether it is Helix that was asked: its answer is no news."""
    if not is_ours(call.name, call.given):
        return False
    left_out(sum(map(len, _output(call.result)[0])), "memory", reading.junk)
    reading.answered.add(call.id)
    return True


def _thought(message: Mapping[str, Any], content: object) -> int:
    """How many characters the model thought."""
    thoughts = message.get("thoughts")
    listed = [thought for thought in thoughts if isinstance(thought, dict)] if isinstance(thoughts, list) else []
    texts = [string(thought, name) for thought in listed for name in ("subject", "description")]
    texts += [string(part, "text") for part in _parts(content) if part.get("thought") is True]
    return sum(len(text) for text in texts if text)


def _calls(message: Mapping[str, Any], content: object, time: datetime | None) -> list[_Call]:
    """The tool calls of an answer: those it lists, else those among its parts."""
    listed = message.get("toolCalls")
    if not isinstance(listed, list) or not listed:
        listed = [part.get("functionCall") for part in _parts(content)]
    return [
        _Call(
            id=string(call, "id") or f"#{index}",
            name=string(call, "name") or "",
            given=call.get("args"),
            result=call.get("result") or call.get("resultDisplay"),
            status=string(call, "status"),
            time=moment(call.get("timestamp")) or time,
        )
        for index, call in enumerate(listed)
        if isinstance(call, dict)
    ]


def _result(reading: _Reading, id: str, call: _Call, parent: str | None) -> None:
    """The turn of a tool's result."""
    texts, failed = _output(call.result)
    text = "\n".join(texts)
    failed = failed or call.status in _BAD
    if call.name == _SHELL:
        failed = failed or any(code != "0" for code in _EXIT_CODE.findall(text)[-1:])
        own = _SHELL_NOTES.sub("", text).removeprefix("Output: ")
        left_out(len(text) - len(own), "telemetry", reading.junk)
        text = own
    own = _without(text, *_FOUND, last=True)
    left_out(len(text) - len(own), "host", reading.junk)
    said = output(own, reading.tool_chars, failed, reading.junk)
    if _add(reading, id, f"{id}:{call.id}", "tool", "tool", said, call.time, parent) and not call.id.startswith("#"):
        reading.answered.add(call.id)


def _output(value: object, depth: int = _MAX_DEPTH) -> tuple[list[str], bool]:
    """Texts of a tool's result, and whether it says that the tool failed."""
    if isinstance(value, str):
        return ([value] if value else []), False
    if isinstance(value, list) and depth > 0:
        found = [_output(part, depth - 1) for part in value]
        return [text for texts, _ in found for text in texts], any(failed for _, failed in found)
    if not isinstance(value, dict):
        return [], False
    response = value.get("functionResponse")
    fields = response.get("response") if isinstance(response, dict) else value
    if not isinstance(fields, dict):
        return _output(fields, 0)
    failed = bool(fields.get("error")) or fields.get("isError") is True
    if depth <= 0:
        return list(filter(None, [string(fields, "text")])), failed
    for name in ("error", "output", "content", "result", "text"):
        texts, _ = _output(fields.get(name), depth - 1)
        if texts:
            return texts, failed
    return [], failed


def _without(text: str, open: str, close: str, last: bool) -> str:
    """`text` without the blocks between two marks, the first at a line's start.

    `last`: there is one block, and it goes to the last closing mark; an unclosed one to the end.
    """
    parts, at, look = [], 0, 0
    while (begin := text.find(open, look)) >= 0:
        look = begin + len(open)
        if begin > 0 and text[begin - 1] != "\n":
            continue
        end = text.rfind(close, look) if last else text.find(close, look)
        if end < 0 and not last:
            break
        parts.append(text[at:begin].rstrip())
        at = look = len(text) if end < 0 else end + len(close)
    return "\n".join(filter(None, [*parts, text[at:].strip()])) if parts else text


# ---------------------------------------------------------------- turns


def _add(
    reading: _Reading,
    message: str,
    id: str,
    role: str,
    origin: str,
    text: str,
    time: datetime | None,
    parent: str | None = None,
) -> str | None:
    """A new turn of a message; its id, or None where it says nothing."""
    if not text:
        return None
    name = unique(id, reading.names)
    when = time or reading.began
    reading.turns.append(
        Turn(
            id=name,
            text=text,
            role=role,
            origin="subagent" if reading.subagent and origin != "summary" else origin,
            time=when,
            time_quality="exact" if time else "derived" if when else "none",
            parent=parent,
            unique=name == id and is_uuid(message),
        )
    )
    return name


def _sessions(log: _Log, reading: _Reading, path: str) -> Iterator[Session]:
    if not reading.turns:
        return
    title = log.title or next((turn.text for turn in reading.turns if turn.role == "user"), None)
    in_path = _FOLDER_IN_PATH.search(path)
    yield Session(
        source=NAME,
        id=log.session or session_of_path(path),
        turns=tuple(reading.turns),
        project=reading.project or log.folder or (in_path["name"] if in_path else None),
        title=one_line(title, TITLE_CHARS) if title else None,
    )
