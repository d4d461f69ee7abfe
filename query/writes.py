"""Writes of callers of the query process: notes, corrections and deletions.

The query process changes no snapshot. A note goes into the inbox, and another process publishes it; a deletion is
carried out by `helix forget`, once the caller has confirmed what it would remove. Each needs a scope of the key.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from helix.errors import StoreError, UsageError
from helix.sdk.notes import write_note
from helix.util.sanitise import sanitise_name
from query.auth import AccessDenied, Caller

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from query.service import QueryService

MOST_FORGOTTEN: Final = 50
"""Items of one deletion that a caller may ask for."""

_FORGET_SECONDS: Final = 600.0
_SHOWN: Final = 160  # characters of an item that is to be forgotten


def remember(
    service: QueryService,
    caller: Caller,
    text: str,
    *,
    project: str | None = None,
    scope: str = "project",
    type: str | None = None,
    pinned: bool = False,
    private: bool = False,
) -> dict[str, Any]:
    """Accept a note of an agent, and start to publish it.

    Args:
        private: only the caller's principal may read it.

    Raises:
        AccessDenied: the key lacks the scope, or does not see the project.
        UsageError: an argument is none of its choices.
    """
    caller.check_scope("remember")
    if caller.projects is not None and (scope == "user" or project not in caller.projects):
        raise AccessDenied(403, "this key may write in its own projects only", "name one of them as project")
    if private and not caller.principal:
        raise UsageError("a private note needs a principal", "use a key of one, or leave private out")
    receipt = write_note(
        service.root,
        text,
        by="agent",
        author=caller.principal,
        project=project,
        scope=scope,
        type=type,
        pinned=pinned,
        acl=[caller.principal] if private and caller.principal else (),
    )
    start_publishing(service)
    return _show(receipt)


def correct(service: QueryService, caller: Caller, item: str, text: str) -> dict[str, Any] | None:
    """Accept a note that replaces an item, in its project and for its readers. None if the caller sees no such item."""
    caller.check_scope("remember")
    snap = service.view(caller)
    row = snap.find(item)
    if row is None:
        return None
    code = int(snap.columns.project[row])
    receipt = write_note(
        service.root,
        text,
        by="agent",
        author=caller.principal,
        project=snap.projects[code] if code >= 0 else None,
        corrects=_name(snap, row),
        acl=snap.catalog.list_readers(row),
    )
    start_publishing(service)
    return _show(receipt)


def plan_forgetting(service: QueryService, caller: Caller, items: Sequence[str]) -> dict[str, Any]:
    """Return what a deletion would remove, and the word that confirms it.

    Raises:
        AccessDenied: the key lacks the scope.
        UsageError: there are none or too many, or an item is unknown.
    """
    caller.check_scope("forget")
    if not 0 < len(items) <= MOST_FORGOTTEN:
        raise UsageError(f"{len(items)} items", f"give 1 to {MOST_FORGOTTEN}")
    snap = service.view(caller)
    rows = [row for name in items for row in _find_rows(snap, name)]
    entries = [
        {"id": entry["id"], "text": sanitise_name(entry["text"], _SHOWN)}
        for entry in snap.text(np.array(rows, np.int64))
    ]
    return {"items": entries, "confirm": _make_word([entry["id"] for entry in entries])}


def forget(service: QueryService, caller: Caller, items: Sequence[str], confirm: str) -> dict[str, Any]:
    """Carry out a deletion that was planned, and return its receipt.

    Raises:
        AccessDenied, UsageError: as `plan_forgetting`; the word is not that of these items.
        StoreError: the deletion failed.
    """
    planned = plan_forgetting(service, caller, items)
    if confirm != planned["confirm"]:
        raise UsageError(
            "the word does not confirm these items", "call forget without confirm, and show the user what goes"
        )
    names = [option for entry in planned["items"] for option in ("--item", entry["id"])]
    command = [sys.executable, "-P", "-m", "helix.cli", "forget", *names, "--store", str(service.root), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORGET_SECONDS, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise StoreError(f"nothing was forgotten: {reason}", "try 'helix forget' in a terminal")
    receipt: dict[str, Any] = orjson.loads(done.stdout)
    return receipt


def _find_rows(snap: Snapshot, name: str) -> list[int]:
    """Return the rows of an item, or of all pieces of a cited turn."""
    rows = snap.citations.find(name) if "#" in name else [row for row in [snap.find(name)] if row is not None]
    if not rows:
        raise UsageError(f"no live item is {name[:80]!r}", "take an id from recall, search or timeline")
    return rows


def _make_word(ids: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(sorted(ids)).encode()).hexdigest()[:12]


def _name(snap: Snapshot, row: int) -> str:
    return f"{int(snap.columns.key[row]):016x}"


def _show(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: receipt[name] for name in ("id", "project", "corrects", "redacted")}


def start_publishing(service: QueryService) -> None:
    """Start `helix ingest --pending`; with a broker the workers publish what is accepted."""
    if service.settings.redis_url:
        return
    log = Path(service.root) / "logs"
    with suppress(OSError):
        log.mkdir(mode=0o700, exist_ok=True)
    command = [sys.executable, "-P", "-m", "helix.cli", "ingest", "--pending", "--store", str(service.root)]
    with (log / "publish.log").open("ab") as out:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
