"""Turns of a Codex log, from its items and events.

- One answer is a message item and the items of its tool calls. A call joins the message or call before it, until
  anything else follows. So only the last turn of a log can still grow, and its id is that of its first record.
- Events are held until the next record shows whether the log has message items. So a growing log never loses a turn
  that was read before.
- `thread_rolled_back` drops the last prompts and all that follows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from helix.sources import codex_prompts
from helix.sources.codex_tools import get_tool_name, read_arguments, read_result
from helix.sources.common.fields import get_list, get_string, get_text, join_texts, name_type
from helix.sources.common.names import make_unique
from helix.sources.common.sessions import complete_turn
from helix.sources.common.text_cleaner import TextCleaner
from helix.types import Turn
from helix.util.workspaces import Workspace, make_workspace

TURN_STARTS: Final = frozenset({"task_started", "turn_started"})
"""Events that begin a turn of the agent."""

_TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
_TROUBLE: Final = frozenset({"error", "warning", "stream_error", "guardian_warning", "deprecation_notice"})
_ITEM_NOISE: Final = frozenset(
    [
        *("additional_tools", "compaction", "compaction_summary", "compaction_trigger", "configuration_update"),
        *("context_compaction", "ghost_snapshot", "other"),
    ]
)
# Repetitions of items, screen states and counts.
_EVENT_NOISE: Final = frozenset(
    [
        *("agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break", "background_event"),
        *("context_compacted", "entered_review_mode", "exited_review_mode", "guardian_assessment", "item_completed"),
        *("item_started", "plan_update", "sub_agent_activity", "thread_goal_updated", "thread_settings_applied"),
        *("token_count", "turn_diff", "undo_completed", "undo_started", "view_image_tool_call"),
        *(*TURN_STARTS, *_TURN_ENDS),
    ]
)
_EVENT_NOISE_ENDS: Final = ("_begin", "_end", "_delta", "_request", "_response")


@dataclass(slots=True)
class CodexDraft:
    """A turn; one of the assistant may still grow."""

    id: str
    role: str
    origin: str
    time: datetime | None
    parts: list[str]
    parent: str | None = None


@dataclass(slots=True)
class CodexLog:
    """State of the reader at a line of the log."""

    cleaner: TextCleaner
    id: str | None = None
    workspace: Workspace | None = None
    title: str | None = None
    began: datetime | None = None
    forked: datetime | None = None  # start of the session: no turn of its own is older
    is_subagent: bool = False
    is_helper: bool = False
    drafts: list[CodexDraft] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)  # number of drafts before each prompt
    names: dict[str, int] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)  # call id → turn that made the call
    open: CodexDraft | None = None  # the turn that tool calls join
    is_copying: bool = False  # inside the copy of a parent's log
    copies_starts: bool = False  # the copy has the starts of turns
    last_time: datetime | None = None  # time of the record before
    voice: str = ""  # source of the turns: items, events, or not known yet
    held: list[tuple[int, str, str, datetime | None]] = field(default_factory=list)  # events, while it is not known


def build_turns(log: CodexLog) -> Iterator[Turn]:
    """Yield the turns of a log that is read."""
    for draft in log.drafts:
        text = "\n".join(draft.parts)
        turn = Turn(draft.id, text, draft.role, draft.origin, time=draft.time, parent=draft.parent)
        yield complete_turn(turn, log.began, log.is_subagent)


def add_turn(
    log: CodexLog,
    line: int,
    item: Mapping[str, Any],
    role: str,
    origin: str,
    text: str,
    time: datetime | None,
    parent: str | None = None,
) -> CodexDraft | None:
    """Add a turn, named by the item's own id, else by its line. It ends the turn before."""
    if not text:
        return None
    log.open = None
    draft = CodexDraft(make_unique(get_string(item, "id") or str(line), log.names), role, origin, time, [text], parent)
    log.drafts.append(draft)
    return draft


def add_summary(log: CodexLog, line: int, text: str, time: datetime | None) -> None:
    """Add a model's summary of a history that got too long, without the instructions above it."""
    if text.startswith(codex_prompts.SUMMARY_OPENS):
        instructions, _, text = text.partition("\n")
        log.cleaner.drop("host", instructions)
    add_turn(log, line, {}, "assistant", "summary", log.cleaner.clean_answer(text), time)


def read_item(log: CodexLog, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    """Read the payload of a `response_item`."""
    kind = item.get("type") if "type" in item or "role" not in item else "message"
    if not isinstance(kind, str):
        log.cleaner.count_unknown(kind)
    elif kind == "message":
        log.voice = "items"
        log.held.clear()
        _read_message(log, line, item, time)
    elif kind == "reasoning":
        log.cleaner.drop(
            "reasoning", *codex_prompts.list_texts(item.get("summary")), *codex_prompts.list_texts(item.get("content"))
        )
    elif kind == "agent_message":
        text = log.cleaner.clean_answer("\n".join(codex_prompts.list_texts(item.get("content"))))
        add_turn(log, line, item, "assistant", "subagent", text, time)
    elif kind.endswith(("_output", "_result")):
        release(log)
        _add_result(log, line, item, time)
    elif kind.endswith("_call"):
        release(log)
        _add_call(log, line, kind, item, time)
    elif kind not in _ITEM_NOISE:
        log.cleaner.count_unknown(kind)


def _read_message(log: CodexLog, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    role = item.get("role")
    texts = codex_prompts.list_texts(item.get("content", item.get("message")))
    if role == "user":
        parts = get_list(item, "content" if "content" in item else "message")
        has_pictures = any(get_string(part, "type") == "input_image" for part in parts)
        _add_prompt(log, line, item, texts, has_pictures, time)
    elif role == "assistant":
        _add_answer(log, line, item, "\n".join(texts), time)
    elif role in ("developer", "system"):
        log.cleaner.drop("host", *texts)
    else:
        log.cleaner.unknown[f"message of {name_type(role)}"] += 1


def _add_prompt(
    log: CodexLog, line: int, item: Mapping[str, Any], texts: list[str], has_pictures: bool, time: datetime | None
) -> None:
    if log.workspace is None and (folder := codex_prompts.find_folder(texts)):
        log.workspace = make_workspace(folder)
    if texts and texts[0].startswith(codex_prompts.SUMMARY_OPENS):
        add_summary(log, line, "\n".join(texts), time)
        return
    is_shell = any(text.lstrip().startswith(codex_prompts.SHELL_TAG) for text in texts)
    text = log.cleaner.clean_prompt(join_texts(codex_prompts.strip_context(text, log.cleaner) for text in texts))
    if (text or has_pictures) and not is_shell:  # a command that a person ran is no prompt: it has no answer
        log.prompts.append(len(log.drafts))
    add_turn(log, line, item, "user", "human", text, time)


def _add_answer(log: CodexLog, line: int, item: Mapping[str, Any], text: str, time: datetime | None) -> None:
    forwarded = codex_prompts.find_forwarded(text)
    if forwarded is not None:
        add_turn(log, line, item, "assistant", "subagent", log.cleaner.clean_answer(forwarded), time)
        return
    text = log.cleaner.clean_answer(log.cleaner.cut(text, codex_prompts.cut_citations(text), "host"))
    log.open = add_turn(log, line, item, "assistant", "assistant", text, time) or log.open


def _add_call(log: CodexLog, line: int, kind: str, item: Mapping[str, Any], time: datetime | None) -> None:
    """Add a line to the turn that is open; else a turn, named by the call."""
    id = get_string(item, "call_id")
    text = log.cleaner.format_call(get_tool_name(kind, item), read_arguments(item), id)
    if not text:
        return
    text = log.cleaner.clean_answer(text)
    if log.open is None:
        log.open = add_turn(log, line, {"id": id or item.get("id")}, "assistant", "assistant", text, time)
    elif text:
        log.open.parts.append(text)
    if id is not None and log.open is not None:
        log.calls[id] = log.open.id


def _add_result(log: CodexLog, line: int, item: Mapping[str, Any], time: datetime | None) -> None:
    id = get_string(item, "call_id")
    text, failed, code = read_result(item.get("output", item.get("result")))
    if id in log.cleaner.own_calls:
        log.cleaner.drop("memory", text)
        return
    text = log.cleaner.clean_output(text, failed, id, code)
    log.open = None
    add_turn(log, line, {"id": f"{id}:output" if id else None}, "tool", "tool", text, time, log.calls.get(id or ""))


def read_event(log: CodexLog, line: int, event: Mapping[str, Any], time: datetime | None) -> None:
    """Read the payload of an `event_msg`."""
    kind = event.get("type")
    if not isinstance(kind, str):
        log.cleaner.unknown[f"event_msg of {name_type(kind)}"] += 1
        return
    if kind in TURN_STARTS or kind in _TURN_ENDS:
        log.open = None
    if kind in _TURN_ENDS or kind == "thread_rolled_back":
        release(log)
    if kind in ("user_message", "agent_message"):
        _hold_event(log, line, kind, get_text(event, "message"), time)
    elif kind == "thread_rolled_back":
        _roll_back(log, event.get("num_turns"))
    elif kind == "thread_name_updated":
        log.title = get_string(event, "thread_name") or log.title
    elif kind in _TROUBLE:
        log.cleaner.drop("telemetry", get_string(event, "message"))
    elif kind not in _EVENT_NOISE and not kind.endswith(_EVENT_NOISE_ENDS):
        log.cleaner.unknown[f"event_msg of {name_type(kind)}"] += 1


def _hold_event(log: CodexLog, line: int, kind: str, text: str, time: datetime | None) -> None:
    """Hold the text of a screen event. It is a turn only in a log without message items."""
    if log.voice == "items":
        return
    log.held.append((line, kind, text, time))
    if log.voice == "events" or len(log.held) > 1:
        release(log)


def release(log: CodexLog) -> None:
    """Add the events that are held: another event, a tool call or the turn's end came before any message item."""
    if not log.held:
        return
    log.voice = "events"
    held, log.held = log.held, []
    for line, kind, text, time in held:
        if kind == "user_message":
            _add_prompt(log, line, {}, [text], False, time)
        else:
            _add_answer(log, line, {}, text, time)


def _roll_back(log: CodexLog, turns: object) -> None:
    """Drop the last prompts and all that follows them."""
    if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0 and log.prompts:
        first = max(len(log.prompts) - turns, 0)
        del log.drafts[log.prompts[first] :]
        del log.prompts[first:]
        log.open = None
        log.calls.clear()
