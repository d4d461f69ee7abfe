"""The primary's part: collects envelopes and parts from the share, and publishes the store to it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from helix.errors import Damaged, UsageError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.paths import hold_lock
from helix.snapshot.replication import share
from helix.snapshot.replication.object_store import RemoteStore, delete_file, map_parallel, put_file, read_size
from helix.snapshot.replication.push import KEEP, push_store
from helix.snapshot.replication.share import DEAD, INBOX, LEDGER, NEW, PARTS
from helix.snapshot.replication.transfer import SHA256, read_remote_current
from helix.util.failpoints import failpoint
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.replication.envelopes import (
    HOME,
    complete,
    connect_share,
    fetch,
    is_primary,
    load,
    offer,
    offer_pending,
)

LOCK: Final = "share.lock"
"""Held by the one process of a store that exchanges objects with the share."""

log = logging.getLogger("helix.share")

_compared: Final[set[tuple[Path, str]]] = set()
"""(store, share) whose envelopes this process has compared."""


@dataclass(frozen=True, slots=True)
class CollectedObjects:
    """The numbers of fetched envelopes and parts, and of parts that wait for an envelope."""

    envelopes: int
    parts: int
    waiting: int


def claim(root: Path, settings: Settings) -> None:
    """Make this store the primary of the share.

    Raises:
        UsageError: another store is.
        StoreError: the share cannot be reached at the first claim.
    """
    if is_primary(root):
        return
    remote = connect_share(root, settings)
    current = read_remote_current(remote)
    if current is not None and manifests.read_current(root) != current:
        raise UsageError(
            f"another store commits for {remote.url}: it is at {current}, {root} is not",
            "run the queue 'commit' on one machine; to move it here: 'helix pull' into an empty store first",
        )
    paths.write_file(root / HOME, f"{remote.url}\n".encode())


def require_primary(root: Path, settings: Settings) -> None:
    """Check that this store is the primary, where deletions have to be made.

    Raises:
        UsageError: another store is.
    """
    if not is_primary(root):
        raise UsageError(f"{root} does not commit for {settings.share}", "run this on the share's primary")


def collect(root: Path, settings: Settings, fingerprint: str | None) -> CollectedObjects:
    """Fetch the envelopes and parts that are missing here, before a commit.

    Args:
        fingerprint: of the parts to fetch; None for envelopes alone.

    Raises:
        StoreError: the share cannot be reached.
    """
    with hold_lock(root / LOCK):
        return _collect(root, connect_share(root, settings), fingerprint)


def _collect(root: Path, remote: RemoteStore, fingerprint: str | None) -> CollectedObjects:
    done = inbox.list_done(root, inbox.load_current(root)[1])
    share.reconcile_dead(root, remote, done)

    def take(document: str) -> bool:
        """Fetch an envelope; remove its mark once the envelope is durable here."""
        present = (root / INBOX / document).exists()
        if not present and not fetch(root, remote, document):
            return False
        failpoint("share.envelope")
        delete_file(remote, f"{NEW}/{document}")
        return not present

    taken = map_parallel(take, share.list_names(remote, NEW, share.DOCUMENT))
    parts = waiting = 0
    for name in share.list_names(remote, PARTS, share.PART) if fingerprint else ():
        document, _, made_by = name.partition("-")
        if made_by != fingerprint or inbox.is_dead(root, document):
            continue
        if document in done:  # a second machine handed it in after the commit
            delete_file(remote, f"{PARTS}/{name}")
            continue
        if part_folder(root, document, made_by).is_dir():
            continue
        if not complete(root, remote, document):
            log.warning("its part waits for an envelope", extra={"document": document})
            waiting += 1
            continue
        try:
            if share.fetch_part(root, remote, name):
                parts += 1
                continue
        except Damaged as error:
            log.error("%s", error)
        delete_file(remote, f"{PARTS}/{name}")  # damaged, or forgotten meanwhile: it is made again
    return CollectedObjects(sum(new for _, new in taken), parts, waiting)


def publish(root: Path, settings: Settings, keep: int = KEEP) -> None:
    """Push the current generation and its ledger after a commit, then remove obsolete parts.

    Raises:
        StoreError: the share cannot be reached, or holds another store.
    """
    with hold_lock(root / LOCK):
        _publish(root, connect_share(root, settings), settings, keep)


def _publish(root: Path, remote: RemoteStore, settings: Settings, keep: int) -> None:
    if manifests.read_current(root) is None:
        return
    if read_size(remote, LEDGER) is None:  # a new share: members read published documents as predecessors
        offer(root, remote, inbox.list_accepted(root))
    pushed = push_store(root, remote.url, prune=True, keep=keep)
    failpoint("share.pushed")
    manifest = manifests.load(root, pushed.manifest)
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    put_file(remote, LEDGER, share.dump_ledger(manifest, fingerprint))
    done = inbox.list_done(root, manifest)
    for name in share.list_names(remote, PARTS, share.PART):
        document, _, made_by = name.partition("-")
        if document in done or made_by != fingerprint:
            if document not in done:
                log.warning("its part is of another encoder or other settings: removed", extra={"document": document})
            delete_file(remote, f"{PARTS}/{name}")


def _is_published(root: Path, remote: RemoteStore, settings: Settings) -> bool:
    name, manifest = inbox.load_current(root)
    if manifest is None or name is None:
        return True
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    return share.read_object(remote, LEDGER) == share.dump_ledger(manifest, fingerprint)


def find_objects(remote: RemoteStore, documents: Collection[str], digests: Collection[str]) -> list[str]:
    """Return the share's objects about the documents, and its store files with one of the digests."""
    wanted = set(documents)
    sizes = map_parallel(lambda document: read_size(remote, f"{INBOX}/{document}"), sorted(wanted))
    found = [f"{INBOX}/{document}" for document, size in sizes if size is not None]
    for folder, form in ((NEW, share.DOCUMENT), (PARTS, share.PART), (DEAD, share.RECORD)):
        found += [f"{folder}/{name}" for name in share.list_names(remote, folder, form) if name[:64] in wanted]
    return sorted([*found, *(f"files/{name}" for name in share.list_names(remote, "files", SHA256) if name in digests)])


def forget(root: Path, settings: Settings, documents: Collection[str]) -> None:
    """Replace the share's envelopes of forgotten documents by those here, and remove their other objects."""
    with hold_lock(root / LOCK):
        _forget(root, connect_share(root, settings), documents)


def _forget(root: Path, remote: RemoteStore, documents: Collection[str]) -> None:
    if not documents:
        return
    share.publish_forgotten(root, remote, documents)
    failpoint("share.forgotten")
    for name in find_objects(remote, documents, ()):
        if not name.startswith(f"{INBOX}/"):
            delete_file(remote, name)


def keep_up_primary(root: Path, remote: RemoteStore, settings: Settings) -> None:
    """Run the primary's round: collect, offer, publish."""
    if (root, remote.url) not in _compared:  # once a process: marks may be lost, or this store be a copy
        _compare(root, remote)
        share.remove_abandoned(remote)
        _compared.add((root, remote.url))
    _, manifest = inbox.load_current(root)
    _collect(root, remote, pipeline_fingerprint(manifest.lineage.encoder, settings) if manifest else None)
    offer_pending(root, remote)
    if not _is_published(root, remote, settings):
        _publish(root, remote, settings, KEEP)


def _compare(root: Path, remote: RemoteStore) -> None:
    """Fetch every envelope that is missing here; repeat deletions the share has missed."""
    present, missing, other = set(inbox.list_accepted(root)), [], []
    for name, size in share.list_sizes(remote, INBOX, share.DOCUMENT).items():
        if name not in present:
            missing.append(name)
        elif size != (root / INBOX / name).stat().st_size:
            other.append(name)
    map_parallel(lambda document: fetch(root, remote, document), missing)
    _forget(root, remote, [name for name in other if (envelope := load(root, remote, name)) and envelope.forgotten])
