"""Times as a person says them: "3 hours ago", "yesterday", "10 months ago"."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((60, "minute"), (3_600, "hour"), (86_400, "day"), (7 * 86_400, "week"), (30.44 * 86_400, "month"))
_YEAR = 365.25 * 86_400


def format_age(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was; of one in the future, in how long it is."""
    seconds = (now - moment).total_seconds()
    days = (now.date() - moment.date()).days
    if days == 1 and seconds > 43_200:
        return "yesterday"
    text = _format_length(abs(seconds))
    if text == "now":
        return "now"
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def _format_length(seconds: float) -> str:
    """Return a length of time in its largest unit of which it has one and a half, or two of it."""
    if seconds < 45:
        return "now"
    units = [*_STEPS, (_YEAR, "year")]
    size, name = next(
        ((size, name) for size, name in reversed(units) if seconds >= size * (2 if name in ("week", "month") else 1)),
        units[0],
    )
    count = max(1, round(seconds / size))
    return f"{count} {name}{'s' * (count != 1)}"


def format_seconds(seconds: float | None) -> str:
    """Return a time to wait: "40 s", "3 min", "1 h 20 min"; empty if it is unknown."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
