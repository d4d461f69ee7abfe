"""Dates in texts of other languages: "am 3. Mai 2024", "il y a deux semaines", "la semana pasada", "5月3日".

Forms and words are those of `helix.text.language_words`. A day or month without a year is the nearest to the moment of
the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from typing import Any, Final

from helix.text.date_spans import Span, make_day, make_month, make_week, make_year
from helix.text.language_words import read_words

_DAY: Final = timedelta(days=1)
_FORMS: Final = ("day_month", "month_year", "ago", "last", "next", "this", "month", "year", "weekday")
"""In order of precedence; then the words of `offsets`."""

_FUTURE: Final = 3
"""Times that a day or month to come must be nearer than the past one of the same name."""

_SOON: Final = frozenset(("weekday",))
"""Forms that a statement may mean of the past or of the future; in a question they are past."""


def find_foreign(text: str, at: date | None, language: str, *, asked: bool = False) -> Iterator[tuple[Span, int, int]]:
    """Yield the spans of days that a text names, each with its begin and end in the text; none where two overlap.

    Args:
        at: the day of the text; without it only dates with a year are found.
        asked: the text is a question: a weekday, day or month is the last one.
    """
    if not read_words(language).get("dates"):
        return
    taken: list[tuple[int, int]] = []
    for form, pattern in _compile(language).items():
        if form in _SOON and not asked:
            continue
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            try:
                span = _read(form, match, at, language, asked=asked)
            except (ValueError, OverflowError):  # the 31st of February, the year 10000
                continue
            if span is not None:
                taken.append(match.span())
                yield span, match.start(), match.end()


@cache
def _compile(language: str) -> Mapping[str, re.Pattern[str]]:
    """Compile the forms of a language."""
    words: dict[str, Any] = read_words(language)
    dates, spaced = words["dates"], words.get("spaced", True)
    units = "|".join(f"(?P<{name}>{text})" for name, text in dates["units"].items())
    counts = "|".join(sorted(map(re.escape, dates["counts"]), key=len, reverse=True))
    pieces = {
        "DAY": r"(?P<d>[0-3]?\d)",
        "MONTH": "(?:" + "|".join(f"(?P<m{i}>{text})" for i, text in enumerate(dates["months"], 1)) + ")",
        "YEAR": r"(?P<y>(?:19|20)\d\d)(?!\d)",
        "COUNT": rf"(?P<n>\d{{1,3}}|{counts})",
        "UNIT": f"(?:{units})",
        "SPAN": f"(?:{units})",
        "WEEKDAY": "(?:" + "|".join(f"(?P<w{i}>{text})" for i, text in enumerate(dates["weekdays"])) + ")",
    }
    before, after = (r"(?<!\w)", r"(?!\w)") if spaced else (r"(?<!\d)", "")
    found = {}
    for form in _FORMS:
        if form in dates:
            # A piece that comes twice, in alternatives, has its groups in the first.
            text = re.sub(r"\{([A-Z]+)\}", lambda match: pieces[match[1]], dates[form])
            found[form] = re.compile(f"{before}(?:{_rename_groups(text)}){after}", re.IGNORECASE)
    for word in dates["offsets"]:
        found[word] = re.compile(f"{before}{word}{after}", re.IGNORECASE)
    return found


def _rename_groups(text: str) -> str:
    """Give groups that come again a name of their own, with a mark: a pattern has each name once."""
    seen: dict[str, int] = {}

    def rename(match: re.Match[str]) -> str:
        seen[match[1]] = seen.get(match[1], 0) + 1
        return match[0] if seen[match[1]] == 1 else f"(?P<{match[1]}_{seen[match[1]]}>"

    return re.sub(r"\(\?P<(\w+)>", rename, text)


def _read(form: str, match: re.Match[str], at: date | None, language: str, *, asked: bool) -> Span | None:
    dates = read_words(language)["dates"]
    found = {name.partition("_")[0]: value for name, value in match.groupdict().items() if value is not None}
    month = next((int(name[1:]) for name in found if name[0] == "m" and name[1:].isdigit()), 0)
    year = int(found["y"]) if "y" in found else 0
    if form == "year" and year:
        return make_year(year)
    if form == "month_year":
        return make_month(year, month)
    if form == "day_month" and year:
        return make_day(date(year, month, int(found["d"])))
    if at is None:
        return None
    if form in dates["offsets"]:
        return make_day(at + dates["offsets"][form] * _DAY)
    if form == "day_month":
        return _choose([make_day(date(at.year + step, month, int(found["d"]))) for step in (-1, 0, 1)], at, asked=asked)
    if form == "month":
        return _choose([make_month(at.year + step, month) for step in (-1, 0, 1)], at, asked=asked)
    if form == "weekday":
        weekday = next(int(name[1:]) for name in found if name[0] == "w" and name[1:].isdigit())
        return make_day(at - ((at.weekday() - weekday - 1) % 7 + 1) * _DAY)
    unit = next(name for name in ("day", "week", "month", "year") if name in found)
    if form == "ago":
        return _step(at, unit, -_count(found["n"], dates["counts"]), whole=False)
    return _step(at, unit, {"last": -1, "next": 1}.get(form, 0), whole=True)


def _choose(spans: list[Span], at: date, *, asked: bool) -> Span:
    """Return the past span unless one to come is much nearer; in a question the last that has begun."""
    begun = [span for span in spans if span[0] <= at]
    if asked and begun:
        return begun[-1]
    return min(spans, key=lambda span: abs((span[0] - at).days) * (_FUTURE if span[0] > at else 1))


def _count(text: str, counts: Mapping[str, int]) -> int:
    return int(text) if text.isdigit() else counts[text.lower()]


def _step(at: date, unit: str, n: int, *, whole: bool) -> Span:
    """Return the day, week, month or year that is n units away; a week as a whole, or the day of it."""
    if unit == "year":
        return make_year(at.year + n)
    if unit == "month":
        return make_month(at.year, at.month + n)
    day = at + n * (7 if unit == "week" else 1) * _DAY
    return make_week(day) if unit == "week" and whole else make_day(day)
