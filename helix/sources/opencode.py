"""OpenCode sessions, as `opencode export` writes them.

What is particular to the format:

- The database and the small files of earlier versions are collected into the same JSON (`opencode_store`).
- A message that a person took back stays stored until the next prompt: `revert` names the message, or the part of a
  message, at which the session ends.
- An answer has a message for each step. Tool calls and their results are parts of it, in the order of time.
- Texts that OpenCode writes into a person's message are marked `synthetic`, those for the screen alone `ignored`.
- A session with a parent is a subagent's; an assistant message with `summary: true` is a compaction's. A user message
  has a `summary` too, which is its title.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from helix.errors import InputRefused
from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, is_type, join_texts, name_type
from helix.sources.common.json_text import load_document
from helix.sources.common.names import make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import complete_turn, make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS, is_own_call
from helix.sources.opencode_store import StoredMessage, collect, is_companion
from helix.types import Document, Parsed, Turn
from helix.util.workspaces import Workspace, make_workspace

__all__ = ["GROWS", "JSON", "NAME", "collect", "detect", "is_companion", "parse"]

NAME = "opencode"
JSON = True
GROWS = False

_NOISE: Final = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "file", "agent", "subtask", "compaction", "retry"}
)
_UNNAMED: Final = re.compile(r"(?:New session|Child session) - \d{4}-\d{2}-\d{2}T")  # until a title is found
_CUT: Final = re.compile(r'\s*\{\s*"info"\s*:\s*\{')  # the beginning of an export


def detect(sample: Sample) -> bool:
    """Return whether it is an exported or collected session, or the beginning of one that was cut."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict) and isinstance(value.get("info"), dict) and isinstance(value.get("messages"), list):
            return all(isinstance(entry, dict) and "parts" in entry for entry in value["messages"][:3])
    return bool(_CUT.match(sample.head)) and '"messages"' in sample.head and '"parts"' in sample.head


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one text.

    Raises:
        InputRefused: it is not a whole session.
    """
    value = load_document(document.text, "export the session again")
    info = value.get("info") if isinstance(value, dict) else None
    if not isinstance(info, dict) or not isinstance(value.get("messages"), list):
        raise InputRefused("no OpenCode session: no info with messages", "export it with: opencode export")
    cleaner = TextCleaner(tool_chars)
    messages = _cut_reverted(_read_messages(value["messages"]), info.get("revert"))
    title = get_string(info, "title")
    sessions = make_sessions(
        NAME,
        get_string(info, "id") or name_session_of_path(document.path),
        _read_turns(messages, bool(get_string(info, "parentID")), cleaner),
        workspace=_find_workspace(info, messages),
        title=None if title and _UNNAMED.match(title) else title,
    )
    return cleaner.build(sessions)


def _read_messages(values: Iterable[object]) -> list[StoredMessage]:
    messages = []
    for index, value in enumerate(values):
        if isinstance(value, dict):
            info = get_mapping(value, "info")
            messages.append(StoredMessage(get_string(info, "id") or str(index), info, [*get_objects(value, "parts")]))
    return messages


def _cut_reverted(messages: list[StoredMessage], revert: object) -> list[StoredMessage]:
    """Return the messages before the one, or the part of one, that was taken back."""
    reverted = get_string(revert, "messageID")
    if reverted is None:
        return messages
    at = next((number for number, message in enumerate(messages) if message.id == reverted), None)
    if at is None:  # it is being deleted, the first message first; ids ascend
        return [message for message in messages if message.id < reverted]
    kept = messages[:at]
    part = get_string(revert, "partID")
    if part is not None:
        parts = messages[at].parts
        end = next((number for number, value in enumerate(parts) if value.get("id") == part), len(parts))
        kept.append(messages[at]._replace(parts=parts[:end]))
    return kept


def _find_workspace(info: Mapping[str, Any], messages: Iterable[StoredMessage]) -> Workspace | None:
    """Return the folder of a session, and the top folder of its repository, which only messages name."""
    paths = [get_mapping(message.info, "path") for message in messages]
    folder = get_string(info, "directory") or next(filter(None, (get_string(path, "cwd") for path in paths)), None)
    tops = (get_text(path, "root").rstrip("/") for path in paths if get_string(path, "cwd") == folder)
    return make_workspace(folder, next(filter(None, tops), None))


def _read_turns(messages: Iterable[StoredMessage], is_subagent: bool, cleaner: TextCleaner) -> Iterator[Turn]:
    ids: dict[str, int] = {}
    names: dict[str, str] = {}  # of turns, by their messages
    for message in messages:
        role = get_text(message.info, "role")
        if role not in ("user", "assistant"):
            cleaner.unknown[f"role {name_type(role)}"] += 1
            continue
        text, results = _read_parts(message, role, cleaner)
        parent = names.get(get_text(message.info, "parentID"))
        if text:
            names[message.id] = id = make_unique(message.id, ids)
            origin = "human" if role == "user" else "summary" if _is_summary(message) else "assistant"
            time = parse_time(get_mapping(message.info, "time").get("created"))
            yield complete_turn(Turn(id, text, role, origin, time=time, parent=parent), None, is_subagent)
        for result_id, result, time in results:
            id, parent = make_unique(result_id, ids), names.get(message.id)
            yield complete_turn(Turn(id, result, "tool", "tool", time=time, parent=parent), None, is_subagent)


def _is_summary(message: StoredMessage) -> bool:
    # The part `compaction` is a request for a summary, in a message before it.
    return message.info.get("summary") is True or "compaction" in (message.info.get("mode"), message.info.get("agent"))


def _read_parts(
    message: StoredMessage, role: str, cleaner: TextCleaner
) -> tuple[str, list[tuple[str, str, datetime | None]]]:
    """Return the text of a message, with a line for each tool call, and the results: id, text, time."""
    texts: list[str] = []
    results: list[tuple[str, str, datetime | None]] = []
    for index, part in enumerate(message.parts):
        kind, text = part.get("type"), get_text(part, "text")
        if kind == "text" and (part.get("synthetic") is True or part.get("ignored") is True):
            cleaner.drop("host", text)
        elif kind == "text":
            texts.append(cleaner.clean_prompt(text) if role == "user" else cleaner.clean_answer(text))
        elif kind == "reasoning":
            cleaner.drop("reasoning", text)
        elif kind == "tool":
            tool, state = get_text(part, "tool"), get_mapping(part, "state")
            if is_own_call(tool, state.get("input")):
                cleaner.drop("memory", get_string(state, "output"))
                continue
            id = get_string(part, "id")
            texts.append(cleaner.write_call(tool, state.get("input") or get_string(state, "title"), id))
            if result := _read_result(state, id, cleaner):
                times = get_mapping(state, "time")
                time = parse_time(times.get("end")) or parse_time(times.get("start"))
                results.append((get_string(part, "id") or f"{message.id}:{index}", result, time))
        elif not is_type(kind, _NOISE):
            cleaner.count_unknown(kind)
    return join_texts(texts), results


def _read_result(state: Mapping[str, Any], id: str | None, cleaner: TextCleaner) -> str:
    failed = state.get("status") == "error"
    error = get_string(state, "error") if failed else None
    return cleaner.clean_output(error or get_text(state, "output"), failed, id)
