"""A file offered for acceptance: where a walk finds it, its options, its cursor, and the envelopes made of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Final

from helix.redact.paths import redact_log
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot.ledger import cursors
from helix.snapshot.ledger.cursors import Cursor
from helix.snapshot.ledger.inbox import (
    Envelope,
    Repository,
    accept_envelope,
    name_document,
    read_accepted_time,
    revive_document,
)
from helix.sources import registry as sources
from helix.sources.common.decode import unescape_ascii
from helix.types import Problem
from helix.util.failpoints import failpoint
from pipelines.ingest.forgotten import ForgottenDocuments
from pipelines.ingest.increments import Increment, is_continued
from pipelines.ingest.quota import Quota
from pipelines.ingest.switched_off import OffCheck, Omission
from pipelines.ingest.workspaces import find_repositories

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
    left_out: tuple[Omission, ...] = ()  # Helix is or was off for it

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
    clock: datetime | None = None  # the time that counts for the current input; None: now
    off: OffCheck = field(default_factory=OffCheck, repr=False)  # of the current input

    @cached_property
    def forgotten_documents(self) -> ForgottenDocuments:
        """The documents that stay out."""
        return ForgottenDocuments(self.root)

    @cached_property
    def quota(self) -> Quota:
        """The limit of the store's items."""
        return Quota(self.root)

    @cached_property
    def files(self) -> dict[tuple[int, int], str]:
        """(device, inode) → cursor key, which recognises a renamed file. Read once, then updated."""
        return cursors.index_by_file(self.root)

    def read_clock(self, *before: str) -> datetime:
        """Return the time, later with each call: of two versions the later one counts.

        Args:
            before: documents the time has to follow too, in case the clock was set back.
        """
        known = (read_accepted_time(self.root, document) for document in before if document)
        earlier = [when + _MICROSECOND for when in known if when]
        if self.clock is None:
            self._last = max(datetime.now(UTC), self._last + _MICROSECOND, *earlier)
            return self._last
        now = max(self.clock, *earlier) if earlier else self.clock
        self.clock = now + _MICROSECOND
        return now

    def has(self, document: str) -> bool:
        """Return whether the inbox holds an envelope of this name."""
        return bool(document) and (self.root / "inbox" / document).is_file()

    def has_lost(self, cursor: Cursor) -> bool:
        """Return whether items of a source were forgotten, as far as its cursor tells."""
        forgotten = self.forgotten_documents
        return forgotten.has_lost_source(cursor.first) or forgotten.stays_out(cursor.document)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that is offered."""

    path: Path
    where: str  # absolute, redacted
    stat: os.stat_result
    options: AcceptOptions
    read: float = field(default_factory=time.time)

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
        cursor = replace(cursor, device=now.st_dev, inode=now.st_ino, size=now.st_size, mtime=now.st_mtime_ns)
        return replace(cursor, read=self.read, document=document)


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


_HISTORIES: Final = frozenset({".specstory", ".aider.chat.history.md", ".system_generated"})
"""Hidden names that are read all the same: they hold histories."""


_STORE_FOLDERS: Final = frozenset({"inbox", "manifests", "segments", "parts"})


def walk_inputs(inputs: Sequence[str | Path], note_outside: Callable[[Path], object] = bool) -> Iterator[Path]:
    """Yield the files of the given paths; walk folders in name order, without hidden entries, links and stores.

    Files that belong to another file (a database's log) are left out: they are no inputs of their own.

    Args:
        note_outside: called with each link to a file outside the given folder; the link is not followed.
    """
    for given in inputs:
        path = Path(given).expanduser()
        if not path.is_dir():
            yield path  # `accept` refuses a missing one by name
            continue
        for folder, folders, files in os.walk(path):
            if is_store(folders):
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if is_visible(name))
            for file in (Path(folder, name) for name in sorted(files) if is_visible(name)):
                if file.is_symlink() and is_outside(file, path):
                    note_outside(file)
                elif not sources.is_companion(file):
                    yield file


def is_store(folders: Collection[str]) -> bool:
    """Return whether a folder with these folders in it is a Helix store: its files are no inputs."""
    return _STORE_FOLDERS.issubset(folders)


def is_outside(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder leads out of that folder through links."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def is_visible(name: str) -> bool:
    """Return whether a walk enters or reads an entry of this name."""
    return not name.startswith(".") or name in _HISTORIES


def make_increment(
    inbox: Inbox, source: SourceFile, where: str, start: Cursor, new: Increment, known: Mapping[str, Repository]
) -> Envelope:
    """Return the envelope of an increment, which follows the document of the cursor.

    Args:
        known: the repositories that the document before it knows.
    """
    options = source.options
    name = partial(
        name_document,
        new.text,
        start.format,
        options.project,
        options.acl,
        after=start.document,
        lines=start.lines,
        epoch=start.epoch,
    )
    return Envelope(
        document=_choose_name(inbox, options, name),
        path=where,
        text=new.text,
        format=start.format,
        project=options.project,
        acl=tuple(sorted(options.acl)),
        mtime=source.mtime,
        accepted=inbox.read_clock(),
        redacted=new.redacted,
        problems=new.problems,
        after=start.document,
        first=start.first,
        lines=start.lines,
        chars=start.chars,
        epoch=start.epoch,
        remember=options.remember,
        repositories=find_repositories(where, new.text, known),
    )


def make_whole(
    inbox: Inbox,
    options: AcceptOptions,
    where: str,
    text: str,
    format: str,
    mtime: datetime,
    problems: Sequence[Problem],
    older: str,
) -> Envelope | None:
    """Return the envelope of a text that is accepted whole; None where all of it stays out: Helix is off for it.

    Args:
        older: the document it replaces, if that is another one; empty for none.
    """
    if sources.FORMATS[format].JSON:  # \\u0067 must not hide a secret
        text, redacted = redact_log(unescape_ascii(text))
    else:
        text, redacted = redact(text)
    repositories = find_repositories(where, text, {})  # before any turn is left out with what it names
    if text and not (text := inbox.off.filter_text(where, text, format, mtime.timestamp())):
        return None
    name = partial(name_document, text, format, options.project, options.acl)
    document = _choose_name(inbox, options, name)
    # A remembered document repeats all its items: the version before has lost some of them.
    if older == document or (options.remember and inbox.forgotten_documents.has_lost(older)):
        older = ""
    return Envelope(
        document=document,
        path=where,
        text=text,
        format=format,
        project=options.project,
        acl=tuple(sorted(options.acl)),
        mtime=mtime,
        accepted=inbox.read_clock(older),
        redacted=dict(redacted),
        problems=tuple(problems),
        instead=older,
        remember=options.remember,
        repositories=repositories,
    )


def _choose_name(inbox: Inbox, options: AcceptOptions, name: Callable[..., str]) -> str:
    """Return the current name of a document: it changes each time the document is forgotten and remembered.

    Args:
        name: called with how often that happened (`again`).
    """
    again, document = 0, name(again=0)
    while (inbox.root / "inbox" / document).exists() and inbox.forgotten_documents.has_lost(document):
        following = name(again=again + 1)
        if not options.remember and not (inbox.root / "inbox" / following).exists():
            inbox.stays_out |= inbox.forgotten_documents.stays_out(document)
            return document
        again, document = again + 1, following
    return document


def write_envelope(inbox: Inbox, envelope: Envelope, retry: bool, *, settle: bool = True) -> bool:
    """Write an envelope; without `settle`, `sync_inbox` makes it durable. Return False if the inbox has it already."""
    if (inbox.root / "inbox" / envelope.document).exists():
        # Offering a document again that was given up retries it.
        return retry and revive_document(inbox.root, envelope.document)
    accept_envelope(inbox.root, envelope, settle=settle)
    failpoint("accept.envelope")
    return True
