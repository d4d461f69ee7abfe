"""Texts of Slack messages, as they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from helix.sources.common.fields import get_list, get_objects, get_string, get_text

_UNTEXTED: Final = frozenset({"actions", "input", "image", "divider", "video", "color"})  # blocks without text
_UNSHOWN: Final = "This content can't be displayed."  # the text of a message that has only blocks

_TS: Final = re.compile(r"\d{1,11}(?:\.\d{1,9})?")
_TAG: Final = re.compile(r"<([^<>\n]+)>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt);")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">"}
_BLANK: Final = re.compile(r"\n\s*\n")


def is_message(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a message with a time."""
    if not isinstance(value, dict) or value.get("type") != "message":
        return False
    return _TS.fullmatch(get_text(value, "ts")) is not None


def has_answers(message: Mapping[str, Any]) -> bool:
    """Return whether a message opens a thread."""
    count = message.get("reply_count")
    is_counted = isinstance(count, int) and count > 0
    return is_counted or message.get("answered") is True or bool(get_list(message, "replies"))


def list_files(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the files of a message."""
    for file in (*get_list(message, "files"), message.get("file")):
        if name := get_string(file, "name", "title"):
            yield name


def read_text(message: Mapping[str, Any], users: Mapping[str, str]) -> str:
    """Return the text of a message, of its blocks, or of its attachments, the first that there is."""
    text = _resolve(get_own_text(message), users).strip()
    return text or _read_blocks(message.get("blocks"), users) or "\n".join(_read_attachments(message, users)).strip()


def get_own_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, as written."""
    text = get_text(message, "text")
    return "" if text.strip() == _UNSHOWN else text


def _read_attachments(message: Mapping[str, Any], users: Mapping[str, str]) -> Iterator[str]:
    for attached in get_objects(message, "attachments"):
        texts = [get_string(attached, name) for name in ("pretext", "title", "text")]
        fields = get_objects(attached, "fields")
        texts += [": ".join(filter(None, (get_string(each, "title"), get_string(each, "value")))) for each in fields]
        for text in filter(None, texts if any(texts) else [get_string(attached, "fallback")]):
            yield _resolve(text, users)


def _read_blocks(blocks: object, users: Mapping[str, str]) -> str:
    """Return the text of blocks. Inner blocks go on a stack: they may be nested to any depth."""
    parts: list[str] = []
    stack = [blocks]
    while stack:
        at = stack.pop()
        if isinstance(at, list):
            stack += reversed(at)
        if not isinstance(at, dict) or get_string(at, "type") in _UNTEXTED:
            continue
        leaf = _read_leaf(at, users)
        parts.append("\n" if leaf is None else leaf)
        if leaf is None:  # a line of its own
            stack += [at.get("elements"), at.get("fields"), at.get("text")]
    return _BLANK.sub("\n", "".join(parts)).strip()


def _read_leaf(element: Mapping[str, Any], users: Mapping[str, str]) -> str | None:
    """Return the text that an element shows; None for one that contains others."""
    kind, text = get_text(element, "type"), get_string(element, "text")
    if kind == "user":
        return _resolve_tag(f"@{get_text(element, 'user_id')}", users)
    if kind == "channel":
        return f"#{get_text(element, 'channel_id')}"
    if kind == "broadcast":
        return f"@{get_text(element, 'range')}"
    if kind == "emoji":
        return f":{get_text(element, 'name')}:"
    if kind == "link":
        return _format_link(get_text(element, "url"), text or "")
    if kind == "text":
        return text or ""
    if text is None:
        return None
    return f"{_resolve(text, users) if kind in ('mrkdwn', 'markdown') else text}\n"


def _resolve(text: str, users: Mapping[str, str]) -> str:
    """Return a text as it is shown: tags first, as entities stand for characters that are no tag."""
    text = _TAG.sub(lambda match: _resolve_tag(match[1], users), text)
    return _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)


def _resolve_tag(inner: str, users: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    if target.startswith("@"):
        return f"@{users.get(target[1:]) or label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):  # here, a group, a date
        name = label.removeprefix("@") or target[1:].partition("^")[0]
        return name if target.startswith("!date") else f"@{name}"
    return _format_link(target, label) if ":" in target else f"<{inner}>"


def _format_link(url: str, label: str) -> str:
    if url.startswith(("mailto:", "tel:")):
        return label or url.partition(":")[2]
    return url if not label or label in url else f"{label} ({url})"
