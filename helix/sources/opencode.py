"""OpenCode sessions: rows of its database, small files of its earlier versions, or what `opencode export` writes.

What makes them hard, and what is done about it:

- A session is spread over three tables, or over hundreds of files. The collector brings each one together as the JSON
  that `opencode export` gives, so that all three are parsed by the same code.
- What a person took back stays stored until the next prompt: `revert` names the message, or the part of a message,
  from which on nothing is part of the session.
- One answer is one message a step. Tool calls and their results are parts of it, and their order is that of time.
- Texts that OpenCode writes into a person's message are marked `synthetic`, those for the screen alone `ignored`.
- A session with a parent is that of a subagent; an assistant message with `summary: true` is a compaction's. A user
  message has a `summary` too, which is its title.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.errors import InputRefused
from helix.sources.common import sqlite
from helix.sources.common.collected import Collected, canonical, loaded, mapping, picked
from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import TITLE_CHARS, folder_name, load_json, one_line, session_of_path, string, unique
from helix.sources.common.sqlite import TOO_LARGE, VALUE_BYTES
from helix.sources.common.tools import TOOL_CHARS, call_line, is_ours
from helix.types import Document, Parsed, Session, Turn

NAME = "opencode"
JSON = True
GROWS = False

_NOISE: Final = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "file", "agent", "subtask", "compaction", "retry"}
)
_UNREADABLE: Final = "(not valid JSON)"
_UNNAMED: Final = re.compile(r"(?:New session|Child session) - \d{4}-\d{2}-\d{2}T")  # until a title is found
_CUT: Final = re.compile(r'\s*\{\s*"info"\s*:\s*\{')  # the beginning of an export

# What is kept of a session, a message and a part: what is parsed, and nothing that changes for other reasons.
_INFO: Final = ("id", "parentID", "directory", "title", "time", "revert")
_REVERT: Final = ("messageID", "partID")
_MESSAGE: Final = ("role", "parentID", "time", "agent", "mode", "path")
_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("type", "text", "synthetic", "ignored"),
    "reasoning": ("type", "text"),
    "tool": ("type", "tool", "state"),
}
_STATE: Final = ("status", "input", "output", "error", "title", "time")

_TABLES: Final = {
    "session": frozenset({"id"}),
    "message": frozenset({"id", "session_id", "time_created", "data"}),
    "part": frozenset({"id", "message_id", "session_id", "time_created", "data"}),
}
_COLUMNS: Final = {"parent_id": "parentID", "directory": "directory", "title": "title"}
_FOLDERS: Final = frozenset(  # beside `session`, of files that belong to the sessions there
    {"message", "part", "todo", "session_diff", "session_share", "permission", "project", "share"}
)


class _Message(NamedTuple):
    """A message as it is stored, and what tells its place."""

    id: str
    info: Mapping[str, Any]
    parts: list[Mapping[str, Any]]


# ---------------------------------------------------------------- collecting


def collect(path: Path) -> Iterator[Collected] | None:
    """The sessions of a database, or the one whose file this is; None where it is neither.

    Raises:
        InputRefused: the database cannot be read, now or while its sessions are taken.
    """
    if sqlite.is_database(path):
        return _of_database(path) if sqlite.has_columns(path, _TABLES) else None
    info = _session_file(path)
    return None if info is None else iter([_of_files(path, info)])


def belongs(path: Path) -> bool:
    """Whether a file is a part of a session that is read by way of another file."""
    if path.suffix != ".json":
        return sqlite.belongs(path)
    folders = list(path.parents)[:2]
    return any(
        folder.name in _FOLDERS and (folder.parent / "session").is_dir() and (folder.parent / "message").is_dir()
        for folder in folders
    )


def _of_database(path: Path) -> Iterator[Collected]:
    with sqlite.reading(path) as database:
        sessions = [row[0] for row in database.execute("SELECT id FROM session ORDER BY id")]
        for session in sessions:
            with sqlite.one_state(database):
                found = _row(database, "session", session)
                messages = _rows(database, session) if found else []
            if found is not None:  # else it was deleted while the ones before it were read
                info: dict[str, Any] = {_COLUMNS.get(name, name): found[name] for name in found}
                info["time"] = {"created": found.get("time_created"), "updated": found.get("time_updated")}
                info["revert"] = loaded(found.get("revert"))
                yield _collected(str(session), info, messages, _latest(database, session, found))


def _row(database: sqlite3.Connection, table: str, id: object) -> dict[str, Any] | None:
    names = sorted(sqlite.columns_of(database, table) & {*_COLUMNS, "id", "revert", "time_created", "time_updated"})
    row = database.execute(f"SELECT {', '.join(names)} FROM {table} WHERE id = ?", (id,)).fetchone()
    return None if row is None else dict(zip(names, row, strict=True))


def _rows(database: sqlite3.Connection, session: object) -> list[_Message]:
    """The messages of a session with their parts, in order."""
    data = f"CASE WHEN length(CAST(data AS BLOB)) <= {VALUE_BYTES} THEN data ELSE 0 END"
    parts: dict[str, list[Mapping[str, Any]]] = {}
    query = f"SELECT message_id, id, {data} FROM part WHERE session_id = ? ORDER BY time_created, id"
    for message, id, value in database.execute(query, (session,)):
        parts.setdefault(str(message), []).append({"id": str(id), **_loaded_part(value)})
    query = f"SELECT id, {data} FROM message WHERE session_id = ? ORDER BY time_created, id"
    return [
        _Message(str(id), mapping(loaded(value)), parts.get(str(id), []))
        for id, value in database.execute(query, (session,))
    ]


def _latest(database: sqlite3.Connection, session: object, found: Mapping[str, Any]) -> datetime | None:
    """When a session, a message or a part of it changed last."""
    times = [found.get("time_created"), found.get("time_updated")]
    for table in ("message", "part"):
        column = "time_updated" if "time_updated" in sqlite.columns_of(database, table) else "time_created"
        times += database.execute(f"SELECT max({column}) FROM {table} WHERE session_id = ?", (session,)).fetchone()
    return max(filter(None, map(moment, times)), default=None)


def _session_file(path: Path) -> dict[str, Any] | None:
    """What the file of a session says about it; None where it is no such file."""
    if path.suffix != ".json" or path.parent.parent.name != "session":
        return None
    info = _file(path)
    if info is None or not isinstance(info.get("time"), dict) or not {"id", "projectID"} <= info.keys():
        return None
    return info


def _of_files(path: Path, info: Mapping[str, Any]) -> Collected:
    """The session of a file, with the messages and parts in the folders beside it."""
    root = path.parents[2]
    # Some sessions have moved to another folder, and kept the id of the old one inside.
    named = (name for name in (string(info, "id"), path.stem) if name and _is_name(name))
    folder = next((root / "message" / name for name in named if (root / "message" / name).is_dir()), None)
    found = [(_name(file), _file(file) or {}) for file in _json_files(folder)] if folder else []
    messages = [(string(message, "id") or name, message) for name, message in found]
    messages.sort(key=lambda message: _created(message[1]))  # a stable sort: by name where times are equal
    whole = [_Message(id, message, _parts(root / "part", id)) for id, message in messages]
    times = [value for holder in (info, *(message for _, message in messages)) for value in _times(holder)]
    mtime = max(filter(None, map(moment, times)), default=None)
    return _collected(string(info, "id") or _name(path), dict(info), whole, mtime)


def _parts(folder: Path, message: str) -> list[Mapping[str, Any]]:
    own = _json_files(folder / message) if _is_name(message) and (folder / message).is_dir() else []
    files = own or _flat(folder, folder.stat().st_mtime_ns).get(message, []) if folder.is_dir() else []
    found = [(_name(file), _file(file)) for file in files]
    return [{"id": string(part or {}, "id") or name, **_loaded_part(part)} for name, part in found]


@lru_cache(maxsize=1)
def _flat(folder: Path, changed: int) -> dict[str, list[Path]]:
    """Files of parts that lie in one folder for all messages, by message."""
    found: dict[str, list[Path]] = {}
    for file in _json_files(folder):
        message = string(_file(file) or {}, "messageID")
        if message:
            found.setdefault(message, []).append(file)
    return found


def _json_files(folder: Path) -> list[Path]:
    """By name, which is the id of what is inside, and ids are given out in ascending order."""
    try:
        return sorted(file for file in folder.iterdir() if file.suffix == ".json" and file.is_file())
    except OSError:
        return []


def _file(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > VALUE_BYTES:
            return {"type": TOO_LARGE}
        found = loaded(path.read_bytes())
    except OSError:
        return None
    return found if isinstance(found, dict) else None


def _loaded_part(value: object) -> dict[str, Any]:
    """A part as it is kept; one that cannot be read is of a type that nobody knows, and so is counted."""
    if value == 0:
        return {"type": TOO_LARGE}
    part = value if isinstance(value, dict) else loaded(value)
    if not isinstance(part, dict):
        return {"type": _UNREADABLE}
    kind = part.get("type")
    kept = picked(part, _PART.get(kind, ("type",)) if isinstance(kind, str) else ())
    if isinstance(kept.get("state"), dict):
        kept["state"] = picked(kept["state"], _STATE)
    return kept


def _collected(id: str, info: Mapping[str, Any], messages: Iterable[_Message], mtime: datetime | None) -> Collected:
    """The JSON of an export. Each part is written alone: one that cannot be is counted, not the session lost."""
    kept = picked({**info, "id": id}, _INFO)
    kept["revert"] = picked(revert, _REVERT) if isinstance(revert := kept.get("revert"), dict) else None
    texts = []
    for message in messages:
        own = {"id": message.id, **picked(message.info, _MESSAGE)}
        if message.info.get("summary") is True:
            own["summary"] = True
        parts = ",".join(canonical(part, {"id": part["id"], "type": _UNREADABLE}) for part in message.parts)
        texts.append(f'{{"info":{canonical(own, {"id": message.id})},"parts":[{parts}]}}')
    return Collected(id, f'{{"info":{canonical(kept, {"id": id})},"messages":[{",".join(texts)}]}}', mtime)


def _name(path: Path) -> str:
    return path.stem.encode("utf-8", "replace").decode()


def _is_name(id: str) -> bool:
    """Whether an id can be the name of a folder, and of none elsewhere."""
    return id not in (".", "..") and not re.search(r"[/\\\0]", id) and len(id) < 200


def _times(holder: Mapping[str, Any]) -> list[object]:
    times = holder.get("time")
    return list(times.values()) if isinstance(times, dict) else []


def _created(holder: Mapping[str, Any]) -> float:
    times = holder.get("time")
    created = times.get("created") if isinstance(times, dict) else None
    return float(created) if isinstance(created, int | float) else 0.0


# ---------------------------------------------------------------- parsing


def detect(sample: Sample) -> bool:
    """Whether this is an exported or collected session, or the beginning of one that was cut."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict) and isinstance(value.get("info"), dict) and isinstance(value.get("messages"), list):
            return all(isinstance(entry, dict) and "parts" in entry for entry in value["messages"][:3])
    return bool(_CUT.match(sample.head)) and '"messages"' in sample.head and '"parts"' in sample.head


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session of one text.

    Raises:
        InputRefused: it is not the whole of one.
    """
    try:
        value = load_json(document.text)
    except ValueError as error:
        raise InputRefused(f"not valid JSON ({error})", "export the session again") from None
    info = value.get("info") if isinstance(value, dict) else None
    if not isinstance(info, dict) or not isinstance(value.get("messages"), list):
        raise InputRefused("no OpenCode session: no info with messages", "export it with: opencode export")
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    messages = _kept(_messages(value["messages"]), info.get("revert"))
    turns = tuple(_turns(messages, bool(string(info, "parentID")), tool_chars, unknown, junk))
    sessions = (_session(document, info, messages, turns),) if turns else ()
    return Parsed(sessions, unknown=unknown, junk=junk)


def _session(
    document: Document, info: Mapping[str, Any], messages: Iterable[_Message], turns: tuple[Turn, ...]
) -> Session:
    title = string(info, "title")
    if title is None or _UNNAMED.match(title):
        title = next((turn.text for turn in turns if turn.role == "user"), None)
    folders = (string(mapping(message.info.get("path")), "cwd") for message in messages)
    cwd = string(info, "directory") or next(filter(None, folders), "")
    return Session(
        source=NAME,
        id=string(info, "id") or session_of_path(document.path),
        turns=turns,
        project=folder_name(cwd),
        title=one_line(title, TITLE_CHARS) if title else None,
    )


def _messages(values: Iterable[object]) -> list[_Message]:
    found = []
    for index, value in enumerate(values):
        if isinstance(value, dict):
            info, parts = mapping(value.get("info")), value.get("parts")
            parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            found.append(_Message(string(info, "id") or str(index), info, parts))
    return found


def _kept(messages: list[_Message], revert: object) -> list[_Message]:
    """Without what was taken back: a message and all after it, or what follows a part of it."""
    reverted = string(mapping(revert), "messageID")
    if reverted is None:
        return messages
    at = next((number for number, message in enumerate(messages) if message.id == reverted), None)
    if at is None:  # it is being deleted, the first message first; ids ascend
        return [message for message in messages if message.id < reverted]
    kept = messages[:at]
    part = string(mapping(revert), "partID")
    if part is not None:
        parts = messages[at].parts
        end = next((number for number, value in enumerate(parts) if value.get("id") == part), len(parts))
        kept.append(messages[at]._replace(parts=parts[:end]))
    return kept


def _turns(
    messages: Iterable[_Message], subagent: bool, tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> Iterator[Turn]:
    ids: dict[str, int] = {}
    names: dict[str, str] = {}  # of the turns, by their messages
    for message in messages:
        role = string(message.info, "role") or ""
        if role not in ("user", "assistant"):
            unknown[f"role {type_name(role)}"] += 1
            continue
        texts, results = _contents(message, role, tool_chars, unknown, junk)
        parent = names.get(string(message.info, "parentID") or "")
        if texts:
            names[message.id] = id = unique(message.id, ids)
            origin = "summary" if role == "assistant" and _is_summary(message) else "assistant"
            time = moment(mapping(message.info.get("time")).get("created"))
            yield _turn(id, "\n".join(texts), role, "human" if role == "user" else origin, subagent, time, parent)
        for result_id, text, time in results:
            id = unique(result_id, ids)
            yield _turn(id, text, "tool", "tool", subagent, time, names.get(message.id))


def _turn(
    id: str, text: str, role: str, origin: str, subagent: bool, time: datetime | None, parent: str | None
) -> Turn:
    quality = "exact" if time else "none"
    if subagent and origin != "summary":
        origin = "subagent"
    return Turn(id=id, text=text, role=role, origin=origin, time=time, time_quality=quality, parent=parent)


def _is_summary(message: _Message) -> bool:
    # The part `compaction` is the wish for one, in a message before it.
    return message.info.get("summary") is True or "compaction" in (message.info.get("mode"), message.info.get("agent"))


def _contents(
    message: _Message, role: str, tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> tuple[list[str], list[tuple[str, str, datetime | None]]]:
    """What a message says, with a line for each tool call, and the results: id, text, time."""
    texts: list[str] = []
    results: list[tuple[str, str, datetime | None]] = []
    for index, part in enumerate(message.parts):
        kind = part.get("type")
        text = string(part, "text") or ""
        if kind == "text" and (part.get("synthetic") is True or part.get("ignored") is True):
            left_out(len(text), "host", junk)
        elif kind == "text":
            texts.append(human(text, junk) if role == "user" else answer(text, junk))
        elif kind == "reasoning":
            left_out(len(text), "reasoning", junk)
        elif kind == "tool":
            name, state = string(part, "tool") or "", mapping(part.get("state"))
            if is_ours(name, state.get("input")):
                left_out(len(string(state, "output") or ""), "memory", junk)
                continue
            texts.append(call_line(name, state.get("input") or string(state, "title")))
            result = _result(state, tool_chars, junk)
            if result:
                times = mapping(state.get("time"))
                time = moment(times.get("end")) or moment(times.get("start"))
                results.append((string(part, "id") or f"{message.id}:{index}", result, time))
        elif not isinstance(kind, str) or kind not in _NOISE:
            unknown[type_name(kind)] += 1
    return list(filter(None, texts)), results


def _result(state: Mapping[str, Any], tool_chars: int, junk: Counter[str]) -> str:
    """What a tool gave; nothing while it runs."""
    error = string(state, "error")
    failed = state.get("status") == "error"
    return output((error if failed else None) or string(state, "output") or "", tool_chars, failed, junk)
