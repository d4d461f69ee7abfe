"""Accepting: read, decode, redact, and put a durable envelope into the inbox. The same for every way in.

Of a source that grows at its end only what is new is taken (`pipelines.ingest.increments`), of an export the
conversations that have changed (`helix.sources.common.split`); any other is taken whole each time it has changed. What
is written anew says which version it takes the place of.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import BinaryIO, Final

from helix.errors import InputRefused, StoreError, UsageError
from helix.redact.paths import redact_log, redact_name, redact_path
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import cursors
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.cursors import Cursor, Known
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import digest
from helix.sources import registry as sources
from helix.sources.common import archive
from helix.sources.common.collected import Collected
from helix.sources.common.cut import FORMATS, cut
from helix.sources.common.decode import decode, plain_escapes
from helix.sources.common.split import Split, split, text_of
from helix.types import Document, Problem
from helix.util.failpoints import failpoint
from pipelines.ingest.forgotten import Forgotten
from pipelines.ingest.increments import BLOCK, Link, begins_as, goes_on, growing, links

SETTLED: Final = 2.0
"""Seconds: a text whose last line has no end, and which nobody has written to for so long, is whole as it is."""

_MICROSECOND: Final = timedelta(microseconds=1)

# Names that begin with a dot are passed over, but for these: they are histories.
_HISTORIES: Final = frozenset({".specstory", ".aider.chat.history.md"})


@dataclass(frozen=True, slots=True)
class Way:
    """What is said of inputs by whoever offers them."""

    project: str | None = None
    format: str = "auto"
    acl: tuple[str, ...] = ()
    retry: bool = True  # what was given up before is tried again
    seconds: float = inf  # after which the rest of a source that grows is left for the next time
    remember: bool = False  # what was forgotten is asked back, too


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one input: its new documents, in order; none where all of it was there already."""

    documents: tuple[str, ...]
    waits: int = 0  # number of a last line that is not whole yet, and is taken in once it is; 0: none
    more: bool = False  # there is more to be taken in at once
    forgotten: bool = False  # some of it was, and stays out

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
    stays_out: bool = False  # something of the input at hand was forgotten

    @cached_property
    def forgotten(self) -> Forgotten:
        """The documents that stay out."""
        return Forgotten(self.root)

    @cached_property
    def files(self) -> dict[tuple[int, int], str]:
        """Which file each cursor is of: one that was renamed is known by it. Read once, and kept up from then on."""
        return cursors.by_file(self.root)

    def now(self, *before: str) -> datetime:
        """The time, later with each call: of two versions the one accepted later counts.

        Args:
            before: documents it is later than, too: since they were accepted the clock may have been set back.
        """
        known = (ledger.accepted_at(self.root, document) for document in before if document)
        earlier = [time for time in known if time]
        self._last = max(datetime.now(UTC), *(time + _MICROSECOND for time in (self._last, *earlier)))
        return self._last


def expand(inputs: Sequence[str | Path], outside: Callable[[Path], object] = bool) -> Iterator[Path]:
    """The files behind the given paths, folders walked in name order; hidden files and folders are passed over.

    So are files that are read together with another one: they are no inputs of their own. A link to a folder is not
    walked, unless it is given itself.

    Args:
        outside: called with each link to a file that is not in the folder that was given: nobody has named that one.
    """
    for given in inputs:
        path = Path(given).expanduser()
        if not path.is_dir():
            yield path  # a missing one is refused by `accept`, by name
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if is_shown(name))
            found = (Path(folder, name) for name in sorted(files) if is_shown(name))
            for file in found:
                if file.is_symlink() and leads_out(file, path):
                    outside(file)
                elif not sources.belongs(file):
                    yield file


def leads_out(path: Path, folder: Path) -> bool:
    """Return whether what a path in a folder leads to, by links, is not in that folder."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


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
    inbox.stays_out = False
    way = replace(way, project=way.project and redact_name(way.project))
    taken = _take(inbox, path, redact_path(str(path.absolute())), way)
    return replace(taken, forgotten=inbox.stays_out)


def _take(inbox: Inbox, path: Path, where: str, way: Way) -> Accepted:
    with _refusals(path):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputRefused(f"{redact_path(str(path))} is no regular file", "name a file or a folder")
        source = _Source(path, where, found, way)
        cursor = _cursor(inbox, source)
        same = cursor is not None and (cursor.size, cursor.mtime) == (found.st_size, found.st_mtime_ns)
        # Whether anything of an archive or an export was forgotten, its parts have to tell.
        whole = cursor is None or (bool(cursor.offset) and not _has_lost(inbox, cursor))
        if cursor is not None and same and (whole or not way.remember):
            inbox.stays_out |= _has_lost(inbox, cursor)
            if not way.retry or not ledger.dead(inbox.root):
                return Accepted(())
            if cursor.offset:
                return Accepted(tuple(_again(inbox.root, cursor.document)))
            # Any of the documents of an archive or an export may be dead: it is looked through again.
        if cursor is not None:
            inbox.now(cursor.document)  # what follows is later
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
        shown = redact_path(str(path))
        if isinstance(error, FileNotFoundError):
            raise InputRefused(f"{shown} does not exist", "check the path") from None
        raise InputRefused(f"{shown} cannot be read: {error.strerror or error}", "check its permissions") from None


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that is offered."""

    path: Path
    where: str  # absolute, without secrets
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


def _has_lost(inbox: Inbox, cursor: Cursor) -> bool:
    """Return whether anything of what is taken in of a source was forgotten, as far as its cursor tells."""
    return inbox.forgotten.began(cursor.first) or inbox.forgotten.stays_out(cursor.document)


def _is_of(cursor: Cursor, source: _Source) -> bool:
    with source.path.open("rb") as file:
        return goes_on(file, cursor, source.stat.st_size)


def _again(root: Path, document: str) -> Iterator[str]:
    """The links of a source that were given up: whoever offers them again wants them tried again."""
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
    if cursor is not None and source.way.remember and _has_lost(inbox, cursor):  # once more from its beginning
        start, cursor = replace(_START, epoch=cursor.epoch), None
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
    export = split(file, source.where, source.way.format, limit)
    if export:
        return _parts(inbox, source, file, export)
    if source.stat.st_size > limit:
        raise InputRefused(
            f"{redact_path(str(source.path))} has {source.stat.st_size} bytes; at most {limit} are taken",
            "split it, or raise HELIX_MAX_DOCUMENT_BYTES",
        )
    file.seek(0)
    text, problems = decode(file.read(), inbox.settings.max_line_bytes)
    taken = _pieces(inbox, source, text) if len(text) > BLOCK else None
    return taken or Accepted(tuple(_whole(inbox, source, "", text, source.mtime, problems)))


def _links(inbox: Inbox, source: _Source, file: BinaryIO, cursor: Cursor, instead: str = "") -> Accepted:
    """Take in what lies behind the cursor. The cursor moves with each link: a kill costs one at most."""
    settled = time.time() - source.stat.st_mtime > SETTLED
    where = _name_of(inbox.root, cursor.document) or source.where
    new: list[str] = []
    began, more = time.monotonic(), False
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
        more = cursor.offset < source.stat.st_size and time.monotonic() - began > source.way.seconds
        if more:
            break
    waits = cursor.lines + 1 if cursor.offset < source.stat.st_size and not more else 0
    if not new:
        inbox.stays_out |= _has_lost(inbox, cursor)
    if not new and not waits and source.way.retry and ledger.dead(inbox.root):
        new += _again(inbox.root, cursor.document)
    return Accepted(tuple(new), waits, more)


def _name_of(root: Path, document: str) -> str:
    """The path under which a source is known: that of its first link, though it may have been renamed since."""
    try:
        return ledger.read(root, document).path if document else ""
    except StoreError:
        return ""


def _envelope(inbox: Inbox, source: _Source, where: str, start: Cursor, link: Link) -> Envelope:
    way = source.way
    name = partial(
        ledger.name_of,
        link.text,
        start.format,
        way.project,
        way.acl,
        after=start.document,
        lines=start.lines,
        epoch=start.epoch,
    )
    return Envelope(
        document=_named(inbox, way, name),
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
        remember=way.remember,
    )


def _members(inbox: Inbox, source: _Source) -> Accepted:
    """Take in what an archive holds, each file as if it lay in a folder of the archive's name."""
    limit = inbox.settings.max_document_bytes
    new: list[str] = []
    refused: list[InputRefused] = []
    with tempfile.TemporaryDirectory(prefix="helix-") as folder:
        archive.unpack(source.path, Path(folder), limit, 4 * limit)
        for path in expand([folder]):
            where = f"{source.where}/{redact_path(str(path.relative_to(folder)))}"
            try:
                new += _take(inbox, path, where, source.way).documents
            except InputRefused as error:  # exports hold settings and lists beside what was said
                refused.append(error)
    if refused and not new and not cursors.read(inbox.root, source.key()):
        raise InputRefused(f"{redact_path(str(source.path))} holds nothing that can be taken in", str(refused[0]))
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


def _parts(inbox: Inbox, source: _Source, file: BinaryIO, export: Split) -> Accepted:
    """Take in the conversations of an export that are new or have changed, each as a document of its own."""
    way, format = source.way, export.adapter.NAME
    key = cursors.key_of("", format, way.project, way.acl)  # of whatever export: the next one has another name
    known = cursors.read_parts(inbox.root, key)
    new: list[str] = []
    document = ""
    for part in export.parts:
        name = digest(part.name)
        before, document = known.get(name, Known("", ""))
        there = bool(document) and (inbox.root / "inbox" / document).is_file()
        if there and before == part.digest and not way.remember:
            inbox.stays_out |= inbox.forgotten.stays_out(document)
            taken = way.retry and ledger.revive(inbox.root, document)
        else:
            text = text_of(file, part, export.adapter)
            older = document if there else ""
            envelope = _anew(inbox, way, source.where, text, format, source.mtime, (), older)
            taken, document = _write(inbox, envelope, way.retry, settle=False), envelope.document
            known[name] = Known(part.digest, document)
        new += [document] if taken else []
    # Once, at the end: after a kill the same texts make the same documents, which are there.
    ledger.settle(inbox.root)
    cursors.write_parts(inbox.root, key, known)
    cursors.write(inbox.root, source.key(), source.at(replace(_START, format=format), document))
    return Accepted(tuple(new))


def _whole(
    inbox: Inbox, source: _Source, part: str, text: str, mtime: datetime, problems: Sequence[Problem]
) -> Iterator[str]:
    """Take a source in as it is now; the document, where that is a new one."""
    key, way = source.key(part), source.way
    before = cursors.read(inbox.root, key)
    where = f"{source.where}#{redact_name(part)}" if part else source.where
    chosen = sources.detect(Document(where, text, mtime)).NAME if way.format == "auto" else way.format
    older = before.document if before and not before.offset else ""
    older = older if (inbox.root / "inbox" / older).is_file() else ""
    envelope = _anew(inbox, way, where, text, chosen, mtime, problems, older)
    new = _write(inbox, envelope, way.retry)
    cursors.write(inbox.root, key, source.at(replace(_START, format=chosen), envelope.document))
    if new:
        yield envelope.document


def _pieces(inbox: Inbox, source: _Source, text: str) -> Accepted | None:
    """Take in a long text a piece at a time; None where its format has no place to cut it."""
    way, document = source.way, Document(source.where, text, source.mtime)
    format = sources.detect(document).NAME if way.format == "auto" else way.format
    if format not in FORMATS:
        return None
    text, redacted = redact(text)
    parsed = sources.FORMATS[format].parse(replace(document, text=text))
    problems = parsed.problems
    new: list[str] = []
    name = ""
    for number, piece in enumerate(piece for session in parsed.sessions for piece in cut(session, BLOCK)):
        key = source.key(str(number))
        before = cursors.read(inbox.root, key)
        older = before.document if before and (inbox.root / "inbox" / before.document).is_file() else ""
        envelope = _anew(inbox, way, source.where, piece.text, format, source.mtime, problems, older)
        envelope = replace(envelope, chars=piece.chars, redacted=dict(redacted + Counter(envelope.redacted)))
        name = envelope.document
        new += [name] if _write(inbox, envelope, way.retry) else []
        cursors.write(inbox.root, key, source.at(replace(_START, format=format), name))
        problems, redacted = (), Counter()  # said with the first
    if name:
        cursors.write(inbox.root, source.key(), source.at(replace(_START, format=format), name))
    return Accepted(tuple(new)) if name else None


def _anew(
    inbox: Inbox, way: Way, where: str, text: str, format: str, mtime: datetime, problems: Sequence[Problem], older: str
) -> Envelope:
    """The envelope of a text that is taken whole. `older`: the document it takes the place of, where it is another."""
    if format in sources.JSON_FORMATS:  # a secret must not hide behind \\u0067
        text, redacted = redact_log(plain_escapes(text))
    else:
        text, redacted = redact(text)
    document = _named(inbox, way, partial(ledger.name_of, text, format, way.project, way.acl))
    # What is asked back stands by itself: a version that has lost some of it cannot be leant on.
    lost = way.remember and inbox.forgotten.holds(older)
    older = older if older != document and not lost else ""
    return Envelope(
        document=document,
        path=where,
        text=text,
        format=format,
        project=way.project,
        acl=tuple(sorted(way.acl)),
        mtime=mtime,
        accepted=inbox.now(older),
        redacted=dict(redacted),
        problems=tuple(problems),
        instead=older,
        remember=way.remember,
    )


def _named(inbox: Inbox, way: Way, name: Callable[..., str]) -> str:
    """The name a document goes by now: it has another each time that it was forgotten and asked back.

    Args:
        name: called with how often that was (`again`).
    """
    again, document = 0, name(again=0)
    while (inbox.root / "inbox" / document).exists() and inbox.forgotten.holds(document):
        following = name(again=again + 1)
        if not way.remember and not (inbox.root / "inbox" / following).exists():
            inbox.stays_out |= inbox.forgotten.stays_out(document)
            return document
        again, document = again + 1, following
    return document


def _write(inbox: Inbox, envelope: Envelope, retry: bool, *, settle: bool = True) -> bool:
    """Make an envelope durable, with `ledger.settle` where told so; False where the same is there already."""
    if (inbox.root / "inbox" / envelope.document).exists():
        # Whoever offers a document again that was given up wants it tried again.
        return retry and ledger.revive(inbox.root, envelope.document)
    ledger.write(inbox.root, envelope, settle=settle)
    failpoint("accept.envelope")
    return True
