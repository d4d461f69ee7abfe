"""The export of ChatGPT: one JSON list of conversations, or several lists in parts, or one conversation alone.

What is particular to the format:

- A conversation is a `mapping` of nodes that form a tree. It is read from `current_node` up: lists of children begin
  with the abandoned ones. Branches are those of `helix.sources.common.branches`.
- Each content type has its text in another field; of pictures and recordings only the speech is text.
- A tool call is a message of the assistant to another recipient than `all`, its result a message of role `tool`.
- Custom instructions, the site's own texts and hidden messages look like a person's: they are host context.
- Answers have marks in private-use characters for citations and links; the names among them stay.
- Many messages have no time: they get that of the nearest message before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from helix.sources.common.branches import Conversation, Message, build_sessions
from helix.sources.common.fields import get_mapping, get_objects, get_string, get_text, join_texts, pick_objects
from helix.sources.common.json_text import expand_json, load_values
from helix.sources.common.names import is_uuid, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import parse_time
from helix.sources.common.tools import TOOL_CHARS, format_call
from helix.types import Document, Parsed, Session, Turn

NAME = "chatgpt"
JSON = True
GROWS = False
ID = "conversation_id"

_REASONING: Final = frozenset({"thoughts", "reasoning_recap"})
_CONTEXT: Final = frozenset({"user_editable_context", "model_editable_context"})
_NOISE: Final = frozenset({"computer_output", "app_pairing_content", "super_widget_content"})
_NOISE_PART: Final = "_asset_pointer"  # ending of kinds of part without text

# Content type: the fields with its text. A field may be a text, or a list of texts and parts.
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
_FAILED: Final = "failed"  # beginning of the status of a run that raised

# `<U+E200>kind<U+E202>argument…<U+E201>`; the second form is one that was cut off.
_MARK: Final = re.compile(
    "(?P<space>[ \t]?)\ue200(?:(?P<kind>[a-z_]+)\ue202)?(?P<rest>[^\ue200\ue201]*)\ue201"
    "|[ \t]?\ue200[a-z_]+\ue202[^\\s\ue200\ue201]*"
    "|[\ue200-\ue206]"
)
_OLD_MARK: Final = re.compile(r"【[^【】\n]{0,100}†[^【】\n]{0,100}】")


def detect(sample: Sample) -> bool:
    """Return whether any value is a conversation as a mapping of nodes, or of a list next to the conversations."""
    whole = sample.value if isinstance(sample.value, list) else [sample.value]
    if any(_is_conversation(value) for value in (*whole, *sample.records)) or any(map(_is_account, whole)):
        return True
    # A list that was cut is not JSON. Inside another log's text the quotes would be escaped.
    is_broken = sample.value is None and sample.head.lstrip().startswith("[")
    return is_broken and all(name in sample.head for name in ('"mapping"', '"author"', '"content_type"'))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return the conversations in the export's order, each before its branches. A node's id is the turn's id.

    Raises:
        InputRefused: the document is no JSON.
    """
    cleaner = TextCleaner(tool_chars)
    sessions: list[Session] = []
    taken: dict[str, int] = {}
    for place, value in enumerate(load_values(document.text, cleaner.problems)):
        if not _is_conversation(value):
            cleaner.unknown["(no conversation)"] += not _is_account(value)
            continue
        title = get_text(value, "title").strip()
        nodes = value["mapping"].items()
        conversation = Conversation(
            id=find_id(value) or f"{name_session_of_path(document.path)}-{place}",
            messages={id: _read_node(id, node, cleaner) for id, node in nodes if isinstance(node, dict)},
            leaf=get_string(value, "current_node"),
            title=None if title == _UNTITLED else title or None,
            began=parse_time(value.get("create_time")),
        )
        sessions += build_sessions(NAME, conversation, taken, cleaner)
    return cleaner.build(sessions)


def find_id(value: object) -> str | None:
    """Return the id of a conversation, empty for one without; None for any other value."""
    return get_text(value, ID, "id") if _is_conversation(value) else None


def _is_conversation(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        return False
    nodes = pick_objects(value["mapping"].values())
    return "current_node" in value or any("message" in node and "parent" in node for node in nodes)


def _is_account(value: object) -> bool:
    """Return whether it is of the account, the feedback or the shared links: in an export, but no conversation."""
    if not isinstance(value, dict):
        return False
    return "chatgpt_plus_user" in value or (
        "conversation_id" in value and any(name in value for name in ("rating", "is_anonymous"))
    )


def _read_node(id: str, node: Mapping[str, Any], cleaner: TextCleaner) -> Message:
    parent, raw = get_string(node, "parent"), node.get("message")
    if not isinstance(raw, dict):
        return Message(id, parent)
    time = parse_time(raw.get("create_time"))
    role, origin, text = _read_message(raw, cleaner)
    if not text:
        return Message(id, parent, time)
    speaker = get_string(raw.get("author"), "name") if role == "user" else None
    turn = Turn(id=id, text=text, role=role, origin=origin, speaker=speaker, unique=is_uuid(id))
    return Message(id, parent, time, (turn,), is_prompt=origin == "human")


def _read_message(raw: Mapping[str, Any], cleaner: TextCleaner) -> tuple[str, str, str]:
    """Return role, origin and text of a turn; an empty text for no turn."""
    role, content = get_string(raw.get("author"), "role"), get_mapping(raw, "content")
    kind = get_string(content, "content_type") or "text"
    if kind not in _FIELDS and kind not in _NOISE:
        cleaner.count_unknown(kind)
    text = "\n".join(_list_texts(content, _FIELDS.get(kind, ()), cleaner)).strip()
    rule = _find_rule(raw, role, kind)
    if rule:
        cleaner.drop(rule, text)
        return "", "", ""
    if role == "assistant":
        recipient = get_string(raw, "recipient") or "all"
        if recipient != "all":
            return role, "assistant", cleaner.write_call(recipient, _read_arguments(text))
        return role, "assistant", cleaner.clean_answer(_strip_marks(text, cleaner))
    if role == "user":
        files = (get_string(file, "name") for file in get_objects(raw.get("metadata"), "attachments"))
        lines = [format_call("file", name) for name in files if name]
        return role, "human", join_texts([cleaner.clean_prompt(text), *lines])
    if role == "tool":
        status = get_text(get_mapping(raw, "metadata", "aggregate_result"), "status")
        failed = kind == "system_error" or status.startswith(_FAILED)
        return role, "tool", cleaner.clean_output(_strip_marks(text, cleaner), failed or None)
    cleaner.count_unknown(f"(role {role})" if role else "(no role)")
    return "", "", ""


def _find_rule(raw: Mapping[str, Any], role: str | None, kind: str) -> str:
    """Return the rule by which a message is no turn; an empty text for a turn."""
    is_to_all = raw.get("recipient") in (None, "", "all")
    if kind in _REASONING or (role == "assistant" and raw.get("channel") == "analysis" and is_to_all):
        return "reasoning"
    about = get_mapping(raw, "metadata")
    hidden = any(about.get(name) is True for name in ("is_visually_hidden_from_conversation", "is_user_system_message"))
    return "host" if hidden or role == "system" or kind in _CONTEXT else ""


def _list_texts(content: Mapping[str, Any], fields: tuple[str, ...], cleaner: TextCleaner) -> Iterator[str]:
    for name in fields:
        value = content.get(name)
        for part in value if isinstance(value, list) else [value]:
            text = part if isinstance(part, str) else _read_part(part, cleaner) if isinstance(part, dict) else ""
            if text:
                yield text


def _read_part(part: Mapping[str, Any], cleaner: TextCleaner) -> str:
    """Return the text of one part: a recording's speech, a thought; pictures have none."""
    text, kind = get_text(part, "text", "content", "result"), get_text(part, "content_type")
    if not text and kind and not kind.endswith(_NOISE_PART):
        cleaner.count_unknown(kind)
    return text


def _read_arguments(text: str) -> object:
    arguments = expand_json(text)
    if not isinstance(arguments, dict):
        return text
    return {name: value for name, value in arguments.items() if name != "response_length"}


def _strip_marks(text: str, cleaner: TextCleaner) -> str:
    if "\ue200" not in text and "†" not in text:
        return text
    return cleaner.cut(text, _OLD_MARK.sub("", _MARK.sub(_replace_mark, text)).strip(), "host")


def _replace_mark(match: re.Match[str]) -> str:
    """Return the visible text of a mark, after the space before it if that still separates two words."""
    label, after = _read_label(match["kind"], match["rest"] or ""), match.string[match.end() : match.end() + 1]
    return (match["space"] or "") + label if label or after.isalnum() else ""


def _read_label(kind: str | None, rest: str) -> str:
    """Return a name, or the label of a link; an empty text for a citation."""
    first = rest.partition("\ue202")[0]
    if kind == "url":
        return first
    if kind != "entity":
        return ""
    names = expand_json(first)
    if names is first:
        return first
    texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return texts[1] if len(texts) > 1 else ""  # the first is its kind
