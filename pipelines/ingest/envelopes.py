"""Envelopes of accepted text: redacted, named by content, and written durably."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from helix.redact.paths import redact_log
from helix.redact.redact import redact
from helix.snapshot.ledger.cursors import Cursor
from helix.snapshot.ledger.inbox import Envelope, accept_envelope, name_document, revive_document
from helix.sources import registry as sources
from helix.sources.common.decode import unescape_ascii
from helix.types import Problem
from helix.util.failpoints import failpoint
from pipelines.ingest.increments import Increment
from pipelines.ingest.source import AcceptOptions, Inbox, SourceFile


def make_increment(inbox: Inbox, source: SourceFile, where: str, start: Cursor, new: Increment) -> Envelope:
    """Return the envelope of an increment, which follows the document of the cursor."""
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
        accepted=inbox.now(),
        redacted=new.redacted,
        problems=new.problems,
        after=start.document,
        first=start.first,
        lines=start.lines,
        chars=start.chars,
        epoch=start.epoch,
        remember=options.remember,
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
) -> Envelope:
    """Return the envelope of a text that is accepted whole.

    Args:
        older: the document it replaces, if that is another one; empty for none.
    """
    if format in sources.JSON_FORMATS:  # \\u0067 must not hide a secret
        text, redacted = redact_log(unescape_ascii(text))
    else:
        text, redacted = redact(text)
    name = partial(name_document, text, format, options.project, options.acl)
    document = _choose_name(inbox, options, name)
    # A remembered document repeats all its items: the version before has lost some of them.
    if older == document or (options.remember and inbox.forgotten.has_lost(older)):
        older = ""
    return Envelope(
        document=document,
        path=where,
        text=text,
        format=format,
        project=options.project,
        acl=tuple(sorted(options.acl)),
        mtime=mtime,
        accepted=inbox.now(older),
        redacted=dict(redacted),
        problems=tuple(problems),
        instead=older,
        remember=options.remember,
    )


def _choose_name(inbox: Inbox, options: AcceptOptions, name: Callable[..., str]) -> str:
    """Return the current name of a document: it changes each time the document is forgotten and remembered.

    Args:
        name: called with how often that happened (`again`).
    """
    again, document = 0, name(again=0)
    while (inbox.root / "inbox" / document).exists() and inbox.forgotten.has_lost(document):
        following = name(again=again + 1)
        if not options.remember and not (inbox.root / "inbox" / following).exists():
            inbox.stays_out |= inbox.forgotten.stays_out(document)
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
