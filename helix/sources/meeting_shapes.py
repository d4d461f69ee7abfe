"""Shapes of meeting transcripts, and the lines that begin turns in them.

Prose, settings, logs and mail have lines like `Name: text` too. A text is a meeting in one shape alone: the first in
which its lines begin turns throughout, with names that recur and times that do not run backwards. A name before a colon
may be a remark ("Remember: …"). A name that occurs once must be at a place where a turn can begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_MIN_TURNS: Final = 2
_MIN_BLOCKS: Final = 0.6  # of the blocks between blank lines, that begin a turn
_MIN_LINES: Final = 0.25  # of the lines, where hardly a line is blank
_MIN_ORDERED: Final = 0.9  # of the stamps, that are not before the one above
_MIN_WORDS: Final = 4  # a turn, on the average: values of settings are shorter
_DENSE: Final = 0.8  # of the lines that begin turns: each line is one
_MIN_ENDED: Final = 0.3  # of the turns without stamps, that end as sentences do
HEADER_LINES: Final = 40
"""Most lines above the talk."""

_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,3})?(?: ?[AaPp]\.?[Mm]\.?)?"
_WORD: Final = r"[\w.'’&-]{1,40}"
_NAME: Final = rf"[^\W\d_][\w.'’-]{{0,40}}(?: {_WORD}){{0,3}}(?: ?\([^()\n]{{1,40}}\))?"
CHAT: Final = re.compile(
    rf"(?P<stamp>{_CLOCK})[ \t]+From[ \t]+(?P<name>\S.{{0,80}}?)(?:[ \t]+[Tt]o[ \t]+\S.{{0,80}}?)?[ \t]*:"
    r"(?:[ \t]+(?P<text>.*))?[ \t]*"
)
PLAIN: Final = re.compile(rf"(?:\*\*)?(?P<name>{_NAME})[ \t]?:(?:\*\*)?[ \t]+(?P<text>\S.*)")
_TWO_LINES: Final = re.compile(rf"(?P<name>{_NAME})[ \t]*")
SHAPES: Final = (  # in the order in which they are tried
    CHAT,
    re.compile(rf"[\[(](?P<stamp>{_CLOCK})[\])][ \t]*(?P<name>{_NAME})[ \t]?:(?:[ \t]+(?P<text>.*))?[ \t]*"),
    re.compile(rf"(?P<name>{_NAME})[ \t]*[\[(](?P<stamp>{_CLOCK})[\])][ \t]*:?(?:[ \t]+(?P<text>.*))?[ \t]*"),
    re.compile(rf"\[(?P<name>[^\]\n]{{1,60}})\][ \t]+(?P<stamp>{_CLOCK})[ \t]*"),
    re.compile(rf"(?P<name>{_NAME})(?P<gap>[ \t]+)(?P<stamp>{_CLOCK})[ \t]*"),
    _TWO_LINES,
    PLAIN,
)
_STAMP: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,](\d{1,3}))?(?: ?([AaPp])\.?[Mm]\.?)?")
MARK: Final = re.compile(rf"[\[(]?({_CLOCK})[\])]?[ \t]*")  # alone on a line: the time of the next turns

# Words before a colon or a time that are no name and do not end one.
NOT_A_NAME: Final = re.compile(
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
FOOTER: Final = re.compile(
    r"Transcribed by https?://otter\.ai\S*|(?:Meeting|Transcription|Recording) ended (?:after|at) .*"
    r"|This editable transcript was computer generated .*|People can also change the text after it was created\.?"
    rf"|{_NAME} (?:started|stopped) transcription"
)
_NOT_A_TALK: Final = re.compile(r"#{1,6} |```|~~~|---[ \t]*$|.{0,40}-->|diff --git ")  # anywhere
_NOT_SPEECH: Final = re.compile(r"[ \t]*(?:[-*+] |[{}<|]|[\w.]{1,80}\(.{0,300}\)[;:{]?$)")
_MAX_NOT_SPEECH: Final = 0.1  # of the lines
_SENTENCE_END: Final = re.compile(r"[.?!…。！？][\"'”’)\]]*\s*$")
_MAIL: Final = (re.compile(r"(?m)^From:[ \t]"), re.compile(r"(?m)^(?:To|Subject|Date):[ \t]"))


@dataclass(frozen=True, slots=True)
class Opening:
    """A line that begins a turn."""

    line: int  # index of its line
    after: int  # index of the first line after it
    name: str
    stamp: str | None
    text: str  # on the same line
    is_sure: bool  # no other line looks like this


def is_mail(text: str) -> bool:
    """Return whether a text has the header of a mail."""
    return all(pattern.search(text) for pattern in _MAIL)


def find_shape(lines: list[str]) -> re.Pattern[str] | None:
    """Return the shape in which the text is a meeting."""
    for shape in SHAPES:
        openings = find_openings(lines, shape)
        if len(openings) >= _MIN_TURNS and _is_meeting(lines, openings, shape):
            return shape
    return None


def list_candidates(lines: list[str], shape: re.Pattern[str]) -> list[Opening]:
    """Return every line that may begin a turn."""
    return [opening for at in range(len(lines)) if (opening := _read_opening(lines, at, shape))]


def find_openings(lines: list[str], shape: re.Pattern[str]) -> list[Opening]:
    """Return the lines that begin turns.

    A name that occurs once, and may be other words, must begin a block; or it is listed above the talk, or every line
    is a turn. Above the first name that recurs only a whole sentence is a turn, not a label.
    """
    candidates = list_candidates(lines, shape)
    counts = Counter(opening.name for opening in candidates)
    begun = next((each.line for each in candidates if each.is_sure or counts[each.name] > 1), len(lines))
    is_dense = len(candidates) >= _DENSE * sum(1 for line in lines if line.strip())
    header = "\n".join(lines[: min(begun, HEADER_LINES)])

    def begins(opening: Opening) -> bool:
        if opening.is_sure or counts[opening.name] > 1:
            return True
        if opening.line < begun:
            return len(opening.text.split()) >= _MIN_WORDS
        return is_dense or opening.name in header or not lines[opening.line - 1].strip()

    return [opening for opening in candidates if begins(opening)]


def _read_opening(lines: list[str], at: int, shape: re.Pattern[str]) -> Opening | None:
    match = shape.fullmatch(lines[at])
    if not match:
        return None
    name = " ".join(match["name"].split())
    words = name.split(" (")[0].lower().split()
    if not words or name[0].islower() or NOT_A_NAME.fullmatch(words[-1] if not words[-1].isdecimal() else words[0]):
        return None
    fields = match.groupdict()
    text = (fields.get("text") or "").strip()
    if shape is _TWO_LINES:
        stamp = MARK.fullmatch(lines[at + 1]) if at + 1 < len(lines) else None
        return Opening(at, at + 2, name, stamp[1], "", True) if stamp else None
    return Opening(at, at + 1, name, fields.get("stamp"), text, shape is not PLAIN and fields.get("gap") != " ")


def _is_meeting(lines: list[str], openings: list[Opening], shape: re.Pattern[str]) -> bool:
    if shape is CHAT:
        return _begin_turns(lines, openings)
    talk = lines[openings[0].line :]
    if any(_NOT_A_TALK.match(line) for line in lines):
        return False
    if sum(_NOT_SPEECH.match(line) is not None for line in talk) > _MAX_NOT_SPEECH * len(talk):
        return False
    in_names = sum(len(opening.name.split()) + (opening.stamp is not None) for opening in openings)
    if sum(len(line.split()) for line in talk) - in_names < _MIN_WORDS * len(openings):
        return False
    counts = Counter(opening.name for opening in openings)
    recurring = sum(count for count in counts.values() if count > 1)
    if 2 * recurring < len(openings):
        return False
    if shape is PLAIN:
        indented = sum(line.startswith((" ", "\t")) for line in talk if line.strip())
        ended = sum(_SENTENCE_END.search(line) is not None for line in _list_last_lines(lines, openings))
        if indented > _MAX_NOT_SPEECH * len(talk) or ended < _MIN_ENDED * len(openings):
            return False
        return len(counts) > 1 and _begin_turns(lines, openings)
    times = [read_seconds(opening.stamp) for opening in openings]
    ordered = sum(later >= earlier for earlier, later in pairwise(times))
    return ordered >= _MIN_ORDERED * (len(times) - 1) and _begin_turns(lines, openings)


def slice_turns(lines: list[str], openings: list[Opening]) -> Iterator[tuple[Opening, list[str]]]:
    """Yield each opening with the lines after it, up to the next one."""
    for opening, end in zip(openings, [*(other.line for other in openings[1:]), len(lines)], strict=True):
        yield opening, lines[opening.after : end]


def _list_last_lines(lines: list[str], openings: list[Opening]) -> Iterator[str]:
    for opening, rest in slice_turns(lines, openings):
        spoken = (line for line in reversed(rest) if line.strip() and not _is_apart(line))
        yield next(spoken, opening.text)


def _is_apart(line: str) -> bool:
    """Return whether a line belongs to no turn."""
    return bool(MARK.fullmatch(line) or FOOTER.fullmatch(line.strip()))


def _begin_turns(lines: list[str], openings: list[Opening]) -> bool:
    """Return whether enough blocks of text begin a turn, from the first turn on."""
    begin = {opening.line for opening in openings}
    first = openings[0].line
    blocks = [at for at in range(first, len(lines)) if lines[at].strip() and (at == first or not lines[at - 1].strip())]
    blocks = [at for at in blocks if at in begin or not _is_apart(lines[at])]
    if len(blocks) < 3:
        full = sum(1 for line in lines[first:] if line.strip())
        return len(openings) >= _MIN_LINES * full
    return sum(at in begin for at in blocks) >= _MIN_BLOCKS * len(blocks)


def read_seconds(stamp: str | None) -> float:
    """Return the seconds of a stamp. Two parts are minutes and seconds, with `AM` or `PM` hours and minutes."""
    found = _STAMP.fullmatch(stamp or "")
    if not found:
        return 0.0
    first, second, third = int(found[1]), int(found[2]), int(found[3] or 0)
    half = (found[5] or "").lower()
    if half:
        first = first % 12 + (12 if half == "p" else 0)
    seconds = first * 3600 + second * 60 + third if half or found[3] else first * 60 + second
    return seconds + float(f"0.{found[4] or 0}")
