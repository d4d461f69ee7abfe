"""Logs of Gemini CLI, replayed into the messages of a session.

- A message that comes again under its id replaces the first: an answer is written again when its tools are done.
- `{"$rewindTo": id}` drops that message and all after it; an unknown id drops nothing.
- `{"$set": {"messages": [...]}}` replaces all messages before it by a list. If the history got too long, that list
  begins with a summary (`<state_snapshot>`) of the messages that it leaves out; these stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.fields import get_list, get_objects, get_string, list_blocks, pick_objects
from helix.sources.common.json_text import load_json, read_records
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.types import Problem

SUMMARY: Final = "<state_snapshot>"
"""Beginning of a summary of the history."""

_LISTS: Final = ("messages", "history")


@dataclass(slots=True)
class GeminiLog:
    """State of the session at a record."""

    session: str | None = None
    began: datetime | None = None
    title: str | None = None
    folder: str | None = None
    is_subagent: bool = False
    messages: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by id, in reading order
    copies: set[str] = field(default_factory=set)  # new ids of messages that are in the log already


def is_document(value: Mapping[str, Any]) -> bool:
    """Return whether a value is a whole session."""
    for name in _LISTS:
        messages = value.get(name)
        if isinstance(messages, list):
            answers = (each for each in pick_objects(messages) if each.get("role") in ("gemini", "model"))
            is_named = "sessionId" in value and "projectHash" in value
            is_answered = any(each.get("type") == "gemini" for each in pick_objects(messages))
            return is_named or is_answered or any(isinstance(each.get("parts"), list) for each in answers)
    return False


def is_record(raw: Mapping[str, Any]) -> bool:
    """Return whether a line is a record of a log."""
    if isinstance(raw.get("$set"), dict) or isinstance(raw.get("$rewindTo"), str):
        return True
    if "type" not in raw:
        return all(isinstance(raw.get(name), str) for name in ("sessionId", "projectHash"))
    return raw["type"] == "gemini" and "content" in raw


def replay(text: str, cleaner: TextCleaner) -> GeminiLog:
    """Return the session after the last record.

    Raises:
        InputRefused: a document over several lines that is no valid JSON.
    """
    log = GeminiLog()
    for line, record in _read_log(text, cleaner.problems):
        _apply(log, line, record, cleaner)
    return log


def get_content(message: Mapping[str, Any]) -> object:
    """Return the content of a message, as a session or the model's history has it."""
    return message.get("content", message.get("parts"))


def list_parts(content: object) -> list[Mapping[str, Any]]:
    """Return the parts of a content: a list of parts, one part, or a text."""
    return list_blocks(content if isinstance(content, list) else [content])


def list_texts(content: object) -> list[str]:
    """Return the texts among the parts, without thoughts."""
    return [text for p in list_parts(content) if p.get("thought") is not True and (text := get_string(p, "text"))]


def _read_log(text: str, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the records of a log; a document is one record."""
    first = text.lstrip()[:10_000].partition("\n")
    if not first[1] or not first[0].rstrip().endswith(("{", "[", ",")):
        yield from read_records(text, problems)
        return
    try:
        value = load_json(text)
    except ValueError as error:
        line_problems: list[Problem] = []
        records = list(read_records(text, line_problems))
        if not any(is_record(record) for _, record in records):
            remedy = "copy the file again: nothing is read from a cut file"
            raise InputRefused(f"not valid JSON ({error})", remedy) from None
        problems += line_problems  # lines after all, the first of them broken
        yield from records
        return
    if isinstance(value, dict):
        yield 0, value
    else:
        problems.append(Problem(0, "not a JSON object; a chat is one with a list of messages"))


def _apply(log: GeminiLog, line: int, record: Mapping[str, Any], cleaner: TextCleaner) -> None:
    changes, messages = record.get("$set"), next((v for n in _LISTS if isinstance(v := record.get(n), list)), None)
    if isinstance(record.get("$rewindTo"), str):
        log.messages = dict(takewhile(lambda item: item[0] != record["$rewindTo"], log.messages.items()))
    elif isinstance(changes, dict):
        _note_facts(log, changes)
        if isinstance(changes.get("messages"), list):
            _set_messages(log, changes["messages"], "#")
    elif messages is not None:
        _note_facts(log, record)
        _set_messages(log, messages, "")
    elif "type" in record or "role" in record:
        log.messages[get_string(record, "id") or str(line)] = record
    elif "sessionId" in record:
        _note_facts(log, record)
    else:
        cleaner.count_unknown(None)


def _note_facts(log: GeminiLog, fields: Mapping[str, Any]) -> None:
    """Note the facts about the whole session. The first id and start count, and the last title."""
    log.session = log.session or get_string(fields, "sessionId")
    log.began = log.began or parse_time(fields.get("startTime", fields.get("start_time")))
    log.title = get_string(fields, "summary") or log.title
    log.is_subagent = log.is_subagent or fields.get("kind") == "subagent"
    folders = get_list(fields, "directories")
    if folders and isinstance(folders[0], str):
        log.folder = log.folder or folders[0]


def _set_messages(log: GeminiLog, messages: list[Any], mark: str) -> None:
    """Replace all messages by a list; add to them a list with a summary. A message without an id gets its index."""
    listed: dict[str, Mapping[str, Any]] = {
        get_string(message, "id") or f"{mark}{index}": message
        for index, message in enumerate(messages)
        if isinstance(message, dict)
    }
    keys = {id: _get_key(message) for id, message in listed.items()}
    summaries = {id for id, (kind, text, _) in keys.items() if kind == "user" and text.startswith(SUMMARY)}
    if not summaries:
        log.messages = listed
        return
    if summaries - log.messages.keys():  # a new summary: messages after it may have new ids
        known = {_get_key(message) for message in log.messages.values()}
        log.copies |= {id for id in listed.keys() - log.messages.keys() if keys[id] in known}
    log.messages |= {id: message for id, message in listed.items() if id not in log.copies}


def _get_key(message: Mapping[str, Any]) -> tuple[object, str, tuple[str, ...]]:
    """Return kind, text and calls of a message, which do not depend on its id."""
    ids = (get_string(call, "id") for call in get_objects(message, "toolCalls"))
    text = "\n".join(list_texts(get_content(message)))
    return str(message.get("type", message.get("role"))), text, tuple(filter(None, ids))
