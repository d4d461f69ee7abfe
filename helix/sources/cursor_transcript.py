"""Transcripts of Cursor's agent: one message a line, without ids and times.

A turn is named by its line, and dated by the `<timestamp>` above a prompt. The prompt itself is in `<user_query>`; the
editor's additions surround it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import PurePath
from typing import Any, Final

from helix.sources.common.fields import (
    get_block_text,
    get_flag,
    get_mapping,
    get_string,
    get_text,
    is_type,
    join_texts,
    list_blocks,
    name_type,
)
from helix.sources.common.injected import cut_spans, find_blocks
from helix.sources.common.json_text import read_records
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.tools import is_own_call
from helix.types import Document, Turn

_NOISE: Final = frozenset({"turn_started", "turn_ended", "status", "image"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS: Final = frozenset({"tool_use", "tool_call", "tool-call"})
_RESULTS: Final = frozenset({"tool_result", "tool-result"})
_REDACTED: Final = "[REDACTED]"  # in the place of a thought

_QUERY: Final = re.compile(r"(?m)^[ \t]*<user_query>|</user_query>")
_ADDED: Final = re.compile(
    r"(?m)(?P<open>^[ \t]*<(?P<name>user_info|rules|git_status|project_layout|timestamp|attached_files|additional_data"
    r"|open_and_recently_viewed_files|system_reminder|manually_attached_skills|agent_skills|agent_transcripts"
    r"|mcp_[a-z_]+|image_files|cursor_commands|custom_instructions|user_rules|always_applied_workspace_rules)"
    r"(?:[ \t][^>\n]{0,500})?>)|</(?P<closed>[a-z_]{4,40})>"
)
_FOLDER: Final = re.compile(r"(?m)^Workspace Path: ?([^\n]{1,1000})$")
_STAMP: Final = re.compile(
    r"<timestamp>[A-Z][a-z]{2,8}, (?P<month>[A-Z][a-z]{2})[a-z]{0,6} (?P<day>\d{1,2}), (?P<year>\d{4}), "
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>[AP])M"
    r"(?: \(UTC(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?::(?P<minutes>\d{2}))?)?\))?</timestamp>"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(slots=True)
class CursorDraft:
    """A turn while pieces are still added to it, with the results of its tools."""

    id: str
    role: str
    time: datetime | None
    quality: str
    is_native: bool  # the id is unique across sessions
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str, datetime | None, str, bool]] = field(default_factory=list)  # as of a turn


def build_turns(drafts: Iterable[CursorDraft], is_subagent: bool) -> Iterator[Turn]:
    """Yield each message, then the results of its tools."""
    for draft in drafts:
        text = join_texts(draft.texts)
        if text:
            origin = "subagent" if is_subagent else "human" if draft.role == "user" else "assistant"
            yield Turn(draft.id, text, draft.role, origin, None, draft.time, draft.quality, unique=draft.is_native)
        for id, result, time, quality, is_native in draft.results:
            origin, parent = "subagent" if is_subagent else "tool", draft.id if text else None
            yield Turn(id, result, "tool", origin, None, time, quality, parent, unique=is_native)


def is_record(record: Mapping[str, Any]) -> bool:
    """Return whether a line is a message of a transcript."""
    message = get_mapping(record, "message")
    # Other formats have the role inside the message, or an id next to it.
    is_foreign = "role" in message or not record.keys().isdisjoint({"uuid", "sessionId", "id"})
    has_content = isinstance(message.get("content"), list)
    return record.get("role") in ("user", "assistant") and has_content and not is_foreign


def read_transcript(document: Document, cleaner: TextCleaner) -> tuple[str, Iterator[Turn]]:
    """Return the folder and the turns of a transcript."""
    drafts: list[CursorDraft] = []
    last: datetime | None = None
    folder = ""
    for line, record in read_records(document.text, cleaner.problems):
        role, content = record.get("role"), get_mapping(record, "message").get("content")
        if role not in ("user", "assistant"):
            kind = name_type(record.get("type"))
            cleaner.unknown.update([kind] if kind not in _NOISE else [])
            continue
        draft = CursorDraft(str(line), str(role), None, "none", False)
        is_stamped = False
        for index, block in enumerate(list_blocks(content)):
            text = get_block_text(block)
            if role == "user" and text:
                time, path = read_stamp(text), _FOLDER.search(text)
                is_stamped, last = is_stamped or time is not None, time or last
                folder = folder or (path[1].strip() if path and "<user_info>" in text else "")
            if _is_own(block, cleaner):
                cleaner.drop("memory", _read_result(block))
            else:
                _add_block(draft, index, block, cleaner)
        draft.time, draft.quality = last, "exact" if is_stamped else "derived" if last else "none"
        draft.results = [(id, result, last, draft.quality, False) for id, result, *_ in draft.results]
        drafts.append(draft)
    return folder, build_turns(drafts, PurePath(document.path).parent.name == "subagents")


def _is_own(block: Mapping[str, Any], cleaner: TextCleaner) -> bool:
    kind = block.get("type")
    if is_type(kind, _RESULTS):
        return get_string(block, "tool_use_id") in cleaner.own_calls
    name, arguments = get_text(block, "name"), block.get("input")
    is_own = is_type(kind, _CALLS) and is_own_call(name, arguments)
    if is_own:
        cleaner.own_calls.add(get_text(block, "id"))
    return is_own


def _add_block(draft: CursorDraft, index: int, block: Mapping[str, Any], cleaner: TextCleaner) -> None:
    kind, text = name_type(block.get("type")), get_text(block, "text")
    if kind == "text" and draft.role == "user":
        draft.texts.append(cleaner.clean_prompt(strip_additions(text, cleaner)))
    elif kind == "text":
        draft.texts.append(cleaner.clean_answer(_strip_redacted(text, cleaner)))
    elif kind in _THINKING:
        cleaner.drop("reasoning", get_string(block, "thinking") or text)
    elif kind in _CALLS:
        arguments = block.get("input") or block.get("args")
        draft.texts.append(cleaner.write_call(get_text(block, "name"), arguments, get_string(block, "id")))
    elif kind in _RESULTS:
        result = cleaner.clean_output(
            _read_result(block), get_flag(block, "is_error"), get_string(block, "tool_use_id")
        )
        if result:
            draft.results.append((f"{draft.id}:{index}", result, None, "none", False))
    elif kind not in _NOISE:
        cleaner.count_unknown(kind)


def _read_result(block: Mapping[str, Any]) -> str:
    return join_texts(map(get_block_text, list_blocks(block.get("content"))))


def _strip_redacted(text: str, cleaner: TextCleaner) -> str:
    """Return an answer without the mark for a thought at its end."""
    kept = text.rstrip()
    if kept.endswith(_REDACTED) and kept[: -len(_REDACTED)].rstrip(" \t")[-1:] in ("", "\n"):
        kept = kept.removesuffix(_REDACTED).rstrip()
        cleaner.drop("reasoning", _REDACTED)
    return kept


def strip_additions(text: str, cleaner: TextCleaner) -> str:
    """Return the typed text: inside `<user_query>` if there is one, else all but the editor's blocks."""
    text = text.strip()
    queries = list(_find_queries(text)) if "<user_query>" in text else []
    blocks = ((start, end, "") for start, end, *_ in find_blocks(text, _ADDED))
    return cleaner.cut(text, join_texts(queries) if queries else cut_spans(text, blocks).strip(), "host")


def _find_queries(text: str) -> Iterator[str]:
    """Yield the inner texts of the outermost tags. A tag that is not closed extends to the end."""
    depth, start = 0, 0
    for match in _QUERY.finditer(text):
        if not match[0].startswith("</"):
            start = match.end() if not depth else start
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield text[start : match.start()].strip()
    if depth:
        yield text[start:].strip()


def read_stamp(text: str) -> datetime | None:
    """Return the time that the editor writes above a prompt, in words."""
    found = _STAMP.search(text)
    if found is None or found["month"] not in _MONTHS:
        return None
    offset = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
    hour = int(found["hour"]) % 12 + (12 if found["half"] == "P" else 0)
    try:
        zone = timezone(-offset if found["sign"] == "-" else offset)
        month = _MONTHS.index(found["month"]) + 1
        local = datetime(int(found["year"]), month, int(found["day"]), hour, int(found["minute"]), tzinfo=zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
