"""One session as JSON text, read from a database or a folder of small files for an adapter to parse."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import orjson


class SessionText(NamedTuple):
    """One session of a database or a folder of small files. The same state of it gives the same text."""

    name: str  # id of the session: tells the texts of one file apart
    text: str
    mtime: datetime | None  # of the session's last change, UTC


def dump_json(value: object, fallback: object = None) -> str:
    """Return compact JSON in the order given; that of `fallback` if the value is nested too deep."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return orjson.dumps(fallback).decode()
