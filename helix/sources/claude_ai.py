"""The export of Claude.ai: one JSON list of conversations, each a list of messages, or one conversation alone.

What is particular to the format:

- A text is in `text`, in blocks, or in both. Blocks are read: in `text` a line replaces every other kind of block.
- An answer has tool calls and their results in one message: text and calls are one turn, each result is one.
- A long pasted text, or an attachment, is a document next to the message: a turn of its own, both ends of it.
- `parent_message_uuid` makes a tree of the messages; branches are those of `helix.sources.common.branches`. Older
  exports do not have it: there each message answers the one before it.

The export's other lists have the same format: documents in projects are turns, accounts and the site's own memory are
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from helix.sources.common.branches import Conversation, Message, build_sessions
from helix.sources.common.fields import (
    get_flag,
    get_list,
    get_mapping,
    get_objects,
    get_string,
    get_text,
    join_texts,
    name_type,
)
from helix.sources.common.json_text import load_values
from helix.sources.common.names import fold_line, is_uuid, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.sessions import complete_turn
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_iso
from helix.sources.common.tools import TOOL_CHARS, format_call
from helix.types import Document, Parsed, Session, Turn

NAME = "claude-ai"
JSON = True
GROWS = False
ID = "uuid"

DOCUMENT_CHARS: Final = 20_000
"""Characters retained of one attached document."""

_ROOT: Final = "00000000-0000-4000-8000-000000000000"  # parent of the first message
_TEXTS: Final = frozenset({"text", "voice_note"})
_TOOL_KINDS: Final = ("tool_use", "tool_result")
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_NOISE: Final = frozenset({"token_budget", "flag", "image", "document", "file"})
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_PLACEHOLDER: Final = re.compile(
    r"(?:```\n)?(?:This block is not supported on your current device yet\."
    r"|Viewing artifacts created via the Analysis Tool web feature preview isn[’']t yet supported on mobile\.)"
    r"(?:\n```)?"
)


def detect(sample: Sample) -> bool:
    """Return whether any value is a conversation as a list of messages, or of another list of such an export."""
    whole = sample.value if isinstance(sample.value, list) else [sample.value]
    if any(_is_conversation(value) for value in (*whole, *sample.records)):
        return True
    if any(_is_project(value) or _is_account(value) for value in whole):
        return True
    # A list that was cut is not JSON. Inside another log's text the quotes would be escaped.
    is_broken = sample.value is None and sample.head.lstrip().startswith("[")
    return is_broken and all(name in sample.head for name in ('"chat_messages"', '"uuid"'))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the conversations in the export's order, each before its branches; a session for each project.

    Raises:
        InputRefused: the document is no JSON.
    """
    cleaner = TextCleaner(tool_chars)
    sessions: list[Session] = []
    taken: dict[str, int] = {}
    for place, value in enumerate(load_values(document.text, cleaner.problems)):
        name = get_string(value, ID) or f"{name_session_of_path(document.path)}-{place}"
        if _is_conversation(value):
            sessions += build_sessions(NAME, _read_conversation(name, value, cleaner), taken, cleaner)
        elif _is_project(value):
            sessions += _read_project(name, value, taken, cleaner)
        else:
            cleaner.unknown["(no conversation)"] += not _is_account(value)
            # A model made the site's memory from conversations that are in the export.
            cleaner.drop("host", get_string(value, "conversations_memory"))
            memories = get_mapping(value, "project_memories").values()
            cleaner.drop("host", *(text for text in memories if isinstance(text, str)))
    return cleaner.build(sessions)


def find_id(value: object) -> str | None:
    """Return the id of a conversation or of a project, empty for one without; None for any other value."""
    return get_text(value, ID) if _is_conversation(value) or _is_project(value) else None


def _is_conversation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def _is_project(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("docs"), list)
        and any(name in value for name in ("prompt_template", "is_private", "is_starter_project"))
    )


def _is_account(value: object) -> bool:
    """Return whether it is of the accounts or of the site's memory: in an export, but no conversation."""
    return isinstance(value, dict) and (
        any(name in value for name in ("conversations_memory", "project_memories"))
        or all(name in value for name in ("uuid", "full_name", "email_address"))
    )


def _read_conversation(name: str, raw: Mapping[str, Any], cleaner: TextCleaner) -> Conversation:
    messages: dict[str, Message] = {}
    before: str | None = None
    ids = {get_string(message, "uuid") for message in raw["chat_messages"]} - {None}
    for place, message in enumerate(raw["chat_messages"]):
        id = get_string(message, "uuid") or str(place)
        if not isinstance(message, dict) or id in messages:
            continue
        parent = get_string(message, "parent_message_uuid")
        if parent == _ROOT:
            parent = None
        elif parent not in ids or parent == id:  # missing, or deleted
            parent = before
        turns = tuple(_read_turns(id, message, cleaner))
        is_prompt = any(turn.role in ("user", "document") for turn in turns)
        messages[id] = Message(id, parent, parse_iso(get_text(message, "created_at")), turns, is_prompt)
        before = id
    return Conversation(
        id=name,
        messages=messages,
        leaf=get_string(raw, "current_leaf_message_uuid"),
        title=get_text(raw, "name").strip() or None,
        project=get_string(raw.get("project"), "name"),
        began=parse_iso(get_text(raw, "created_at")),
    )


def _read_turns(id: str, raw: Mapping[str, Any], cleaner: TextCleaner) -> Iterator[Turn]:
    """Yield the turns of one message."""
    sender = get_string(raw, "sender")
    blocks = get_objects(raw, "content")
    for block in blocks:
        _count_block(block, cleaner)
    if sender == "human":
        yield from _read_prompt(id, raw, blocks, cleaner)
    elif sender == "assistant":
        yield from _read_answer(id, raw, blocks, cleaner)
    else:
        cleaner.count_unknown(f"(sender {sender})" if sender else "(no sender)")


def _read_prompt(id: str, raw: Mapping[str, Any], blocks: list[dict[str, Any]], cleaner: TextCleaner) -> Iterator[Turn]:
    """Yield the attachments, then the text about them."""
    names: list[str] = []
    for place, file in enumerate(get_list(raw, "attachments"), 1):
        turn = _read_document(f"{id}:{place}", file, "extracted_content", "file_name", is_uuid(id), cleaner)
        if turn:
            yield turn
        else:
            names += _list_names([file])
    names += _list_names(get_list(raw, "files"))
    text = join_texts(map(_get_text, blocks)) or get_text(raw, "text")
    text = join_texts((cleaner.clean_prompt(text), *(format_call("file", name) for name in names)))
    if text:
        yield Turn(id=id, text=text, role="user", origin="human", unique=is_uuid(id))


def _read_answer(id: str, raw: Mapping[str, Any], blocks: list[dict[str, Any]], cleaner: TextCleaner) -> Iterator[Turn]:
    """Yield the answer with a line for each tool call, then the results."""
    text = join_texts(_format_call(block, cleaner) or _clean_answer(_get_text(block), cleaner) for block in blocks)
    text = text or _clean_answer(get_text(raw, "text"), cleaner)
    if text:
        yield Turn(id=id, text=text, role="assistant", origin="assistant", unique=is_uuid(id))
    for place, block in enumerate(blocks, 1):
        result = _read_result(block, cleaner)
        if result:
            parent = id if text else None
            yield Turn(f"{id}:tool-{place}", result, "tool", "tool", parent=parent, unique=is_uuid(id))


def _count_block(block: Mapping[str, Any], cleaner: TextCleaner) -> None:
    kind = name_type(block.get("type"))
    if kind in _THOUGHTS:
        cleaner.drop("reasoning", get_string(block, "thinking", "text"))
    elif kind not in _TEXTS and kind not in _NOISE and not kind.endswith(_TOOL_KINDS):
        cleaner.count_unknown(kind)


def _get_text(block: Mapping[str, Any]) -> str:
    return get_text(block, "text") if get_string(block, "type") in _TEXTS else ""


def _clean_answer(text: str, cleaner: TextCleaner) -> str:
    """Return an answer without the lines that replace other blocks."""
    text = text.strip()
    kept = _PLACEHOLDER.sub("", text).strip()
    if len(kept) < len(text):
        kept = cleaner.cut(text, _BLANK_LINES.sub("\n\n", kept), "host")
    return cleaner.clean_answer(kept)


def _format_call(block: Mapping[str, Any], cleaner: TextCleaner) -> str:
    if not get_text(block, "type").endswith("tool_use"):
        return ""
    name, arguments = get_text(block, "name"), block.get("input")
    if name == "artifacts" and isinstance(arguments, dict):  # its command is `create` or `update`: no information
        arguments = " ".join(filter(None, (get_string(arguments, "command"), get_string(arguments, "title", "id"))))
    return cleaner.write_call(name, arguments, get_string(block, "id"))


def _read_result(block: Mapping[str, Any], cleaner: TextCleaner) -> str:
    if not get_text(block, "type").endswith("tool_result"):
        return ""
    content = block.get("content")
    parts = [content] if isinstance(content, str) else []
    for part in get_objects(block, "content"):  # a web page has a title and an address, too
        parts += filter(None, (get_string(part, name) for name in ("title", "url", "text")))
    return cleaner.clean_output("\n".join(parts), get_flag(block, "is_error"), get_string(block, "tool_use_id"))


def _list_names(files: Iterable[object]) -> list[str]:
    return [name for file in files if (name := get_string(file, "file_name"))]


def _read_project(name: str, raw: Mapping[str, Any], taken: dict[str, int], cleaner: TextCleaner) -> Iterator[Session]:
    """Yield the session of a project's documents; none for the site's own starter project."""
    if raw.get("is_starter_project") is True:
        return
    cleaner.drop("host", get_string(raw, "prompt_template"))
    began = parse_iso(get_text(raw, "created_at"))
    turns: dict[str, Turn] = {}
    for place, file in enumerate(raw["docs"]):
        id = get_string(file, "uuid") or str(place)
        turn = _read_document(id, file, "content", "filename", is_uuid(id), cleaner)
        if turn:
            turns.setdefault(id, complete_turn(replace(turn, time=parse_iso(get_text(file, "created_at"))), began))
    title = fold_line(get_text(raw, "name")) or None
    if turns:
        yield Session(NAME, make_unique(name, taken), tuple(turns.values()), project=title, title=title)


def _read_document(id: str, file: object, content: str, name: str, unique: bool, cleaner: TextCleaner) -> Turn | None:
    """Return the turn of a document; None without a text. `content`, `name`: fields of its text and name."""
    text = cleaner.shorten(cleaner.clean_answer(get_text(file, content)), DOCUMENT_CHARS)
    return Turn(id, text, "document", "document", title=get_string(file, name), unique=unique) if text else None
