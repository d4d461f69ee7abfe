"""Envelopes between a store and its share: offered, fetched, and completed with their predecessors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from helix.errors import Damaged
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.replication import share
from helix.snapshot.replication.object_store import (
    RemoteStore,
    check_apart,
    connect,
    map_parallel,
    put_file,
    read_size,
)
from helix.snapshot.replication.share import INBOX, NEW
from helix.util.failpoints import failpoint
from pipelines.ingest.versions import WINDOW

HOME: Final = "home"
"""The file that marks the primary's store; it holds the share's URL."""

PATIENCE: Final = timedelta(hours=1)
"""Time an increment waits for its predecessors; after it, the increment is read without them."""

log = logging.getLogger("helix.share")

_offered: Final[set[tuple[Path, str, str]]] = set()
"""(store, share, document) known to be at the share, which this process does not ask again."""


def connect_share(root: Path, settings: Settings) -> RemoteStore:
    """Connect to the share, which must lie outside the store."""
    remote = connect(settings.share)
    check_apart(root, remote)
    return remote


def is_primary(root: Path) -> bool:
    """Return whether this store commits for its share."""
    return (root / HOME).exists()


def offer(root: Path, remote: RemoteStore, documents: Sequence[str]) -> None:
    """Send envelopes the share lacks. Of two machines that accepted the same document, the first one's counts."""

    def put(document: str) -> None:
        if read_size(remote, f"{INBOX}/{document}") is None:
            if not is_primary(root):  # the mark first: the primary looks for the envelope until it arrives
                put_file(remote, f"{NEW}/{document}", b"")
            failpoint("share.marked")
            share.put_envelope(root, remote, document)
        elif not is_primary(root):
            _reconcile(root, remote, document)
        _offered.add((root, remote.url, document))

    map_parallel(put, documents)


def _reconcile(root: Path, remote: RemoteStore, document: str) -> None:
    """Take the share's copy of an envelope that both have, or replace that copy if it is damaged."""
    theirs = share.read_object(remote, f"{INBOX}/{document}") or b""
    if theirs[: inbox.SEAL].decode("ascii", "replace") == inbox.read_seal(root, document):
        if len(theirs) == (root / INBOX / document).stat().st_size:
            return
    elif fetch(root, remote, document):
        return
    share.put_envelope(root, remote, document)


def offer_pending(root: Path, remote: RemoteStore) -> list[str]:
    """Offer pending documents the share lacks after a kill or an outage; return them."""
    unknown = [one for one in inbox.list_pending(root) if (root, remote.url, one) not in _offered]
    sizes = map_parallel(lambda document: read_size(remote, f"{INBOX}/{document}"), unknown)
    _offered.update((root, remote.url, document) for document, size in sizes if size is not None)
    left = [document for document, size in sizes if size is None]
    offer(root, remote, left)
    return left


def complete(root: Path, remote: RemoteStore, document: str) -> bool:
    """Fetch an envelope and its predecessors; return whether it can be read. See `pipelines.ingest.versions`."""
    envelope = load(root, remote, document)
    if envelope is None:
        return (root / INBOX / document).exists()  # damaged in both places: reading it raises the error
    may_wait = datetime.now(UTC) - envelope.accepted < PATIENCE
    if envelope.forgotten:
        return True
    other = envelope.first if envelope.after else envelope.instead
    if other and load(root, remote, other) is None and may_wait:
        return False
    size, before = 0, envelope.after
    while before and size < WINDOW:
        predecessor = load(root, remote, before)
        if predecessor is None:
            return not may_wait
        # A forgotten or dead one is read as empty: more of the others fit the window.
        size += 0 if predecessor.forgotten or inbox.is_dead(root, before) else len(predecessor.text)
        before = predecessor.after
    return True


def load(root: Path, remote: RemoteStore, document: str) -> Envelope | None:
    """Read an envelope of the store or the share; return None where neither has it whole."""
    if (root / INBOX / document).exists():
        with contextlib.suppress(Damaged):
            return inbox.read_envelope(root, document)
    return inbox.read_envelope(root, document) if fetch(root, remote, document) else None


def fetch(root: Path, remote: RemoteStore, document: str) -> bool:
    """Fetch an envelope; return False where the share's copy is missing or damaged."""
    try:
        return share.fetch_envelope(root, remote, document)
    except Damaged as error:
        log.error("%s", error)
        return False
