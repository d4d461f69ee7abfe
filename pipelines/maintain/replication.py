"""What machines without a common folder do when: each accepts and enriches, one of them, the home, commits.

They meet at HELIX_SHARE (`helix.snapshot.replication.share` has its objects). A machine offers what it accepts, fetches
what it enriches with all that is read before it, and hands in its parts. Home collects, commits and publishes. Whatever
is interrupted is done by the next round of `keep_up`, since each step first looks what is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from helix.errors import Damaged, StoreError, UsageError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.manifest import Manifest
from helix.snapshot.replication import remote as sync
from helix.snapshot.replication import share
from helix.snapshot.replication.remote import Remote
from helix.snapshot.replication.share import DEAD, INBOX, LEDGER, NEW, PARTS
from helix.util.failpoints import failpoint
from pipelines.ingest.enrich import part_folder, pipeline_fingerprint
from pipelines.ingest.versions import WINDOW

HOME: Final = "home"
"""The file in a store that says it is the one that commits; it holds the share's URL."""

PATIENCE: Final = timedelta(hours=1)
"""A link waits so long for those before it to arrive; then it is read as one whose beginning is lost."""

log = logging.getLogger("helix.share")

_offered: Final[set[tuple[Path, str, str]]] = set()
_sent: Final[set[tuple[Path, str, str]]] = set()
_listed: Final[set[tuple[Path, str]]] = set()
"""What this process knows to be there, by store and share: it does not ask again."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What came in: envelopes, parts, and how many parts wait for an envelope."""

    envelopes: int
    parts: int
    waiting: int


# ---------------------------------------------------------------- home


def claim(root: Path, settings: Settings) -> None:
    """Make this store the one that commits for the share.

    Raises:
        UsageError: the share is another store's.
        StoreError: it is not in reach, when this is asked for the first time.
    """
    if is_home(root):
        return
    remote = _at(root, settings)
    there = sync.remote_current(remote)
    if there is not None and manifests.current_name(root) != there:
        raise UsageError(
            f"another store commits for {remote.url}: it is at {there}, {root} is not",
            "run the queue 'commit' on one machine; to move it here: 'helix pull' into an empty store first",
        )
    paths.write_file(root / HOME, f"{remote.url}\n".encode())


def is_home(root: Path) -> bool:
    """Whether this store is the one that commits."""
    return (root / HOME).exists()


def check_home(root: Path, settings: Settings) -> None:
    """Raises UsageError where another store commits for the share: what is deleted has to be deleted there."""
    if not is_home(root):
        raise UsageError(f"{root} does not commit for {settings.share}", "do this on the machine that does, its home")


def _at(root: Path, settings: Settings) -> Remote:
    remote = sync.connect(settings.share)
    sync.apart(root, remote)
    return remote


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One process of this store at a time deals with the share on behalf of all."""
    handle = os.open(root / "share.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def collect(root: Path, settings: Settings, fingerprint: str | None) -> Collected:
    """Fetch the envelopes and parts that are not here yet. For home, before a commit.

    Args:
        fingerprint: of the parts that are taken; None: envelopes alone.

    Raises:
        StoreError: the share is not in reach.
    """
    with _alone(root):
        return _collect(root, _at(root, settings), fingerprint)


def _collect(root: Path, remote: Remote, fingerprint: str | None) -> Collected:
    done = ledger.done(root, ledger.current(root)[1])
    share.settle_dead(root, remote, done)

    def take(document: str) -> bool:
        """One envelope; its mark goes once it is durable here."""
        here = (root / INBOX / document).exists()
        if not here and not _fetched(root, remote, document):
            return False
        failpoint("share.envelope")
        sync.remove(remote, f"{NEW}/{document}")
        return not here

    taken = sync.each(take, share.names(remote, NEW, share.DOCUMENT))
    parts = waiting = 0
    for name in share.names(remote, PARTS, share.PART) if fingerprint else ():
        document, _, made_by = name.partition("-")
        if made_by != fingerprint or ledger.is_dead(root, document):
            continue
        if document in done:  # handed in by a second machine, after the commit
            sync.remove(remote, f"{PARTS}/{name}")
            continue
        if part_folder(root, document, made_by).is_dir():
            continue
        if not _complete(root, remote, document):
            log.warning("its part waits for an envelope", extra={"document": document})
            waiting += 1
            continue
        try:
            if share.fetch_part(root, remote, name):
                parts += 1
                continue
        except Damaged as error:
            log.error("%s", error)
        sync.remove(remote, f"{PARTS}/{name}")  # damaged, or of what was forgotten meanwhile: it is made again
    return Collected(sum(new for _, new in taken), parts, waiting)


def publish(root: Path, settings: Settings, keep: int = sync.KEEP) -> None:
    """Push the current generation and say what is done; then remove parts that nobody needs. For home, after a commit.

    Raises:
        StoreError: the share is not in reach, or another store is published there.
    """
    with _alone(root):
        _publish(root, _at(root, settings), settings, keep)


def _publish(root: Path, remote: Remote, settings: Settings, keep: int) -> None:
    if manifests.current_name(root) is None:
        return
    if share.size(remote, LEDGER) is None:  # a new share: of what is done already, others read what came before
        offer(root, remote, ledger.accepted(root))
    pushed = sync.push(root, remote.url, prune=True, keep=keep)
    failpoint("share.pushed")
    manifest = manifests.load(root, pushed.manifest)
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    sync.put(remote, LEDGER, share.dump_ledger(manifest, fingerprint))
    done = ledger.done(root, manifest)
    for name in share.names(remote, PARTS, share.PART):
        document, _, made_by = name.partition("-")
        if document in done or made_by != fingerprint:
            if document not in done:
                log.warning("its part is of another encoder or other settings: removed", extra={"document": document})
            sync.remove(remote, f"{PARTS}/{name}")


def _is_published(root: Path, remote: Remote, settings: Settings) -> bool:
    name, manifest = ledger.current(root)
    if manifest is None or name is None:
        return True
    fingerprint = pipeline_fingerprint(manifest.lineage.encoder, settings)
    return share.read(remote, LEDGER) == share.dump_ledger(manifest, fingerprint)


def holding(remote: Remote, documents: Collection[str], digests: Collection[str]) -> list[str]:
    """The objects that hold something of documents, or are files of a store with one of these digests."""
    wanted = set(documents)
    sizes = sync.each(lambda document: share.size(remote, f"{INBOX}/{document}"), sorted(wanted))
    found = [f"{INBOX}/{document}" for document, size in sizes if size is not None]
    for folder, form in ((NEW, share.DOCUMENT), (PARTS, share.PART), (DEAD, share.RECORD)):
        found += [f"{folder}/{name}" for name in share.names(remote, folder, form) if name[:64] in wanted]
    return sorted([*found, *(f"files/{name}" for name in share.names(remote, "files", sync.SHA256) if name in digests)])


def forget(root: Path, settings: Settings, documents: Collection[str]) -> None:
    """Replace the envelopes of forgotten documents there by those here, and remove all that was made of them."""
    with _alone(root):
        _forget(root, _at(root, settings), documents)


def _forget(root: Path, remote: Remote, documents: Collection[str]) -> None:
    if not documents:
        return
    share.tell_forgotten(root, remote, documents)
    failpoint("share.forgotten")
    for name in holding(remote, documents, ()):
        if not name.startswith(f"{INBOX}/"):
            sync.remove(remote, name)


# ---------------------------------------------------------------- any machine


def hand_over(root: Path, settings: Settings, documents: Sequence[str]) -> list[str]:
    """Offer documents that were just accepted here, and what was accepted and not offered before; all of them.

    Raises:
        StoreError: the share is not in reach; a worker of this store offers them when it is.
    """
    remote = _at(root, settings)
    share.revive(root, remote, documents)
    if not is_home(root):
        share.adopt(root, remote, settings.lock_wait)
        share.heed(root, remote)
    offer(root, remote, documents)
    return list(dict.fromkeys([*documents, *offer_pending(root, remote)]))


def offer(root: Path, remote: Remote, documents: Sequence[str]) -> None:
    """Put envelopes there that are not there. Of two machines that accepted the same, the first one's counts."""

    def put(document: str) -> None:
        there = share.size(remote, f"{INBOX}/{document}")
        if there is None:
            if not is_home(root):  # first, so that home looks for the envelope as long as it is not there
                sync.put(remote, f"{NEW}/{document}", b"")
            failpoint("share.marked")
            share.put_envelope(root, remote, document)
        elif not is_home(root):
            _settle(root, remote, document)
        _offered.add((root, remote.url, document))

    sync.each(put, documents)


def _settle(root: Path, remote: Remote, document: str) -> None:
    """Of an envelope that is here and there, take the one there; where that is damaged, replace it."""
    theirs = share.read(remote, f"{INBOX}/{document}") or b""
    if theirs[: ledger.SEAL].decode("ascii", "replace") == ledger.seal(root, document):
        if len(theirs) == (root / INBOX / document).stat().st_size:
            return
    elif _fetched(root, remote, document):
        return
    share.put_envelope(root, remote, document)


def offer_pending(root: Path, remote: Remote) -> list[str]:
    """Offer what waits here and is not there, which a kill or an outage may have left; which were offered."""
    unknown = [one for one in ledger.pending(root) if (root, remote.url, one) not in _offered]
    sizes = sync.each(lambda document: share.size(remote, f"{INBOX}/{document}"), unknown)
    _offered.update((root, remote.url, document) for document, size in sizes if size is not None)
    left = [document for document, size in sizes if size is None]
    offer(root, remote, left)
    return left


def receive(root: Path, settings: Settings, document: str) -> bool:
    """Make ready to enrich a document here; False where there is nothing to do.

    Raises:
        StoreError: it cannot be made here now: an envelope is not there yet, the share is not in reach, or the
            settings here make other parts than home's.
    """
    remote = _at(root, settings)
    home = is_home(root)
    if not home:
        share.heed(root, remote)
        if ledger.current(root)[1] is None:
            share.adopt(root, remote, settings.lock_wait)
    _, manifest = ledger.current(root)
    if ledger.is_done(root, document):
        return False
    if not home and manifest:
        name = part_folder(root, document, _checked(manifest, settings)).name
        if share.size(remote, f"{PARTS}/{name}") is not None:
            return False
    if not _complete(root, remote, document):
        raise StoreError(
            f"{document[:12]}… or what comes before it is neither here nor at {remote.url}",
            "the machine that accepted it offers it when its worker starts",
        )
    return True


def hand_in(root: Path, settings: Settings, document: str, fingerprint: str) -> bool:
    """Put a part that was made here there, or say that its document is given up; False where home is here.

    The part stays until home says that its document is done: by it the reconciler knows that it is made, and a share
    that loses it gets it again.

    Raises:
        StoreError: the share is not in reach; the next round of `keep_up` hands it in.
    """
    if is_home(root):
        return False
    remote = _at(root, settings)
    if ledger.is_dead(root, document):
        share.tell_dead(root, remote, document)
        return True
    share.heed(root, remote)  # what was forgotten while it was made goes nowhere
    return _send(root, remote, part_folder(root, document, fingerprint).name)


def _send(root: Path, remote: Remote, name: str) -> bool:
    sent = share.put_part(root, remote, name, ledger.seal(root, name[:64]))
    failpoint("share.sent")
    _sent.add((root, remote.url, name))
    return sent


def _checked(manifest: Manifest, settings: Settings) -> str:
    """The fingerprint of the parts that are made here.

    Raises:
        StoreError: home takes others.
    """
    made = pipeline_fingerprint(manifest.lineage.encoder, settings)
    if manifest.is_ledger and made != manifest.lineage.pipeline:
        raise StoreError(
            "home makes parts with another Helix or other settings",
            "install the same version, and set HELIX_ITEM_WORDS, HELIX_TOOL_CHARS and HELIX_VECTORS as there",
        )
    return made


# ---------------------------------------------------------------- again and again


def keep_up(root: Path, settings: Settings) -> None:
    """One round of what has to happen from time to time: at a worker's start, and then at its interval.

    Raises:
        StoreError: the share is not in reach; the next round makes up for it.
    """
    with _alone(root):
        remote = _at(root, settings)
        if is_home(root):
            _keep_house(root, remote, settings)
        else:
            _catch_up(root, remote, settings)


def _keep_house(root: Path, remote: Remote, settings: Settings) -> None:
    if (root, remote.url) not in _listed:  # once a process: marks may be lost, or this home be made of a copy
        _compare(root, remote)
        share.sweep(remote)
        _listed.add((root, remote.url))
    _, manifest = ledger.current(root)
    _collect(root, remote, pipeline_fingerprint(manifest.lineage.encoder, settings) if manifest else None)
    offer_pending(root, remote)
    if not _is_published(root, remote, settings):
        _publish(root, remote, settings, sync.KEEP)


def _compare(root: Path, remote: Remote) -> None:
    """Fetch every envelope that is not here, and replace there what was forgotten here and not told."""
    here, missing, other = set(ledger.accepted(root)), [], []
    for name, size in share.sizes(remote, INBOX, share.DOCUMENT).items():
        if name not in here:
            missing.append(name)
        elif size != (root / INBOX / name).stat().st_size:
            other.append(name)
    sync.each(lambda document: _fetched(root, remote, document), missing)
    _forget(root, remote, [name for name in other if (found := _envelope(root, remote, name)) and found.forgotten])


def _catch_up(root: Path, remote: Remote, settings: Settings) -> None:
    share.adopt(root, remote, settings.lock_wait)
    share.heed(root, remote)
    _, manifest = ledger.current(root)
    done = ledger.done(root, manifest)
    share.settle_dead(root, remote, done)
    offer_pending(root, remote)
    taken = manifest.lineage.pipeline if manifest and manifest.is_ledger else ""
    for folder in sorted((root / PARTS).glob("[0-9a-f]*")):
        document, _, made_by = folder.name.partition("-")
        if document in done or ledger.is_dead(root, document) or (taken and made_by != taken):
            paths.remove(folder)
        elif (root, remote.url, folder.name) not in _sent:
            if share.size(remote, f"{PARTS}/{folder.name}") is None:
                _send(root, remote, folder.name)
            _sent.add((root, remote.url, folder.name))


# ---------------------------------------------------------------- what a document is read behind


def _complete(root: Path, remote: Remote, document: str) -> bool:
    """Make sure that an envelope is here, and those it is read behind; see `pipelines.ingest.versions`."""
    envelope = _envelope(root, remote, document)
    if envelope is None:
        return (root / INBOX / document).exists()  # damaged here and there: whoever reads it says so
    patient = datetime.now(UTC) - envelope.accepted < PATIENCE
    if envelope.forgotten:
        return True
    for other in (envelope.first if envelope.after else envelope.instead,):
        if other and _envelope(root, remote, other) is None and patient:
            return False
    size, before = 0, envelope.after
    while before and size < WINDOW:
        link = _envelope(root, remote, before)
        if link is None:
            return not patient
        # What is forgotten or dead is read as nothing: others may be read in its place.
        size += 0 if link.forgotten or ledger.is_dead(root, before) else len(link.text)
        before = link.after
    return True


def _envelope(root: Path, remote: Remote, document: str) -> Envelope | None:
    """An envelope that is here or there; None where it is neither, or damaged in both."""
    if (root / INBOX / document).exists():
        with contextlib.suppress(Damaged):
            return ledger.read(root, document)
    return ledger.read(root, document) if _fetched(root, remote, document) else None


def _fetched(root: Path, remote: Remote, document: str) -> bool:
    try:
        return share.fetch_envelope(root, remote, document)
    except Damaged as error:
        log.error("%s", error)
        return False
