"""Accepting: read, decode, redact, and put a durable envelope into the inbox. The same for every way in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from helix import sources
from helix.enrich.redact import redact
from helix.errors import InputRefused, UsageError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import ledger, paths
from helix.snapshot.ledger import Envelope
from helix.sources.decode import decode, plain_escapes
from helix.types import Document


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one input."""

    envelope: Envelope
    duplicate: bool


def expand(inputs: Sequence[str | Path]) -> Iterator[Path]:
    """The files behind the given paths, folders walked in name order; hidden files and folders are passed over."""
    for given in inputs:
        path = Path(given).expanduser()
        if not path.is_dir():
            yield path  # a missing one is refused by `accept`, by name
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


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
    """Take one file in. Durable when this returns; the same content a second time is a duplicate.

    Raises:
        InputRefused: the file cannot be taken; the message says why and what to do.
        StoreError: the store cannot be written.
    """
    data, mtime = _read(path, settings)
    text, problems = decode(data, settings.max_line_bytes)
    where = str(path.absolute())
    chosen = sources.detect(Document(where, text, mtime)).NAME if format == "auto" else format
    if chosen in sources.JSON_FORMATS:
        text = plain_escapes(text)  # a secret must not hide behind \\u0067
    text, redacted = redact(text)
    envelope = Envelope(
        document=ledger.name_of(text, chosen, project, acl),
        path=where,
        text=text,
        format=chosen,
        project=project,
        acl=tuple(sorted(acl)),
        mtime=mtime,
        accepted=datetime.now(UTC),
        redacted=dict(redacted),
        problems=tuple(problems),
    )
    if (root / "inbox" / envelope.document).exists():
        # Whoever offers a document again that was given up wants it tried again.
        return Accepted(envelope, duplicate=not ledger.revive(root, envelope.document))
    ledger.write(root, envelope)
    failpoint("accept.envelope")
    return Accepted(envelope, duplicate=False)


def _read(path: Path, settings: Settings) -> tuple[bytes, datetime]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputRefused(f"{path} is no regular file", "name a file or a folder")
        if found.st_size > settings.max_document_bytes:
            raise InputRefused(
                f"{path} has {found.st_size} bytes; at most {settings.max_document_bytes} are taken",
                "split it, or raise HELIX_MAX_DOCUMENT_BYTES",
            )
        return path.read_bytes(), datetime.fromtimestamp(found.st_mtime, UTC)
    except FileNotFoundError:
        raise InputRefused(f"{path} does not exist", "check the path") from None
    except OSError as error:
        raise InputRefused(f"{path} cannot be read: {error.strerror or error}", "check its permissions") from None
