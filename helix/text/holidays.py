"""Dates of holidays."""

from __future__ import annotations

from datetime import date, timedelta


def feast_day(name: str, year: int) -> date:
    """Return the day of a holiday, named in lower case without apostrophes."""
    if name.startswith("thanksgiving"):  # the fourth Thursday of November
        return date(year, 11, 22) + (3 - date(year, 11, 22).weekday()) % 7 * timedelta(days=1)
    if name.startswith("easter"):
        return _find_easter(year)
    if name.startswith("new year"):
        return date(year, 12, 31) if name.endswith("eve") else date(year, 1, 1)
    if name.startswith("valentine"):
        return date(year, 2, 14)
    if name.startswith("hal"):
        return date(year, 10, 31)
    return date(year, 12, 24 if name.endswith("eve") else 26 if name.startswith("boxing") else 25)


def _find_easter(year: int) -> date:
    """Compute Easter Sunday, Gregorian, by the anonymous algorithm (Meeus, Astronomical Algorithms, ch. 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    r = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * r) // 433
    month = (h + r - 7 * m + 90) // 25
    return date(year, month, (h + r - 7 * m + 33 * month + 19) % 32)
