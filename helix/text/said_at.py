"""The time at which a turn was said, as it is shown."""

from __future__ import annotations


def mark_time(time: str, quality: str | None) -> str:
    """Return a formatted time, with "by" before that of a file: the turn was said then at the latest.

    Args:
        time: may be empty.
        quality: `time_quality` of `helix.types.Turn`.
    """
    return f"by {time}" if time and quality == "file" else time
