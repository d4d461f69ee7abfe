"""What a collector takes out of a source that is no text: one JSON text a session, which its adapter then parses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from helix.sources.common.shared import load_json


class Collected(NamedTuple):
    """One session of a database or a folder of small files. The same state of it gives the same text."""

    name: str  # id of the session: tells the texts of one file apart
    text: str
    mtime: datetime | None  # of the session's last change, UTC


def canonical(value: object, instead: object = None) -> str:
    """JSON in the order given, without white space; `instead` of what cannot be written again: nested too deep."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return orjson.dumps(instead).decode()


def picked(value: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of `value` that are in `names` and say something, in their order there."""
    return {name: value[name] for name in names if value.get(name) is not None}


def loaded(value: object) -> Any:
    """A value from its JSON, as text or in bytes; None where it is none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    try:
        return load_json(value) if isinstance(value, str) else None
    except ValueError:
        return None


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}
