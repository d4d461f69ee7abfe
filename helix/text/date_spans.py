"""Spans of days that a matched date form means, absolute or counted from a day."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from typing import Final

from helix.text.tense import read_tense

Span = tuple[date, date, str]
"""First day, last day, and the key in ISO 8601."""

_DAY: Final = timedelta(days=1)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Final = {"spring": 21, "summer": 22, "autumn": 23, "fall": 23, "winter": 24}
_NUMBERS: Final = {
    **{"a": 1, "an": 1, "last": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "four": 4, "five": 5, "six": 6},
    **{"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20},
    "thirty": 30,
}
_COUNTED: Final = re.compile(
    r" (?!(?:this|was|has|is|as|plus|us|its|does)\b)(?:[a-z]{2,20}s|ms|px|[kmg]i?b|people|percent)\b"
)
_NO_SPAN_BEFORE: Final = re.compile(
    r"(?:\b(?:time|times|once|twice|nobody|nothing|anything|anyone|not|never)|est|n['’]t(?: \w{1,15}){0,5}) \Z",
    re.IGNORECASE,
)


def make_day(day: date) -> Span:
    """Return a day."""
    return day, day, day.isoformat()


def make_week(day: date, *, weekend: bool = False) -> Span:
    """Return the ISO week of `day`, or its weekend under the same key."""
    monday = day - day.weekday() * _DAY
    year, week, _ = day.isocalendar()
    return monday + 5 * _DAY if weekend else monday, monday + 6 * _DAY, f"{year:04}-W{week:02}"


def make_month(year: int, month: int) -> Span:
    """Return a month; `month` may be outside 1–12 and then counts into the years around."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    first = date(year, month, 1)
    return first, (first + 31 * _DAY).replace(day=1) - _DAY, f"{year:04}-{month:02}"


def make_year(year: int) -> Span:
    """Return a year."""
    return date(year, 1, 1), date(year, 12, 31), f"{year:04}"


def _make_season(year: int, season: str) -> Span:
    """Return a northern season of three whole months: winter is the December of `year` and the two months after it."""
    code = _SEASONS[season]
    first = make_month(year, 3 * (code - 20))[0]
    return first, make_month(year, 3 * (code - 20) + 2)[1], f"{year:04}-{code}"


def _read_iso(match: re.Match[str]) -> Span:
    return make_day(date(int(match["year"]), int(match["number"]), int(match["day"])))


def _read_iso_week(match: re.Match[str]) -> Span:
    return make_week(date.fromisocalendar(int(match["year"]), int(match["week"]), 1))


def _read_iso_month(match: re.Match[str]) -> Span | None:
    return make_month(int(match["year"]), int(match["number"])) if 1 <= int(match["number"]) <= 12 else None


def _read_numeric(match: re.Match[str]) -> Span | None:
    """Return the day: dots put it first, slashes are ambiguous unless a number exceeds 12 or both are equal."""
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if match["sep"] == "." or first > 12 or first == second:
        return make_day(date(year, second, first))
    return make_day(date(year, first, second)) if second > 12 else None


def _read_month_year(match: re.Match[str]) -> Span:
    return make_month(int(match["year"]), _parse_month(match))


def _read_year(match: re.Match[str]) -> Span | None:
    counts = _COUNTED.match(match.string, match.end())  # "in 2024 cases"
    return None if counts else make_year(int(match["year"]))


def _read_first_year(match: re.Match[str]) -> Span:
    return make_year(int(match["first"]))


ABSOLUTE: Final[dict[str, Callable[[re.Match[str]], Span | None]]] = {
    "iso": _read_iso,
    "iso_week": _read_iso_week,
    "iso_month": _read_iso_month,
    "numeric": _read_numeric,
    "month_year": _read_month_year,
    "years": _read_first_year,
    "year_year": _read_year,
    "year": _read_year,
}
"""Form → reader, for forms that name their year."""


def _read_day_month(match: re.Match[str], at: date | None) -> Span | None:
    """Return a day of a month. After "may" or "march" a bare number is no day: "you may 3 times"."""
    month, day = _parse_month(match), int(match["day"])
    if match["month"].rstrip(".") in ("may", "march", "mar") and not match["year"] and not match.groupdict().get("th"):
        return None
    if match["year"]:
        return make_day(date(int(match["year"]), month, day))
    if at is None:
        return None
    years = [at.year + step for step in (-1, 0, 1)]
    return _choose_nearest(match, at, [date(year, month, day) for year in years if _has_day(year, month, day)])


def _read_which_month(match: re.Match[str], at: date) -> Span | None:
    month, which = _parse_month(match), match["which"].lower()
    if match["month"] in ("may", "march") and which == "this":
        return None
    if which in ("last", "this past"):
        return make_month(at.year - (month >= at.month), month)
    return make_month(at.year + (month <= at.month if which != "this" else 0), month)


def _read_month(match: re.Match[str], at: date) -> Span | None:
    if len(match["month"].rstrip(".")) < 4 and match["month"].islower() and match["month"] != "may":
        return None
    month = _parse_month(match)
    past = make_month(at.year - (month > at.month), month)
    future = make_month(at.year + (month < at.month), month)
    tense = "past" if match["prep"].lower().startswith("since") else read_tense(match)
    if not tense and match["prep"].lower().startswith(("until", "till", "by")):
        tense = "future"
    if not tense:
        tense = "past" if at - past[0] < future[0] - at else "future"
    return past if tense == "past" else future


def _read_season(match: re.Match[str], at: date | None) -> Span | None:
    """Return a season of a year; "in the summer" alone means none."""
    season, which = match["season"].lower(), (match["which"] or "").lower()
    if match["year"]:
        return _make_season(int(match["year"]), season)
    if at is None or which not in ("last", "this past", "this coming", "this", "next"):
        return None
    spans = [_make_season(at.year + step, season) for step in (-2, -1, 0, 1, 2)]
    if which in ("last", "this past"):
        return [span for span in spans if span[1] < at][-1]
    if which == "this":
        return next(span for span in spans if span[0].year == at.year or span[0] <= at <= span[1])
    return next(span for span in spans if span[0] > at)


def _read_word(match: re.Match[str], at: date) -> Span | None:
    word = match["word"].lower().removeprefix("the ")
    days = {"yesterday": -1, "last night": -1, "tomorrow": 1, "day before yesterday": -2, "day after tomorrow": 2}
    return make_day(at + days.get(word, 0) * _DAY)


def _read_ahead(match: re.Match[str], at: date) -> Span | None:
    """Return a time to come, unless the count says how long something took or how long ago it was."""
    before = match.string[max(0, match.start() - 40) : match.start()]
    if _NO_SPAN_BEFORE.search(before) or read_tense(match) == "past":
        return None
    return _read_count(match, at)


def _read_count(match: re.Match[str], at: date, sign: int = 1) -> Span | None:
    """Return `at` plus a count of units: a day for days, weeks and fortnights, else a month or a year."""
    count, unit = match["n"].lower().removesuffix(" of"), match["unit"].lower()
    n = sign * (int(count) if count.isdigit() else _NUMBERS[count.rpartition(" ")[2]])
    if unit == "year":
        return make_year(at.year + n)
    if unit == "month":
        return make_month(at.year, at.month + n)
    return make_day(at + n * {"day": 1, "week": 7, "fortnight": 14}[unit] * _DAY)


def _read_which(match: re.Match[str], at: date) -> Span | None:
    which = match["which"].lower()
    if match["weekday"]:
        return make_day(_find_weekday(match, at, which, _WEEKDAYS.index(match["weekday"].lower())))
    step = {"last": -1, "this past": -1, "this": 0}.get(which, 1)
    span = match["span"].lower()
    if span == "year":
        return make_year(at.year + step)
    if span == "month":
        return make_month(at.year, at.month + step)
    if which == "this coming" and span == "weekend":
        step = 0  # the weekend of this week
    return make_week(at + 7 * step * _DAY, weekend=span == "weekend")


def _find_weekday(match: re.Match[str], at: date, which: str, weekday: int) -> date:
    """Return a weekday: "next Friday" is that of the next week, "this Friday" may be today."""
    if which in ("last", "this past") or (which == "this" and read_tense(match) == "past"):
        return _find_weekday_before(at, weekday)
    if which == "next":
        return at + (weekday - at.weekday() + 7) * _DAY
    return _find_weekday_after(at - _DAY, weekday) if which == "this" else _find_weekday_after(at, weekday)


def _find_weekday_before(day: date, weekday: int) -> date:
    return day - ((day.weekday() - weekday - 1) % 7 + 1) * _DAY


def _find_weekday_after(day: date, weekday: int) -> date:
    return day + ((weekday - day.weekday() - 1) % 7 + 1) * _DAY


def _read_weekend(match: re.Match[str], at: date) -> Span | None:
    past = "past weekend" in match.group().lower() or (read_tense(match) == "past" and at.weekday() < 5)
    return make_week(at - 7 * _DAY if past else at, weekend=True)


def _read_weekday(match: re.Match[str], at: date) -> Span | None:
    prep = match["prep"].lower().strip()
    if prep in ("every", "each", "on a", "most"):
        return None
    weekday = _WEEKDAYS.index(match["weekday"].lower())
    ahead = prep in ("by", "until", "till", "before", "to", "for")
    past = prep == "since" or (not ahead and read_tense(match) == "past")
    return make_day(_find_weekday_before(at, weekday) if past else _find_weekday_after(at, weekday))


def _read_short_day(match: re.Match[str], at: date) -> Span | None:
    weekday = next(i for i, name in enumerate(_WEEKDAYS) if name.startswith(match["short"].lower()))
    past = match.group().lower().startswith("last") or read_tense(match) == "past"
    return make_day(_find_weekday_before(at, weekday) if past else _find_weekday_after(at, weekday))


def _read_holiday(match: re.Match[str], at: date | None) -> Span | None:
    """Return a holiday; "Christmas" alone, without a preposition, may be the tree."""
    name, which = match["holiday"].lower().replace("'", ""), match["which"].lower().strip()
    if not which and not match["year"] and name.split()[-1] not in ("eve", "day", "halloween", "thanksgiving"):
        return None
    if match["year"]:
        return make_day(_find_feast(name, int(match["year"])))
    if at is None:
        return None
    days = [_find_feast(name, at.year + step) for step in (-1, 0, 1)]
    if which == "last":
        return make_day([day for day in days if day < at][-1])
    if which == "next":
        return make_day(next(day for day in days if day > at))
    return make_day(days[1]) if which == "this" else _choose_nearest(match, at, days)


def _read_day_of_month(match: re.Match[str], at: date) -> Span | None:
    """Return a day of an unnamed month: "on the 15th"."""
    day = int(match["day"])
    months = [make_month(at.year, at.month + step)[0] for step in (-2, -1, 0, 1, 2)]
    days = [first.replace(day=day) for first in months if _has_day(first.year, first.month, day)]
    return _choose_nearest(match, at, days)


def _parse_month(match: re.Match[str]) -> int:
    return _MONTHS.index(match["month"].lower()[:3]) + 1


def _has_day(year: int, month: int, day: int) -> bool:
    first = date(year, month, 1)
    return day >= 1 and (first + (day - 1) * _DAY).month == month


def _choose_nearest(match: re.Match[str], at: date, days: list[date]) -> Span | None:
    """Return the nearest of `days`: not after `at` in a past tense, not before it in a future tense."""
    tense = read_tense(match)
    fitting = [day for day in days if (tense != "past" or day <= at) and (tense != "future" or day >= at)]
    return make_day(min(fitting, key=lambda day: abs(day - at))) if fitting else None


RELATIVE: Final[dict[str, Callable[[re.Match[str], date], Span | None]]] = {
    "which_month": _read_which_month,
    "month": _read_month,
    "word": _read_word,
    "ago": partial(_read_count, sign=-1),
    "ahead": _read_ahead,
    "from_now": _read_count,
    "which": _read_which,
    "weekend": _read_weekend,
    "weekday": _read_weekday,
    "short_day": _read_short_day,
    "the_day": _read_day_of_month,
}
"""Form → reader, for forms that count from a day."""

EITHER: Final[dict[str, Callable[[re.Match[str], date | None], Span | None]]] = {
    "day_month": _read_day_month,
    "month_day": _read_day_month,
    "season": _read_season,
    "holiday": _read_holiday,
}
"""Form → reader, for forms that may name their year."""


def _find_feast(name: str, year: int) -> date:
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
