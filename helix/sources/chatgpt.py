"""The export of ChatGPT: one JSON list of conversations, or several of them in parts, or one conversation alone.

What makes it hard, and what is done about it:

- A conversation is a `mapping` of nodes that form a tree. It is read from `current_node` up: children lists begin with
  what was abandoned. Branches are those of `helix.sources.common.branches`.
- Text lies in another field for each content type; of pictures and recordings only what was said in them is text.
- A call of a tool is a message of the assistant to another recipient than `all`, its answer a message of role `tool`.
- Custom instructions, what the site itself injects, and hidden messages look like a person's: they are host context.
- Answers carry marks in private-use characters for citations and links; the names among them are kept.
- Many messages have no time: they get that of the nearest message before them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from helix.sources.common.branches import Conversation, Message, sessions
from helix.sources.common.exports import items, mapping, values
from helix.sources.common.junk import answer, human, left_out, moment, output, type_name
from helix.sources.common.sample import Sample
from helix.sources.common.shared import is_uuid, load_json, session_of_path, string
from helix.sources.common.tools import TOOL_CHARS, call_line
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "chatgpt"
JSON = True
GROWS = False
ID = "conversation_id"

_REASONING: Final = frozenset({"thoughts", "reasoning_recap"})
_CONTEXT: Final = frozenset({"user_editable_context", "model_editable_context"})
_NOISE: Final = frozenset({"computer_output", "app_pairing_content", "super_widget_content"})
_NOISE_PART: Final = "_asset_pointer"  # what kinds of part end with that have no text

# Content type: the fields its text is in. A field may be a text, or a list of texts and parts.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("parts",),
    "multimodal_text": ("parts",),
    "code": ("text", "parts"),
    "execution_output": ("text",),
    "citable_code_output": ("output_str",),
    "tether_quote": ("title", "url", "text"),
    "tether_browsing_display": ("result", "summary"),
    "sonic_webpage": ("title", "url", "text"),
    "system_error": ("name", "text"),
    "thoughts": ("thoughts", "parts"),
    "reasoning_recap": ("content", "parts"),
    "user_editable_context": ("user_profile", "user_instructions"),
    "model_editable_context": ("model_set_context",),
}
_UNTITLED: Final = "New chat"
_FAILED: Final = "failed"  # what the status of a run that raised begins with

# `<U+E200>kind<U+E202>argument…<U+E201>`; the second form is one that was cut off.
_MARK: Final = re.compile(
    "(?P<space>[ \t]?)\ue200(?:(?P<kind>[a-z_]+)\ue202)?(?P<rest>[^\ue200\ue201]*)\ue201"
    "|[ \t]?\ue200[a-z_]+\ue202[^\\s\ue200\ue201]*"
    "|[\ue200-\ue206]"
)
_OLD_MARK: Final = re.compile(r"【[^【】\n]{0,100}†[^【】\n]{0,100}】")


def detect(sample: Sample) -> bool:
    """Whether any value is a conversation as a mapping of nodes, or a list that such an export has beside it."""
    whole = sample.value if isinstance(sample.value, list) else [sample.value]
    if any(_is_conversation(value) for value in (*whole, *sample.records)) or any(map(_is_beside, whole)):
        return True
    # A list that was cut is no JSON any more. Inside another log's text the quotes would be escaped.
    broken = sample.value is None and sample.head.lstrip().startswith("[")
    return broken and all(name in sample.head for name in ('"mapping"', '"author"', '"content_type"'))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Conversations in the export's order, the branches of each behind it. A node's id is the id of its turn.

    Raises:
        InputRefused: the document is no JSON.
    """
    problems: list[Problem] = []
    unknown: Counter[str] = Counter()
    junk: Counter[str] = Counter()
    found: list[Session] = []
    taken: dict[str, int] = {}
    for place, value in enumerate(values(document.text, problems)):
        if not _is_conversation(value):
            unknown["(no conversation)"] += not _is_beside(value)
            continue
        name = named(value) or f"{session_of_path(document.path)}-{place}"
        title = (string(value, "title") or "").strip()
        conversation = Conversation(
            id=name,
            messages={
                id: _message(id, node, tool_chars, unknown, junk)
                for id, node in value["mapping"].items()
                if isinstance(node, dict)
            },
            leaf=string(value, "current_node"),
            title=None if title == _UNTITLED else title or None,
            began=moment(value.get("create_time")),
        )
        found += sessions(NAME, conversation, taken, junk)
    return Parsed(tuple(found), tuple(problems), +unknown, junk)


def named(value: object) -> str | None:
    """The id of a conversation, empty where it has none; None for what is no conversation."""
    if not isinstance(value, dict) or not _is_conversation(value):
        return None
    return string(value, ID) or string(value, "id") or ""


def _is_conversation(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        return False
    nodes = (node for node in value["mapping"].values() if isinstance(node, dict))
    return "current_node" in value or any("message" in node and "parent" in node for node in nodes)


def _is_beside(value: object) -> bool:
    """Whether it is of the account, the feedback or the shared links: part of an export, and no conversation."""
    if not isinstance(value, dict):
        return False
    return "chatgpt_plus_user" in value or (
        "conversation_id" in value and any(name in value for name in ("rating", "is_anonymous"))
    )


def _message(id: str, node: Mapping[str, Any], tool_chars: int, unknown: Counter[str], junk: Counter[str]) -> Message:
    parent, raw = string(node, "parent"), node.get("message")
    if not isinstance(raw, dict):
        return Message(id, parent)
    time = moment(raw.get("create_time"))
    role, origin, text = _said(raw, tool_chars, unknown, junk)
    if not text:
        return Message(id, parent, time)
    author = mapping(raw, "author")
    speaker = string(author, "name") if role == "user" else None
    turn = Turn(id=id, text=text, role=role, origin=origin, speaker=speaker, unique=is_uuid(id))
    return Message(id, parent, time, (turn,), prompt=origin == "human")


def _said(raw: Mapping[str, Any], tool_chars: int, unknown: Counter[str], junk: Counter[str]) -> tuple[str, str, str]:
    """Role, origin and text of a turn; an empty text for what is none."""
    role, content = string(mapping(raw, "author"), "role"), mapping(raw, "content")
    kind = string(content, "content_type") or "text"
    if kind not in _FIELDS and kind not in _NOISE:
        unknown[type_name(kind)] += 1
    text = "\n".join(_texts(content, _FIELDS.get(kind, ()), unknown)).strip()
    rule = _left_out(raw, role, kind)
    if rule:
        left_out(len(text), rule, junk)
        return "", "", ""
    if role == "assistant":
        recipient = string(raw, "recipient") or "all"
        if recipient != "all":
            return role, "assistant", call_line(recipient, _given(text))
        return role, "assistant", answer(_without_marks(text, junk), junk)
    if role == "user":
        files = (call_line("file", name) for name in _attached(raw))
        return role, "human", "\n".join(filter(None, (human(text, junk), *files)))
    if role == "tool":
        return role, "tool", output(_without_marks(text, junk), tool_chars, _has_failed(raw, kind), junk)
    unknown[type_name(f"(role {role})" if role else "(no role)")] += 1
    return "", "", ""


def _left_out(raw: Mapping[str, Any], role: str | None, kind: str) -> str:
    """The rule by which a message is no turn; none for one that is."""
    if kind in _REASONING or (role == "assistant" and raw.get("channel") == "analysis" and _is_to_all(raw)):
        return "reasoning"
    about = mapping(raw, "metadata")
    hidden = any(about.get(name) is True for name in ("is_visually_hidden_from_conversation", "is_user_system_message"))
    return "host" if hidden or role == "system" or kind in _CONTEXT else ""


def _is_to_all(raw: Mapping[str, Any]) -> bool:
    return raw.get("recipient") in (None, "", "all")


def _texts(content: Mapping[str, Any], fields: tuple[str, ...], unknown: Counter[str]) -> Iterator[str]:
    for name in fields:
        value = content.get(name)
        for part in value if isinstance(value, list) else [value]:
            text = part if isinstance(part, str) else _part(part, unknown) if isinstance(part, dict) else ""
            if text:
                yield text


def _part(part: Mapping[str, Any], unknown: Counter[str]) -> str:
    """Text of one part: what was said in a recording, a thought; pictures have none."""
    text = next(filter(None, (string(part, name) for name in ("text", "content", "result"))), "")
    kind = string(part, "content_type") or ""
    if not text and kind and not kind.endswith(_NOISE_PART):
        unknown[type_name(kind)] += 1
    return text


def _given(text: str) -> object:
    """What a tool was called with."""
    try:
        given = load_json(text)
    except ValueError:
        return text
    if not isinstance(given, dict):
        return text
    return {name: value for name, value in given.items() if name != "response_length"}


def _has_failed(raw: Mapping[str, Any], kind: str) -> bool:
    run = mapping(mapping(raw, "metadata"), "aggregate_result")
    return kind == "system_error" or (string(run, "status") or "").startswith(_FAILED)


def _attached(raw: Mapping[str, Any]) -> Iterator[str]:
    """Names of the files a person attached."""
    for file in items(mapping(raw, "metadata"), "attachments"):
        name = string(file, "name") if isinstance(file, dict) else None
        if name:
            yield name


# ---------------------------------------------------------------- text


def _without_marks(text: str, junk: Counter[str]) -> str:
    if "\ue200" not in text and "†" not in text:
        return text
    kept = _OLD_MARK.sub("", _MARK.sub(_shown, text)).strip()
    left_out(len(text) - len(kept), "host", junk)
    return kept


def _shown(match: re.Match[str]) -> str:
    """What a reader sees in the place of a mark, with the space before it where that still parts two words."""
    label, after = _label(match["kind"], match["rest"] or ""), match.string[match.end() : match.end() + 1]
    return (match["space"] or "") + label if label or after.isalnum() else ""


def _label(kind: str | None, rest: str) -> str:
    """A name, the label of a link; nothing for a citation."""
    first = rest.partition("\ue202")[0]
    if kind == "url":
        return first
    if kind != "entity":
        return ""
    try:
        named = load_json(first)
    except ValueError:
        return first
    texts = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return texts[1] if len(texts) > 1 else ""  # the first says of what kind it is
