"""The place in time of what has none: before everything with a time, in the order in which it came.

The last change of a file, or its ingest, is the latest moment at which an undated turn can have been said. As its time
it would make an old note the newest of all. So wherever time orders items, an undated one counts `SHIFT` earlier than
that moment. Such a number is never shown.
"""

from __future__ import annotations

from typing import Final

SHIFT: Final = 33_000_000_000
"""Seconds, 1,045 years: of a moment in this age the result is before EARLIEST. Times 2²⁸ it is an int64."""

EARLIEST: Final = -25_000_000_000
"""Seconds after 1970: in the year 1177. Earlier numbers are places of undated items."""


def place_undated(latest: int) -> int:
    """Return the place of an undated item in seconds.

    Args:
        latest: seconds after 1970, when it was said at the latest.
    """
    return latest - SHIFT


def is_undated(place: int) -> bool:
    """Return whether a number of seconds is the place of an undated item."""
    return place < EARLIEST
