"""Edits of a JSON text that keep everything else to the byte, as a person would edit it.

An edit replaces only the characters of its value. A new member or element becomes the last one, indented like its
neighbours; its removal restores the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

Path = Sequence[str | int]
"""Keys and positions from the root to a value."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_BLANKS: Final = re.compile(r"[ \t]*")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_DECODE: Final = json.JSONDecoder().raw_decode


class Entry(NamedTuple):
    """The place of an object's member or an array's element in the text."""

    name: str | int  # key, or position
    start: int  # of the key, or of the element
    value: int
    end: int


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON (with the line), or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except RecursionError:
        raise ValueError("nested too deep") from None


def parse_object(text: str) -> dict[str, Any]:
    """Return the object of a JSON text. Raise ValueError for any other value."""
    root = parse(text)
    if not isinstance(root, dict):
        raise ValueError("it holds no JSON object")
    return root


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a key twice")
    return members


def get_value(root: Any, path: Path) -> Any:
    """Return the value at a path."""
    for name in path:
        root = root[name]
    return root


def ensure_container(text: str, path: Path, empty: Any) -> str:
    """Return the text with a container of `empty`'s type at a path."""
    parent = get_value(parse(text), path[:-1])
    if path[-1] not in parent:
        return put(text, path, empty)
    if type(parent[path[-1]]) is not type(empty):
        raise ValueError(f"{'.'.join(map(str, path))} is no {type(empty).__name__}")
    return text


def put(text: str, path: Path, value: Any) -> str:
    """Return the text with `value` at `path`: in place of the old value, or as the last of its object or array.

    The path's parent must exist; an array's new element has the position after the last.
    """
    container, entries = _locate(text, path[:-1])
    for entry in entries:
        if entry.name == path[-1]:
            return text[: entry.value] + _format_value(text, value, _get_indent(text, entry.start)) + text[entry.end :]
    name = "" if isinstance(path[-1], int) else f"{json.dumps(path[-1], ensure_ascii=False)}: "
    end = container[1] - 1  # of its closing bracket
    if entries:
        last = entries[-1]
        if "\n" not in text[container[0] : entries[0].start]:  # all on one line
            return f"{text[: last.end]}, {name}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
        indent = _get_indent(text, entries[0].start)
        member = f"{name}{_format_value(text, value, indent)}"
        return f"{text[: last.end]},{_get_newline(text)}{indent}{member}{text[last.end :]}"
    outer = _get_indent(text, container[0])
    indent = outer + _get_unit(text)
    inside = f"{_get_newline(text)}{indent}{name}{_format_value(text, value, indent)}{_get_newline(text)}{outer}"
    return text[: container[0] + 1] + inside + text[end:]


def remove(text: str, path: Path) -> str:
    """Return the text without the value at `path`."""
    container, entries = _locate(text, path[:-1])
    at = next(i for i, entry in enumerate(entries) if entry.name == path[-1])
    if len(entries) == 1:
        return text[: container[0] + 1] + text[container[1] - 1 :]
    if at == len(entries) - 1:
        return text[: entries[at - 1].end] + text[entries[at].end :]
    return text[: entries[at].start] + text[entries[at + 1].start :]


def _locate(text: str, path: Path) -> tuple[tuple[int, int], list[Entry]]:
    """Return (the value's start and end, its entries)."""
    start = _skip_space(text, 0)
    end = _DECODE(text, start)[1]
    for name in path:
        entry = next(entry for entry in _iterate_entries(text, start) if entry.name == name)
        start, end = entry.value, entry.end
    return (start, end), list(_iterate_entries(text, start))


def _iterate_entries(text: str, start: int) -> Iterator[Entry]:
    """Yield the entries of the object or array at `start`."""
    is_object, at = text[start] == "{", _skip_space(text, start + 1)
    position = 0
    while text[at] not in "}]":
        begin, name = at, position
        if is_object:
            name, at = _DECODE(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)  # after the colon
        end = _DECODE(text, at)[1]
        yield Entry(name, begin, at, end)
        position += 1
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _get_indent(text: str, at: int) -> str:
    """Return the white space at the start of a place's line."""
    match = _BLANKS.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def _get_unit(text: str) -> str:
    """Return one step of the text's indentation."""
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _get_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _format_value(text: str, value: Any, indent: str) -> str:
    """Return a value in the text's style, its first line without indentation."""
    lines = json.dumps(value, indent=_get_unit(text), ensure_ascii=False)
    return lines.replace("\n", _get_newline(text) + indent)
