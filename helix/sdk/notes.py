"""Notes: what a user or an agent wants remembered, and corrections of items. Accepted means durable.

A note goes through redaction into the inbox, as any document does; the next ingest or worker publishes it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from helix.errors import UsageError
from helix.redact.paths import redact_name
from helix.redact.redact import redact
from helix.snapshot import paths
from helix.snapshot.ledger.inbox import Envelope, accept_envelope, name_document
from helix.snapshot.segment.batch import hash_parts
from helix.types import TYPES, Bool
from helix.util.note_names import NOTE
from helix.util.sanitise import MAX_NAME

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MAX_NOTE: Final = 4_000
"""Characters of a note."""

EVERYWHERE: Final = "everywhere"
"""The project of notes of scope `user`: they concern the user, in every project."""

SCOPES: Final = ("project", "user")
"""What a note concerns."""

WRITERS: Final = ("user", "agent")
"""Who wrote a note."""

_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)|[。！？\n]")


def write_note(
    root: Path,
    text: str,
    *,
    by: str,
    author: str | None = None,
    project: str | None = None,
    scope: str = "project",
    type: str | None = None,
    pinned: bool = False,
    corrects: str = "",
    acl: Sequence[str] = (),
) -> dict[str, Any]:
    """Accept a note, durably, and return its receipt: `id` of the item, `project`, `redacted`, `document`.

    Args:
        by: user or agent.
        author: name of who wrote it.
        scope: project, or user for all projects.
        pinned: at the top of every briefing of its scope.
        corrects: id of an item that the note replaces.
        acl: principals that may read it; none: all readers of the project.

    Raises:
        UsageError: the text is empty or too long, or an argument is none of its choices.
        StoreError: the store cannot be written.
    """
    text = _check_note(text, by, scope, type, project)
    paths.create_folders(root)
    clean, redacted = redact(text)
    now, identity = datetime.now(UTC), secrets.token_hex(8)
    place = EVERYWHERE if scope == "user" else project and redact_name(project)
    note = {
        "id": identity,
        "by": by,
        "author": redact(author)[0][:80] if author else None,
        "text": clean,
        "ts": now.isoformat(),
        "project": place,
        "type": type,
        "pinned": pinned,
        "corrects": corrects or None,
    }
    body = orjson.dumps({name: value for name, value in note.items() if value is not None}).decode()
    document = name_document(body, NOTE, place, acl)
    accept_envelope(
        root,
        Envelope(document, NOTE, body, NOTE, place, tuple(acl), None, now, dict(redacted), ()),
    )
    return {
        "id": hash_parts(NOTE, identity, "0"),
        "project": place,
        "corrects": corrects or None,
        "redacted": dict(redacted),
        "document": document,
    }


def select_everywhere(snap: Snapshot) -> Bool:
    """Return the rows of notes that concern the user in all projects: bool[rows]."""
    if EVERYWHERE not in snap.projects:
        return np.zeros(snap.rows, bool)
    return np.asarray(snap.alive & (snap.columns.project == snap.projects.index(EVERYWHERE)))


def cut_note(text: str) -> str:
    """Return a text as long as a note may be: cut after a sentence, or where none ends in its second half, anywhere."""
    text = text.strip()
    if len(text) <= MAX_NOTE:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, MAX_NOTE // 2, MAX_NOTE)]
    return text[: ends[-1] if ends else MAX_NOTE].strip()


def _check_note(text: str, by: str, scope: str, type: str | None, project: str | None) -> str:
    """Return the text of a note, without blanks around it. Raise UsageError for what `write_note` refuses."""
    text = text.strip()
    if not text:
        raise UsageError("the note is empty", "give a sentence")
    if len(text) > MAX_NOTE:
        raise UsageError(f"the note has {len(text):,} characters, more than {MAX_NOTE:,}", "shorten or split it")
    if project is not None and not (project.strip() and len(project) <= MAX_NAME):
        raise UsageError(f"the project has {len(project)} characters", f"give a name of 1 to {MAX_NAME}, or none")
    for name, value, known in (("by", by, WRITERS), ("scope", scope, SCOPES), ("type", type, (None, *TYPES))):
        if value not in known:
            choices = ", ".join(str(one) for one in known if one)
            raise UsageError(f"{name} {value!r} is none of {choices}", f"use one of {choices}")
    return text
