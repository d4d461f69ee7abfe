"""Codex CLI logs, called rollouts: one JSON record a line, `{timestamp, type, payload}`.

What makes them hard, and what is done about it:

- Most of what is said stands in the log twice: as `response_item` (what the model saw) and as `event_msg` (what the
  screen showed), in either order. Items are taken. Events are taken only in a log without any message item; they are
  held until what follows shows that there is none, so that no turn of a log that grows is taken back.
- The host speaks as `user`: environment, AGENTS.md, skills, notices. That is cut off, and what a person typed kept.
- One answer of the model is a message item and the items of its tool calls. Calls join the message or call before
  them until anything else speaks. So only the last turn of a log can still grow, and its id is that of its first
  record, whatever follows.
- A fork opens with its own `session_meta` and then copies its parent's log, `session_meta` included, all stamped with
  the time of copying. The copy is left out: the parent's log has it. It ends at the fork's own `session_meta` again,
  at a turn whose id (a UUIDv7) or start is not before the fork, or, where no turn start is logged, where more than
  a second passes: a copy is written at once, a person takes longer.
- `thread_rolled_back` takes the last prompts back, with what followed them. They are dropped.
- After `compacted` the history is embedded again (`replacement_history`); only the summary is new.
- Until September 2025 there was no envelope: a header, then bare items without times, the folder only in the
  environment context. The oldest logs that went on from another one copied it without a mark; those copies stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    file_stem,
    folder_name,
    json_records,
    load_json,
    one_line,
    parse_epoch,
    session_of_path,
    string,
    unique,
)
from helix.sources.common.tools import TOOL_CHARS, call_line, is_ours
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "codex"
JSON = True
GROWS = True

_ENVELOPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_NOISE: Final = frozenset({"state", "world_state", "inter_agent_communication_metadata", "rollout_reference"})
_ITEM_NOISE: Final = frozenset(
    {
        "additional_tools",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "context_compaction",
        "ghost_snapshot",
        "other",
    }
)
_TURN_STARTS: Final = frozenset({"task_started", "turn_started"})
_TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
_TROUBLE: Final = frozenset({"error", "warning", "stream_error", "guardian_warning", "deprecation_notice"})
# What items say better, what the screen shows, what is counted.
_EVENT_NOISE: Final = frozenset(
    {
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "background_event",
        "context_compacted",
        "entered_review_mode",
        "exited_review_mode",
        "guardian_assessment",
        "item_completed",
        "item_started",
        "plan_update",
        "sub_agent_activity",
        "thread_goal_updated",
        "thread_settings_applied",
        "token_count",
        "turn_diff",
        "undo_completed",
        "undo_started",
        "view_image_tool_call",
        *_TURN_STARTS,
        *_TURN_ENDS,
    }
)
_EVENT_NOISE_ENDS: Final = ("_begin", "_end", "_delta", "_request", "_response")

_CONTEXT_TAG: Final = (
    r"environment_context|user_instructions|instructions|permissions instructions|collaboration_mode|multi_agent_mode"
    r"|apps_instructions|plugins_instructions|skills_instructions|recommended_plugins|skill|model_switch"
    r"|personality_spec|turn_aborted|subagent_notification|additional_context|goal_context|codex_internal_context"
    r"|hook_prompt|user_action|realtime_conversation|realtime_delegation"
)
_CONTEXT: Final = re.compile(
    rf"\s*(?:<(?P<tag>{_CONTEXT_TAG})(?:\s[^>\n]{{0,500}})?>|# AGENTS\.md instructions)", re.IGNORECASE
)
_AGENTS_MD_TAG: Final = "INSTRUCTIONS"
_NOTICES: Final = (
    "Warning: apply_patch was requested via exec_command",
    "Warning: The maximum number of unified exec processes",
)
_IMAGE_TAG: Final = re.compile(r"</?image\b[^>\n]{0,500}>")
_REQUEST: Final = "\n## My request for Codex:"  # what an editor or the desktop adds stands before it
_EDITOR_CONTEXT: Final = "# Context from my IDE setup:"
_SHELL_TAG: Final = "<user_shell_command>"
_FOLDER: Final = re.compile(r"<cwd>(?P<new>[^<\n]{1,500})</cwd>|Current working directory: (?P<old>[^\n]{1,500})")
_SUMMARY_OPENS: Final = "Another language model started to solve this problem"  # instructions, up to the line's end
_CITATION: Final = ("<oai-mem-citation>", "</oai-mem-citation>")
_PATCH_OPENS: Final = "*** Begin Patch"
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,500})$")
_SHELL_FLAGS: Final = frozenset({"-c", "-lc", "-Command", "/c"})

# What the shell tools put before what a command printed.
_OUTPUT_HEAD: Final = re.compile(
    r"(?:(?:Chunk ID: |Wall time: |Exit code: |Process exited with code |Process running with session ID "
    r"|Original token count: |Total output lines: |Duration: )[^\n]{0,200}\n)+Output:(?:\n|$)"
)
_EXIT_CODE: Final = re.compile(r"(?:Exit code: |exited with code )(-?\d+)")
_PART_TYPES: Final = frozenset({"text", "input_text", "output_text", "image", "input_image"})
_RESULT_FIELDS: Final = frozenset({"content", "isError", "is_error", "structuredContent", "_meta"})
_MAX_WRAPPINGS: Final = 4  # of one tool result

_GAP: Final = timedelta(seconds=1)  # between records: a copied history is written faster
_UUID_AT_END: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
_HELPERS: Final = frozenset({"guardian", "memory_consolidation"})  # Codex talking to itself about other sessions


@dataclass(slots=True)
class _Draft:
    """A turn; one of the assistant may still grow."""

    id: str
    role: str
    origin: str
    time: datetime | None
    parts: list[str]
    parent: str | None = None


@dataclass(slots=True)
class _Log:
    """What is known at a line of the log."""

    tool_chars: int
    id: str | None = None
    project: str | None = None
    title: str | None = None
    began: datetime | None = None
    forked: datetime | None = None  # when the session was made: no turn of its own is older
    subagent: bool = False
    helper: bool = False
    drafts: list[_Draft] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)  # how many drafts there were before each prompt
    names: dict[str, int] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)  # call id → turn that made the call
    ours: set[str] = field(default_factory=set)  # ids of calls that asked Helix itself
    open: _Draft | None = None  # the turn that tool calls join
    copying: bool = False  # inside the copy of a parent's log
    starts: bool = False  # the copy logs when turns start
    before: datetime | None = None  # time of the record before
    voice: str = ""  # who tells what is said: items, events, or not known yet
    held: list[tuple[int, str, str, datetime | None]] = field(default_factory=list)  # events, while that is not known
    junk: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


def detect(sample: Sample) -> bool:
    """Whether any line is a record of Codex, with or without its envelope."""
    return any(_is_record(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """The session of one log, without what it copies from the log it was forked from.

    `tool_chars`: characters kept of one tool result, half from each end.
    """
    problems: list[Problem] = []
    log = _Log(tool_chars)
    for line, raw in json_records(document.text, problems):
        _take(log, line, raw)
    return Parsed(_sessions(log, document.path), tuple(problems), log.unknown, log.junk)


# ---------------------------------------------------------------- records


def _is_record(raw: Mapping[str, Any]) -> bool:
    kind = raw.get("type")
    if "payload" in raw:
        return isinstance(kind, str) and kind in _ENVELOPES | _NOISE and isinstance(raw["payload"], dict)
    if kind is None:
        return _is_header(raw) or raw.get("record_type") == "state"
    if kind == "message":
        content = raw.get("content")
        parts = content if isinstance(content, list) else []
        return any(isinstance(part, dict) and part.get("type") in ("input_text", "output_text") for part in parts)
    return kind in ("function_call", "function_call_output", "local_shell_call") and "call_id" in raw


def _is_header(raw: Mapping[str, Any]) -> bool:
    """Whether it is the first line of a log from before the envelope."""
    return "type" not in raw and all(string(raw, name) for name in ("id", "timestamp")) and "instructions" in raw


def _take(log: _Log, line: int, raw: Mapping[str, Any]) -> None:
    kind, payload = _opened(raw)
    time = moment(raw.get("timestamp")) or moment(raw.get("created_at"))
    if kind == "session_meta":
        _identify(log, payload, time)
    elif log.copying and not _is_own(log, kind, payload, time):
        left_out(sum(map(len, _texts(payload.get("content")))), "replay", log.junk)
    else:
        log.copying = False
        _read(log, line, kind, payload, time)
    log.before = time or log.before


def _opened(raw: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Type and payload of a record; a bare item is one of a `response_item`."""
    kind, payload = raw.get("type"), raw.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if _is_header(raw):
        return "session_meta", raw
    return ("state" if raw.get("record_type") == "state" else "response_item"), raw


def _read(log: _Log, line: int, kind: str, payload: Mapping[str, Any], time: datetime | None) -> None:
    if kind == "response_item":
        _item(log, line, payload, time)
    elif kind == "event_msg":
        _event(log, line, payload, time)
    elif kind == "turn_context":
        log.open = None
        log.project = log.project or folder_name(string(payload, "cwd") or "")
    elif kind == "compacted":
        _release(log)
        _summary(log, line, string(payload, "message") or "", time)
    elif kind == "inter_agent_communication":
        _add(log, line, payload, "assistant", "subagent", answer(string(payload, "content") or "", log.junk), time)
    elif kind not in _NOISE:
        log.unknown[type_name(kind)] += 1


# ---------------------------------------------------------------- whose session it is


def _identify(log: _Log, meta: Mapping[str, Any], time: datetime | None) -> None:
    """The first one says whose log this is; another one's begins a copy, the first one's again ends it."""
    name = string(meta, "id") or string(meta, "session_id")
    if log.id is not None:
        if name == log.id:
            log.copying = False
        elif name and not log.drafts:
            log.copying = True
        return
    log.id = name
    log.project = log.project or folder_name(string(meta, "cwd") or "")
    log.began = moment(meta.get("timestamp")) or time
    log.forked = _uuid_time(name or "") or log.began
    log.copying = string(meta, "forked_from_id") is not None
    source, thread = meta.get("source"), meta.get("thread_source")
    spawned = source.get("subagent", source.get("internal")) if isinstance(source, dict) else None
    name_of = spawned.get("other") if isinstance(spawned, dict) else spawned
    log.subagent = spawned is not None or thread == "subagent"
    log.helper = any(isinstance(which, str) and which in _HELPERS for which in (name_of, thread))


def _is_own(log: _Log, kind: str, payload: Mapping[str, Any], time: datetime | None) -> bool:
    """Whether a record that follows a copy is the fork's own, and the copy at its end."""
    starts = kind == "event_msg" and string(payload, "type") in _TURN_STARTS
    if starts or kind == "turn_context":
        began = _uuid_time(string(payload, "turn_id") or "") or (moment(payload.get("started_at")) if starts else None)
        if began is not None and log.forked is not None:
            log.starts = log.starts or starts
            return began > log.forked - _GAP  # starts are in whole seconds
    return not log.starts and time is not None and log.before is not None and time - log.before > _GAP


def _uuid_time(name: str) -> datetime | None:
    """When a UUIDv7 was made; None for anything else."""
    try:
        made = UUID(name)
    except ValueError:
        return None
    return parse_epoch(made.int >> 80) if made.version == 7 else None


# ---------------------------------------------------------------- items


def _item(log: _Log, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    kind = item.get("type") if "type" in item or "role" not in item else "message"
    if not isinstance(kind, str):
        log.unknown[type_name(kind)] += 1
    elif kind == "message":
        log.voice = "items"
        log.held.clear()
        _message(log, line, item, time)
    elif kind == "reasoning":
        texts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
        left_out(sum(map(len, texts)), "reasoning", log.junk)
    elif kind == "agent_message":
        said = answer("\n".join(_texts(item.get("content"))), log.junk)
        _add(log, line, item, "assistant", "subagent", said, time)
    elif kind.endswith(("_output", "_result")):
        _release(log)
        _output(log, line, item, time)
    elif kind.endswith("_call"):
        _release(log)
        _call(log, line, kind, item, time)
    elif kind not in _ITEM_NOISE:
        log.unknown[type_name(kind)] += 1


def _message(log: _Log, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    role, content = item.get("role"), item.get("content", item.get("message"))
    texts = _texts(content)
    if role == "user":
        pictures = isinstance(content, list) and any(_type_of(part) == "input_image" for part in content)
        _prompt(log, line, item, texts, pictures, time)
    elif role == "assistant":
        _answer(log, line, item, "\n".join(texts), time)
    elif role in ("developer", "system"):
        left_out(sum(map(len, texts)), "host", log.junk)
    else:
        log.unknown[f"message of {type_name(role)}"] += 1


def _prompt(
    log: _Log, line: int, item: Mapping[str, Any], texts: list[str], pictures: bool, time: datetime | None
) -> None:
    if log.project is None:
        log.project = _folder(texts)
    if texts and texts[0].startswith(_SUMMARY_OPENS):
        _summary(log, line, "\n".join(texts), time)
        return
    shell = [text for text in texts if text.lstrip().startswith(_SHELL_TAG)]
    text = human("\n".join(filter(None, (_typed(text, log.junk) for text in texts))), log.junk)
    if (text or pictures) and not shell:  # a command a person ran is no prompt: nobody answers it
        log.prompts.append(len(log.drafts))
    _add(log, line, item, "user", "human", text, time)


def _answer(log: _Log, line: int, item: Mapping[str, Any], text: str, time: datetime | None) -> None:
    forwarded = _forwarded(text)
    if forwarded is not None:
        _add(log, line, item, "assistant", "subagent", answer(forwarded, log.junk), time)
        return
    own = _without(text, *_CITATION)
    left_out(len(text) - len(own), "host", log.junk)
    log.open = _add(log, line, item, "assistant", "assistant", answer(own, log.junk), time) or log.open


def _call(log: _Log, line: int, kind: str, item: Mapping[str, Any], time: datetime | None) -> None:
    """A line of the turn that is open, else a turn of its own, named by the call."""
    name, call_id = _tool_name(kind, item), string(item, "call_id")
    given = next((item[n] for n in ("arguments", "input", "action", "revised_prompt") if item.get(n) is not None), None)
    if is_ours(name, _given(given)):
        log.ours.add(call_id or "")
        return
    said = answer(call_line(name, _given(given)), log.junk)
    if log.open is None:
        log.open = _add(log, line, {"id": call_id or item.get("id")}, "assistant", "assistant", said, time)
    elif said:
        log.open.parts.append(said)
    if call_id is not None and log.open is not None:
        log.calls[call_id] = log.open.id


def _output(log: _Log, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    call_id = string(item, "call_id")
    text, failed = _result(item.get("output", item.get("result")))
    if call_id in log.ours:
        left_out(len(text), "memory", log.junk)
        return
    said = output(text, log.tool_chars, failed, log.junk)
    log.open = None
    named = {"id": f"{call_id}:output" if call_id else None}
    _add(log, line, named, "tool", "tool", said, time, log.calls.get(call_id or ""))


def _summary(log: _Log, line: int, text: str, time: datetime | None) -> None:
    """What a model wrote of a history that got too long."""
    if text.startswith(_SUMMARY_OPENS):
        instructions, _, text = text.partition("\n")
        left_out(len(instructions), "host", log.junk)
    _add(log, line, {}, "assistant", "summary", answer(text, log.junk), time)


def _add(
    log: _Log,
    line: int,
    item: Mapping[str, Any],
    role: str,
    origin: str,
    text: str,
    time: datetime | None,
    parent: str | None = None,
) -> _Draft | None:
    """A new turn, named by the item's own id, else by its line. It ends the one before."""
    if not text:
        return None
    log.open = None
    draft = _Draft(unique(string(item, "id") or str(line), log.names), role, origin, time, [text], parent)
    log.drafts.append(draft)
    return draft


# ---------------------------------------------------------------- events


def _event(log: _Log, line: int, event: Mapping[str, Any], time: datetime | None) -> None:
    kind = event.get("type")
    if not isinstance(kind, str):
        log.unknown[f"event_msg of {type_name(kind)}"] += 1
        return
    if kind in _TURN_STARTS or kind in _TURN_ENDS:
        log.open = None
    if kind in _TURN_ENDS or kind == "thread_rolled_back":
        _release(log)
    if kind in ("user_message", "agent_message"):
        _shown(log, line, kind, string(event, "message") or "", time)
    elif kind == "thread_rolled_back":
        _roll_back(log, event.get("num_turns"))
    elif kind == "thread_name_updated":
        log.title = string(event, "thread_name") or log.title
    elif kind in _TROUBLE:
        left_out(len(string(event, "message") or ""), "telemetry", log.junk)
    elif kind not in _EVENT_NOISE and not kind.endswith(_EVENT_NOISE_ENDS):
        log.unknown[f"event_msg of {type_name(kind)}"] += 1


def _shown(log: _Log, line: int, kind: str, text: str, time: datetime | None) -> None:
    """What the screen showed. Only where no item says it is it a turn."""
    if log.voice == "items":
        return
    log.held.append((line, kind, text, time))
    if log.voice == "events" or len(log.held) > 1:
        _release(log)


def _release(log: _Log) -> None:
    """Take the events that were held: another one, a tool call or the turn's end came before any message item."""
    if not log.held:
        return
    log.voice = "events"
    held, log.held = log.held, []
    for line, kind, text, time in held:
        if kind == "user_message":
            _prompt(log, line, {}, [text], False, time)
        else:
            _answer(log, line, {}, text, time)


def _roll_back(log: _Log, turns: object) -> None:
    """Drop the last prompts and what followed them."""
    if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0 and log.prompts:
        first = max(len(log.prompts) - turns, 0)
        del log.drafts[log.prompts[first] :]
        del log.prompts[first:]
        log.open = None
        log.calls.clear()


# ---------------------------------------------------------------- texts


def _texts(content: object) -> list[str]:
    """The texts of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [text for part in content if (text := part if isinstance(part, str) else _text_of(part))]


def _text_of(part: object) -> str:
    return (string(part, "text") or "") if isinstance(part, dict) else ""


def _type_of(part: object) -> str | None:
    return string(part, "type") if isinstance(part, dict) else None


def _typed(text: str, junk: Counter[str]) -> str:
    """What a person typed in one part of a prompt."""
    text = text.strip()
    if text.startswith(_SHELL_TAG):
        command = _between(text, "<command>", "</command>")
        kept = f"$ {command}" if command else ""
    elif _IMAGE_TAG.fullmatch(text) or text.startswith(_NOTICES):
        kept = ""
    else:
        kept = text[_behind_context(text) :].strip()
        if kept.startswith("# "):
            context, marker, request = kept.partition(_REQUEST)
            kept = request.strip() if marker else "" if kept.startswith(_EDITOR_CONTEXT) else context
    left_out(len(text) - len(kept), "host", junk)
    return kept


def _behind_context(text: str) -> int:
    """Where the blocks of context that open a text end."""
    at = 0
    while (opened := _CONTEXT.match(text, at)) is not None:
        close = f"</{opened['tag'] or _AGENTS_MD_TAG}>"
        if text.endswith(close):  # it may hold its own closing tag: skills are documents
            return len(text)
        closed = text.find(close, opened.end())
        if closed < 0:
            return at if opened["tag"] else len(text)
        at = closed + len(close)
    return at


def _folder(texts: Iterable[str]) -> str | None:
    """The project, as the environment context of a log without a folder in its header says it."""
    for text in texts:
        if text.lstrip().lower().startswith("<environment_context>"):
            found = _FOLDER.search(text)
            if found is not None:
                return folder_name((found["new"] or found["old"]).strip())
    return None


def _forwarded(text: str) -> str | None:
    """What another agent says, where the log keeps its message whole, as JSON, in the mouth of this one."""
    if not (text.startswith('{"author"') and '"recipient"' in text):
        return None
    try:
        message = load_json(text)
    except ValueError:
        return None
    return string(message, "content") if isinstance(message, dict) else None


def _between(text: str, open: str, close: str) -> str:
    return text.partition(open)[2].partition(close)[0].strip()


def _without(text: str, open: str, close: str) -> str:
    """`text` without what stands between two tags, and the tags. An unclosed one stays."""
    parts, at = [], 0
    while (begin := text.find(open, at)) >= 0 and (end := text.find(close, begin)) >= 0:
        parts.append(text[at:begin])
        at = end + len(close)
    return "".join([*parts, text[at:]]).strip() if parts else text


# ---------------------------------------------------------------- tools


def _tool_name(kind: str, item: Mapping[str, Any]) -> str:
    function = item.get("function")
    named = string(function, "name") if isinstance(function, dict) else None
    return string(item, "name") or named or kind.removesuffix("_call")


def _given(value: object) -> object:
    """The arguments of a call. Of a patch its files, of a command that a shell wraps the command."""
    if isinstance(value, str):
        if value.startswith(_PATCH_OPENS):
            return ", ".join(dict.fromkeys(_PATCHED.findall(value)))
        if not value.lstrip().startswith("{"):
            return value
        try:
            value = load_json(value)
        except ValueError:
            return value
    if not isinstance(value, dict):
        return value
    patch = string(value, "input")
    if patch is not None and patch.startswith(_PATCH_OPENS):
        return _given(patch)
    given = {name: field for name, field in value.items() if name != "type"}
    command = given.get("command")
    if isinstance(command, list) and len(command) > 2 and all(isinstance(word, str) for word in command):
        given["command"] = command[-1] if command[-2] in _SHELL_FLAGS else command
    return given


def _result(value: object, depth: int = _MAX_WRAPPINGS) -> tuple[str, bool]:
    """Text of a tool's result, and whether it failed. It may be wrapped: a head, JSON in a string, a list of parts."""
    if isinstance(value, str):
        head = _OUTPUT_HEAD.match(value)
        if head is not None and depth > 0:
            code = _EXIT_CODE.search(head[0])
            text, failed = _result(value[head.end() :], depth - 1)
            return text, failed or (code is not None and int(code[1]) != 0)
        inner = _wrapped(value) if depth > 0 else None
        return (value, False) if inner is None else _result(inner, depth - 1)
    if isinstance(value, list):
        return "\n".join(_texts(value)), False
    if not isinstance(value, dict) or depth <= 0:
        return "", False
    parts = [_result(value.get(name), depth - 1) for name in ("output", "content", "text", "stdout", "stderr")]
    text = "\n".join(text.strip("\n") for text, _ in parts if text.strip())
    return text, _failed(value) or any(failed for _, failed in parts)


def _failed(result: Mapping[str, Any]) -> bool:
    metadata = result.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    codes = (code, result.get("exit_code"), result.get("exitCode"))
    marked = result.get("success") is False or result.get("isError") is True or result.get("is_error") is True
    return marked or any(isinstance(code, int) and code != 0 for code in codes)


def _wrapped(text: str) -> object:
    """What a string holds as JSON, where that is a tool's result; None where the JSON is the result itself."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = load_json(text)
    except ValueError:
        return None
    if isinstance(value, list):
        return value if value and all(_type_of(part) in _PART_TYPES for part in value) else None
    if not isinstance(value, dict):
        return None
    shell = "output" in value and isinstance(value.get("metadata"), dict)
    return value if shell or (isinstance(value.get("content"), list) and value.keys() <= _RESULT_FIELDS) else None


# ---------------------------------------------------------------- sessions


def _sessions(log: _Log, path: str) -> tuple[Session, ...]:
    if log.helper:
        left_out(sum(len(part) for draft in log.drafts for part in draft.parts), "host", log.junk)
        return ()
    if not log.drafts:
        return ()
    prompts = ("\n".join(draft.parts) for draft in log.drafts if draft.role == "user")
    title = log.title or next(prompts, None)
    return (
        Session(
            source=NAME,
            id=log.id or _session_of_name(path),
            turns=tuple(_turn(log, draft) for draft in log.drafts),
            project=log.project,
            title=one_line(title, TITLE_CHARS) if title else None,
        ),
    )


def _session_of_name(path: str) -> str:
    """The id that a log without its first line has in its name."""
    found = _UUID_AT_END.search(file_stem(path))
    return found[0] if found else session_of_path(path)


def _turn(log: _Log, draft: _Draft) -> Turn:
    time = draft.time or log.began
    return Turn(
        id=draft.id,
        text="\n".join(draft.parts),
        role=draft.role,
        origin="subagent" if log.subagent and draft.origin != "summary" else draft.origin,
        time=time,
        time_quality="exact" if draft.time else "derived" if time else "none",
        parent=draft.parent,
    )
