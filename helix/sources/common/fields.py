"""Typed access to parsed JSON, in which any field may be absent or of any type."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any


def get_string(raw: object, *names: str) -> str | None:
    """Return the first of these fields that is a text and not empty; None without one."""
    if isinstance(raw, dict):
        for name in names:
            value = raw.get(name)
            if isinstance(value, str) and value:
                return value
    return None


def get_text(raw: object, *names: str) -> str:
    """Return the first of these fields that is a text and not empty; an empty text without one."""
    return get_string(raw, *names) or ""


def get_flag(raw: object, name: str) -> bool | None:
    """Return a field that is true or false; None for anything else."""
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, bool) else None


def get_mapping(raw: object, *path: str) -> Mapping[str, Any]:
    """Return the object at the end of a path of fields; an empty one for anything else."""
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def get_list(raw: object, name: str) -> list[Any]:
    """Return a field that is a list; an empty one for anything else."""
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, list) else []


def get_objects(raw: object, name: str) -> list[dict[str, Any]]:
    """Return the objects of a field that is a list."""
    return pick_objects(get_list(raw, name))


def pick_objects(values: Iterable[object]) -> list[dict[str, Any]]:
    """Return the values that are JSON objects."""
    return [value for value in values if isinstance(value, dict)]


def walk_tree(root: object) -> Iterator[dict[str, Any]]:
    """Yield an object and the objects below it in `children`, depth first. The stack allows any depth."""
    stack = [root]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            yield at
            stack += reversed(get_list(at, "children"))


def pick_fields(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of these names that are not null, in the order of `names`."""
    return {name: value[name] for name in names if value.get(name) is not None}


def list_blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks of a message's content. A text is one block of type `text`."""
    values = content if isinstance(content, list) else [content] if isinstance(content, str) else []
    return [{"type": "text", "text": v} if isinstance(v, str) else v for v in values if isinstance(v, str | dict)]


def get_block_text(block: Mapping[str, Any]) -> str:
    """Return the text of a block of type `text`; an empty text for any other."""
    return get_text(block, "text") if block.get("type") == "text" else ""


def join_texts(texts: Iterable[str | None]) -> str:
    """Return the texts that are not empty, a line feed between them."""
    return "\n".join(filter(None, texts))


def name_type(value: object) -> str:
    """Return the name that an unknown record or part is counted under."""
    return value[:60] if isinstance(value, str) and value else "(no type)"


def is_type(value: object, types: Container[str]) -> bool:
    """Return whether a value is a text, and one of these types."""
    return isinstance(value, str) and value in types
