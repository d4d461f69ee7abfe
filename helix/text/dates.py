"""Dates in statements: the days meant by "yesterday", "last Friday", "in May", "3 May 2023" or "two weeks ago"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from functools import cache
from typing import Final, NamedTuple

from helix.text.date_spans import ABSOLUTE, EITHER, RELATIVE, Span
from helix.text.foreign_dates import find_foreign
from helix.text.languages import ENGLISH
from helix.util.wordlists import fill_pattern, read_patterns

_PIECES, _TABLES = read_patterns("helix.text", "date_forms")
FORMS: Final = {form: fill_pattern(pattern, _PIECES) for form, pattern in _TABLES["forms"].items()}
"""Patterns by form, in order of precedence."""

TRIGGER: Final = re.compile(
    "|".join(rf"{first}(?<!\w{first})(?:{fill_pattern(rest, _PIECES)})" for first, rest in _TABLES["triggers"].items())
)
"""The pattern of a lower-cased line that may have a date."""

_NAMED_GROUP: Final = re.compile(r"\(\?P<\w+>")


def _join_forms(names: Iterable[str]) -> str:
    """Return one pattern of some forms; the group that matched is the form's name."""
    plain = {name: _NAMED_GROUP.sub("(?:", FORMS[name]).replace("(?P=sep)", "[-/.]") for name in names}
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in plain.items())


_DIGITS: Final = re.compile(_join_forms(("iso", "iso_week", "iso_month", "numeric")))
"""Forms that are the same in every language."""
_SKIPPED: Final = rf"(?>(?:(?<=\w)(?:\w++ ?| )|[^\w ]++|(?!{_PIECES['FIRST']})\w++ ?)+)"

MAX_CHARS: Final = 16_000
"""Characters of a text that are searched; items are far shorter."""

MAX_MOMENTS: Final = 32
"""Dates of one text: the first ones. A text with more is a log or a calendar."""


class Moment(NamedTuple):
    """A span of days that a text mentions."""

    start: date
    end: date  # inclusive
    key: str  # ISO 8601: day, week "2024-W11", month "2024-03", year; ISO 8601-2: "2024-21" is the spring of 2024
    text: str  # as written
    where: tuple[int, int]  # begin and end of the text, in characters


def find_moments(
    text: str, at: datetime | None = None, language: str = ENGLISH, *, asked: bool = False
) -> list[Moment]:
    """Return the dates in `text`, in order of appearance, at most `MAX_MOMENTS`.

    A weekday or month alone is the nearest one in the past or the future, by the tense of its sentence. "Three weeks
    ago" is a day, "three months ago" a month, "three years ago" a year; a weekend has its week as key. Ambiguous
    numeric dates, vague spans ("a few days ago") and recurring days ("every Friday") are left out.

    Args:
        text: only the first `MAX_CHARS` characters are searched.
        at: the time of the text, from which relative dates count. Without it only dates with a year are found.
        language: of the text; in another one than English, forms of digits and those of that language are found.
        asked: the text is a question in another language: a weekday, day or month is the last one.
    """
    moments: list[Moment] = []
    text = text[:MAX_CHARS]
    if language != ENGLISH:
        return _find_foreign(text, at, language, asked=asked)
    lower = text.lower()
    if len(lower) != len(text):  # İ becomes two characters, but positions must stay
        lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    done, trigger = 0, TRIGGER.search(lower)
    while trigger is not None and len(moments) < MAX_MOMENTS:
        start = max(done, text.rfind("\n", 0, trigger.start()) + 1)
        newline = text.find("\n", trigger.end())
        done = newline if newline >= 0 else len(text)
        for match in compile_forms().finditer(text, start, done):
            if match.lastgroup is None:
                continue
            span = _read(match.lastgroup, text, match.start(), at)
            if span is not None:
                moments.append(Moment(*span, match.group().strip(), (match.start(), match.end())))
        trigger = TRIGGER.search(lower, done)
    return moments[:MAX_MOMENTS]


def _find_foreign(text: str, at: datetime | None, language: str, *, asked: bool) -> list[Moment]:
    found = [
        Moment(*span, match.group().strip(), match.span())
        for match in _DIGITS.finditer(text)
        if (span := _read(str(match.lastgroup), text, match.start(), at))
    ]
    for span, start, end in find_foreign(text, at.date() if at else None, language, asked=asked):
        if not any(start < one.where[1] and one.where[0] < end for one in found):
            found.append(Moment(*span, text[start:end], (start, end)))
    return sorted(found, key=lambda one: one.where)[:MAX_MOMENTS]


def _read(form: str, text: str, start: int, at: datetime | None) -> Span | None:
    match = compile_form(form).match(text, start)
    if match is None:
        return None
    try:
        if form in ABSOLUTE:
            return ABSOLUTE[form](match)
        if form in EITHER:
            return EITHER[form](match, at and at.date())
        return RELATIVE[form](match, at.date()) if at else None
    except (ValueError, OverflowError):
        return None  # the 31st of February, the year 10000


# Compiled on first use: together they take as long as some questions.
@cache
def compile_forms() -> re.Pattern[str]:
    """Return the pattern of all forms; the group that matched is the form's name, no group is text without a date."""
    return re.compile(f"{_SKIPPED}|{_join_forms(FORMS)}", re.IGNORECASE)


@cache
def compile_form(form: str) -> re.Pattern[str]:
    """Return the pattern of one form, with its groups."""
    return re.compile(FORMS[form], re.IGNORECASE)
