"""Accepting: read, decode and redact an input, and put durable envelopes into the inbox.

A source that grows at its end is accepted in increments (`pipelines.ingest.increments`), an export by the
conversations that changed (`helix.sources.common.export`). Any other source is accepted whole each time it changes;
its new envelope names the version it replaces.
"""

from __future__ import annotations

import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from helix.errors import InputRefused, StoreError, UsageError
from helix.redact.paths import redact_name, redact_path
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import cursors
from helix.snapshot.ledger.cursors import ConversationCursor, Cursor
from helix.snapshot.ledger.inbox import Envelope, list_dead, read_envelope, revive_document, sync_inbox
from helix.snapshot.segment.batch import hash_parts
from helix.sources import registry as sources
from helix.sources.common import archive
from helix.sources.common.decode import decode
from helix.sources.common.export import Export, read_entry
from helix.sources.common.pieces import PIECE_FORMATS, cut_session
from helix.sources.common.session_text import SessionText
from helix.switches.state import read_switches
from helix.types import Document, Problem
from helix.util.note_names import NOTE, TEAM
from pipelines.ingest.increments import (
    BLOCK,
    add_omitted_lines,
    detect_growing,
    has_same_head,
    is_continued,
    read_increments,
)
from pipelines.ingest.line_filter import LineFilter
from pipelines.ingest.source import (
    START,
    Accepted,
    AcceptOptions,
    Inbox,
    SourceFile,
    find_cursor,
    make_increment,
    make_whole,
    walk_inputs,
    write_envelope,
)
from pipelines.ingest.switched_off import OffCheck

SETTLED: Final = 2.0
"""Seconds without a write after which a last line without a line feed counts as whole."""


def prepare_store(root: Path, format: str) -> None:
    """Check the format's name and create the store's folders.

    Raises:
        UsageError: no such format.
        StoreError: the store cannot be written.
    """
    if format == NOTE:
        raise UsageError("a file is no note", "write notes with 'helix remember'")
    if format == TEAM:
        raise UsageError("a file is no entry of a team", "fetch entries with 'helix team pull'")
    if format != "auto" and format not in sources.FORMATS:
        raise UsageError(f"unknown format {format!r}", f"there are auto, {', '.join(sources.FORMATS)}")
    paths.create_folders(root)


def accept(
    root: Path,
    path: Path,
    settings: Settings,
    *,
    project: str | None = None,
    format: str = "auto",
    acl: Sequence[str] = (),
) -> Accepted:
    """Accept one file as `accept_source` does."""
    return accept_source(Inbox(root, settings), path, AcceptOptions(project, format, tuple(acl)))


def accept_source(inbox: Inbox, path: Path, options: AcceptOptions, where: str = "") -> Accepted:
    """Accept the new content of one file; durable on return.

    Args:
        where: the name of the source, if the path is only a copy of it.

    Raises:
        InputRefused: the file cannot be accepted; the message gives the reason and the remedy.
        StoreError: the store cannot be written, or the file of its switches is damaged.
    """
    inbox.quota.check()
    inbox.stays_out = False
    switches, tool_chars = read_switches(inbox.root), inbox.settings.tool_chars
    inbox.off = OffCheck(switches, options.project, str(path.absolute()), tool_chars)
    options = replace(options, project=options.project and redact_name(options.project))
    accepted = _accept(inbox, path, where or redact_path(str(path.absolute())), options)
    return replace(accepted, forgotten=inbox.stays_out, left_out=inbox.off.list_left_out())


def _accept(inbox: Inbox, path: Path, where: str, options: AcceptOptions) -> Accepted:
    with _refuse_unreadable(path):
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputRefused(f"{redact_path(str(path))} is no regular file", "name a file or a folder")
        source = SourceFile(path, where, found, options)
        cursor = find_cursor(inbox, source)
        if cursor is not None:
            same = (cursor.size, cursor.mtime) == (found.st_size, found.st_mtime_ns)
            # The cursor of an archive or an export does not say whether any of its parts was forgotten.
            whole = bool(cursor.offset) and not inbox.has_lost(cursor)
            if same and (whole or not options.remember):
                inbox.stays_out |= inbox.has_lost(cursor)
                if not options.retry or not list_dead(inbox.root):
                    return Accepted(())
                if cursor.offset:
                    return Accepted(tuple(_revive_increments(inbox.root, cursor.document)))
                # Any document of an archive or an export may be dead: read it again.
            inbox.read_clock(cursor.document)  # later envelopes get a later time
        if archive.is_archive(path):
            return _accept_archive(inbox, source)
        collected = sources.collect(path) if options.format == "auto" else None
        if collected is not None:
            return _accept_collected(inbox, source, collected)
        with path.open("rb") as file:
            return _accept_file(inbox, source, file, cursor)


@contextmanager
def _refuse_unreadable(path: Path) -> Iterator[None]:
    """Turn errors of reading the input into refusals; errors of writing the store pass."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, path, str(path)):
            raise
        name = redact_path(str(path))
        if isinstance(error, FileNotFoundError):
            raise InputRefused(f"{name} does not exist", "check the path") from None
        raise InputRefused(f"{name} cannot be read: {error.strerror or error}", "check its permissions") from None


def _revive_increments(root: Path, document: str) -> Iterator[str]:
    """Revive the given-up increments of a source, from its last document back to its first; yield them."""
    while document:
        if revive_document(root, document):
            yield document
        try:
            document = read_envelope(root, document).after
        except StoreError:
            return


def _accept_file(inbox: Inbox, source: SourceFile, file: BinaryIO, cursor: Cursor | None) -> Accepted:
    """Accept an open file: in increments, by its conversations, in pieces, or whole."""
    start, options = START, source.options
    if cursor is not None and options.remember and inbox.has_lost(cursor):  # read it again from its beginning
        start, cursor = replace(START, epoch=cursor.epoch), None
    if cursor is not None and cursor.offset:
        if is_continued(file, cursor, source.stat.st_size):
            return _accept_increments(inbox, source, file, cursor)
        other = not has_same_head(file, cursor)
        if other:  # the former file may continue under another name
            cursors.write_cursor(inbox.root, cursors.make_moved_key(cursor.device, cursor.inode), cursor)
        start = replace(START, epoch=cursor.epoch + other)
        cursor = None
    file.seek(0)
    first = file.read(BLOCK)
    whole = len(first) == source.stat.st_size
    if format := detect_growing(first, whole, source.where, options.format, inbox.settings):
        # An earlier, shorter beginning may have been too short to tell the format by.
        return _accept_increments(inbox, source, file, replace(start, format=format), cursor.document if cursor else "")
    limit = inbox.settings.max_document_bytes
    export = sources.split(file, source.where, options.format, limit)
    if export:
        return _accept_conversations(inbox, source, file, export)
    if source.stat.st_size > limit:
        raise InputRefused(
            f"{redact_path(str(source.path))} has {source.stat.st_size} bytes, more than the {limit} allowed",
            "split it, or raise HELIX_MAX_DOCUMENT_BYTES",
        )
    file.seek(0)
    text, problems = decode(file.read(), inbox.settings.max_line_bytes)
    accepted = _accept_pieces(inbox, source, text) if len(text) > BLOCK else None
    return accepted or Accepted(tuple(_accept_whole(inbox, source, "", text, source.mtime, problems)))


def _accept_increments(inbox: Inbox, source: SourceFile, file: BinaryIO, cursor: Cursor, instead: str = "") -> Accepted:
    """Accept the bytes after the cursor, which moves with each increment: a kill repeats one at most."""
    size, retry = source.stat.st_size, source.options.retry
    settled = time.time() - source.stat.st_mtime > SETTLED
    before = _read_before(inbox.root, cursor.document)
    where, repositories = before.path if before else source.where, before.repositories if before else {}
    new: list[str] = []
    began, more = time.monotonic(), False
    changed = source.stat.st_mtime
    writes = min(cursor.read or changed, changed), changed
    lines = LineFilter(inbox.off, file, cursor.offset, sources.FORMATS[cursor.format].JSON, source.where, writes)
    for increment in read_increments(file, cursor, settled, inbox.settings, lines.blank_lines):
        if increment.omitted and not increment.text.strip():  # no document of nothing: the next one has these lines
            omitted = cursor.omitted + increment.end.lines - cursor.lines
            cursor = source.advance(replace(increment.end, omitted=omitted), cursor.document)
        else:
            start, increment = add_omitted_lines(cursor, increment, lines.header)
            envelope = make_increment(inbox, source, where, start, increment, repositories)
            envelope = replace(envelope, instead=instead if not cursor.document else "")
            repositories = envelope.repositories
            if write_envelope(inbox, envelope, retry):
                new.append(envelope.document)
            cursor = source.advance(replace(increment.end, first=cursor.first or envelope.document), envelope.document)
        if cursor.offset < size:  # an unchanged size must not count as fully accepted
            cursor = replace(cursor, size=cursor.offset)
        cursors.write_cursor(inbox.root, source.key(), cursor)
        inbox.files[cursor.device, cursor.inode] = source.key()
        more = cursor.offset < size and time.monotonic() - began > source.options.seconds
        if more:
            break
    waits = cursor.lines + 1 if cursor.offset < size and not more else 0
    if not new:
        inbox.stays_out |= inbox.has_lost(cursor)
    if not new and not waits and retry and list_dead(inbox.root):
        new += _revive_increments(inbox.root, cursor.document)
    return Accepted(tuple(new), waits, more)


def _read_before(root: Path, document: str) -> Envelope | None:
    """Read the last document of a source, whose path a rename does not change; None where it is unknown."""
    try:
        envelope = read_envelope(root, document) if document else None
    except StoreError:
        return None
    return envelope if envelope and envelope.path else None


def _accept_archive(inbox: Inbox, source: SourceFile) -> Accepted:
    """Accept the members of an archive as files of a folder of the archive's name."""
    limit = inbox.settings.max_document_bytes
    new: list[str] = []
    refused: list[InputRefused] = []
    with tempfile.TemporaryDirectory(prefix="helix-") as folder:
        archive.unpack(source.path, Path(folder), limit, 4 * limit)
        for path in walk_inputs([folder]):
            where = f"{source.where}/{redact_path(str(path.relative_to(folder)))}"
            try:
                new += _accept(inbox, path, where, source.options).documents
            except InputRefused as error:  # exports also hold settings and lists
                refused.append(error)
    if refused and not new and not inbox.off.left_out and not cursors.read_cursor(inbox.root, source.key()):
        raise InputRefused(f"{redact_path(str(source.path))} holds no readable source", str(refused[0]))
    if new:
        _save(inbox, source, "", new[-1])
    return Accepted(tuple(new))


def _accept_collected(inbox: Inbox, source: SourceFile, collected: Iterable[SessionText]) -> Accepted:
    """Accept the parts of a source that is no text, each as a document of its own.

    No cursor of the file itself is written: a database changes through files of other names.
    """
    new = [
        name
        for part in collected
        for name in _accept_whole(inbox, source, part.name, part.text, part.mtime or source.mtime, ())
    ]
    return Accepted(tuple(new))


def _accept_conversations(inbox: Inbox, source: SourceFile, file: BinaryIO, export: Export) -> Accepted:
    """Accept the new and changed conversations of an export, each as a document of its own."""
    options, format = source.options, export.adapter.NAME
    key = cursors.make_key("", format, options.project, options.acl)  # without a path: each export has another name
    known = cursors.read_conversations(inbox.root, key)
    new: list[str] = []
    document = ""
    for part in export.entries:
        name = hash_parts(part.name)
        before, document = known.get(name, ConversationCursor("", ""))
        present = inbox.has(document)
        if present and before == part.digest and not options.remember:
            inbox.stays_out |= inbox.forgotten_documents.stays_out(document)
            is_new = options.retry and revive_document(inbox.root, document)
        else:
            text = read_entry(file, part, export.adapter)
            older = document if present else ""
            envelope = make_whole(inbox, options, source.where, text, format, source.mtime, (), older)
            if envelope is None:
                continue
            is_new, document = write_envelope(inbox, envelope, options.retry, settle=False), envelope.document
            known[name] = ConversationCursor(part.digest, document)
        new += [document] if is_new else []
    # Once, at the end: after a kill the same texts make the same documents again.
    sync_inbox(inbox.root)
    cursors.write_conversations(inbox.root, key, known)
    _save(inbox, source, format, document)
    return Accepted(tuple(new))


def _accept_whole(
    inbox: Inbox, source: SourceFile, part: str, text: str, mtime: datetime, problems: Sequence[Problem]
) -> Iterator[str]:
    """Accept a source, or a part of it, as one text; yield its document where that is new."""
    options = source.options
    where = f"{source.where}#{redact_name(part)}" if part else source.where
    format = sources.detect(Document(where, text, mtime)).NAME if options.format == "auto" else options.format
    envelope = make_whole(inbox, options, where, text, format, mtime, problems, _find_older(inbox, source, part))
    if envelope is None:  # without a cursor: it is looked at again
        return
    new = write_envelope(inbox, envelope, options.retry)
    _save(inbox, source, format, envelope.document, part)
    if new:
        yield envelope.document


def _find_older(inbox: Inbox, source: SourceFile, part: str) -> str:
    """Return the document that the inbox holds of a source that is accepted whole, or of its part; empty for none."""
    before = cursors.read_cursor(inbox.root, source.key(part))
    return before.document if before and not before.offset and inbox.has(before.document) else ""


def _save(inbox: Inbox, source: SourceFile, format: str, document: str, part: str = "") -> None:
    cursors.write_cursor(inbox.root, source.key(part), source.advance(replace(START, format=format), document))


def _accept_pieces(inbox: Inbox, source: SourceFile, text: str) -> Accepted | None:
    """Accept a long text in pieces; return None where its format has no place to cut it."""
    options, document = source.options, Document(source.where, text, source.mtime)
    format = sources.detect(document).NAME if options.format == "auto" else options.format
    if format not in PIECE_FORMATS:
        return None
    text, redacted = redact(text)
    parsed = sources.FORMATS[format].parse(replace(document, text=text))
    problems = parsed.problems
    new: list[str] = []
    name, cut = "", False
    for number, piece in enumerate(piece for session in parsed.sessions for piece in cut_session(session, BLOCK)):
        older = _find_older(inbox, source, str(number))
        cut = True
        envelope = make_whole(inbox, options, source.where, piece.text, format, source.mtime, problems, older)
        if envelope is None:
            continue
        envelope = replace(envelope, chars=piece.chars, redacted=dict(redacted + Counter(envelope.redacted)))
        name = envelope.document
        new += [name] if write_envelope(inbox, envelope, options.retry) else []
        _save(inbox, source, format, name, str(number))
        problems, redacted = (), Counter()  # reported with the first piece
    if name:
        _save(inbox, source, format, name)
    return Accepted(tuple(new)) if cut else None
