"""Reading a document against what came before: an increment of a growing source, or a later version of a whole one.

An increment is parsed after its predecessors: they decide whom a turn answers and whether an earlier one was rewound.
Its own turns are those that the parse with it has and the parse without it lacks. So a source yields the same items
however often it was cut.
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
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.sources import registry as sources
from helix.types import Document, Parsed, Session, Turn

WINDOW: Final = 4 << 20
"""Characters before an increment that are parsed with it. A rewind further back counts as a new beginning."""

_HEAD: Final = 1 << 16
"""Characters of a source's beginning that are parsed as well: some logs name their session only there."""

_CHARS_AN_ITEM: Final = 8
"""Least characters of an item: text that is not parsed takes this many places at most, and later items follow it."""

Place = tuple[str, str]
"""(session id, turn id)."""


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """A document, parsed with its predecessors."""

    parsed: Parsed  # with earlier turns
    fresh: frozenset[Place] | None = None  # turns it adds or changes; None: every one
    before: Mapping[Place, tuple[Session, Turn]] | None = None  # of a source that grew: turns it changed or removed
    passed: int = 0  # places of items that were skipped
    leans_on: str = ""  # a document whose items it does not repeat


def read_document(root: Path, envelope: Envelope, settings: Settings) -> DocumentReading:
    """Parse an accepted document and tell which of its turns are new.

    Raises:
        InputRefused: nothing in it can be read.
    """
    if envelope.after:
        return _read_increment(root, envelope, settings)
    parsed = _parse(_make_path(envelope), envelope.text, envelope.mtime, envelope.format, settings.tool_chars)
    older = _read_older(root, envelope)
    # A piece of a long text: each item before it has at least one character.
    passed = envelope.chars
    if older is None:
        return DocumentReading(parsed, passed=passed)
    known = _map_turns(_parse(_make_path(older), older.text, older.mtime, older.format, settings.tool_chars))
    same = older.format == envelope.format
    fresh = _find_fresh(parsed, known) if same else None
    # Items that an edit removes stay in the store. Where the text only grew, a missing item was misread before: half a
    # heading, or too little text to tell the format.
    old, new = older.text.rstrip(), envelope.text.rstrip()
    grew = new.startswith(old) or (not same and old.startswith(new))
    changed = _find_changed(parsed, known, fresh) if grew else None
    return DocumentReading(parsed, fresh, changed, passed, leans_on=envelope.instead if same else "")


def _find_changed(
    parsed: Parsed, known: Mapping[Place, tuple[Session, Turn]], fresh: frozenset[Place] | None
) -> Mapping[Place, tuple[Session, Turn]]:
    """Return the known turns that are missing now, or changed."""
    now = _map_turns(parsed)
    return {place: turn for place, turn in known.items() if fresh is None or place in fresh or place not in now}


def _read_older(root: Path, envelope: Envelope) -> Envelope | None:
    """Return the version a document replaces; None where that version's items may not be in the store."""
    if not envelope.instead or inbox.is_dead(root, envelope.instead):
        return None
    try:
        older = inbox.read_envelope(root, envelope.instead)
    except StoreError:
        return None
    same = (older.project, older.acl) == (envelope.project, envelope.acl)
    return older if same and not older.forgotten else None


def _read_increment(root: Path, envelope: Envelope, settings: Settings) -> DocumentReading:
    before, passed = _read_before(root, envelope)
    options = (envelope.mtime, envelope.format, settings.tool_chars)
    path = _make_path(envelope)
    parsed = _parse(path, before + envelope.text, *options)
    earlier = _parse(path, before, *options) if before.strip() else Parsed(())
    known = _map_turns(earlier)
    fresh = _find_fresh(parsed, known)
    changed = _find_changed(parsed, known, fresh)
    parsed = replace(
        parsed,
        problems=tuple(problem for problem in parsed.problems if problem.line > envelope.lines),
        unknown=Counter(parsed.unknown) - Counter(earlier.unknown),
        junk=Counter(parsed.junk) - Counter(earlier.junk),
    )
    return DocumentReading(parsed, fresh, changed, passed)


def _read_before(root: Path, envelope: Envelope) -> tuple[str, int]:
    """Return the text before an increment, omitted lines blank, and the places those take at most."""
    parts: list[str] = []
    size, lines, document = 0, envelope.lines, envelope.after
    while document and size < WINDOW:
        try:
            link = inbox.read_envelope(root, document)
        except StoreError:
            break
        # A forgotten text is gone, and an unreadable one would spoil this one.
        blank = link.forgotten or inbox.is_dead(root, document)
        parts.append("\n" * (lines - link.lines) if blank else link.text)
        size, lines, document = size + len(parts[-1]), link.lines, link.after
    head = ""
    if lines:
        head = _read_head(root, envelope.first)
        head += "\n" * max(lines - head.count("\n"), 0)
    return "".join([head, *reversed(parts)]), max(envelope.chars - size, 0) // _CHARS_AN_ITEM


def _read_head(root: Path, document: str) -> str:
    try:
        link = inbox.read_envelope(root, document)
    except StoreError:
        return ""
    if link.forgotten or inbox.is_dead(root, document):
        return ""
    return link.text[: link.text.rfind("\n", 0, _HEAD) + 1]


def _make_path(envelope: Envelope) -> str:
    """Return the path that names a source; a number tells later sources at the same path apart."""
    if not envelope.epoch:
        return envelope.path
    stem, dot, suffix = envelope.path.rpartition(".")
    return f"{stem}~{envelope.epoch + 1}{dot}{suffix}" if dot else f"{envelope.path}~{envelope.epoch + 1}"


@lru_cache(maxsize=2)  # the next increment is parsed after the same text
def _parse(path: str, text: str, mtime: datetime | None, format: str, tool_chars: int) -> Parsed:
    return sources.parse(Document(path, text, mtime), format, tool_chars)


def _map_turns(parsed: Parsed) -> dict[Place, tuple[Session, Turn]]:
    return {(session.id, turn.id): (session, turn) for session in parsed.sessions for turn in session.turns}


def _find_fresh(parsed: Parsed, known: Mapping[Place, tuple[Session, Turn]]) -> frozenset[Place]:
    """Return the turns that are new or changed."""

    def content(session: Session, turn: Turn) -> tuple[object, ...]:
        # A turn dated by its file alone keeps its first date: a later write changed other turns.
        turn = replace(turn, time=None) if turn.time_quality == "file" else turn
        return turn, session.project, session.branch_of

    return frozenset(
        place
        for place, (session, turn) in _map_turns(parsed).items()
        if place not in known or content(*known[place]) != content(session, turn)
    )
