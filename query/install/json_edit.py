"""Changing a JSON file as a person would: what is not meant stays as it is, to the byte.

A value is found by walking the text, and only its characters are replaced. A new member or element goes behind the
last one, indented as its neighbours are; to take it out again gives the text from before.
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
    """A member of an object or an element of an array: where it is in the text."""

    name: str | int  # key, or position
    start: int  # of the key, or of the element
    value: int
    end: int


def parse(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none, says which line, or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def put(text: str, path: Path, value: Any) -> str:
    """The text with `value` at `path`: in place of what is there, else as the last of its object or array.

    What the path leads through must be there; of an array, the position behind the last is the new one's.
    """
    container, entries = _at(text, path[:-1])
    for entry in entries:
        if entry.name == path[-1]:
            return text[: entry.value] + _written(text, value, _indent_at(text, entry.start)) + text[entry.end :]
    name = "" if isinstance(path[-1], int) else f"{json.dumps(path[-1], ensure_ascii=False)}: "
    end = container[1] - 1  # of its closing bracket
    if entries:
        last = entries[-1]
        if "\n" not in text[container[0] : entries[0].start]:  # all on one line
            return f"{text[: last.end]}, {name}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
        indent = _indent_at(text, entries[0].start)
        return f"{text[: last.end]},{_line(text)}{indent}{name}{_written(text, value, indent)}{text[last.end :]}"
    outer = _indent_at(text, container[0])
    indent = outer + _unit(text)
    inside = f"{_line(text)}{indent}{name}{_written(text, value, indent)}{_line(text)}{outer}"
    return text[: container[0] + 1] + inside + text[end:]


def remove(text: str, path: Path) -> str:
    """The text without what is at `path`."""
    container, entries = _at(text, path[:-1])
    at = next(i for i, entry in enumerate(entries) if entry.name == path[-1])
    if len(entries) == 1:
        return text[: container[0] + 1] + text[container[1] - 1 :]
    if at == len(entries) - 1:
        return text[: entries[at - 1].end] + text[entries[at].end :]
    return text[: entries[at].start] + text[entries[at + 1].start :]


def _at(text: str, path: Path) -> tuple[tuple[int, int], list[Entry]]:
    """(where the value at `path` starts and ends, what it holds)."""
    start = _skip(text, 0)
    end = _DECODE(text, start)[1]
    for name in path:
        entry = next(entry for entry in _entries(text, start) if entry.name == name)
        start, end = entry.value, entry.end
    return (start, end), list(_entries(text, start))


def _entries(text: str, start: int) -> Iterator[Entry]:
    """What an object or an array holds."""
    keyed, at = text[start] == "{", _skip(text, start + 1)
    position = 0
    while text[at] not in "}]":
        begin, name = at, position
        if keyed:
            name, at = _DECODE(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        end = _DECODE(text, at)[1]
        yield Entry(name, begin, at, end)
        position += 1
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _indent_at(text: str, at: int) -> str:
    """The white space that the line of this place begins with."""
    found = _BLANKS.match(text, text.rfind("\n", 0, at) + 1)
    return found[0] if found else ""


def _unit(text: str) -> str:
    """One step of the file's indentation."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _written(text: str, value: Any, indent: str) -> str:
    """A value in the style of the file, its first line without indentation."""
    said = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    return said.replace("\n", _line(text) + indent)
