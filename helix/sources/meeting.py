"""Transcripts of meetings as plain text, by Zoom, Otter, Teams, Google Meet or by hand.

What is particular to the format:

- It has no mark. A text is a meeting if its lines have one shape (`meeting_shapes`).
- A stamp is an offset into the recording or the time of day. It is the time of day with `AM` or `PM`, or if the first
  stamp is hours after midnight. It then replaces the time of the meeting's date; offsets are added to the date.
- The date of the meeting is above the talk, in the file's name, or missing. Times without a zone are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from helix.errors import InputRefused
from helix.sources import meeting_shapes
from helix.sources.captions import TURN_WORDS
from helix.sources.common.injected import strip_memory
from helix.sources.common.names import fold_line, get_file_stem, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.text_cleaner import TextCleaner
from helix.sources.common.times import add_offset, date_document
from helix.sources.common.tools import TOOL_CHARS
from helix.sources.meeting_header import find_date, find_title
from helix.types import Document, Parsed, Session, Turn

NAME = "meeting"
JSON = False
GROWS = False

_CLOCK_HOURS: Final = 4  # a first stamp later than this is the time of day: no meeting begins with hours of silence
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class _Speech:
    """Words of one speaker at a time; texts of neighbours are joined."""

    id: str
    name: str
    seconds: float | None  # by the stamp
    text: str


def detect(sample: Sample) -> bool:
    """Return whether in some shape its blocks are turns of people."""
    return not meeting_shapes.is_mail(sample.head) and meeting_shapes.find_shape(sample.head.split("\n")) is not None


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return one session: the words of each speaker, joined up to `TURN_WORDS` words.

    Raises:
        InputRefused: it has no turn of a speaker.
    """
    lines = document.text.split("\n")
    shape = meeting_shapes.find_shape(lines)
    if shape is not None:
        openings = meeting_shapes.find_openings(lines, shape)
    else:  # the format was named: the shape with most turns
        candidates = ((shape, meeting_shapes.list_candidates(lines, shape)) for shape in meeting_shapes.SHAPES)
        shape, openings = max(candidates, key=lambda candidate: len(candidate[1]))
    if not openings:
        raise InputRefused("no speaker in it", "give lines like `Name: text`, or name the format with --format")
    header = lines[: min(openings[0].line, meeting_shapes.HEADER_LINES)]
    cleaner = TextCleaner()
    # A chat keeps its lines; those of speech may be broken anywhere.
    glue = "\n" if shape is meeting_shapes.CHAT else " "
    speeches = _join_neighbours(_read_speeches(lines, openings, shape, cleaner), glue)
    turns = tuple(_build_turns(speeches, *date_document(document, find_date(header))))
    title = fold_line(find_title(header) or get_file_stem(document.path))
    session = Session(source=NAME, id=name_session_of_path(document.path), turns=turns, title=title)
    return cleaner.build((session,) if turns else ())


def _read_speeches(
    lines: list[str], openings: list[meeting_shapes.Opening], shape: re.Pattern[str], cleaner: TextCleaner
) -> Iterator[_Speech]:
    marks = [
        mark[1]
        for line in lines[: openings[0].line]
        if shape is meeting_shapes.PLAIN and (mark := meeting_shapes.MARK.fullmatch(line))
    ]
    mark_seconds = meeting_shapes.read_seconds(marks[-1]) if marks else None
    for opening, rest in meeting_shapes.slice_turns(lines, openings):
        texts = [opening.text]
        seconds = meeting_shapes.read_seconds(opening.stamp) if opening.stamp else mark_seconds
        for line in rest:
            mark = meeting_shapes.MARK.fullmatch(line) if shape is meeting_shapes.PLAIN else None
            if mark:
                mark_seconds = meeting_shapes.read_seconds(mark[1])
            elif not meeting_shapes.FOOTER.fullmatch(line.strip()):
                texts.append(line.strip())
        whole = "\n".join(texts)
        text = cleaner.cut(whole, strip_memory(whole), "memory")
        text = text.strip() if shape is meeting_shapes.CHAT else " ".join(text.split())
        if text:
            yield _Speech(opening.stamp or str(opening.line + 1), opening.name, seconds, text)


def _join_neighbours(speeches: Iterator[_Speech], glue: str) -> Iterator[_Speech]:
    """Join neighbours of one speaker, up to `TURN_WORDS`."""
    held: list[_Speech] = []
    words = 0
    for speech in speeches:
        count = len(speech.text.split())
        if held and (speech.name != held[0].name or words + count > TURN_WORDS):
            yield replace(held[0], text=glue.join(part.text for part in held))
            held, words = [], 0
        held.append(speech)
        words += count
    if held:
        yield replace(held[0], text=glue.join(part.text for part in held))


def _build_turns(speeches: Iterator[_Speech], base: datetime | None, quality: str) -> Iterator[Turn]:
    taken: dict[str, int] = {}
    is_clock: bool | None = None
    midnights, last = 0, 0.0  # seconds
    for speech in speeches:
        time = base
        if speech.seconds is not None:
            if is_clock is None:
                is_clock = "m" in speech.id.lower() or speech.seconds >= _CLOCK_HOURS * 3600
            midnights += _DAY_SECONDS if is_clock and speech.seconds < last - _DAY_SECONDS / 2 else 0
            last = speech.seconds
            start = base.replace(hour=0, minute=0, second=0, microsecond=0) if base and is_clock else base
            time = add_offset(start, midnights + speech.seconds)
        yield Turn(
            id=make_unique(speech.id, taken),
            text=speech.text,
            speaker=speech.name,
            time=time,
            time_quality=quality if time else "none",
        )
