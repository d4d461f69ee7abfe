"""Times in options and in questions: `2023-05-07`, `7d`, "on 7 May 2023", "in May", "yesterday", "last week"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from helix.errors import UsageError

DAY = timedelta(days=1)
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS = (
    re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<number>[01]\d)(?:-(?P<day>[0-3]\d))?\b"),
    re.compile(rf"\b{_DAY}(?: of)? (?P<month>{_MONTH})(?:,? {_YEAR})?\b", re.IGNORECASE),
    re.compile(rf"\b(?P<month>{_MONTH}) {_DAY}(?:,? {_YEAR})?\b", re.IGNORECASE),
    re.compile(rf"\b(?P<month>{_MONTH}),? {_YEAR}\b", re.IGNORECASE),
    re.compile(rf"\b(?:in|during|since|last|this) (?P<month>{_MONTH})\b", re.IGNORECASE),
)
_AGO = re.compile(r"^(\d+)\s*(m|h|d|w)$", re.IGNORECASE)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": DAY, "w": 7 * DAY}


def parse_time(value: str, now: datetime, name: str, *, end: bool = False) -> datetime:
    """A point in time from an option: ISO 8601, `7d` (also m, h, w) before now, `today`, `yesterday`.

    A date alone is its first second, with `end` its last. Times without a zone are UTC.

    Raises:
        UsageError: it is none of these.
    """
    text = value.strip()
    if ago := _AGO.match(text):
        return now - int(ago[1]) * _UNITS[ago[2].lower()]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("now", "today", "yesterday"):
        start = {"now": now, "today": midnight, "yesterday": midnight - DAY}[text.lower()]
        return start + DAY - timedelta(seconds=1) if end and text.lower() != "now" else start
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{name} {value!r} is no time", "give ISO 8601 (2023-05-07 or 2023-05-07T13:56:00Z) or an age like 7d"
        ) from None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return found + DAY - timedelta(seconds=1) if end and len(text) <= 10 else found


def spoken_days(text: str, now: datetime) -> tuple[tuple[int, int, float], ...]:
    """What a question says about time, as windows.

    Returns:
        (first second, last second, weight) each; a day weighs 1, its month .5, so that a near miss still counts.
    """
    windows: list[tuple[datetime, datetime, float]] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            windows.extend(_windows(match.groupdict(), now))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - midnight.weekday() * DAY
    first = midnight.replace(day=1)
    spoken = {
        "today": (midnight, midnight + DAY),
        "yesterday": (midnight - DAY, midnight),
        "this week": (monday, monday + 7 * DAY),
        "last week": (monday - 7 * DAY, monday),
        "this month": (first, midnight + DAY),
        "last month": ((first - DAY).replace(day=1), first),
    }
    lower = text.lower()
    windows.extend((a, b, 1.0) for phrase, (a, b) in spoken.items() if phrase in lower)
    return tuple((int(a.timestamp()), int(b.timestamp()) - 1, weight) for a, b, weight in windows)


def _windows(found: dict[str, str | None], now: datetime) -> list[tuple[datetime, datetime, float]]:
    number, spoken_day, spoken_year = found.get("number"), found.get("day"), found.get("year")
    month = int(number) if number else _month(found.get("month") or "")
    day = int(spoken_day) if spoken_day else None
    year = int(spoken_year) if spoken_year else None
    try:
        # Without a year it is the last such month that has begun.
        start = datetime(year or now.year, month, 1, tzinfo=UTC)
        if year is None and start > now:
            start = start.replace(year=start.year - 1)
        whole = (start, (start + 32 * DAY).replace(day=1), 0.5 if day else 1.0)
        if day is None:
            return [whole]
        at = start.replace(day=day)
    except ValueError:
        return []  # the 31st of February
    return [whole, (at, at + DAY, 1.0)]


def _month(name: str) -> int:
    return next(i for i, month in enumerate(_MONTHS, 1) if month.startswith(name.lower().rstrip(".")[:3]))
