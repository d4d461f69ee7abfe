"""A file offered for acceptance: the options it is offered with, its cursor, and whether it is still the same file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Final

from helix.settings import Settings
from helix.snapshot.ledger import cursors
from helix.snapshot.ledger.cursors import Cursor
from helix.snapshot.ledger.inbox import read_accepted_time
from pipelines.ingest.forgotten import ForgottenDocuments
from pipelines.ingest.increments import is_continued

_MICROSECOND: Final = timedelta(microseconds=1)

START: Final = Cursor(0, 0, 0, 0, "", "")
"""The cursor of a source of which nothing is accepted yet."""


@dataclass(frozen=True, slots=True)
class AcceptOptions:
    """The caller's options for the inputs it offers."""

    project: str | None = None
    format: str = "auto"
    acl: tuple[str, ...] = ()
    retry: bool = True  # enrich documents again that were given up
    seconds: float = inf  # after which the rest of a growing source is left for the next call
    remember: bool = False  # accept forgotten items again


@dataclass(frozen=True, slots=True)
class Accepted:
    """The new documents of one input, in order; none where the inbox held all of it."""

    documents: tuple[str, ...]
    waits: int = 0  # number of an incomplete last line, which is accepted once it is whole; 0 for none
    more: bool = False  # the rest can be accepted at once
    forgotten: bool = False  # part of it was forgotten, and stays out

    @property
    def is_duplicate(self) -> bool:
        """True for an input without new content."""
        return not self.documents


@dataclass
class Inbox:
    """A store's inbox, open for accepting."""

    root: Path
    settings: Settings
    _last: datetime = field(default=datetime.min.replace(tzinfo=UTC), repr=False)
    stays_out: bool = False  # part of the current input was forgotten

    @cached_property
    def forgotten(self) -> ForgottenDocuments:
        """The documents that stay out."""
        return ForgottenDocuments(self.root)

    @cached_property
    def files(self) -> dict[tuple[int, int], str]:
        """(device, inode) → cursor key, which recognises a renamed file. Read once, then updated."""
        return cursors.index_by_file(self.root)

    def now(self, *before: str) -> datetime:
        """Return the time, later with each call: of two versions the later one counts.

        Args:
            before: documents the time has to follow too, in case the clock was set back.
        """
        known = (read_accepted_time(self.root, document) for document in before if document)
        earlier = [time for time in known if time]
        self._last = max(datetime.now(UTC), *(time + _MICROSECOND for time in (self._last, *earlier)))
        return self._last

    def has(self, document: str) -> bool:
        """Return whether the inbox holds an envelope of this name."""
        return bool(document) and (self.root / "inbox" / document).is_file()

    def has_lost(self, cursor: Cursor) -> bool:
        """Return whether items of a source were forgotten, as far as its cursor tells."""
        return self.forgotten.has_lost_source(cursor.first) or self.forgotten.stays_out(cursor.document)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that is offered."""

    path: Path
    where: str  # absolute, redacted
    stat: os.stat_result
    options: AcceptOptions

    def key(self, part: str = "") -> str:
        """Return the key of its cursor, or of the cursor of one of its parts."""
        options = self.options
        return cursors.make_key(self.where, options.format, options.project, options.acl, part)

    @property
    def mtime(self) -> datetime:
        """Time of the last write, UTC."""
        return datetime.fromtimestamp(self.stat.st_mtime, UTC)

    def advance(self, cursor: Cursor, document: str) -> Cursor:
        """Return the cursor with the file's present state and the last document made of it."""
        now = self.stat
        return replace(
            cursor, device=now.st_dev, inode=now.st_ino, size=now.st_size, mtime=now.st_mtime_ns, document=document
        )


def find_cursor(inbox: Inbox, source: SourceFile) -> Cursor | None:
    """Return the cursor of a source, under its own name or the one it had before a rename; None for a new source."""
    cursor = cursors.read_cursor(inbox.root, source.key())
    here = (source.stat.st_dev, source.stat.st_ino)
    if cursor is None or (cursor.device, cursor.inode) != here:
        for key in (cursors.make_moved_key(*here), inbox.files.get(here, "")):
            moved = cursors.read_cursor(inbox.root, key)
            # Only an incremental source is distinguishable from another file with its inode.
            if moved is not None and moved.offset and _is_of(moved, source):
                cursor = moved
    return cursor if cursor and (inbox.root / "inbox" / cursor.document).exists() else None


def _is_of(cursor: Cursor, source: SourceFile) -> bool:
    with source.path.open("rb") as file:
        return is_continued(file, cursor, source.stat.st_size)
