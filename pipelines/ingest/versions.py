"""What a document says that is new: a link of a source that grew, or a later version of one that is written anew.

A link is read behind what came before it, since only that tells whom a turn answers and whether an earlier one was
rewound; what it adds is what the text says with it and did not say without it. So a source gives the same items however
often it was cut on its way in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from helix.sources import registry as sources
from helix.types import Document, Parsed, Session, Turn

WINDOW: Final = 4 << 20
"""Characters before a link that it is read behind. A rewind to farther back is taken for a new beginning."""

_HEAD: Final = 1 << 16
"""Characters of a source's beginning that are read as well: some logs say only there whose they are."""

_CHARS_AN_ITEM: Final = 8
"""Of a log. Fewer make no item: what is not read is passed over with as many places, so later items come after it."""

Place = tuple[str, str]
"""Session and turn."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A document, read with what came before it."""

    parsed: Parsed  # all of it, earlier turns too
    fresh: frozenset[Place] | None = None  # turns it adds or changes; None: every one
    before: Mapping[Place, tuple[Session, Turn]] | None = None  # of one that grew: what changed in it, or vanished
    passed: int = 0  # places of items that were passed over
    leans_on: str = ""  # a document whose items it does not repeat


def read(root: Path, envelope: Envelope, settings: Settings) -> Reading:
    """The sessions of an accepted document, and which of their turns are new in it.

    Raises:
        InputRefused: nothing in it can be read.
    """
    if envelope.after:
        return _link(root, envelope, settings)
    parsed = _parsed(_path(envelope), envelope.text, envelope.mtime, envelope.format, settings.tool_chars)
    older = _older(root, envelope)
    # Of a text that was cut into pieces, what lies before this one: characters of turns, and an item has one at least.
    passed = envelope.chars
    if older is None:
        return Reading(parsed, passed=passed)
    known = _turns(_parsed(_path(older), older.text, older.mtime, older.format, settings.tool_chars))
    same = older.format == envelope.format
    fresh = _fresh(parsed, known) if same else None
    # Of a source that was edited, what is left out of it now is remembered. Where it only grew, what is not there any
    # more was misread: half a heading, or too little to tell the format by.
    old, new = older.text.rstrip(), envelope.text.rstrip()
    grew = new.startswith(old) or (not same and old.startswith(new))
    changed = _changed(parsed, known, fresh) if grew else None
    return Reading(parsed, fresh, changed, passed, leans_on=envelope.instead if same else "")


def _changed(
    parsed: Parsed, known: Mapping[Place, tuple[Session, Turn]], fresh: frozenset[Place] | None
) -> Mapping[Place, tuple[Session, Turn]]:
    """What was there, and is no longer, or not as it was."""
    now = _turns(parsed)
    return {place: said for place, said in known.items() if fresh is None or place in fresh or place not in now}


def _older(root: Path, envelope: Envelope) -> Envelope | None:
    """The version a document takes the place of; None where its items may not be in the store."""
    if not envelope.instead or ledger.is_dead(root, envelope.instead):
        return None
    try:
        older = ledger.read(root, envelope.instead)
    except StoreError:
        return None
    same = (older.project, older.acl) == (envelope.project, envelope.acl)
    return older if same and not older.forgotten else None


def _link(root: Path, envelope: Envelope, settings: Settings) -> Reading:
    before, passed = _before(root, envelope)
    told = (envelope.mtime, envelope.format, settings.tool_chars)
    path = _path(envelope)
    parsed = _parsed(path, before + envelope.text, *told)
    earlier = _parsed(path, before, *told) if before.strip() else Parsed(())
    known = _turns(earlier)
    fresh = _fresh(parsed, known)
    changed = _changed(parsed, known, fresh)
    parsed = replace(
        parsed,
        problems=tuple(problem for problem in parsed.problems if problem.line > envelope.lines),
        unknown=Counter(parsed.unknown) - Counter(earlier.unknown),
        junk=Counter(parsed.junk) - Counter(earlier.junk),
    )
    return Reading(parsed, fresh, changed, passed)


def _before(root: Path, envelope: Envelope) -> tuple[str, int]:
    """What comes before a link, a blank line for each that is left out; and how many places those take at most."""
    parts: list[str] = []
    size, lines, document = 0, envelope.lines, envelope.after
    while document and size < WINDOW:
        try:
            link = ledger.read(root, document)
        except StoreError:
            break
        # What is forgotten is gone; what could not be read would only spoil this one, too.
        blank = link.forgotten or ledger.is_dead(root, document)
        parts.append("\n" * (lines - link.lines) if blank else link.text)
        size, lines, document = size + len(parts[-1]), link.lines, link.after
    head = ""
    if lines:
        head = _head(root, envelope.first)
        head += "\n" * max(lines - head.count("\n"), 0)
    return "".join([head, *reversed(parts)]), max(envelope.chars - size, 0) // _CHARS_AN_ITEM


def _head(root: Path, document: str) -> str:
    try:
        link = ledger.read(root, document)
    except StoreError:
        return ""
    if link.forgotten or ledger.is_dead(root, document):
        return ""
    return link.text[: link.text.rfind("\n", 0, _HEAD) + 1]


def _path(envelope: Envelope) -> str:
    """The path a source goes by; another one that came to lie there is told apart by a number."""
    if not envelope.epoch:
        return envelope.path
    stem, dot, suffix = envelope.path.rpartition(".")
    return f"{stem}~{envelope.epoch + 1}{dot}{suffix}" if dot else f"{envelope.path}~{envelope.epoch + 1}"


@lru_cache(maxsize=2)  # what a link was read with is what the next one is read behind
def _parsed(path: str, text: str, mtime: datetime | None, format: str, tool_chars: int) -> Parsed:
    return sources.parse(Document(path, text, mtime), format, tool_chars)


def _turns(parsed: Parsed) -> dict[Place, tuple[Session, Turn]]:
    return {(session.id, turn.id): (session, turn) for session in parsed.sessions for turn in session.turns}


def _fresh(parsed: Parsed, known: Mapping[Place, tuple[Session, Turn]]) -> frozenset[Place]:
    """The turns that are not known as they are now."""

    def said(session: Session, turn: Turn) -> tuple[object, ...]:
        # What is dated by its file alone keeps the date at which it was written: the file has changed elsewhere since.
        turn = replace(turn, time=None) if turn.time_quality == "file" else turn
        return turn, session.project, session.branch_of

    return frozenset(
        place
        for place, (session, turn) in _turns(parsed).items()
        if place not in known or said(*known[place]) != said(session, turn)
    )
