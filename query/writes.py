"""Writes of callers of the query process: notes, corrections, pins and deletions.

The query process changes no snapshot. A note goes into the inbox, and another process publishes it; a deletion is
carried out by `helix forget`, once the caller has confirmed what it would remove. Each needs a scope of the key.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson

from helix.errors import StoreError, UsageError
from helix.recipes.common import format_time
from helix.sdk.notes import cut_note, write_note
from helix.types import I64, ROLES
from helix.util.note_names import PINNED
from helix.util.sanitise import sanitise_name
from query.auth import AccessDenied, Caller

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from query.service import QueryService
    from query.stores.many import AnyService

MOST_FORGOTTEN: Final = 50
"""Items of one deletion that a caller may name."""

MOST_SHOWN: Final = 50
"""Items of a session that a preview shows."""

_FORGET_SECONDS: Final = 600.0
_SHOWN: Final = 160  # characters of an item that is to be forgotten


def remember(
    service: AnyService,
    caller: Caller,
    text: str,
    *,
    by: str = "agent",
    project: str | None = None,
    scope: str = "project",
    type: str | None = None,
    pinned: bool = False,
    private: bool = False,
) -> dict[str, Any]:
    """Accept a note, and start to publish it.

    Args:
        by: agent or user.
        private: only the caller's principal may read it.

    Raises:
        AccessDenied: the key lacks the scope, or does not see the project.
        UsageError: an argument is none of its choices.
    """
    caller.check_scope("remember")
    service, caller = service.find_own(caller, "remember")
    if caller.projects is not None and (scope == "user" or project not in caller.projects):
        raise AccessDenied(403, "this key may write in its own projects only", "name one of them as project")
    if private and not caller.principal:
        raise UsageError("a private note needs a principal", "use a key of one, or leave private out")
    receipt = write_note(
        service.root,
        text,
        by=by,
        author=caller.principal,
        project=project,
        scope=scope,
        type=type,
        pinned=pinned,
        acl=[caller.principal] if private and caller.principal else (),
    )
    service.publish()
    return _show(receipt)


def correct(service: AnyService, caller: Caller, item: str, text: str, *, by: str = "agent") -> dict[str, Any] | None:
    """Accept a note that replaces an item, in its project and for its readers. None if the caller sees no such item."""
    caller.check_scope("remember")
    service, caller = service.find_own(caller, "remember", item)
    snap = service.view(caller)
    row = snap.find(item)
    if row is None:
        return None
    return _write_about(service, caller, snap, row, text, by=by, corrects=_name(snap, row))


def pin(service: AnyService, caller: Caller, item: str, *, by: str = "agent") -> dict[str, Any] | None:
    """Accept a pinned note with an item's text, in its project and for its readers. None as for `correct`.

    Raises:
        AccessDenied: the key lacks the scope.
        UsageError: the item is a pinned note, or one says the same.
    """
    caller.check_scope("remember")
    service, caller = service.find_own(caller, "remember", item)
    snap = service.view(caller)
    row = snap.find(item)
    if row is None:
        return None
    (entry,) = snap.text(np.array([row]))
    text = cut_note(entry["text"])
    if _is_pinned(snap, row, text, by):
        raise UsageError("this is pinned already", "correct or forget the pinned note instead")
    return _write_about(service, caller, snap, row, text, by=by, pinned=True)


def _write_about(
    service: QueryService, caller: Caller, snap: Snapshot, row: int, text: str, **fields: Any
) -> dict[str, Any]:
    """Accept a note in the project of a row and for its readers, and start to publish it."""
    receipt = write_note(
        service.root,
        text,
        author=caller.principal,
        project=_read_project(snap, row),
        acl=snap.catalog.list_readers(row),
        **fields,
    )
    service.publish()
    return _show(receipt)


def _read_project(snap: Snapshot, row: int) -> str | None:
    code = int(snap.columns.project[row])
    return snap.projects[code] if code >= 0 else None


def _is_pinned(snap: Snapshot, row: int, text: str, by: str) -> bool:
    """Return whether a row is a pinned note, or one of its project, writer and readers has this text."""
    columns, pinned = snap.columns, snap.catalog.note_sessions.get(PINNED)
    if pinned is None:
        return False
    if columns.session[row] == pinned:
        return True
    role = ROLES.index("user" if by == "user" else "assistant")
    same = snap.alive & (columns.session == pinned) & (columns.project == columns.project[row]) & (columns.role == role)
    rows, readers = np.flatnonzero(same), snap.catalog.list_readers(row)
    notes = zip(rows.tolist(), snap.text(rows), strict=True)
    return any(note["text"] == text and snap.catalog.list_readers(other) == readers for other, note in notes)


class Removal(NamedTuple):
    """The items that a deletion would remove: rows of a caller's view, none twice."""

    service: QueryService
    snap: Snapshot
    rows: I64

    @property
    def ids(self) -> list[str]:
        """The ids of the items."""
        return [f"{key:016x}" for key in self.snap.columns.key[self.rows].tolist()]

    @property
    def word(self) -> str:
        """The word that confirms the deletion of exactly these items."""
        return hashlib.sha256("\0".join(sorted(self.ids)).encode()).hexdigest()[:12]

    def describe(self) -> list[dict[str, Any]]:
        """Return id, session, time and first words of each item."""
        return [
            {
                "id": entry["id"],
                "text": sanitise_name(entry["text"], _SHOWN),
                "session": entry["session"],
                "time": format_time(entry["time"]),
            }
            for entry in self.snap.text(self.rows)
        ]

    def choose_newest(self, most: int = MOST_SHOWN) -> Removal:
        """Return the newest of them, newest first."""
        place = self.snap.columns.place[self.rows]
        return self._replace(rows=self.rows[np.lexsort((-self.rows, -place))[:most]])


def plan_removal(service: AnyService, caller: Caller, items: Sequence[str] = (), session: str | None = None) -> Removal:
    """Return what a deletion of some items, or of a session, would remove.

    Raises:
        AccessDenied: the key lacks the scope, or the caller sees only a part of the session.
        UsageError: there are none or too many, or one is unknown.
    """
    caller.check_scope("forget")
    service, caller = service.find_own(caller, "forget", items[0] if items else None)
    if session is not None:
        if items:
            raise UsageError("items and a session", "forget one after the other")
        snap, rows = find_session(service, caller, session)
        if not len(rows):
            raise refuse_session(session)
        return Removal(service, snap, rows)
    if not 0 < len(items) <= MOST_FORGOTTEN:
        raise UsageError(f"{len(items)} items", f"give 1 to {MOST_FORGOTTEN}")
    snap = service.view(caller)
    found = dict.fromkeys(row for name in items for row in _find_rows(snap, name))
    return Removal(service, snap, np.array(list(found), np.int64))


def find_session(service: QueryService, caller: Caller, name: str) -> tuple[Snapshot, I64]:
    """Return the caller's view and the rows of a session in it, without any for an unknown or hidden session.

    Raises:
        AccessDenied: the caller sees some of it and not all.
    """
    whole = service.memory.snapshot  # one generation for both
    snap = whole.seen_by(caller.principal, caller.projects)
    rows, every = (_list_session(one, name) for one in (snap, whole))
    if 0 < len(rows) < len(every):
        remedy = "name items of it, or run 'helix forget --session' in a terminal"
        raise AccessDenied(403, "you do not see all of this session", remedy)
    return snap, rows


def _list_session(snap: Snapshot, name: str) -> I64:
    codes = snap.catalog.sessions_named(name)
    return np.flatnonzero(snap.alive & np.isin(snap.columns.session, codes))


def refuse_session(name: str) -> UsageError:
    """Return the error for a session that a caller does not see."""
    return UsageError(f"no live session is {sanitise_name(name, 80)!r}", "take its name from recall or timeline")


def forget(found: Removal, confirm: str) -> dict[str, Any]:
    """Carry out a deletion that was planned and confirmed, and return its receipt.

    It names each item, so that it removes what was shown and nothing else.

    Raises:
        UsageError: the word is not that of these items.
        StoreError: the deletion failed.
    """
    if confirm != found.word:
        raise UsageError(
            "the word does not confirm these items", "call forget without confirm, and show the user what goes"
        )
    # The ids come by stdin: a command line is too short for a long session, and a terminal is not asked.
    words = ["forget", "--item", "-", "--yes", "--store", str(found.service.root), "--json"]
    command = [sys.executable, "-P", "-m", "helix.cli", *words]
    try:
        done = subprocess.run(
            command, input="\n".join(found.ids), capture_output=True, text=True, timeout=_FORGET_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        text = f"the deletion has not ended within {_FORGET_SECONDS:g} s"
        raise StoreError(text, "'helix compact' in a terminal finishes it") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise StoreError(f"nothing was forgotten: {reason}", "try 'helix forget' in a terminal")
    receipt: dict[str, Any] = orjson.loads(done.stdout)
    found.service.take_newest()
    return receipt


def _find_rows(snap: Snapshot, name: str) -> list[int]:
    """Return the rows of an item, or of all pieces of a cited turn."""
    rows = snap.citations.find(name) if "#" in name else [row for row in [snap.find(name)] if row is not None]
    if not rows:
        raise UsageError(f"no live item is {name[:80]!r}", "take an id from recall, search or timeline")
    return rows


def _name(snap: Snapshot, row: int) -> str:
    return f"{int(snap.columns.key[row]):016x}"


def _show(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: receipt[name] for name in ("id", "project", "corrects", "redacted")}
