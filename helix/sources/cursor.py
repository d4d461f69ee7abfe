"""Cursor chats: the editor's key-value database, and the transcripts its agent writes.

What makes them hard, and what is done about it:

- A session of the database comes as JSON with its messages ("bubbles") inside, in order. A bubble is a piece of an
  answer: a text, one tool call with its result, or thinking. An answer is a text with the tool calls that follow it,
  named by its first bubble.
- Arguments and results of tools are JSON in a string, of another shape for every tool: of a result, its texts are kept.
- A transcript has neither ids nor times of its own: a turn is named by its line, and dated by the `<timestamp>` that
  stands before a prompt. Around a prompt stands what the editor adds; the prompt itself is in `<user_query>`.

Both are of the same chats: whoever takes in both has them twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import PurePath
from typing import Any, Final

from helix.sources.common.collected import loaded, mapping
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
from helix.sources.cursor_store import ASSISTANT, USER, belongs, collect
from helix.types import Document, Parsed, Problem, Session, Turn

__all__ = ["GROWS", "JSON", "NAME", "belongs", "collect", "detect", "parse"]

NAME = "cursor"
JSON = True
GROWS = True  # transcripts; the text of a session of the database is whole

_NOISE: Final = frozenset({"turn_started", "turn_ended", "status", "image"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS: Final = frozenset({"tool_use", "tool_call", "tool-call"})
_RESULTS: Final = frozenset({"tool_result", "tool-result"})
_REDACTED: Final = "[REDACTED]"  # stands where the transcript leaves out a thought
_NO_TEXTS: Final = ("type", "status", "Type", "Id", "ID", "Uri")  # ends of names of fields that hold none

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


# ---------------------------------------------------------------- parsing


@dataclass(slots=True)
class _Draft:
    """A turn while bubbles are still added to it, with the results of its tools."""

    id: str
    role: str
    time: datetime | None
    quality: str
    native: bool
    texts: list[str] = field(default_factory=list)
    results: list[tuple[str, str, datetime | None, str, bool]] = field(default_factory=list)


def detect(sample: Sample) -> bool:
    """Whether this is a session that was collected, or any line a record of a transcript."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict) and "composerId" in value and isinstance(value.get("conversation"), list):
            return True
    return any(_is_record(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session of a text of either kind."""
    with suppress(ValueError):
        value = load_json(document.text)
        if isinstance(value, dict) and isinstance(value.get("conversation"), list):
            return _parse_session(value, document, tool_chars)
    return _parse_transcript(document, tool_chars)


def _parse_session(value: Mapping[str, Any], document: Document, tool_chars: int) -> Parsed:
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    drafts = _drafts(value["conversation"], value.get("createdAt"), tool_chars, unknown, junk)
    side = isinstance(value.get("subagentInfo"), dict)
    turns = tuple(_turns(drafts, side))
    if not turns:
        return Parsed((), unknown=unknown, junk=junk)
    session = Session(
        source=NAME,
        id=string(value, "composerId") or session_of_path(document.path),
        turns=turns,
        project=folder_name(string(value, "folder") or ""),
        title=_title(string(value, "name"), turns),
    )
    return Parsed((session,), unknown=unknown, junk=junk)


def _title(name: str | None, turns: Iterable[Turn]) -> str | None:
    title = name or next((turn.text for turn in turns if turn.role == "user"), None)
    return one_line(title, TITLE_CHARS) if title else None


def _turns(drafts: Iterable[_Draft], side: bool) -> Iterator[Turn]:
    """Each message, then the results of its tools."""
    for draft in drafts:
        origin = "subagent" if side else "human" if draft.role == "user" else "assistant"
        texts = list(filter(None, draft.texts))
        if texts:
            yield Turn(
                id=draft.id,
                text="\n".join(texts),
                role=draft.role,
                origin=origin,
                time=draft.time,
                time_quality=draft.quality,
                unique=draft.native,
            )
        for id, text, time, quality, native in draft.results:
            yield Turn(
                id=id,
                text=text,
                role="tool",
                origin="subagent" if side else "tool",
                time=time,
                time_quality=quality,
                parent=draft.id if texts else None,
                unique=native,
            )


def _drafts(
    bubbles: Iterable[object], created: object, tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> list[_Draft]:
    """Messages out of bubbles: an answer's text begins one, tool calls go on with it."""
    ids: dict[str, int] = {}
    drafts: list[_Draft] = []
    last = moment(created)
    for index, bubble in enumerate(bubbles):
        if not isinstance(bubble, dict):
            continue
        kind = bubble.get("type")
        if kind not in (USER, ASSISTANT):
            unknown[f"bubble {type_name(str(kind) if isinstance(kind, int) else kind)}"] += 1
            continue
        left_out(len(_thought(bubble.get("thinking"))), "reasoning", junk)
        time = moment(bubble.get("createdAt"))
        last = time or last
        quality = "exact" if time else "derived" if last else "none"  # not before the message before it
        text = string(bubble, "text") or ""
        text = human(_asked(text, junk), junk) if kind == USER else answer(text, junk)
        tool = bubble.get("toolFormerData") if kind == ASSISTANT else None
        if isinstance(tool, dict) and is_ours(string(tool, "name") or "", _given(tool)):
            left_out(len(_texts(tool.get("result"))), "memory", junk)
            tool = None
        if not text and not isinstance(tool, dict):
            continue
        given = string(bubble, "bubbleId")
        role = "user" if kind == USER else "assistant"
        draft = _Draft(unique(given or str(index), ids), role, last, quality, is_uuid(given))
        goes_on = not text and bool(drafts) and drafts[-1].role == "assistant"
        if not goes_on:
            drafts.append(draft)
        drafts[-1].texts.append(text)
        if isinstance(tool, dict):
            drafts[-1].texts.append(call_line(string(tool, "name") or "", _given(tool)))
            failed = tool.get("status") == "error"
            result = output(_result(tool, failed), tool_chars, failed, junk)
            if result:
                # A bubble is a call and its result: the first one's id is that of the answer.
                id = draft.id if goes_on else unique(f"{draft.id}:tool", ids)
                drafts[-1].results.append((id, result, last, quality, draft.native))
    return drafts


def _thought(value: object) -> str:
    text = string(value, "text") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _given(tool: Mapping[str, Any]) -> object:
    """Arguments of a tool call: those that the model wrote, else those that the editor made of them."""
    for name in ("rawArgs", "params"):
        value = tool.get(name)
        found = loaded(value) if isinstance(value, str) else value
        if isinstance(found, dict) and found:
            return found
        if isinstance(value, str) and value.strip() and found is None:  # cut: JSON no longer
            return value
    return None


def _result(tool: Mapping[str, Any], failed: bool) -> str:
    texts = (_texts(tool.get(name)) for name in (("error", "result") if failed else ("result",)))
    return next(filter(None, texts), "")


def _texts(value: object) -> str:
    """All the texts in JSON of any shape, in order, without ids, addresses and names of types."""
    if isinstance(value, str):
        found = loaded(value)
        value = value if found is None and value.strip() != "null" else found
    texts: list[str] = []
    stack = [value]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            stack += reversed([inner for name, inner in at.items() if not name.endswith(_NO_TEXTS)])
        elif isinstance(at, list):
            stack += reversed(at)
        elif isinstance(at, str) and at.strip():
            texts.append(at.strip())
    return "\n".join(texts)


# ---------------------------------------------------------------- transcripts


def _is_record(record: Mapping[str, Any]) -> bool:
    message = mapping(record.get("message"))
    # Others have the role inside the message, or an id beside it.
    foreign = "role" in message or not record.keys().isdisjoint({"uuid", "sessionId", "id"})
    return record.get("role") in ("user", "assistant") and isinstance(message.get("content"), list) and not foreign


def _parse_transcript(document: Document, tool_chars: int) -> Parsed:
    problems: list[Problem] = []
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    drafts: list[_Draft] = []
    last: datetime | None = None
    folder = ""
    ours: set[str] = set()  # calls that asked Helix itself
    for line, record in json_records(document.text, problems):
        role, content = record.get("role"), mapping(record.get("message")).get("content")
        if role not in ("user", "assistant"):
            kind = type_name(record.get("type"))
            unknown.update([kind] if kind not in _NOISE else [])
            continue
        draft = _Draft(str(line), str(role), None, "none", False)
        stamped = False
        for index, block in enumerate(_blocks(content)):
            text = string(block, "text") or ""
            if role == "user" and block.get("type") == "text":
                time, named = _stamp(text), _FOLDER.search(text)
                stamped, last = stamped or time is not None, time or last
                folder = folder or (named[1].strip() if named and "<user_info>" in text else "")
            if _asks_us(block, ours):
                left_out(len(_told(block)), "memory", junk)
            else:
                _add_block(draft, index, block, tool_chars, unknown, junk)
        draft.time, draft.quality = last, "exact" if stamped else "derived" if last else "none"
        draft.results = [(id, result, last, draft.quality, False) for id, result, *_ in draft.results]
        drafts.append(draft)
    turns = tuple(_turns(drafts, PurePath(document.path).parent.name == "subagents"))
    if not turns:
        return Parsed((), tuple(problems), unknown, junk)
    session = Session(
        source=NAME,
        id=session_of_path(document.path),
        turns=turns,
        project=folder_name(folder),
        title=_title(None, turns),
    )
    return Parsed((session,), tuple(problems), unknown, junk)


def _asks_us(block: Mapping[str, Any], ours: set[str]) -> bool:
    """Whether a block is a call of Helix, or the result of one."""
    kind = block.get("type")
    if isinstance(kind, str) and kind in _RESULTS:
        return string(block, "tool_use_id") in ours
    if isinstance(kind, str) and kind in _CALLS and is_ours(string(block, "name") or "", block.get("input")):
        ours.add(string(block, "id") or "")
        return True
    return False


def _add_block(
    draft: _Draft, index: int, block: Mapping[str, Any], tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> None:
    kind, text = type_name(block.get("type")), string(block, "text") or ""
    if kind == "text" and draft.role == "user":
        draft.texts.append(human(_asked(text, junk), junk))
    elif kind == "text":
        draft.texts.append(answer(_without_thoughts(text, junk), junk))
    elif kind in _THINKING:
        left_out(len(string(block, "thinking") or text), "reasoning", junk)
    elif kind in _CALLS:
        draft.texts.append(call_line(string(block, "name") or "", block.get("input") or block.get("args")))
    elif kind in _RESULTS:
        result = output(_told(block), tool_chars, block.get("is_error") is True, junk)
        if result:
            draft.results.append((f"{draft.id}:{index}", result, None, "none", False))
    elif kind not in _NOISE:
        unknown[kind] += 1


def _told(block: Mapping[str, Any]) -> str:
    """The text of a result."""
    parts = (string(part, "text") or "" for part in _blocks(block.get("content")) if part.get("type") == "text")
    return "\n".join(filter(None, parts))


def _blocks(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [{"type": "text", "text": b} if isinstance(b, str) else b for b in content if isinstance(b, str | dict)]


def _without_thoughts(text: str, junk: Counter[str]) -> str:
    """An answer without the mark that stands at its end for a thought that was left out."""
    kept = text.rstrip()
    if kept.endswith(_REDACTED) and kept[: -len(_REDACTED)].rstrip(" \t")[-1:] in ("", "\n"):
        kept = kept.removesuffix(_REDACTED).rstrip()
        left_out(len(_REDACTED), "reasoning", junk)
    return kept


def _asked(text: str, junk: Counter[str]) -> str:
    """What a person typed: inside `<user_query>` where there is such a tag, else all but what the editor adds."""
    text = text.strip()
    queries = list(_queries(text)) if "<user_query>" in text else []
    kept = "\n".join(filter(None, queries)) if queries else _without_added(text)
    left_out(len(text) - len(kept), "host", junk)
    return kept


def _queries(text: str) -> Iterator[str]:
    """The insides of the outermost tags; one that is not closed goes to the end."""
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


def _without_added(text: str) -> str:
    """Without blocks in tags of the editor's. A tag that is not closed is text."""
    opened: dict[str, list[int]] = {}
    spans: list[tuple[int, int]] = []
    for match in _ADDED.finditer(text):
        if match["open"] is not None:
            opened.setdefault(match["name"], []).append(match.start())
        elif opened.get(match["closed"]):
            spans.append((opened[match["closed"]].pop(), match.end()))
    parts, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            parts.append(text[position:start])
        position = max(position, end)
    return "".join([*parts, text[position:]]).strip()


def _stamp(text: str) -> datetime | None:
    """The time that the editor writes before a prompt, in its own words."""
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
