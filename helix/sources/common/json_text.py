"""JSON and JSON lines as text: values, records and their line numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from helix.errors import InputRefused
from helix.types import Problem


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, from 1.

    Only a line feed ends a line: U+2028 and form feeds are legal inside a JSON string.
    """
    start, number = 0, 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        yield number, text[start:end]
        start = end + 1


def load_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not one JSON value.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if "\\ud" not in text.lower():
            raise
    # Logs cut texts between the halves of a surrogate pair. Half an emoji is no reason to lose the line.
    try:
        return orjson.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def try_json(value: object) -> Any:
    """Return the value of a JSON text or of JSON in bytes; None for anything else."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    try:
        return load_json(value) if isinstance(value, str) else None
    except ValueError:
        return None


def expand_json(value: object) -> object:
    """Return the value of a JSON text; anything else as it is."""
    try:
        return load_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def load_document(text: str, remedy: str) -> Any:
    """Return the value of a document that is one JSON value.

    Raises:
        InputRefused: it is not, with this remedy.
    """
    try:
        return load_json(text)
    except ValueError as error:
        raise InputRefused(f"not valid JSON ({error})", remedy) from None


def load_values(text: str, problems: list[Problem]) -> list[Any]:
    """Return the values of a JSON list, the value of another JSON document, or the objects of JSON lines.

    Raises:
        InputRefused: it is none of these.
    """
    try:
        value = load_json(text)
    except ValueError as error:
        if text.lstrip().startswith("{"):
            records = [record for _, record in read_records(text, problems)]
            if records:
                return records
        raise InputRefused(f"not valid JSON ({error})", EXPORT_AGAIN) from None
    return value if isinstance(value, list) else [value]


EXPORT_AGAIN = "export it again: nothing is read from a cut file"
"""Remedy for an export that is not whole."""


def read_records(text: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON lines text with their line numbers; report other lines in `problems`."""
    for number, line in number_lines(text):
        if not line or line.isspace():
            continue
        try:
            value = load_json(line)
        except ValueError as error:
            problems.append(Problem(number, f"not valid JSON ({error}); repair or delete the line"))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            problems.append(Problem(number, "not a JSON object; one line must hold one {…}"))


def sample_records(head: str) -> list[dict[str, Any]]:
    """Return the objects among the lines of `head`; none for one JSON document over several lines."""
    head = head.strip()
    first = head.split("\n", 1)[0].rstrip()
    if not head.startswith("{") or (len(first) < len(head) and first.endswith(("{", "[", ","))):
        return []
    return [record for _, record in read_records(head, [])]


def looks_like_json(head: str) -> bool:
    """Return whether a text is JSON of some kind, rather than prose that begins with a bracket."""
    head = head.strip()
    if re.match(r"\{\s*(?:[\"}]|\Z)|\[\s*(?:[\[{\"]|\Z)", head):
        return True
    return isinstance(try_json(head), dict | list)
