"""Times as logs, file names and headings write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from helix.sources.common.names import get_file_name
from helix.types import Document

_DAY_IN_NAME: Final = re.compile(
    r"(?<!\d)(?P<day>\d{4}-\d{2}-\d{2})(?:[T_ ](?P<hour>\d{2})[-:.](?P<minute>\d{2})(?:[-:.](?P<second>\d{2}))?(?!\d))?"
)
_ISO: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}(?:[T ].*)?", re.DOTALL)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_FROM: Final = 1e9  # seconds: smaller numbers count from the start of a program
_MS_FROM: Final = 1e11  # larger numbers are milliseconds: as seconds they would be after the year 5000


def parse_time(value: object) -> datetime | None:
    """Return a time in ISO 8601 or since 1970 as aware UTC; None for anything else."""
    if isinstance(value, str):
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= _EPOCH_FROM:
        return parse_epoch(value)
    return None


def parse_iso(value: str) -> datetime | None:
    """Return an ISO 8601 date or time as aware UTC; a naive one is UTC. None: it is not one."""
    value = value.strip()
    if not _ISO.fullmatch(value):  # fromisoformat also reads week dates, which here would be a misreading
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_date_only(value: str) -> bool:
    """Return whether an ISO 8601 value gives a day without a time."""
    return len(value.strip()) <= len("2026-05-04")


def parse_epoch(value: float) -> datetime | None:
    """Return seconds or milliseconds since 1970 as aware UTC. None: out of range."""
    seconds = value / 1000 if abs(value) >= _MS_FROM else value
    return add_offset(_EPOCH, seconds)


def add_offset(base: datetime | None, seconds: float) -> datetime | None:
    """Return the time that many seconds after `base`. None: no base, or out of range."""
    try:
        return base + timedelta(seconds=seconds) if base else None
    except (ValueError, OverflowError):
        return None


def find_date_in_name(path: str) -> datetime | None:
    """Return the UTC date, and time if one follows, in a file name such as `2026-05-04 standup.vtt`."""
    for match in _DAY_IN_NAME.finditer(get_file_name(path)):
        clock = f"T{match['hour']}:{match['minute']}:{match['second'] or '00'}" if match["hour"] else ""
        found = parse_iso(match["day"] + clock) or parse_iso(match["day"])
        if found:
            return found
    return None


def date_document(document: Document, written: datetime | None = None) -> tuple[datetime | None, str]:
    """Return the time of a document and its quality: as written in it, in its name, or of its file."""
    found = written or find_date_in_name(document.path)
    if found:
        return found, "derived"
    return document.mtime, "file" if document.mtime else "none"


def complete_time(time: datetime | None, fallback: datetime | None) -> tuple[datetime | None, str]:
    """Return a turn's own time or else the fallback, and the quality of it."""
    return time or fallback, "exact" if time else "derived" if fallback else "none"
