"""Accepting: read, decode, redact, and put a durable envelope into the inbox. The same for every way in.

Of a source that grows at its end only what is new is taken (`pipelines.links`); any other is taken whole each time it
has changed, and says which version it takes the place of.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final

from helix import sources
from helix.enrich.redact import redact
from helix.errors import InputRefused, StoreError, UsageError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import cursors, ledger, paths
from helix.snapshot.cursors import Cursor
from helix.snapshot.ledger import Envelope
from helix.sources import archive
from helix.sources.collected import Collected
from helix.sources.decode import decode, plain_escapes
from helix.types import Document, Problem
from pipelines.links import BLOCK, Link, begins_as, goes_on, growing, links

SETTLED: Final = 2.0
"""Seconds: a text whose last line has no end, and which nobody has written to for so long, is whole as it is."""

# Names that begin with a dot are passed over, but for these: they are histories.
_HISTORIES: Final = frozenset({".specstory", ".aider.chat.history.md"})


@dataclass(frozen=True, slots=True)
class Way:
    """What is said of inputs by whoever offers them."""

    project: str | None = None
    format: str = "auto"
    acl: tuple[str, ...] = ()
    retry: bool = True  # what was given up before is tried again


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one input: its new documents, in order; none where all of it was there already."""

    documents: tuple[str, ...]
    waits: int = 0  # number of a last line that is not whole yet, and is taken in once it is; 0: none

    @property
    def duplicate(self) -> bool:
        """Whether there was nothing new in it."""
        return not self.documents


@dataclass
class Inbox:
    """A store that takes inputs in."""

    root: Path
    settings: Settings
    _last: datetime = field(default=datetime.min.replace(tzinfo=UTC), repr=False)

    @cached_property
    def files(self) -> dict[tuple[int, int], str]:
        """Which file each cursor is of: one that was renamed is known by it. Read once, and kept up from then on."""
        return cursors.by_file(self.root)

    def now(self) -> datetime:
        """The time, later with each call: of two versions the one accepted later counts."""
        self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
        return self._last


def expand(inputs: Sequence[str | Path]) -> Iterator[Path]:
    """The files behind the given paths, folders walked in name order; hidden files and folders are passed over.

    So are files that are read together with another one: they are no inputs of their own.
    """
    for given in inputs:
        path = Path(given).expanduser()
        if not path.is_dir():
            yield path  # a missing one is refused by `accept`, by name
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if is_shown(name))
            found = (Path(folder, name) for name in sorted(files) if is_shown(name))
            yield from (path for path in found if not sources.belongs(path))


def is_shown(name: str) -> bool:
    """Whether a file or folder of that name is looked at in a walk."""
    return not name.startswith(".") or name in _HISTORIES


def check(root: Path, format: str) -> None:
    """What must hold before any input is looked at.

    Raises:
        UsageError: no such format.
        StoreError: the store cannot be written.
    """
    if format != "auto" and format not in sources.FORMATS:
        raise UsageError(f"unknown format {format!r}", f"there are auto, {', '.join(sources.FORMATS)}")
    paths.create(root)


def accept(
    root: Path,
    path: Path,
    settings: Settings,
    *,
    project: str | None = None,
    format: str = "auto",
    acl: Sequence[str] = (),
) -> Accepted:
    """Take in what is new of one file, as `take` does."""
    return take(Inbox(root, settings), path, Way(project, format, tuple(acl)))


def take(inbox: Inbox, path: Path, way: Way) -> Accepted:
    """Take in what is new of one file. Durable when this returns.

    Raises:
        InputRefused: the file cannot be taken; the message says why and what to do.
        StoreError: the store cannot be written.
    """
    return _take(inbox, path, str(path.absolute()), way)


def _take(inbox: Inbox, path: Path, where: str, way: Way) -> Accepted:
    with _refusals(path):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputRefused(f"{path} is no regular file", "name a file or a folder")
        source = _Source(path, where, found, way)
        cursor = _cursor(inbox, source)
        if cursor is not None and (cursor.size, cursor.mtime) == (found.st_size, found.st_mtime_ns):
            return Accepted(tuple(_again(inbox.root, cursor.document)) if way.retry else ())
        if archive.is_archive(path):
            return _members(inbox, source)
        collected = sources.collect(path) if way.format == "auto" else None
        if collected is not None:
            return _all(inbox, source, collected)
        with path.open("rb") as file:
            return _read(inbox, source, file, cursor)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """What the file system says against reading an input, as a refusal; against writing the store, as it is."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, path, str(path)):
            raise
        if isinstance(error, FileNotFoundError):
            raise InputRefused(f"{path} does not exist", "check the path") from None
        raise InputRefused(f"{path} cannot be read: {error.strerror or error}", "check its permissions") from None


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that is offered."""

    path: Path
    where: str  # absolute
    stat: os.stat_result
    way: Way

    def key(self, part: str = "") -> str:
        """The name of its cursor, or of one of its parts."""
        return cursors.key_of(self.where, self.way.format, self.way.project, self.way.acl, part)

    @property
    def mtime(self) -> datetime:
        """When it was last written, UTC."""
        return datetime.fromtimestamp(self.stat.st_mtime, UTC)

    def at(self, cursor: Cursor, document: str) -> Cursor:
        """The cursor with what is known of the file now."""
        now = self.stat
        return replace(
            cursor, device=now.st_dev, inode=now.st_ino, size=now.st_size, mtime=now.st_mtime_ns, document=document
        )


_START: Final = Cursor(0, 0, 0, 0, "", "")


def _cursor(inbox: Inbox, source: _Source) -> Cursor | None:
    """The cursor of a source, under its name or, where it was renamed, under the one it had; None for a new one."""
    cursor = cursors.read(inbox.root, source.key())
    here = (source.stat.st_dev, source.stat.st_ino)
    if cursor is None or (cursor.device, cursor.inode) != here:
        for key in (cursors.moved(*here), inbox.files.get(here, "")):
            moved = cursors.read(inbox.root, key)
            # Only one that is taken in links can be told from another file that was given its place on the disk.
            if moved is not None and moved.offset and _is_of(moved, source):
                cursor = moved
    return cursor if cursor and (inbox.root / "inbox" / cursor.document).exists() else None


def _is_of(cursor: Cursor, source: _Source) -> bool:
    with source.path.open("rb") as file:
        return goes_on(file, cursor, source.stat.st_size)


def _again(root: Path, document: str) -> Iterator[str]:
    """The links of a source that were given up: whoever offers them again wants them tried again."""
    if not ledger.dead(root):
        return
    while document:
        if ledger.revive(root, document):
            yield document
        try:
            document = ledger.read(root, document).after
        except StoreError:
            return


def _read(inbox: Inbox, source: _Source, file: BinaryIO, cursor: Cursor | None) -> Accepted:
    """Take in what is new of an open file."""
    start = _START
    if cursor is not None and cursor.offset:
        if goes_on(file, cursor, source.stat.st_size):
            return _links(inbox, source, file, cursor)
        other = not begins_as(file, cursor)
        if other:  # the file that was here may go on elsewhere, under another name
            cursors.write(inbox.root, cursors.moved(cursor.device, cursor.inode), cursor)
        start = replace(_START, epoch=cursor.epoch + other)
        cursor = None
    file.seek(0)
    first = file.read(BLOCK)
    format = source.way.format
    format = growing(first, len(first) == source.stat.st_size, source.where, format, inbox.settings)
    if format:
        # The beginning of a log may have been too little to tell its format by.
        return _links(inbox, source, file, replace(start, format=format), cursor.document if cursor else "")
    limit = inbox.settings.max_document_bytes
    if source.stat.st_size > limit:
        raise InputRefused(
            f"{source.path} has {source.stat.st_size} bytes; at most {limit} are taken",
            "split it, or raise HELIX_MAX_DOCUMENT_BYTES",
        )
    text, problems = decode(first + file.read(), inbox.settings.max_line_bytes)
    return Accepted(tuple(_whole(inbox, source, "", text, source.mtime, problems)))


def _links(inbox: Inbox, source: _Source, file: BinaryIO, cursor: Cursor, instead: str = "") -> Accepted:
    """Take in what lies behind the cursor. The cursor moves with each link: a kill costs one at most."""
    settled = time.time() - source.stat.st_mtime > SETTLED
    where = _name_of(inbox.root, cursor.document) or source.where
    new: list[str] = []
    for link in links(file, cursor, settled, inbox.settings):
        envelope = replace(
            _envelope(inbox, source, where, cursor, link), instead=instead if not cursor.document else ""
        )
        if _write(inbox, envelope, source.way.retry):
            new.append(envelope.document)
        cursor = source.at(replace(link.end, first=cursor.first or envelope.document), envelope.document)
        if cursor.offset < source.stat.st_size:  # there is more: next time its size is no proof that all is taken in
            cursor = replace(cursor, size=cursor.offset)
        cursors.write(inbox.root, source.key(), cursor)
        inbox.files[cursor.device, cursor.inode] = source.key()
    waits = cursor.lines + 1 if cursor.offset < source.stat.st_size else 0
    if not new and not waits and source.way.retry:
        new += _again(inbox.root, cursor.document)
    return Accepted(tuple(new), waits)


def _name_of(root: Path, document: str) -> str:
    """The path under which a source is known: that of its first link, though it may have been renamed since."""
    try:
        return ledger.read(root, document).path if document else ""
    except StoreError:
        return ""


def _envelope(inbox: Inbox, source: _Source, where: str, start: Cursor, link: Link) -> Envelope:
    way = source.way
    return Envelope(
        document=ledger.name_of(
            link.text,
            start.format,
            way.project,
            way.acl,
            after=start.document,
            lines=start.lines,
            epoch=start.epoch,
        ),
        path=where,
        text=link.text,
        format=start.format,
        project=way.project,
        acl=tuple(sorted(way.acl)),
        mtime=source.mtime,
        accepted=inbox.now(),
        redacted=link.redacted,
        problems=link.problems,
        after=start.document,
        first=start.first,
        lines=start.lines,
        chars=start.chars,
        epoch=start.epoch,
    )


def _members(inbox: Inbox, source: _Source) -> Accepted:
    """Take in what an archive holds, each file as if it lay in a folder of the archive's name."""
    limit = inbox.settings.max_document_bytes
    new: list[str] = []
    refused: list[InputRefused] = []
    with tempfile.TemporaryDirectory(prefix="helix-") as folder:
        archive.unpack(source.path, Path(folder), limit, 4 * limit)
        for path in expand([folder]):
            try:
                new += _take(inbox, path, f"{source.where}/{path.relative_to(folder)}", source.way).documents
            except InputRefused as error:  # exports hold settings and lists beside what was said
                refused.append(error)
    if refused and not new and not cursors.read(inbox.root, source.key()):
        raise InputRefused(f"{source.path} holds nothing that can be taken in", str(refused[0]))
    if new:
        cursors.write(inbox.root, source.key(), source.at(_START, new[-1]))
    return Accepted(tuple(new))


def _all(inbox: Inbox, source: _Source, collected: Iterable[Collected]) -> Accepted:
    """Take in the parts of a source that is no text, each as a document of its own."""
    new = [
        name
        for part in collected
        for name in _whole(inbox, source, part.name, part.text, part.mtime or source.mtime, ())
    ]
    # That the file is unchanged proves nothing of a database: what is new may lie beside it.
    return Accepted(tuple(new))


def _whole(
    inbox: Inbox, source: _Source, part: str, text: str, mtime: datetime, problems: Sequence[Problem]
) -> Iterator[str]:
    """Take a source in as it is now; the document, where that is a new one."""
    key, way = source.key(part), source.way
    before = cursors.read(inbox.root, key)
    where = f"{source.where}#{part}" if part else source.where
    chosen = sources.detect(Document(where, text, mtime)).NAME if way.format == "auto" else way.format
    if chosen in sources.JSON_FORMATS:
        text = plain_escapes(text)  # a secret must not hide behind \\u0067
    text, redacted = redact(text)
    older = before.document if before and not before.offset else ""
    envelope = Envelope(
        document=ledger.name_of(text, chosen, way.project, way.acl),
        path=where,
        text=text,
        format=chosen,
        project=way.project,
        acl=tuple(sorted(way.acl)),
        mtime=mtime,
        accepted=inbox.now(),
        redacted=dict(redacted),
        problems=tuple(problems),
        instead=older if (inbox.root / "inbox" / older).is_file() else "",
    )
    if envelope.instead == envelope.document:
        envelope = replace(envelope, instead="")
    new = _write(inbox, envelope, way.retry)
    cursors.write(inbox.root, key, source.at(replace(_START, format=chosen), envelope.document))
    if new:
        yield envelope.document


def _write(inbox: Inbox, envelope: Envelope, retry: bool) -> bool:
    """Make an envelope durable; False where the same is there already."""
    if (inbox.root / "inbox" / envelope.document).exists():
        # Whoever offers a document again that was given up wants it tried again.
        return retry and ledger.revive(inbox.root, envelope.document)
    ledger.write(inbox.root, envelope)
    failpoint("accept.envelope")
    return True
