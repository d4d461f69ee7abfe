"""What the exports of chats have in common: one JSON document, of whose values any may be of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helix.errors import InputRefused
from helix.sources.common.shared import json_records, load_json
from helix.types import Problem


def values(text: str, problems: list[Problem]) -> list[Any]:
    """The values of a JSON list, the one value of another JSON document, or those of JSON lines.

    Raises:
        InputRefused: it is none of these.
    """
    try:
        value = load_json(text)
    except ValueError as error:
        if text.lstrip().startswith("{"):
            records = [record for _, record in json_records(text, problems)]
            if records:
                return records
        raise InputRefused(f"not valid JSON ({error})", "export it again: of a cut file nothing is taken") from None
    return value if isinstance(value, list) else [value]


def mapping(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is an object; an empty one for anything else."""
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def items(raw: Mapping[str, Any], name: str) -> list[Any]:
    """A field that is a list; an empty one for anything else."""
    value = raw.get(name)
    return value if isinstance(value, list) else []
