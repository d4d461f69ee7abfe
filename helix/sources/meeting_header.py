"""Date and title of a meeting, from the lines above the talk."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from helix.sources.common.times import add_offset, parse_iso
from helix.sources.meeting_shapes import FOOTER, NOT_A_NAME, PLAIN, read_seconds

_DATED_CHARS: Final = 400  # of a line that are searched for a date
_LABEL: Final = re.compile(r"(?:title|topic|subject|meeting)[ \t]*:[ \t]*(\S.*)", re.IGNORECASE)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"(?P<month>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_TIME_OF_DAY: Final = (
    r"(?:(?:T|,? (?:at )?|[ \t]+)(?P<clock>\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp]\.?[Mm]\.?)?)"
    r"(?: ?(?P<zone>Z|(?:UTC|GMT)(?:[+-]\d{1,2}(?::?\d\d)?)?|[+-]\d\d:?\d\d)\b)?)?"
)
_WORDS: Final = re.compile(r"[^\W\d_]{3,}")
_DATE_WORD: Final = re.compile(
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|date|min|utc|gmt|c?est|[cmp][ds]t", re.IGNORECASE
)
_EMPTY: Final = re.compile(r"[(\[][ \t]*[)\]]")
_TRANSCRIPT: Final = re.compile(r"[ \t]*[-–—][ \t]*Transcript[ \t]*$")
_DATES: Final = tuple(
    re.compile(rf"(?<![\w./-]){day}{_TIME_OF_DAY}", re.IGNORECASE)
    for day in (
        r"(?P<year>\d{4})[-/.](?P<number>\d\d)[-/.](?P<day>\d\d)(?!\d)",
        rf"{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})(?!\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.? {_MONTH},? (?P<year>\d{{4}})(?!\d)",
    )
)


def find_date(header: list[str]) -> datetime | None:
    """Return the first date in the lines above the talk, with its time of day. Without a zone it is UTC."""
    for line in header:
        match = _find_day(line)
        fields = match.groupdict() if match else {}
        day = _read_day(fields) if match else None
        if day is not None:
            seconds = read_seconds(_complete_clock(fields["clock"])) if fields["clock"] else 0.0
            date = add_offset(day, seconds - _read_zone(fields["zone"]))
            if date:
                return date
    return None


def find_title(header: list[str]) -> str | None:
    """Return the first line above the talk that is a title: labelled as one, or a line of words without its date."""
    for line in header:
        text = line.strip()
        labelled = _LABEL.fullmatch(text)
        if labelled:
            return labelled[1]
        if not text or PLAIN.fullmatch(text) or NOT_A_NAME.fullmatch(text.lower()) or FOOTER.fullmatch(text):
            continue
        date = _find_day(text)
        if date:
            text = _EMPTY.sub("", text[: date.start()] + text[date.end() :])
        text = _TRANSCRIPT.sub("", text).strip(" \t-–—•|,")
        if any(not _DATE_WORD.fullmatch(word) for word in _WORDS.findall(text)):
            return text
    return None


def _find_day(line: str) -> re.Match[str] | None:
    matches = (match for pattern in _DATES for match in pattern.finditer(line[:_DATED_CHARS]))
    return next((match for match in matches if _read_day(match.groupdict())), None)


def _read_day(fields: dict[str, str | None]) -> datetime | None:
    month = fields.get("month")
    number = _MONTHS.index(month[:3].lower()) + 1 if month else int(fields.get("number") or 0)
    return parse_iso(f"{fields['year']}-{number:02d}-{int(fields['day'] or 0):02d}")


def _complete_clock(clock: str) -> str:
    """Return `9:30` as `9:30:00`: in a date it is hours and minutes."""
    return clock if clock.count(":") > 1 else re.sub(r"(:\d\d)", r"\1:00", clock, count=1)


def _read_zone(zone: str | None) -> int:
    """Return the offset of a time zone in seconds."""
    found = re.search(r"([+-])(\d{1,2}):?(\d\d)?$", zone or "")
    if not found:
        return 0
    offset = int(found[2]) * 3600 + int(found[3] or 0) * 60
    return -offset if found[1] == "-" else offset
