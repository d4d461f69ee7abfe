"""Codex CLI logs, called rollouts: one JSON record a line, `{timestamp, type, payload}`.

What is particular to the format:

- The log has most texts twice: as `response_item` (what the model saw) and as `event_msg` (what the screen showed).
  Items are read; events only in a log without message items (`codex_turns`).
- The host writes as `user`: environment, AGENTS.md, skills, notices. Only the typed part stays (`codex_prompts`).
- A fork opens with its own `session_meta` and then copies its parent's log, `session_meta` included. All records get
  the time of copying. The copy is left out: the parent's log has it. It ends at the fork's own `session_meta`; or at a
  turn whose id (a UUIDv7) or start is not before the fork; or, in a copy without turn starts, at a gap of more than a
  second: a copy is written at once, a person takes longer.
- After `compacted` the log repeats the history (`replacement_history`); only the summary is new.
- Until September 2025 there was no envelope: a header, then bare items without times, the folder only in the
  environment context. The oldest logs that continue another log copied it without a mark; those copies stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from helix.sources import codex_turns
from helix.sources.codex_prompts import list_texts
from helix.sources.common.fields import get_list, get_mapping, get_string, get_text, is_type
from helix.sources.common.json_text import read_records
from helix.sources.common.names import get_file_stem, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_epoch, parse_time
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Session
from helix.util.workspaces import Workspace, make_workspace

NAME = "codex"
JSON = True
GROWS = True

_ENVELOPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_NOISE: Final = frozenset({"state", "world_state", "inter_agent_communication_metadata", "rollout_reference"})
_GAP: Final = timedelta(seconds=1)  # between records: a copied history is written faster
_UUID_AT_END: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
_HELPERS: Final = frozenset({"guardian", "memory_consolidation"})  # sessions of Codex about other sessions


def detect(sample: Sample) -> bool:
    """Return whether any line is a record of Codex, with or without its envelope."""
    return any(_is_record(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of one log, without the copied log of a fork's parent."""
    log = codex_turns.CodexLog(TextCleaner(tool_chars))
    for line, raw in read_records(document.text, log.cleaner.problems):
        _read_record(log, line, raw)
    return log.cleaner.build(_build_sessions(log, document.path))


def _build_sessions(log: codex_turns.CodexLog, path: str) -> tuple[Session, ...]:
    if log.is_helper:
        log.cleaner.drop("host", *(part for draft in log.drafts for part in draft.parts))
        return ()
    id_in_name = _UUID_AT_END.search(get_file_stem(path))
    name = log.id or (id_in_name[0] if id_in_name else name_session_of_path(path))
    return make_sessions(NAME, name, codex_turns.build_turns(log), workspace=log.workspace, title=log.title)


def _is_record(raw: Mapping[str, Any]) -> bool:
    kind = raw.get("type")
    if "payload" in raw:
        return is_type(kind, _ENVELOPES | _NOISE) and isinstance(raw["payload"], dict)
    if kind is None:
        return _is_header(raw) or raw.get("record_type") == "state"
    if kind == "message":
        return any(get_string(part, "type") in ("input_text", "output_text") for part in get_list(raw, "content"))
    return kind in ("function_call", "function_call_output", "local_shell_call") and "call_id" in raw


def _is_header(raw: Mapping[str, Any]) -> bool:
    """Return whether it is the first line of a log without envelopes."""
    return "type" not in raw and all(get_string(raw, name) for name in ("id", "timestamp")) and "instructions" in raw


def _read_record(log: codex_turns.CodexLog, line: int, raw: Mapping[str, Any]) -> None:
    kind, payload = _open_envelope(raw)
    time = parse_time(raw.get("timestamp")) or parse_time(raw.get("created_at"))
    if kind == "session_meta":
        _identify(log, payload, time)
    elif log.is_copying and not _is_own(log, kind, payload, time):
        log.cleaner.drop("replay", *list_texts(payload.get("content")))
    else:
        log.is_copying = False
        _read_payload(log, line, kind, payload, time)
    log.last_time = time or log.last_time


def _open_envelope(raw: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return type and payload of a record; a bare item is the payload of a `response_item`."""
    kind, payload = raw.get("type"), raw.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if _is_header(raw):
        return "session_meta", raw
    return ("state" if raw.get("record_type") == "state" else "response_item"), raw


def _read_payload(
    log: codex_turns.CodexLog, line: int, kind: str, payload: Mapping[str, Any], time: datetime | None
) -> None:
    if kind == "response_item":
        codex_turns.read_item(log, line, payload, time)
    elif kind == "event_msg":
        codex_turns.read_event(log, line, payload, time)
    elif kind == "turn_context":
        log.open = None
        log.workspace = log.workspace or _find_workspace(payload)
    elif kind == "compacted":
        codex_turns.release(log)
        codex_turns.add_summary(log, line, get_text(payload, "message"), time)
    elif kind == "inter_agent_communication":
        text = log.cleaner.clean_answer(get_text(payload, "content"))
        codex_turns.add_turn(log, line, payload, "assistant", "subagent", text, time)
    elif kind not in _NOISE:
        log.cleaner.count_unknown(kind)


def _identify(log: codex_turns.CodexLog, meta: Mapping[str, Any], time: datetime | None) -> None:
    """Read a `session_meta`. The first one names the log, another begins a copy, the first one again ends it."""
    name = get_string(meta, "id", "session_id")
    if log.id is not None:
        if name == log.id:
            log.is_copying = False
        elif name and not log.drafts:
            log.is_copying = True
        return
    log.id = name
    log.workspace = log.workspace or _find_workspace(meta)
    log.began = parse_time(meta.get("timestamp")) or time
    log.forked = _read_uuid_time(name or "") or log.began
    log.is_copying = get_string(meta, "forked_from_id") is not None
    source, thread = get_mapping(meta, "source"), meta.get("thread_source")
    spawned = source.get("subagent", source.get("internal"))
    spawner = spawned.get("other") if isinstance(spawned, dict) else spawned
    log.is_subagent = spawned is not None or thread == "subagent"
    log.is_helper = is_type(spawner, _HELPERS) or is_type(thread, _HELPERS)


def _find_workspace(fields: Mapping[str, Any]) -> Workspace | None:
    """Return the folder and the repository of a header; None without a folder."""
    folder, git = get_string(fields, "cwd"), get_mapping(fields, "git")
    return make_workspace(folder, remote=get_string(git, "repository_url"), tracked=bool(git)) if folder else None


def _is_own(log: codex_turns.CodexLog, kind: str, payload: Mapping[str, Any], time: datetime | None) -> bool:
    """Return whether a record after a copy is the fork's own."""
    starts = kind == "event_msg" and get_string(payload, "type") in codex_turns.TURN_STARTS
    if starts or kind == "turn_context":
        began = _read_uuid_time(get_text(payload, "turn_id"))
        began = began or (parse_time(payload.get("started_at")) if starts else None)
        if began is not None and log.forked is not None:
            log.copies_starts = log.copies_starts or starts
            return began > log.forked - _GAP  # starts are in whole seconds
    return not log.copies_starts and time is not None and log.last_time is not None and time - log.last_time > _GAP


def _read_uuid_time(name: str) -> datetime | None:
    """Return the time of a UUIDv7; None for anything else."""
    try:
        uuid = UUID(name)
    except ValueError:
        return None
    return parse_epoch(uuid.int >> 80) if uuid.version == 7 else None
