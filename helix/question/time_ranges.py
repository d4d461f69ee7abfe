"""Times in options and in questions: `2023-05-07`, `7d`, "on 7 May 2023", "before May", "over the weekend"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from helix.errors import UsageError
from helix.text.dates import find_moments
from helix.text.languages import ENGLISH

DAY = timedelta(days=1)
_HALF_A_YEAR = 184 * DAY
SCANNED: Final = 2_000
"""Characters of a question that are searched for times."""

OLDEST: Final = -62_135_596_800
"""0001-01-01, the start of an open window. A missing time is smaller."""

NEWEST: Final = 253_402_300_799
"""9999-12-31, the end of an open window."""

NEAR: Final = 0.5
"""Weight of the month of a named day, and of an open window."""

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS)
_DAY = r"(?<![\w.:/-])(?P<day>[0-3]?\d)(?P<th>st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PART = r"(?:(?:early|late|mid|the (?:beginning|start|middle|end) of)[ -])?"
_JOIN = r"(?:and|to|until|till|through|[-–])"
_LAST_DAY = rf" ?{_JOIN} ?(?:the )?(?P<last_day>[0-3]?\d)(?:st|nd|rd|th)?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_DAY}{_LAST_DAY}(?: of)? (?P<month>{_MONTH})(?:(?:, ?| ){_YEAR})?\b",
        rf"\b(?P<month>{_MONTH}) {_DAY}{_LAST_DAY}(?:(?:, ?| ){_YEAR})?\b(?![:%]|[.,]\d)",
        rf"\b(?:between|from) (?P<month>{_MONTH})(?: {_YEAR})? ?{_JOIN} ?(?P<last_month>{_MONTH})"
        r"(?: (?P<last_year>(?:19|20)\d\d))?\b(?! \d)",
        r"\b(?P<year>(?:19|20)\d\d)-(?P<number>[01]\d)(?:-(?P<day>[0-3]\d))?\b",
        rf"{_DAY}(?: of)? (?P<month>{_MONTH})(?:(?:, ?| ){_YEAR})?\b",
        rf"\b(?P<month>{_MONTH}) (?:the )?{_DAY}(?:(?:, ?| ){_YEAR})?\b(?![:%]|[.,]\d)",
        rf"\b(?P<month>{_MONTH})(?:,| of)? {_YEAR}\b",
        r"\b(?:in|during|since|before|after|until|till|by|through|around|from|between|of) "
        rf"{_PART}(?P<month>{_MONTH})\b(?! \d)",
    )
)
_MAY_FIT = re.compile(rf"\d|{'|'.join(name[:3] for name in _MONTHS)}", re.IGNORECASE)
"""None of the patterns matches without one of these."""

_WORD_NUMBERS = {"two": 2, "couple": 2, "three": 3, "few": 7, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
                 "nine": 9, "ten": 10, "twelve": 12}  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_COUNT = r"(?P<n>\d{1,3}|two|three|few|four|five|six|seven|eight|nine|ten|twelve|couple(?= of))"
_STRETCH = re.compile(
    rf"\b(?:(?:last|past|previous) {_COUNT}(?: of)? |past )(?P<unit>day|week|month|year)s?\b"
    r"|\b(?:a few|several|some) (?P<few>day|week|month|year)s (?:ago|back)\b|\bthe other day\b",
    re.IGNORECASE,
)
_WEEKS_AGO = re.compile(r"(?:week|fortnight)s? (?:ago|back)\Z", re.IGNORECASE)
_WEEKLY = re.compile(r"weekend\Z|day\Z|\b(?:mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\Z", re.IGNORECASE)
_TO_COME = re.compile(r"\b(?:next|coming|upcoming|tomorrow|this|by|until|till)\b", re.IGNORECASE)

_RELATION = re.compile(
    r"(?<!\w)(before|prior to|earlier than|until|till|up to|after|since|later than|from) "
    rf"(?:on )?{_PART}(?:the )?\Z",
    re.IGNORECASE,
)
_LEADING = re.compile(
    rf"(?:in|on|at|by|for|to|and|through|around|during|over|between|from|since|until|till|before|after) {_PART}",
    re.IGNORECASE,
)
_BETWEEN = re.compile(rf" ?{_JOIN} ?(?:on )?(?:the )?", re.IGNORECASE)
_IS_BETWEEN = re.compile(r"\bbetween\b", re.IGNORECASE)
_HAS_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_LEADS_TO_DAY = re.compile(r"\b(?:on|the|since|before|after|until|till|by|from|between) \Z", re.IGNORECASE)
_ONWARDS = re.compile(r" on(?:wards?)?\b(?! \w)", re.IGNORECASE)
_AROUND = re.compile(r"\b(?:in|on|at|the|since|from|until|till|during|over)\b|\s+", re.IGNORECASE)
_BEFORE = 40  # characters before a date that are searched for its preposition

_AGO = re.compile(r"^(\d+)\s*(m|h|d|w)$", re.IGNORECASE)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": DAY, "w": 7 * DAY}
_TO_LAST = DAY - timedelta(seconds=1)  # from a day's first second to its last
_SHOWN = 60  # characters of a wrong time in an error


class NamedDays(NamedTuple):
    """Days that a question names."""

    start: int  # position in the text, with a preposition that belongs to the form
    end: int
    first: date
    last: date  # inclusive
    month: date | None = None  # the first of its month, for a day of the calendar


def parse_time(value: str, now: datetime, name: str, *, end: bool = False) -> datetime:
    """Parse a point in time: ISO 8601, `7d` (also m, h, w) before now, or words: "yesterday", "last week", "in March".

    A date or a stretch of days is its first second, with `end` its last. Times without a zone are UTC.

    Raises:
        UsageError: it is none of these, or beyond the years 1 to 9999.
    """
    try:
        return _parse_point(value.strip(), now, end=end)
    except (ValueError, OverflowError):
        raise _no_time(value, name) from None


def utc(moment: datetime, name: str) -> datetime:
    """Convert a moment to UTC; one without a zone is UTC.

    Raises:
        UsageError: it is beyond the years 1 to 9999.
    """
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise _no_time(str(moment), name) from None


def _no_time(value: str, name: str) -> UsageError:
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    remedy = (
        "give ISO 8601 (2023-05-07 or 2023-05-07T13:56:00Z), an age like 7d, or words like 'last week' or 'in March', "
        "within the years 1 to 9999"
    )
    return UsageError(f"{name} {shown!r} is no time", remedy)


def _parse_point(text: str, now: datetime, *, end: bool) -> datetime:
    """Parse the forms of `parse_time`. Raises ValueError or OverflowError."""
    if ago := _AGO.match(text):
        return now - int(ago[1]) * _UNITS[ago[2].lower()]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("now", "today", "yesterday"):
        start = {"now": lambda: now, "today": lambda: midnight, "yesterday": lambda: midnight - DAY}[text.lower()]()
        return start + _TO_LAST if end and text.lower() != "now" else start
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return _parse_words(text, now, end=end)
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return found + _TO_LAST if end and len(text) <= 10 else found


def _parse_words(text: str, now: datetime, *, end: bool) -> datetime:
    """Parse words that name one stretch of days and nothing else. Raises ValueError for any other text."""
    for given in (text, f"in {text}"):  # a month or a year alone is read after a preposition only
        found = _find_days(given, now) if len(given) <= _SHOWN else []
        if len(found) == 1 and not _AROUND.sub("", given[: found[0].start] + given[found[0].end :]):
            second = _find_second(found[0].last, end=True) if end else _find_second(found[0].first)
            return datetime.fromtimestamp(second, UTC)
    raise ValueError(text)


def find_days(text: str, now: datetime, language: str = ENGLISH) -> tuple[tuple[int, int, float], ...]:
    """Return the time windows that a question names.

    A month or day without a year is the latest that has begun. "Before May" ends with April and has no beginning,
    "since Monday" has no end, "between March and May" is one window.

    Args:
        text: the question; its first `SCANNED` characters are searched.
        now: aware; relative times count from its day in UTC.
        language: of the question.

    Returns:
        (first second, last second, weight) each, OLDEST ≤ first ≤ last ≤ NEWEST; a day weighs 1, its month and
        windows with an open end NEAR.
    """
    windows = [window for *_, found in _read_windows(text, now, language) for window in found]
    return tuple(dict.fromkeys(window for window in windows if window[0] <= window[1]))


def name_windows(text: str, now: datetime, language: str = ENGLISH) -> list[tuple[int, int, tuple[int, int]]]:
    """Return (start, end, (first second, last second)) of each time that a question names; the first two are places.

    As `find_days`, without the month of a day. A preposition that opens or closes the window belongs to the words.
    """
    found = [(start, end, windows[-1][:2]) for start, end, windows in _read_windows(text, now, language) if windows]
    return [one for one in found if one[2][0] <= one[2][1]]


def _read_windows(text: str, now: datetime, language: str) -> Iterator[tuple[int, int, list[tuple[int, int, float]]]]:
    """Yield (start, end, windows) of each time that a text names, in reading order; the last window is the surest."""
    text, now = text[:SCANNED], now.astimezone(UTC)
    if language != ENGLISH:
        for moment in find_moments(text, now, language, asked=True):
            month = moment.start.replace(day=1) if moment.start == moment.end else None
            yield *moment.where, _make_windows(NamedDays(*moment.where, moment.start, moment.end, month), "")
        return
    done = 0
    for days, after in pairwise([*_find_days(text, now), None]):
        if days is None or days.start < done:
            continue
        begin = _find_range_start(text, days, after) if after is not None else None
        if after is not None and begin is not None:
            yield days.start, after.end, [(_find_second(begin), _find_second(after.last, end=True), 1.0)]
            done = after.end
        else:
            relation, start = _find_relation(text, days)
            yield start, days.end, _make_windows(days, relation)


def _make_windows(days: NamedDays, relation: str) -> list[tuple[int, int, float]]:
    first, last = _find_second(days.first), _find_second(days.last, end=True)
    match relation:
        case "before" | "prior to" | "earlier than":
            return [(OLDEST, first - 1, NEAR)]
        case "until" | "till" | "up to":
            return [(OLDEST, last, NEAR)]
        case "after" | "later than":
            return [(last + 1, NEWEST, NEAR)]
        case "since":
            return [(first, NEWEST, NEAR)]
    whole = [(_find_second(days.month), _find_second(_find_last_day(days.month), end=True), NEAR)] if days.month else []
    return [*whole, (first, last, 1.0)]


def _find_second(day: date, *, end: bool = False) -> int:
    return (day.toordinal() - date(1970, 1, 1).toordinal() + end) * 86_400 - end


def _find_relation(text: str, days: NamedDays) -> tuple[str, int]:
    """Return (the preposition of a date, in lower case, its place); "" if it adds nothing to the date."""
    leading = _LEADING.match(text, days.start, days.end)
    start = leading.end() if leading else days.start
    found = _RELATION.search(text[max(0, start - _BEFORE) : start])
    relation = found[1].lower() if found else ""
    if relation == "from":
        relation = "since" if _ONWARDS.match(text, days.end) else ""
    return relation, max(0, start - _BEFORE) + found.start(1) if found and relation else days.start


def _find_range_start(text: str, days: NamedDays, after: NamedDays) -> date | None:
    """Return the start of a range with two dates as ends: "between Monday and Friday", "3 May to 9 May 2024"."""
    leading = _LEADING.match(text, after.start, after.end)
    between = text[days.end : leading.end() if leading else after.start]
    if _BETWEEN.fullmatch(between) is None:
        return None
    if "and" in between.lower() and not _IS_BETWEEN.search(text[max(0, days.start - 12) : days.end]):
        return None
    if days.first <= after.last:
        return days.first
    if days.month is None or _HAS_YEAR.search(text, days.start, days.end):
        return None
    begin = _find_month(days.month.month, None, after.last).replace(day=min(days.first.day, 28))  # the second date's
    return begin if begin <= after.last else None


# ---------------------------------------------------------------- dates


def _find_days(text: str, now: datetime) -> list[NamedDays]:
    """Find the days that a text names, in order; of two that overlap the first found stays."""
    found: list[NamedDays] = []
    patterns = _PATTERNS if _MAY_FIT.search(text) else ()
    calendar = (_read_calendar(match, now.date()) for pattern in patterns for match in pattern.finditer(text))
    stretches = (_read_stretch(match, now.date()) for match in _STRETCH.finditer(text))
    for days in (*calendar, *stretches, *_read_moments(text, now)):
        if days is not None and not any(days.start < other.end and other.start < days.end for other in found):
            found.append(days)
    return sorted(found)


def _read_calendar(match: re.Match[str], today: date) -> NamedDays | None:
    """Read a day, a month or a range of either, written with numbers or names of months."""
    fields = match.groupdict()
    name, at = fields.get("month") or "", match.span()
    if name and _is_word(match, name):
        return None
    number = int(fields["number"]) if fields.get("number") else _parse_number(name)
    if not 1 <= number <= 12:
        return None
    year = int(fields["year"]) if fields.get("year") else None
    if fields.get("last_month"):
        last_year = int(fields["last_year"]) if fields["last_year"] else year
        end = _find_month(_parse_number(fields["last_month"] or ""), last_year, today)
        begin = _find_month(number, year, end)
        return NamedDays(*at, begin, _find_last_day(end)) if begin <= end else None
    month = _find_month(number, year, today)
    days = [int(fields[key] or 0) for key in ("day", "last_day") if fields.get(key)]
    if not days or not 1 <= days[0] <= days[-1] <= _find_last_day(month).day:
        return NamedDays(*at, month, _find_last_day(month))  # a wrong day, such as 31 February, gives the month
    return NamedDays(*at, month.replace(day=days[0]), month.replace(day=days[-1]), month)


def _is_word(match: re.Match[str], name: str) -> bool:
    """Return whether "may" or "march" is a word: "which 3 may fail", "March 3 people in", "instead of may"."""
    fields = match.groupdict()
    if name.rstrip(".").lower() not in ("may", "mar", "march") or fields.get("year") or fields.get("th"):
        return False
    if fields.get("day"):
        led = _LEADS_TO_DAY.search(match.string[max(0, match.start() - 10) : match.start()]) is not None
        return not led and (name.islower() or match.start("month") == 0)
    return name.islower() and match.group().lower().startswith(("by ", "of ", "from ", "through ", "around "))


def _parse_number(name: str) -> int:
    return next((i for i, month in enumerate(_MONTHS, 1) if name and month.startswith(name.lower()[:3])), 0)


def _find_month(number: int, year: int | None, today: date) -> date:
    """Return the first of a month; without a year, of the latest that has begun."""
    if year is None:
        year = max(1, today.year - (number > today.month))
    return date(year, number, 1)


def _find_last_day(month: date) -> date:
    return month.replace(day=monthrange(month.year, month.month)[1])


def _read_stretch(match: re.Match[str], today: date) -> NamedDays:
    """Read "the last three weeks", "a few days ago", "the other day", up to today; a few is two to seven."""
    unit = _UNIT_DAYS[(match["unit"] or match["few"] or "day").lower()]
    n = (match["n"] or "").lower()
    count = int(n) if n.isdigit() else _WORD_NUMBERS.get(n, 1 if match["unit"] else 7)
    recent = 2 * unit if match["few"] else 0 if match["unit"] else 1
    return NamedDays(*match.span(), _subtract_days(today, count * unit), _subtract_days(today, recent))


def _subtract_days(day: date, days: int) -> date:
    return date.fromordinal(min(max(1, day.toordinal() - days), date.max.toordinal()))


def _read_moments(text: str, now: datetime) -> list[NamedDays]:
    """Read other times in the past: "at Halloween" is the last one, "over the weekend" the last weekend."""
    found = []
    for moment in find_moments(text, now):
        first, last = moment.start, moment.end
        if first > now.date() and not _TO_COME.search(moment.text):
            if _WEEKLY.search(moment.text):
                first, last = _subtract_days(first, 7), _subtract_days(last, 7)
            elif now.year > 1 and (past := find_moments(moment.text, now - _HALF_A_YEAR)):
                first, last = past[0].start, past[0].end
        if _WEEKS_AGO.search(moment.text):  # means a week, not a day
            first, last = _subtract_days(first, 3), _subtract_days(last, -3)
        found.append(NamedDays(*moment.where, first, last))
    return found
