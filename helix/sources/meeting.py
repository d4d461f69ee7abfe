"""Transcripts of meetings as plain text: who said what, by Zoom, Otter, Teams, Google Meet or by hand.

What makes them hard, and what is done about it:

- There is no mark of the format, and prose, settings, logs and mail have lines like `Name: text`, too. A text is read
  in one shape alone: the first in which its lines begin turns throughout, with names that come again and times that
  do not run backwards.
- A stamp is an offset into the recording or the time of day. A half or a full day (`AM`), or a first stamp hours
  after midnight, is the time of day; it replaces that of the meeting's date, offsets are added to it.
- The date of the meeting stands above the talk, in the file's name, or nowhere. Times without a zone are UTC.
- A name before a colon may be a remark ("Remember: …"). A name that comes once must stand where a turn can begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from helix.errors import InputRefused
from helix.sources.captions import TURN_WORDS
from helix.sources.common.sample import Sample
from helix.sources.common.shared import (
    TITLE_CHARS,
    date_in_name,
    file_stem,
    one_line,
    parse_iso,
    session_of_path,
    unique,
)
from helix.sources.common.strip import strip_memory
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Session, Turn

NAME = "meeting"
JSON = False
GROWS = False

_MIN_TURNS: Final = 2
_MIN_BLOCKS: Final = 0.6  # of the blocks between blank lines, that begin a turn
_MIN_LINES: Final = 0.25  # of the lines, where hardly a line is blank
_MIN_ORDERED: Final = 0.9  # of the stamps, that are not before the one above
_MIN_WORDS: Final = 4  # a turn, on the average: values of settings are shorter
_DENSE: Final = 0.8  # of the lines that begin turns: each line is one
_MIN_ENDED: Final = 0.3  # of the turns without stamps, that end as sentences do
_HEADER_LINES: Final = 40
_DATED_CHARS: Final = 400  # of a line, in which a date is looked for
_CLOCK_HOURS: Final = 4  # a first stamp later than this is the time of day: nobody speaks up after hours of silence
_DAY: Final = timedelta(days=1)

_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,3})?(?: ?[AaPp]\.?[Mm]\.?)?"
_WORD: Final = r"[\w.'’&-]{1,40}"
_WHO: Final = rf"[^\W\d_][\w.'’-]{{0,40}}(?: {_WORD}){{0,3}}(?: ?\([^()\n]{{1,40}}\))?"
_CHAT: Final = re.compile(
    rf"(?P<stamp>{_CLOCK})[ \t]+From[ \t]+(?P<name>\S.{{0,80}}?)(?:[ \t]+[Tt]o[ \t]+\S.{{0,80}}?)?[ \t]*:"
    r"(?:[ \t]+(?P<text>.*))?[ \t]*"
)
_PLAIN: Final = re.compile(rf"(?:\*\*)?(?P<name>{_WHO})[ \t]?:(?:\*\*)?[ \t]+(?P<text>\S.*)")
_TWO_LINES: Final = re.compile(rf"(?P<name>{_WHO})[ \t]*")
_SHAPES: Final = (  # in the order in which they are tried
    _CHAT,
    re.compile(rf"[\[(](?P<stamp>{_CLOCK})[\])][ \t]*(?P<name>{_WHO})[ \t]?:(?:[ \t]+(?P<text>.*))?[ \t]*"),
    re.compile(rf"(?P<name>{_WHO})[ \t]*[\[(](?P<stamp>{_CLOCK})[\])][ \t]*:?(?:[ \t]+(?P<text>.*))?[ \t]*"),
    re.compile(rf"\[(?P<name>[^\]\n]{{1,60}})\][ \t]+(?P<stamp>{_CLOCK})[ \t]*"),
    re.compile(rf"(?P<name>{_WHO})(?P<gap>[ \t]+)(?P<stamp>{_CLOCK})[ \t]*"),
    _TWO_LINES,
    _PLAIN,
)
_STAMP: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,](\d{1,3}))?(?: ?([AaPp])\.?[Mm]\.?)?")
_MARK: Final = re.compile(rf"[\[(]?({_CLOCK})[\])]?[ \t]*")  # alone on a line: what follows was said from then on

# What stands before a colon or a time and is nobody, nor does it end a name.
_NOBODY: Final = re.compile(
    r"note|notes|warning|warnings|error|errors|info|debug|trace|fatal|critical|hint|tip|caution|important"
    r"|todo|fixme|remember|example|examples|from|to|cc|bcc|subject|date|dates|sent|reply-to|time|times|when"
    r"|where|location|place|title|topic|topics|name|names|description|status|type|id|url|link|version"
    r"|author|authors|attendees|participants|present|absent|invitees|host|organizer|organiser|speakers"
    r"|agenda|summary|decision|decisions|action|actions|item|items|next|step|steps|point|points|outcome"
    r"|question|questions|answer|answers|q|a|result|results|input|output|before|after|pro|con|pros|cons"
    r"|given|then|and|but|fix|fixes|feat|feature|features|add|added|change|changed|changes|remove|removed"
    r"|docs|chore|refactor|test|tests|bug|bugs|update|updated|updates|improvement|improvements|breaking"
    r"|deprecated|security|user|assistant|human|ai|system|tool|bot|usage|see|also|meeting|transcript"
    r"|duration|recording|project|start|end|total|lunch|break|monday|tuesday|wednesday|thursday|friday"
    r"|saturday|sunday|files|copyright|licen[cs]e|source|comments?|disclaimer|package|maintainer|section|priority"
)
_LABEL: Final = re.compile(r"(?:title|topic|subject|meeting)[ \t]*:[ \t]*(\S.*)", re.IGNORECASE)
_FOOTER: Final = re.compile(
    r"Transcribed by https?://otter\.ai\S*|(?:Meeting|Transcription|Recording) ended (?:after|at) .*"
    r"|This editable transcript was computer generated .*|People can also change the text after it was created\.?"
    rf"|{_WHO} (?:started|stopped) transcription"
)
_NOT_A_TALK: Final = re.compile(r"#{1,6} |```|~~~|---[ \t]*$|.{0,40}-->|diff --git ")  # anywhere
_NOT_SPEECH: Final = re.compile(r"[ \t]*(?:[-*+] |[{}<|]|[\w.]{1,80}\(.{0,300}\)[;:{]?$)")
_MAX_NOT_SPEECH: Final = 0.1  # of the lines
_SENTENCE_END: Final = re.compile(r"[.?!…。！？][\"'”’)\]]*\s*$")
_MAIL: Final = (re.compile(r"(?m)^From:[ \t]"), re.compile(r"(?m)^(?:To|Subject|Date):[ \t]"))

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


@dataclass(frozen=True, slots=True)
class _Opening:
    """Where a turn begins."""

    line: int  # index of its line
    after: int  # index of the first line after it
    name: str
    stamp: str | None
    text: str  # on the same line
    sure: bool  # no other line looks like this


@dataclass(frozen=True, slots=True)
class _Said:
    """What one person said at a time; texts of neighbours are joined."""

    id: str
    name: str
    seconds: float | None  # by the stamp
    text: str


def detect(sample: Sample) -> bool:
    """Whether in some shape its blocks are turns of people."""
    if all(pattern.search(sample.head) for pattern in _MAIL):
        return False
    return _shape(sample.head.split("\n")) is not None


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """One session: what each person said, joined up to `TURN_WORDS` words.

    Raises:
        InputRefused: nobody speaks in it.
    """
    lines = document.text.split("\n")
    shape = _shape(lines)
    if shape is not None:
        openings = _openings(lines, shape)
    else:  # the format was named: as well as can be
        shape, openings = max(((shape, _found(lines, shape)) for shape in _SHAPES), key=lambda found: len(found[1]))
    if not openings:
        raise InputRefused("nobody speaks in it", "give lines like `Name: text`, or name the format with --format")
    header = lines[: min(openings[0].line, _HEADER_LINES)]
    junk: Counter[str] = Counter()
    base, quality = _base(header, document)
    # A chat keeps its lines; those of speech are broken anywhere.
    glue = "\n" if shape is _CHAT else " "
    turns = tuple(_turns(_joined(_said(lines, openings, shape, junk), glue), base, quality))
    session = Session(
        source=NAME,
        id=session_of_path(document.path),
        turns=turns,
        title=one_line(_title(header) or file_stem(document.path), TITLE_CHARS),
    )
    return Parsed((session,) if turns else (), junk=+junk)


# ---------------------------------------------------------------- the shape


def _shape(lines: list[str]) -> re.Pattern[str] | None:
    """The shape in which the text is a meeting."""
    for shape in _SHAPES:
        openings = _openings(lines, shape)
        if len(openings) >= _MIN_TURNS and _is_meeting(lines, openings, shape):
            return shape
    return None


def _found(lines: list[str], shape: re.Pattern[str]) -> list[_Opening]:
    """Every line that may begin a turn."""
    return [opening for at in range(len(lines)) if (opening := _opening(lines, at, shape))]


def _openings(lines: list[str], shape: re.Pattern[str]) -> list[_Opening]:
    """Those that do. A name that comes once, and might be words, must stand where a turn can begin.

    That is at the start of a block, or anywhere if the name is listed above the talk or every line is a turn. Above
    the first name that comes again only a whole sentence is a turn, rather than a label.
    """
    found = _found(lines, shape)
    counts = Counter(opening.name for opening in found)
    begun = next((opening.line for opening in found if opening.sure or counts[opening.name] > 1), len(lines))
    dense = len(found) >= _DENSE * sum(1 for line in lines if line.strip())
    header = "\n".join(lines[: min(begun, _HEADER_LINES)])

    def begins(opening: _Opening) -> bool:
        if opening.sure or counts[opening.name] > 1:
            return True
        if opening.line < begun:
            return len(opening.text.split()) >= _MIN_WORDS
        return dense or opening.name in header or not lines[opening.line - 1].strip()

    return [opening for opening in found if begins(opening)]


def _opening(lines: list[str], at: int, shape: re.Pattern[str]) -> _Opening | None:
    match = shape.fullmatch(lines[at])
    if not match:
        return None
    name = " ".join(match["name"].split())
    words = name.split(" (")[0].lower().split()
    if not words or name[0].islower() or _NOBODY.fullmatch(words[-1] if not words[-1].isdecimal() else words[0]):
        return None
    said = match.groupdict()
    text = (said.get("text") or "").strip()
    if shape is _TWO_LINES:
        stamp = _MARK.fullmatch(lines[at + 1]) if at + 1 < len(lines) else None
        return _Opening(at, at + 2, name, stamp[1], "", True) if stamp else None
    gap = said.get("gap")
    return _Opening(at, at + 1, name, said.get("stamp"), text, shape is not _PLAIN and gap != " ")


def _is_meeting(lines: list[str], openings: list[_Opening], shape: re.Pattern[str]) -> bool:
    if shape is _CHAT:
        return _begin_turns(lines, openings)
    talk = lines[openings[0].line :]
    if any(_NOT_A_TALK.match(line) for line in lines):
        return False
    if sum(_NOT_SPEECH.match(line) is not None for line in talk) > _MAX_NOT_SPEECH * len(talk):
        return False
    named = sum(len(opening.name.split()) + (opening.stamp is not None) for opening in openings)
    if sum(len(line.split()) for line in talk) - named < _MIN_WORDS * len(openings):
        return False
    counts = Counter(opening.name for opening in openings)
    again = sum(count for count in counts.values() if count > 1)
    if 2 * again < len(openings):
        return False
    if shape is _PLAIN:
        indented = sum(line.startswith((" ", "\t")) for line in talk if line.strip())
        ended = sum(_SENTENCE_END.search(said) is not None for said in _last_lines(lines, openings))
        if indented > _MAX_NOT_SPEECH * len(talk) or ended < _MIN_ENDED * len(openings):
            return False
        return len(counts) > 1 and _begin_turns(lines, openings)
    times = [_seconds(opening.stamp) for opening in openings]
    ordered = sum(later >= earlier for earlier, later in pairwise(times))
    return ordered >= _MIN_ORDERED * (len(times) - 1) and _begin_turns(lines, openings)


def _last_lines(lines: list[str], openings: list[_Opening]) -> Iterator[str]:
    """The last line of each turn."""
    for opening, end in zip(openings, [*(other.line for other in openings[1:]), len(lines)], strict=True):
        spoken = (line for line in reversed(lines[opening.after : end]) if line.strip() and not _is_apart(line))
        yield next(spoken, opening.text)


def _is_apart(line: str) -> bool:
    """Whether a line belongs to no turn."""
    return bool(_MARK.fullmatch(line) or _FOOTER.fullmatch(line.strip()))


def _begin_turns(lines: list[str], openings: list[_Opening]) -> bool:
    """Whether enough blocks of text begin a turn, from the first turn on."""
    begin = {opening.line for opening in openings}
    first = openings[0].line
    blocks = [at for at in range(first, len(lines)) if lines[at].strip() and (at == first or not lines[at - 1].strip())]
    blocks = [at for at in blocks if at in begin or not _is_apart(lines[at])]
    if len(blocks) < 3:
        full = sum(1 for line in lines[first:] if line.strip())
        return len(openings) >= _MIN_LINES * full
    return sum(at in begin for at in blocks) >= _MIN_BLOCKS * len(blocks)


# ---------------------------------------------------------------- turns


def _said(lines: list[str], openings: list[_Opening], shape: re.Pattern[str], junk: Counter[str]) -> Iterator[_Said]:
    mark = _mark_above(lines[: openings[0].line]) if shape is _PLAIN else None
    for opening, end in zip(openings, [*(other.line for other in openings[1:]), len(lines)], strict=True):
        texts = [opening.text]
        above = mark
        for line in lines[opening.after : end]:
            alone = _MARK.fullmatch(line) if shape is _PLAIN else None
            if alone:
                mark = _seconds(alone[1])
            elif not _FOOTER.fullmatch(line.strip()):
                texts.append(line.strip())
        whole = "\n".join(texts)
        plain = strip_memory(whole)
        junk["memory"] += max(len(whole) - len(plain), 0)
        text = plain.strip() if shape is _CHAT else " ".join(plain.split())
        seconds = _seconds(opening.stamp) if opening.stamp else above
        if text:
            yield _Said(opening.stamp or str(opening.line + 1), opening.name, seconds, text)


def _mark_above(lines: list[str]) -> float | None:
    marks = [found[1] for line in lines if (found := _MARK.fullmatch(line))]
    return _seconds(marks[-1]) if marks else None


def _joined(said: Iterator[_Said], glue: str) -> Iterator[_Said]:
    """Neighbours of one speaker as one, up to `TURN_WORDS`."""
    held: list[_Said] = []
    words = 0
    for one in said:
        count = len(one.text.split())
        if held and (one.name != held[0].name or words + count > TURN_WORDS):
            yield replace(held[0], text=glue.join(part.text for part in held))
            held, words = [], 0
        held.append(one)
        words += count
    if held:
        yield replace(held[0], text=glue.join(part.text for part in held))


def _turns(said: Iterator[_Said], base: datetime | None, quality: str) -> Iterator[Turn]:
    taken: dict[str, int] = {}
    of_day: bool | None = None
    day, last = timedelta(0), 0.0
    for one in said:
        time = base
        if one.seconds is not None:
            if of_day is None:
                of_day = _is_time_of_day(one)
            day += _DAY if of_day and one.seconds < last - _DAY.total_seconds() / 2 else timedelta(0)
            last = one.seconds
            start = base.replace(hour=0, minute=0, second=0, microsecond=0) if base and of_day else base
            time = _after(start, day + timedelta(seconds=one.seconds))
        yield Turn(
            id=unique(one.id, taken),
            text=one.text,
            speaker=one.name,
            time=time,
            time_quality=quality if time else "none",
        )


def _is_time_of_day(first: _Said) -> bool:
    return "m" in first.id.lower() or (first.seconds or 0) >= _CLOCK_HOURS * 3600


def _after(base: datetime | None, offset: timedelta) -> datetime | None:
    try:
        return base + offset if base else None
    except OverflowError:
        return None


def _seconds(stamp: str | None) -> float:
    """Of a stamp of two parts minutes and seconds, but hours and minutes where half of a day is named."""
    found = _STAMP.fullmatch(stamp or "")
    if not found:
        return 0.0
    first, second, third = int(found[1]), int(found[2]), int(found[3] or 0)
    half = (found[5] or "").lower()
    if half:
        first = first % 12 + (12 if half == "p" else 0)
    seconds = first * 3600 + second * 60 + third if half or found[3] else first * 60 + second
    return seconds + float(f"0.{found[4] or 0}")


# ---------------------------------------------------------------- above the talk


def _base(header: list[str], document: Document) -> tuple[datetime | None, str]:
    """When the meeting began, and how well that is known."""
    for line in header:
        found = _date(line)
        if found:
            return found, "derived"
    named = date_in_name(document.path)
    if named:
        return named, "derived"
    return document.mtime, "file" if document.mtime else "none"


def _date(line: str) -> datetime | None:
    """The date that a line gives, with its time of day."""
    match = _dated(line)
    said = match.groupdict() if match else {}
    day = _day(said) if match else None
    if day is None:
        return None
    seconds = _seconds(_three_parts(said["clock"])) if said["clock"] else 0.0
    return _after(day, timedelta(seconds=seconds) - _offset(said["zone"]))


def _dated(line: str) -> re.Match[str] | None:
    """The first day of the calendar in a line."""
    found = (match for pattern in _DATES for match in pattern.finditer(line[:_DATED_CHARS]))
    return next((match for match in found if _day(match.groupdict())), None)


def _day(said: dict[str, str | None]) -> datetime | None:
    month = said.get("month")
    number = _MONTHS.index(month[:3].lower()) + 1 if month else int(said.get("number") or 0)
    return parse_iso(f"{said['year']}-{number:02d}-{int(said['day'] or 0):02d}")


def _three_parts(clock: str) -> str:
    """`9:30` as `9:30:00`: in a date it is hours and minutes."""
    return clock if clock.count(":") > 1 else re.sub(r"(:\d\d)", r"\1:00", clock, count=1)


def _offset(zone: str | None) -> timedelta:
    found = re.search(r"([+-])(\d{1,2}):?(\d\d)?$", zone or "")
    if not found:
        return timedelta(0)
    offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return -offset if found[1] == "-" else offset


def _title(header: list[str]) -> str | None:
    """The first line above the talk that is a title: named as one, or a line of words, without its date."""
    for line in header:
        text = line.strip()
        named = _LABEL.fullmatch(text)
        if named:
            return named[1]
        if not text or _PLAIN.fullmatch(text) or _NOBODY.fullmatch(text.lower()) or _FOOTER.fullmatch(text):
            continue
        date = _dated(text)
        if date:
            text = _EMPTY.sub("", text[: date.start()] + text[date.end() :])
        text = _TRANSCRIPT.sub("", text).strip(" \t-–—•|,")
        if any(not _DATE_WORD.fullmatch(word) for word in _WORDS.findall(text)):
            return text
    return None
