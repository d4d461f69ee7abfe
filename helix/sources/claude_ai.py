"""The export of Claude.ai: one JSON list of conversations, each a list of messages, or one conversation alone.

What makes it hard, and what is done about it:

- The same text is in `text` and in blocks, or only in one of them. Blocks are read: in `text` every other block is
  replaced by a line that says it is not supported.
- An answer holds the calls of tools and their results in one message: the text and the calls are one turn, each result
  is one.
- What a person pastes at length, or attaches, becomes a text beside the message: a turn of its own, both ends of it.
- `parent_message_uuid` makes a tree of the messages; branches are those of `helix.sources.common.branches`. Older
exports do not have it: there each message answers the one before it.

The lists beside it are of the same format: documents that were put into projects are turns, accounts and what the site
itself remembers are not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from helix.sources.common.branches import Conversation, Message, sessions
from helix.sources.common.exports import items, mapping, values
from helix.sources.common.junk import answer, human, left_out, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import TITLE_CHARS, is_uuid, one_line, parse_iso, session_of_path, string, unique
from helix.sources.common.tools import TOOL_CHARS, both_ends, call_line
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "claude-ai"
JSON = True
GROWS = False
ID = "uuid"

DOCUMENT_CHARS: Final = 20_000  # characters kept of one attached document

_ROOT: Final = "00000000-0000-4000-8000-000000000000"  # parent of the first message
_SAID: Final = frozenset({"text", "voice_note"})
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
    """Whether any value is a conversation as a list of messages, or of a list that such an export has beside it."""
    whole = sample.value if isinstance(sample.value, list) else [sample.value]
    if any(_is_conversation(value) for value in (*whole, *sample.records)):
        return True
    if any(_is_project(value) or _is_beside(value) for value in whole):
        return True
    # A list that was cut is no JSON any more. Inside another log's text the quotes would be escaped.
    broken = sample.value is None and sample.head.lstrip().startswith("[")
    return broken and all(name in sample.head for name in ('"chat_messages"', '"uuid"'))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Conversations in the export's order, the branches of each behind it; a session for each project with documents.

    Raises:
        InputRefused: the document is no JSON.
    """
    problems: list[Problem] = []
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    found: list[Session] = []
    taken: dict[str, int] = {}
    for place, value in enumerate(values(document.text, problems)):
        name = _uuid(value) or f"{session_of_path(document.path)}-{place}"
        if _is_conversation(value):
            found += sessions(NAME, _conversation(name, value, tool_chars, unknown, junk), taken, junk)
        elif _is_project(value):
            found += _project(name, value, taken, junk)
        else:
            unknown["(no conversation)"] += not _is_beside(value)
            left_out(sum(map(len, _remembered(value))), "host", junk)
    return Parsed(tuple(found), tuple(problems), +unknown, junk)


def named(value: object) -> str | None:
    """The id of a conversation or of a project, empty where it has none; None for what is neither."""
    return (_uuid(value) or "") if _is_conversation(value) or _is_project(value) else None


def _uuid(value: object) -> str | None:
    return string(value, "uuid") if isinstance(value, dict) else None


def _is_conversation(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def _is_project(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("docs"), list)
        and any(name in value for name in ("prompt_template", "is_private", "is_starter_project"))
    )


def _is_beside(value: object) -> bool:
    """Whether it is of the accounts or of what the site remembers: part of an export, and no conversation."""
    return isinstance(value, dict) and (
        any(name in value for name in ("conversations_memory", "project_memories"))
        or all(name in value for name in ("uuid", "full_name", "email_address"))
    )


# ---------------------------------------------------------------- a conversation


def _conversation(
    name: str, raw: Mapping[str, Any], tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> Conversation:
    messages: dict[str, Message] = {}
    before: str | None = None
    given = [(place, message) for place, message in enumerate(raw["chat_messages"]) if isinstance(message, dict)]
    ids = {string(message, "uuid") for _, message in given} - {None}
    for place, message in given:
        id = string(message, "uuid") or str(place)
        if id in messages:
            continue
        parent = string(message, "parent_message_uuid")
        if parent == _ROOT:
            parent = None
        elif parent not in ids or parent == id:  # not named, or deleted
            parent = before
        turns = tuple(_turns(id, message, tool_chars, unknown, junk))
        human = any(turn.role in ("user", "document") for turn in turns)
        messages[id] = Message(id, parent, parse_iso(string(message, "created_at") or ""), turns, prompt=human)
        before = id
    return Conversation(
        id=name,
        messages=messages,
        leaf=string(raw, "current_leaf_message_uuid"),
        title=(string(raw, "name") or "").strip() or None,
        project=string(mapping(raw, "project"), "name"),
        began=parse_iso(string(raw, "created_at") or ""),
    )


def _turns(
    id: str, raw: Mapping[str, Any], tool_chars: int, unknown: Counter[str], junk: Counter[str]
) -> Iterator[Turn]:
    """The turns of one message."""
    sender = string(raw, "sender")
    blocks = [block for block in items(raw, "content") if isinstance(block, dict)]
    for block in blocks:
        _count(block, unknown, junk)
    if sender == "human":
        yield from _asked(id, raw, blocks, junk)
    elif sender == "assistant":
        yield from _answered(id, raw, blocks, tool_chars, junk)
    else:
        unknown[type_name(f"(sender {sender})" if sender else "(no sender)")] += 1


def _asked(id: str, raw: Mapping[str, Any], blocks: list[dict[str, Any]], junk: Counter[str]) -> Iterator[Turn]:
    """What was attached, then what a person said about it."""
    names: list[str] = []
    for place, file in enumerate(items(raw, "attachments"), 1):
        turn = _document(f"{id}:{place}", file, "extracted_content", "file_name", is_uuid(id), junk)
        if turn:
            yield turn
        else:
            names += _names([file])
    names += _names(items(raw, "files"))
    text = "\n".join(filter(None, map(_text, blocks))) or string(raw, "text") or ""
    text = "\n".join(filter(None, (human(text, junk), *(call_line("file", name) for name in names))))
    if text:
        yield Turn(id=id, text=text, role="user", origin="human", unique=is_uuid(id))


def _answered(
    id: str, raw: Mapping[str, Any], blocks: list[dict[str, Any]], tool_chars: int, junk: Counter[str]
) -> Iterator[Turn]:
    """The answer with a line for each call of a tool, then what each gave."""
    said = "\n".join(filter(None, (_tool_line(block) or _shown(_text(block), junk) for block in blocks)))
    said = said or _shown(string(raw, "text") or "", junk)
    if said:
        yield Turn(id=id, text=said, role="assistant", origin="assistant", unique=is_uuid(id))
    for place, block in enumerate(blocks, 1):
        result = _tool_result(block, tool_chars, junk)
        if result:
            parent = id if said else None
            yield Turn(f"{id}:tool-{place}", result, "tool", "tool", parent=parent, unique=is_uuid(id))


def _count(block: Mapping[str, Any], unknown: Counter[str], junk: Counter[str]) -> None:
    kind = type_name(block.get("type"))
    if kind in _THOUGHTS:
        left_out(len(string(block, "thinking") or string(block, "text") or ""), "reasoning", junk)
    elif kind not in _SAID and kind not in _NOISE and not kind.endswith(_TOOL_KINDS):
        unknown[kind] += 1


def _text(block: Mapping[str, Any]) -> str:
    return (string(block, "text") or "") if string(block, "type") in _SAID else ""


def _shown(text: str, junk: Counter[str]) -> str:
    """An answer without what stands in the place of other blocks."""
    text = text.strip()
    kept = _PLACEHOLDER.sub("", text).strip()
    if len(kept) < len(text):
        kept = _BLANK_LINES.sub("\n\n", kept)
        left_out(len(text) - len(kept), "host", junk)
    return answer(kept, junk)


def _tool_line(block: Mapping[str, Any]) -> str:
    if not _is_kind(block, "tool_use"):
        return ""
    name, given = string(block, "name") or "", block.get("input")
    if name == "artifacts" and isinstance(given, dict):  # its command is `create` or `update`: that tells nothing
        given = " ".join(filter(None, (string(given, "command"), string(given, "title") or string(given, "id"))))
    return call_line(name, given)


def _tool_result(block: Mapping[str, Any], tool_chars: int, junk: Counter[str]) -> str:
    if not _is_kind(block, "tool_result"):
        return ""
    content = block.get("content")
    parts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):  # a page that was found has a title and an address, too
            parts += filter(None, (string(part, name) for name in ("title", "url", "text")))
    return output("\n".join(parts), tool_chars, block.get("is_error") is True, junk)


def _is_kind(block: Mapping[str, Any], ending: str) -> bool:
    return (string(block, "type") or "").endswith(ending)


def _names(files: list[Any]) -> list[str]:
    found = (string(file, "file_name") for file in files if isinstance(file, dict))
    return [name for name in found if name]


# ---------------------------------------------------------------- what lies beside the conversations


def _project(name: str, raw: Mapping[str, Any], taken: dict[str, int], junk: Counter[str]) -> Iterator[Session]:
    """The documents that a person put into a project; those of the project that everybody is given go."""
    if raw.get("is_starter_project") is True:
        return
    left_out(len(string(raw, "prompt_template") or ""), "host", junk)
    began = parse_iso(string(raw, "created_at") or "")
    turns: dict[str, Turn] = {}
    for place, file in enumerate(raw["docs"]):
        id = _uuid(file) or str(place)
        turn = _document(id, file, "content", "filename", is_uuid(id), junk)
        if turn:
            time = parse_iso(string(file, "created_at") or "")
            quality = "exact" if time else "derived" if began else "none"
            turns.setdefault(id, replace(turn, time=time or began, time_quality=quality))
    title = one_line(string(raw, "name") or "", TITLE_CHARS) or None
    if turns:
        yield Session(NAME, unique(name, taken), tuple(turns.values()), project=title, title=title)


def _remembered(raw: object) -> Iterator[str]:
    """What the site says it remembers: made by a model, from conversations that are in the export."""
    if isinstance(raw, dict):
        yield string(raw, "conversations_memory") or ""
        yield from (text for text in mapping(raw, "project_memories").values() if isinstance(text, str))


def _document(id: str, file: object, content: str, name: str, unique: bool, junk: Counter[str]) -> Turn | None:
    """The turn of a document whose text and name are in the fields of these names; None where it has no text."""
    if not isinstance(file, dict):
        return None
    whole = answer(string(file, content) or "", junk)
    text = both_ends(whole, DOCUMENT_CHARS)
    left_out(len(whole) - len(text), "tool-output", junk)
    return Turn(id, text, "document", "document", title=string(file, name), unique=unique) if text else None
