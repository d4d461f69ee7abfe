"""Each machine's part: offers accepted documents, fetches those it enriches, and hands in their parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.paths import hold_lock
from helix.snapshot.replication import share
from helix.snapshot.replication.object_store import RemoteStore, read_size
from helix.snapshot.replication.share import PARTS
from helix.util.failpoints import failpoint
from pipelines.ingest.part import part_folder, pipeline_fingerprint
from pipelines.maintain.replication.envelopes import complete, connect_share, is_primary, offer, offer_pending
from pipelines.maintain.replication.primary import LOCK, keep_up_primary

_sent: Final[set[tuple[Path, str, str]]] = set()
"""(store, share, part) known to be at the share, which this process does not ask again."""


def hand_over(root: Path, settings: Settings, documents: Sequence[str]) -> list[str]:
    """Offer new documents, and pending ones that were not offered before; return all of them.

    Raises:
        StoreError: the share cannot be reached; a worker of this store offers them later.
    """
    remote = connect_share(root, settings)
    share.revive_documents(root, remote, documents)
    if not is_primary(root):
        share.adopt_ledger(root, remote, settings.lock_wait)
        share.apply_forgotten(root, remote)
    offer(root, remote, documents)
    return list(dict.fromkeys([*documents, *offer_pending(root, remote)]))


def receive(root: Path, settings: Settings, document: str) -> bool:
    """Prepare to enrich a document here; return False where it is done already.

    Raises:
        StoreError: an envelope is not at the share yet, the share cannot be reached, or the settings make other parts
            than the primary's.
    """
    remote = connect_share(root, settings)
    primary = is_primary(root)
    if not primary:
        share.apply_forgotten(root, remote)
        if inbox.load_current(root)[1] is None:
            share.adopt_ledger(root, remote, settings.lock_wait)
    _, manifest = inbox.load_current(root)
    if inbox.is_done(root, document):
        return False
    if not primary and manifest:
        name = part_folder(root, document, _check_pipeline(manifest, settings)).name
        if read_size(remote, f"{PARTS}/{name}") is not None:
            return False
    if not complete(root, remote, document):
        raise StoreError(
            f"{document[:12]}… or a document before it is neither here nor at {remote.url}",
            "the machine that accepted it offers it when its worker starts",
        )
    return True


def hand_in(root: Path, settings: Settings, document: str, fingerprint: str) -> bool:
    """Send a part to the share, or report its document as given up; return False on the primary.

    The part stays here until the primary's ledger lists its document: the reconciler sees that it is made, and a share
    that loses it gets it again.

    Raises:
        StoreError: the share cannot be reached; the next `keep_up` hands it in.
    """
    if is_primary(root):
        return False
    remote = connect_share(root, settings)
    if inbox.is_dead(root, document):
        share.publish_dead(root, remote, document)
        return True
    share.apply_forgotten(root, remote)  # a document forgotten meanwhile is not sent
    return _send(root, remote, part_folder(root, document, fingerprint).name)


def _send(root: Path, remote: RemoteStore, name: str) -> bool:
    sent = share.put_part(root, remote, name, inbox.read_seal(root, name[:64]))
    failpoint("share.sent")
    _sent.add((root, remote.url, name))
    return sent


def _check_pipeline(manifest: Manifest, settings: Settings) -> str:
    """Return the fingerprint of the parts made here.

    Raises:
        StoreError: the primary takes others.
    """
    made = pipeline_fingerprint(manifest.lineage.encoder, settings)
    if manifest.is_ledger and made != manifest.lineage.pipeline:
        raise StoreError(
            "the primary makes parts with another Helix version or other settings",
            "install its version, and set HELIX_ITEM_WORDS, HELIX_TOOL_CHARS and HELIX_VECTORS like the primary",
        )
    return made


def keep_up(root: Path, settings: Settings) -> None:
    """Run one round of exchange, at a worker's start and in each interval.

    Raises:
        StoreError: the share cannot be reached; the next round repeats the work.
    """
    with hold_lock(root / LOCK):
        remote = connect_share(root, settings)
        if is_primary(root):
            keep_up_primary(root, remote, settings)
        else:
            _keep_up_member(root, remote, settings)


def _keep_up_member(root: Path, remote: RemoteStore, settings: Settings) -> None:
    share.adopt_ledger(root, remote, settings.lock_wait)
    share.apply_forgotten(root, remote)
    _, manifest = inbox.load_current(root)
    done = inbox.list_done(root, manifest)
    share.reconcile_dead(root, remote, done)
    offer_pending(root, remote)
    pipeline = manifest.lineage.pipeline if manifest and manifest.is_ledger else ""
    for folder in sorted((root / PARTS).glob("[0-9a-f]*")):
        document, _, made_by = folder.name.partition("-")
        if document in done or inbox.is_dead(root, document) or (pipeline and made_by != pipeline):
            paths.remove_path(folder)
        elif (root, remote.url, folder.name) not in _sent:
            if read_size(remote, f"{PARTS}/{folder.name}") is None:
                _send(root, remote, folder.name)
            _sent.add((root, remote.url, folder.name))
