"""Cursor chats: sessions of the editor's database, and the transcripts of its agent.

What is particular to the format:

- A session of the database is JSON with its messages ("bubbles") in order (`cursor_store`). A bubble is a piece of an
  answer: a text, one tool call with its result, or thinking. An answer is a text with the tool calls after it, named by
  its first bubble.
- Arguments and results of tools are JSON in a string, of another shape for every tool: of a result, its texts stay.
- Transcripts have a layout of their own (`cursor_transcript`).

Both contain the same chats: a store that ingests both has them twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from helix.sources.common.fields import get_string, get_text, name_type
from helix.sources.common.json_text import try_json
from helix.sources.common.names import is_uuid, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import make_sessions
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import complete_time, parse_time
from helix.sources.common.tools import TOOL_CHARS, is_own_call
from helix.sources.cursor_store import ASSISTANT, USER, collect, is_companion
from helix.sources.cursor_transcript import CursorDraft, build_turns, is_record, read_transcript, strip_additions
from helix.types import Document, Parsed, Session
from helix.util.workspaces import make_workspace

__all__ = ["GROWS", "JSON", "NAME", "collect", "detect", "is_companion", "parse"]

NAME = "cursor"
JSON = True
GROWS = True  # transcripts; the text of a session of the database is whole

_NO_TEXTS: Final = ("type", "status", "Type", "Id", "ID", "Uri")  # ends of names of fields without texts


def detect(sample: Sample) -> bool:
    """Return whether it is a session of the database, or any line a record of a transcript."""
    for value in (sample.value, *sample.records[:1]):
        if isinstance(value, dict) and "composerId" in value and isinstance(value.get("conversation"), list):
            return True
    return any(is_record(record) for record in sample.records)


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the session of a text of either kind."""
    cleaner = TextCleaner(tool_chars)
    value = try_json(document.text)
    if isinstance(value, dict) and isinstance(value.get("conversation"), list):
        return cleaner.build(_read_session(value, document, cleaner))
    folder, turns = read_transcript(document, cleaner)
    session = name_session_of_path(document.path)
    return cleaner.build(make_sessions(NAME, session, turns, workspace=make_workspace(folder)))


def _read_session(value: Mapping[str, Any], document: Document, cleaner: TextCleaner) -> tuple[Session, ...]:
    name = get_string(value, "composerId") or name_session_of_path(document.path)
    drafts = _draft_turns(value["conversation"], parse_time(value.get("createdAt")), cleaner)
    turns = build_turns(drafts, isinstance(value.get("subagentInfo"), dict))
    workspace = make_workspace(get_string(value, "folder"))
    return make_sessions(NAME, name, turns, workspace=workspace, title=get_string(value, "name"))


def _draft_turns(bubbles: Iterable[object], last: datetime | None, cleaner: TextCleaner) -> list[CursorDraft]:
    """Return the messages that bubbles make: an answer's text begins one, tool calls continue it."""
    ids: dict[str, int] = {}
    drafts: list[CursorDraft] = []
    for index, bubble in enumerate(bubbles):
        if not isinstance(bubble, dict):
            continue
        kind = bubble.get("type")
        if kind not in (USER, ASSISTANT):
            cleaner.unknown[f"bubble {name_type(str(kind) if isinstance(kind, int) else kind)}"] += 1
            continue
        thinking = bubble.get("thinking")
        cleaner.drop("reasoning", thinking if isinstance(thinking, str) else get_string(thinking, "text"))
        time, quality = complete_time(parse_time(bubble.get("createdAt")), last)
        last = time
        text = get_text(bubble, "text")
        is_user = kind == USER
        text = cleaner.clean_prompt(strip_additions(text, cleaner)) if is_user else cleaner.clean_answer(text)
        tool = bubble.get("toolFormerData") if not is_user else None
        if isinstance(tool, dict) and is_own_call(get_text(tool, "name"), _read_arguments(tool)):
            cleaner.drop("memory", _join_texts(tool.get("result")))
            tool = None
        if not text and not isinstance(tool, dict):
            continue
        name = get_string(bubble, "bubbleId")
        role = "user" if is_user else "assistant"
        draft = CursorDraft(make_unique(name or str(index), ids), role, time, quality, is_uuid(name))
        continues = not text and bool(drafts) and drafts[-1].role == "assistant"
        if not continues:
            drafts.append(draft)
        drafts[-1].texts.append(text)
        if isinstance(tool, dict):
            drafts[-1].texts.append(cleaner.write_call(get_text(tool, "name"), _read_arguments(tool), draft.id))
            result = _read_result(tool, draft.id, cleaner)
            if result:
                # A bubble is a call and its result: the first one's id is that of the answer.
                id = draft.id if continues else make_unique(f"{draft.id}:tool", ids)
                drafts[-1].results.append((id, result, time, quality, draft.is_native))
    return drafts


def _read_arguments(tool: Mapping[str, Any]) -> object:
    """Return the arguments of a tool call, as the model wrote them or else as the editor did."""
    for name in ("rawArgs", "params"):
        value = tool.get(name)
        arguments = try_json(value) if isinstance(value, str) else value
        if isinstance(arguments, dict) and arguments:
            return arguments
        if isinstance(value, str) and value.strip() and arguments is None:  # JSON that was cut
            return value
    return None


def _read_result(tool: Mapping[str, Any], id: str, cleaner: TextCleaner) -> str:
    failed = tool.get("status") == "error"
    text = (_join_texts(tool.get("error")) if failed else "") or _join_texts(tool.get("result"))
    return cleaner.clean_output(text, failed or None, id)


def _join_texts(value: object) -> str:
    """Return all the texts in JSON of any shape, in order, without ids, addresses and names of types."""
    if isinstance(value, str):
        inner = try_json(value)
        value = value if inner is None and value.strip() != "null" else inner
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
