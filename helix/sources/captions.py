"""Captions of meetings and videos: WebVTT and SRT. A cue is part of a sentence; a turn joins the cues of a speaker."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import srt
import webvtt

from helix.errors import InputRefused
from helix.sources.common.injected import strip_memory
from helix.sources.common.json_text import number_lines
from helix.sources.common.names import fold_line, get_file_stem, make_unique, name_session_of_path
from helix.sources.common.sample import Sample
from helix.sources.common.times import add_offset, date_document, parse_iso
from helix.sources.common.tools import TOOL_CHARS
from helix.types import Document, Parsed, Problem, Session, Turn

NAME = "captions"
JSON = False
GROWS = False

TURN_WORDS: Final = 60
"""Most words of a turn: some 25 s of speech, one thought, and well below the length of an item."""

PAUSE_SECONDS: Final = 8.0
"""Longest pause within a turn. A longer one is mostly a change of subject."""

ROLLING_SECONDS: Final = 1.0
"""Longest gap between a rolling caption and the one it repeats."""

_MAX_BLOCK: Final = 10_000  # characters; no cue is longer, and `srt` takes quadratic time on long rows of digits
_MAX_ROLLING_LINES: Final = 8

_STAMP: Final = r"(?:\d{1,10}:)?\d{1,2}:\d{1,2}[.,]\d{1,3}"
_TIMING: Final = re.compile(rf"(?m)^[ \t]*{_STAMP}[ \t]*-->[ \t]*{_STAMP}")
_VOICE: Final = re.compile(r"<v(?:\.[\w-]+)*[ \t]+([^>\n]+)>")
_TAG: Final = re.compile(r"</?(?:[cbivu]|ruby|rt|lang|font)(?:[. \t][^<>\n]*)?>|<\d[\d:.]*>|\{\\an?\d\}")
_PREFIX: Final = re.compile(r"(?:>>\s*)?([^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,3})\s?:\s+(?=\S)")
_DATE_NOTE: Final = re.compile(r"(?m)^NOTE\s+(?:date:[ \t]*)?(\d{4}-\d{2}-\d{2}[^\n]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Cue:
    """One caption, or the part of one speaker in it."""

    id: str | None
    start: float  # seconds
    end: float
    speaker: str | None
    text: str  # lines, without tags


def detect(sample: Sample) -> bool:
    """Return whether it begins as WebVTT, or as SRT: a number and a timing line."""
    head = sample.head.lstrip()
    if re.match(r"WEBVTT(?=\s|$)", head):
        return True
    first, _, rest = head.partition("\n")
    return bool(_TIMING.match(first) or (first.strip().isdecimal() and _TIMING.match(rest.split("\n", 1)[0])))


def parse(document: Document, tool_chars: int = TOOL_CHARS) -> Parsed:
    """Return one session: the cues without the repetitions of rolling captions, joined by speaker.

    Raises:
        InputRefused: it has no cue.
    """
    text = document.text.lstrip()
    problems: list[Problem] = []
    cues = list(_read_cues(document.text, text.startswith("WEBVTT"), problems))
    if not cues:
        raise InputRefused("no caption in it", "give WebVTT or SRT, or name the format with --format")
    if all(cue.speaker is None for cue in cues):
        cues = _find_speakers(cues)
    turns = tuple(_build_turns(_join_cues(_cut_repetitions(cues)), *date_document(document, _find_date(document.text))))
    header = re.match(r"\s*WEBVTT[ \t]+(?:[-–—:][ \t]*)?(\S[^\n]*)", document.text)
    title = fold_line(header[1] if header else get_file_stem(document.path))
    session = Session(source=NAME, id=name_session_of_path(document.path), turns=turns, title=title)
    return Parsed((session,) if turns else (), tuple(problems))


def _read_cues(text: str, is_vtt: bool, problems: list[Problem]) -> Iterator[_Cue]:
    """Yield the cues, each read alone, so that a bad timing costs one cue and is reported by its line."""
    started = False
    for line, block in _split_blocks(text):
        arrows = sum("-->" in row for row in block.split("\n"))
        if not arrows:
            if started and not block.startswith(("NOTE", "STYLE", "REGION")):
                problems.append(Problem(line, "text outside any cue; give it a timing line"))
            continue
        started = True
        found: list[_Cue] = []
        if len(block) <= _MAX_BLOCK:
            try:
                found = _read_vtt(block) if is_vtt else _read_srt(block)
            except (webvtt.errors.MalformedCaptionError, webvtt.errors.MalformedFileError, ValueError, OverflowError):
                found = []
        if not found:
            problems.append(Problem(line, "not a cue; its timing line must read 00:00:01.000 --> 00:00:02.000"))
        for cue in found:
            yield from _split_voices(cue)


def _split_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the blocks between blank lines with their first lines. A second timing line also begins a block."""
    first, rows = 0, list[str]()
    for line, row in number_lines(text):
        timed = "-->" in row and any("-->" in earlier for earlier in rows)
        if rows and (not row.strip() or timed):
            # In SRT the number before the timing line belongs to the next cue.
            number = rows.pop() if timed and len(rows) > 2 and rows[-1].strip().isdecimal() else None
            yield first, "\n".join(rows)
            rows = [] if number is None else [number]
            first = line - len(rows)
        if row.strip():
            first = first if rows else line
            rows.append(row)
    if rows:
        yield first, "\n".join(rows)


def _read_vtt(block: str) -> list[_Cue]:
    # WebVTT has a dot; some tools write SRT's comma.
    timing = re.sub(r"(?m)^([^\n]*-->[^\n]*)$", lambda m: m[1].replace(",", "."), block)
    return [
        _Cue(
            caption.identifier,
            caption.start_time.in_milliseconds() / 1000,
            caption.end_time.in_milliseconds() / 1000,
            None,
            caption.raw_text,
        )
        for caption in webvtt.from_string(f"WEBVTT\n\n{timing}\n").captions
    ]


def _read_srt(block: str) -> list[_Cue]:
    return [
        _Cue(
            str(cue.index) if cue.index is not None else None,
            cue.start.total_seconds(),
            cue.end.total_seconds(),
            None,
            cue.content,
        )
        for cue in srt.parse(f"{block}\n\n", ignore_errors=True)
    ]


def _split_voices(cue: _Cue) -> Iterator[_Cue]:
    """Yield a cue for each `<v Name>` in it."""
    before, *voices = _VOICE.split(cue.text)
    for speaker, text in [("", before), *zip(voices[::2], voices[1::2], strict=True)]:
        plain = html.unescape(_TAG.sub("", text)).replace("\xa0", " ")
        lines = [" ".join(line.split()) for line in plain.split("\n")]
        yield replace(cue, speaker=" ".join(speaker.split()) or None, text="\n".join(filter(None, lines)))


def _find_speakers(cues: list[_Cue]) -> list[_Cue]:
    """Return the cues with speakers from `Name: text`. A cue without a name has the speaker before it.

    `Note: …` looks the same, so a name must occur twice, or a third of all cues must have names.
    """
    found = [_PREFIX.match(cue.text) for cue in cues]
    names = Counter(match[1] for match in found if match and not match[1][0].islower())
    common = 3 * names.total() >= len(cues)
    known = {name for name, count in names.items() if common or count > 1}
    named: list[_Cue] = []
    speaker: str | None = None
    for cue, match in zip(cues, found, strict=True):
        if match and match[1] in known:
            speaker = match[1]
            cue = replace(cue, text=cue.text[match.end() :])
        named.append(replace(cue, speaker=speaker))
    return named


def _cut_repetitions(cues: list[_Cue]) -> Iterator[_Cue]:
    """Yield the cues without the lines of the cue before them; none for a cue that only repeats."""
    before: _Cue | None = None
    for cue in cues:
        text = cue.text
        if before is not None and before.speaker == cue.speaker and cue.start - before.end <= ROLLING_SECONDS:
            text = _cut_repeated(before.text, cue.text)
        before = cue if cue.text else before
        if text:
            yield replace(cue, text=text)


def _cut_repeated(before: str, text: str) -> str:
    """Return `text` without the last lines of `before`, or without all of it, at its beginning."""
    old, new = before.split("\n"), text.split("\n")
    for count in range(min(len(old), len(new), _MAX_ROLLING_LINES), 0, -1):
        if old[-count:] == new[:count]:
            return "\n".join(new[count:])
    old_words, new_words = before.split(), text.split()
    if old_words and old_words == new_words[: len(old_words)]:
        return " ".join(new_words[len(old_words) :])
    return text


def _join_cues(cues: Iterator[_Cue]) -> Iterator[_Cue]:
    """Join neighbouring cues of one speaker, up to `TURN_WORDS` and without a pause over `PAUSE_SECONDS`."""
    open_cue: _Cue | None = None
    words = 0
    parts: list[str] = []
    for cue in cues:
        count = len(cue.text.split())
        same = open_cue is not None and cue.speaker == open_cue.speaker
        if open_cue is not None and same and words + count <= TURN_WORDS and cue.start - open_cue.end <= PAUSE_SECONDS:
            parts.append(cue.text)
            open_cue, words = replace(open_cue, end=cue.end), words + count
            continue
        if open_cue is not None:
            yield replace(open_cue, text=" ".join(parts))
        open_cue, words, parts = cue, count, [cue.text]
    if open_cue is not None:
        yield replace(open_cue, text=" ".join(parts))


def _build_turns(cues: Iterator[_Cue], base: datetime | None, quality: str) -> Iterator[Turn]:
    taken: dict[str, int] = {}
    for cue in cues:
        text = strip_memory(" ".join(cue.text.split()))
        if not text:
            continue
        time = add_offset(base, cue.start)
        yield Turn(
            id=make_unique((cue.id or "").strip() or _format_clock(cue.start), taken),
            text=text,
            speaker=cue.speaker,
            time=time,
            time_quality=quality if time else "none",
        )


def _format_clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def _find_date(text: str) -> datetime | None:
    note = _DATE_NOTE.search(text)
    written = note[1].strip() if note else ""
    return parse_iso(written) or parse_iso(written[: len("2026-05-04")])
