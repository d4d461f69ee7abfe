"""Objects that machines without a common folder exchange at the remote a store is pushed to.

The remote of a push also holds envelopes, parts, dead records and the ledger of the primary, the one machine of the
fleet that commits. Every object carries a digest and is written whole or not at all, so a kill leaves nothing half
done. `pipelines.maintain.replication` says when each is written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths
from helix.snapshot.gc import collect_garbage
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest
from helix.snapshot.replication import object_store
from helix.snapshot.replication.part_archive import pack_part, unpack_part
from helix.snapshot.replication.pull import install
from helix.snapshot.replication.transfer import MANIFEST_NAME, read_local_blocks

INBOX: Final = "inbox"  # inbox/<document>: envelopes, byte for byte as in the store that accepted them
NEW: Final = "new"  # new/<document>: empty, one for each envelope the primary has not fetched; it lists only these
PARTS: Final = "parts"  # parts/<document>-<pipeline>: parts that wait for a commit; see `part_archive`
DEAD: Final = "dead"  # dead/<document>.json: documents given up, with the reason
LEDGER: Final = "LEDGER"  # name and bytes of a manifest without items: done documents and encoder; by the primary
FORGOTTEN: Final = "FORGOTTEN"  # a line per forgotten envelope: document and seal; the last one of a document counts

DOCUMENT: Final = re.compile(r"[0-9a-f]{64}")
PART: Final = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")
RECORD: Final = re.compile(r"[0-9a-f]{64}\.json")

_ABANDONED: Final = 86_400.0  # seconds: a large part over a slow line takes hours

_applied: Final[dict[tuple[Path, str], int]] = {}
"""Bytes of FORGOTTEN that were applied, by store and remote. It only grows."""


def list_names(remote: object_store.RemoteStore, folder: str, form: re.Pattern[str]) -> list[str]:
    """List the objects of that form in a folder, without its name: one request a thousand."""
    return sorted(list_sizes(remote, folder, form))


def list_sizes(remote: object_store.RemoteStore, folder: str, form: re.Pattern[str]) -> dict[str, int]:
    """List the objects of that form in a folder, with their bytes."""
    start = len(folder) + 1
    sizes = {name[start:]: int(info.size) for name, info in object_store.list_files(remote, folder).items()}
    return {name: size for name, size in sizes.items() if form.fullmatch(name)}


def read_object(remote: object_store.RemoteStore, name: str) -> bytes | None:
    """Read an object; None if it does not exist."""
    try:
        return b"".join(object_store.read_blocks(remote, name))
    except object_store.MissingFile:
        return None


def remove_abandoned(remote: object_store.RemoteStore) -> None:
    """Remove unfinished files of dead writers from a shared folder; S3 never shows one."""
    for folder in (INBOX, NEW, PARTS, DEAD):
        for path in (remote.folder / folder).glob(f"{paths.TEMPORARY}*") if remote.folder else ():
            if paths.measure_age(path) > _ABANDONED:
                path.unlink(missing_ok=True)


def put_envelope(root: Path, remote: object_store.RemoteStore, document: str) -> None:
    """Copy an envelope to the remote, replacing an older one."""
    with suppress(object_store.MissingFile):  # removed here meanwhile
        name = f"{INBOX}/{document}"
        object_store.put_blocks(remote, name, read_local_blocks(root, name), same_folder=True)


def fetch_envelope(root: Path, remote: object_store.RemoteStore, document: str) -> bool:
    """Fetch an envelope, replacing the local one; False if the remote has none.

    Raises:
        Damaged: its bytes do not match its digest.
    """
    data = read_object(remote, f"{INBOX}/{document}")
    if data is None:
        return False
    inbox.adopt_envelope(root, document, data, f"{remote.url}: {INBOX}/{document}")
    return True


def put_part(root: Path, remote: object_store.RemoteStore, name: str, seal: str) -> bool:
    """Copy a part to the remote; False if it no longer exists here."""
    document, _, fingerprint = name.partition("-")
    try:
        blocks = pack_part(root / PARTS / name, document, fingerprint, seal)
        object_store.put_blocks(remote, f"{PARTS}/{name}", blocks, same_folder=True)
    except object_store.MissingFile:
        return False
    return True


def fetch_part(root: Path, remote: object_store.RemoteStore, name: str) -> bool:
    """Fetch a part; False if the remote has none, or its document was forgotten since it was made.

    Raises:
        Damaged: it is not whole, or another part.
    """
    document, _, fingerprint = name.partition("-")
    blocks = object_store.read_blocks(remote, f"{PARTS}/{name}")
    try:
        with paths.build_folder(root / PARTS / name) as folder:
            seal = unpack_part(blocks, folder, document, fingerprint, f"{remote.url}: {PARTS}/{name}")
            # Two machines that accepted the same text may both have made its part; they differ in their times only.
            if inbox.read_seal(root, document) != seal and inbox.read_envelope(root, document).forgotten:
                raise object_store.MissingFile(name)
    except object_store.MissingFile:
        return False
    return True


def dump_ledger(manifest: Manifest, pipeline: str) -> bytes:
    """Return the bytes of LEDGER for a generation.

    Args:
        pipeline: the fingerprint of the parts that the primary commits.
    """
    stripped = replace(
        manifest,
        parent=None,
        lineage=replace(manifest.lineage, pipeline=pipeline),
        segments=(),
        deletes=(),
        indexes=(),
        forgotten=None,
        access=None,
        watermarks={},
        coverage={},
        counts={"items": 0, "sessions": 0, "documents": manifest.counts["documents"]},
        writer_flags=(*manifest.writer_flags, manifests.LEDGER),
    )
    name, data = manifests.dump(stripped)
    return f"{name}\n".encode() + data


def adopt_ledger(root: Path, remote: object_store.RemoteStore, wait: float) -> bool:
    """Make LEDGER of the primary this store's current manifest; False if nothing changed.

    A store with items of its own is left to `pull_store`.

    Raises:
        StoreError: no access there, or damaged files.
    """
    began = time.monotonic()
    text = read_object(remote, LEDGER)
    if text is None:
        return False
    first, _, data = text.partition(b"\n")
    name = first.decode("ascii", "replace")
    mine = manifests.read_current(root)
    if mine == name or (mine and not manifests.load(root, mine).is_ledger):
        return False
    if not MANIFEST_NAME.fullmatch(name):
        raise StoreError(f"{remote.url}: {LEDGER} is damaged or newer", "upgrade Helix, or commit on the primary")

    def check(mine: str, _: Manifest) -> None:
        if not manifests.load(root, mine).is_ledger:
            raise StoreError(f"{root} has items of its own by now", "pull what is published into it")

    try:
        install(root, remote, name, data, check, wait, began)
    except object_store.MissingFile as missing:
        raise StoreError(f"{missing} is missing", "the next commit on the primary writes it") from None
    collect_garbage(root, 1, paths.STALE, wait)  # a ledger needs no history, and grows with every commit
    return True


def apply_forgotten(root: Path, remote: object_store.RemoteStore) -> list[str]:
    """Fetch the envelopes that the primary has forgotten. Return those replaced here. No news costs one request."""
    known = object_store.read_size(remote, FORGOTTEN)
    if known is None or _applied.get((root, remote.url)) == known:
        return []
    replaced = []
    for document, seal in _parse_seals(read_object(remote, FORGOTTEN) or b"").items():
        if inbox.read_seal(root, document) in ("", seal):
            continue
        if fetch_envelope(root, remote, document):
            for part in (root / PARTS).glob(f"{document}-*"):  # after the envelope, else it might be made again
                paths.remove_path(part)
            inbox.revive_document(root, document)  # its error may quote the text; the primary decides if it is dead
            replaced.append(document)
    _applied[root, remote.url] = known
    return replaced


def publish_forgotten(root: Path, remote: object_store.RemoteStore, documents: Iterable[str]) -> None:
    """Copy the emptied envelopes to the remote, then list them in FORGOTTEN. Only the primary does this."""
    documents = sorted(documents)
    object_store.map_parallel(lambda document: put_envelope(root, remote, document), documents)
    text = read_object(remote, FORGOTTEN) or b""
    known = _parse_seals(text)
    new = {document: seal for document in documents if (seal := inbox.read_seal(root, document)) != known.get(document)}
    if new:
        object_store.put_file(
            remote, FORGOTTEN, text + "".join(f"{document} {seal}\n" for document, seal in new.items()).encode()
        )


def _parse_seals(text: bytes) -> Mapping[str, str]:
    return {line[:64]: line[65:] for line in text.decode("ascii", "replace").splitlines()}


def reconcile_dead(root: Path, remote: object_store.RemoteStore, done: Collection[str]) -> None:
    """Give up documents that any machine gave up, and retry those that any machine retries.

    A local record that was shared is marked. If it is gone from the remote, another machine retries the document.

    Args:
        done: published documents, whose records no longer matter.
    """
    local = inbox.list_dead(root)  # first, or a record marked in between would count as retried
    shared = {name.removesuffix(".json") for name in list_names(remote, DEAD, RECORD)}
    for document, record in local.items():
        if document in shared:
            if not record.get("shared"):
                _mark_shared(root, document, record)
        elif record.get("shared"):
            inbox.revive_document(root, document)
        else:
            publish_dead(root, remote, document)
    for document in shared - local.keys() - set(done):
        data = read_object(remote, f"{DEAD}/{document}.json")
        with suppress(orjson.JSONDecodeError, TypeError):
            if data is not None:
                _mark_shared(root, document, dict(orjson.loads(data)))


def publish_dead(root: Path, remote: object_store.RemoteStore, document: str) -> None:
    """Share the dead record of a document."""
    record = inbox.list_dead(root).get(document)
    if record is not None:
        object_store.put_file(remote, f"{DEAD}/{document}.json", orjson.dumps({**record, "shared": True}))
        _mark_shared(root, document, record)


def _mark_shared(root: Path, document: str, record: Mapping[str, object]) -> None:
    data = orjson.dumps({**record, "shared": True}, option=orjson.OPT_INDENT_2)
    paths.write_file(root / DEAD / f"{document}.json", data)


def revive_documents(root: Path, remote: object_store.RemoteStore, documents: Iterable[str]) -> None:
    """Retry documents that were given up, here or on another machine."""
    wanted = set(documents)
    for name in list_names(remote, DEAD, RECORD):
        if (document := name.removesuffix(".json")) in wanted:
            object_store.delete_file(remote, f"{DEAD}/{name}")
            inbox.revive_document(root, document)
