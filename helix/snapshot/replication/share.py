"""What machines without a common folder hand each other at a place that a store is pushed to: its objects.

Beside `files/`, `manifests/` and CURRENT of a push lie envelopes, parts, records of the dead, and what the home of the
fleet, the one machine that commits, says of its ledger. Every object is written whole or not at all and carries a
digest, so whoever is killed leaves nothing half done. What is done when is `pipelines.maintain.replication`.
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
from helix.snapshot.gc import collect
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Manifest
from helix.snapshot.replication import part_archive as parcel
from helix.snapshot.replication import remote as sync
from helix.snapshot.replication.remote import Remote

INBOX: Final = "inbox"
"""`inbox/<document>`: envelopes, byte for byte as in the store that accepted them."""

NEW: Final = "new"
"""`new/<document>`: an empty object for each envelope that home has not fetched yet: it lists these, not the inbox."""

PARTS: Final = "parts"
"""`parts/<document>-<pipeline>`: parts that wait for a commit; see `helix.snapshot.replication.part_archive`."""

DEAD: Final = "dead"
"""`dead/<document>.json`: documents given up, with the reason."""

LEDGER: Final = "LEDGER"
"""A manifest's name and its bytes: what is done and by which encoder, without the items. Written by home."""

FORGOTTEN: Final = "FORGOTTEN"
"""A line for each envelope that was forgotten: its document and its seal; of several of a document the last counts."""

DOCUMENT: Final = re.compile(r"[0-9a-f]{64}")
PART: Final = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")
RECORD: Final = re.compile(r"[0-9a-f]{64}\.json")

_heard: Final[dict[tuple[Path, str], int]] = {}
"""By store and share: bytes of FORGOTTEN that were heeded. It only grows."""


# ---------------------------------------------------------------- objects


def names(remote: Remote, folder: str, form: re.Pattern[str]) -> list[str]:
    """The objects of that form in a folder there, without its name: one request a thousand."""
    return sorted(sizes(remote, folder, form))


def sizes(remote: Remote, folder: str, form: re.Pattern[str]) -> dict[str, int]:
    """The same, with their bytes."""
    start = len(folder) + 1
    found = {name[start:]: int(info.size) for name, info in sync.listing(remote, folder).items()}
    return {name: size for name, size in found.items() if form.fullmatch(name)}


def size(remote: Remote, name: str) -> int | None:
    """Bytes of an object; None where there is none. One request."""
    with sync.talking(remote):
        try:
            with remote.files.open_input_file(remote.at(name)) as file:
                return int(file.size())
        except FileNotFoundError:
            return None


def read(remote: Remote, name: str) -> bytes | None:
    """An object; None where there is none."""
    try:
        return b"".join(sync.read_remote(remote, name))
    except sync.Vanished:
        return None


def sweep(remote: Remote) -> None:
    """Remove from a folder what was being written when its writer died; of S3 nobody sees such."""
    for folder in (INBOX, NEW, PARTS, DEAD):
        for path in (remote.folder / folder).glob(f"{paths.TEMPORARY}*") if remote.folder else ():
            if paths.age(path) > _ABANDONED:
                path.unlink(missing_ok=True)


_ABANDONED: Final = 86_400.0
"""Seconds: a large part over a slow line takes hours."""


# ---------------------------------------------------------------- envelopes


def put_envelope(root: Path, remote: Remote, document: str) -> None:
    """Put an envelope there as it is here, in place of one that may be there."""
    with suppress(sync.Vanished):  # removed here meanwhile: nothing to offer
        name = f"{INBOX}/{document}"
        sync.put_blocks(remote, name, sync.read_local(root, name), beside=True)


def fetch_envelope(root: Path, remote: Remote, document: str) -> bool:
    """Take an envelope from there, in place of one that may be here; False where there is none.

    Raises:
        Damaged: its bytes do not match its digest.
    """
    data = read(remote, f"{INBOX}/{document}")
    if data is None:
        return False
    ledger.take(root, document, data, f"{remote.url}: {INBOX}/{document}")
    return True


# ---------------------------------------------------------------- parts


def put_part(root: Path, remote: Remote, name: str, seal: str) -> bool:
    """Put a part there; False where it is not here any more."""
    document, _, fingerprint = name.partition("-")
    try:
        blocks = parcel.pack(root / PARTS / name, document, fingerprint, seal)
        sync.put_blocks(remote, f"{PARTS}/{name}", blocks, beside=True)
    except sync.Vanished:
        return False
    return True


def fetch_part(root: Path, remote: Remote, name: str) -> bool:
    """Take a part from there; False where there is none, or where its document was forgotten since it was made.

    Raises:
        Damaged: it is not what it says it is.
    """
    document, _, fingerprint = name.partition("-")
    blocks = sync.read_remote(remote, f"{PARTS}/{name}")
    try:
        with paths.new_folder(root / PARTS / name) as folder:
            seal = parcel.unpack(blocks, folder, document, fingerprint, f"{remote.url}: {PARTS}/{name}")
            # Of two machines that accepted the same text each may have made its part: they differ by their times only.
            if ledger.seal(root, document) != seal and ledger.read(root, document).forgotten:
                raise sync.Vanished(name)
    except sync.Vanished:
        return False
    return True


# ---------------------------------------------------------------- what home says is done


def dump_ledger(manifest: Manifest, pipeline: str) -> bytes:
    """LEDGER of a generation.

    Args:
        pipeline: the fingerprint of the parts that home commits.
    """
    told = replace(
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
    name, data = manifests.dump(told)
    return f"{name}\n".encode() + data


def adopt(root: Path, remote: Remote, wait: float) -> bool:
    """Make what home says is done, and its encoder, this store's current manifest; False where that is no news.

    A store with items of its own stays as it is: a pull brings it up to date.

    Raises:
        StoreError: no access there, or damaged files.
    """
    began = time.monotonic()
    said = read(remote, LEDGER)
    if said is None:
        return False
    first, _, data = said.partition(b"\n")
    name = first.decode("ascii", "replace")
    mine = manifests.current_name(root)
    if mine == name or (mine and not manifests.load(root, mine).is_ledger):
        return False
    if not sync.NAME.fullmatch(name):
        raise StoreError(f"{remote.url}: {LEDGER} is damaged or of a newer Helix", "upgrade Helix, or commit at home")

    def may(mine: str, _: Manifest) -> None:
        if not manifests.load(root, mine).is_ledger:
            raise StoreError(f"{root} has items of its own by now", "pull what is published into it")

    try:
        sync.take(root, remote, name, data, may, wait, began)
    except sync.Vanished as gone:
        raise StoreError(f"{gone} is missing", "the next commit at home puts it there") from None
    collect(root, 1, paths.STALE, wait)  # a ledger has no history to return to, and grows with every commit
    return True


# ---------------------------------------------------------------- who is forgotten, and who is dead


def heed(root: Path, remote: Remote) -> list[str]:
    """Take over the envelopes that home has forgotten; which were replaced here. One request where there is no news."""
    known = size(remote, FORGOTTEN)
    if known is None or _heard.get((root, remote.url)) == known:
        return []
    replaced = []
    for document, seal in _seals(read(remote, FORGOTTEN) or b"").items():
        if ledger.seal(root, document) in ("", seal):
            continue
        if fetch_envelope(root, remote, document):
            for part in (root / PARTS).glob(f"{document}-*"):  # after the envelope, or it might be made again
                paths.remove(part)
            ledger.revive(root, document)  # what was said when it failed may quote it; home says whether it still is
            replaced.append(document)
    _heard[root, remote.url] = known
    return replaced


def tell_forgotten(root: Path, remote: Remote, documents: Iterable[str]) -> None:
    """Put the envelopes there as they are here, then say that they are forgotten. For home alone."""
    documents = sorted(documents)
    sync.each(lambda document: put_envelope(root, remote, document), documents)
    said = read(remote, FORGOTTEN) or b""
    known = _seals(said)
    new = {document: seal for document in documents if (seal := ledger.seal(root, document)) != known.get(document)}
    if new:
        sync.put(remote, FORGOTTEN, said + "".join(f"{document} {seal}\n" for document, seal in new.items()).encode())


def _seals(said: bytes) -> Mapping[str, str]:
    return {line[:64]: line[65:] for line in said.decode("ascii", "replace").splitlines()}


def settle_dead(root: Path, remote: Remote, done: Collection[str]) -> None:
    """Make a document that is given up anywhere given up everywhere, and one that is tried again tried again.

    A record here that has been there is marked: where it is there no more, somebody has it tried again.

    Args:
        done: documents that are published: what stood in their way is past.
    """
    here = ledger.dead(root)  # first, or what is marked in between would be taken for tried again
    there = {name.removesuffix(".json") for name in names(remote, DEAD, RECORD)}
    for document, record in here.items():
        if document in there:
            if not record.get("shared"):
                _mark(root, document, record)
        elif record.get("shared"):
            ledger.revive(root, document)
        else:
            tell_dead(root, remote, document)
    for document in there - here.keys() - set(done):
        data = read(remote, f"{DEAD}/{document}.json")
        with suppress(orjson.JSONDecodeError, TypeError):
            if data is not None:
                _mark(root, document, dict(orjson.loads(data)))


def tell_dead(root: Path, remote: Remote, document: str) -> None:
    """Say there that a document is given up here."""
    record = ledger.dead(root).get(document)
    if record is not None:
        sync.put(remote, f"{DEAD}/{document}.json", orjson.dumps({**record, "shared": True}))
        _mark(root, document, record)


def _mark(root: Path, document: str, record: Mapping[str, object]) -> None:
    data = orjson.dumps({**record, "shared": True}, option=orjson.OPT_INDENT_2)
    paths.write_file(root / DEAD / f"{document}.json", data)


def revive(root: Path, remote: Remote, documents: Iterable[str]) -> None:
    """Have documents tried again that were given up, here or elsewhere."""
    wanted = set(documents)
    for name in names(remote, DEAD, RECORD):
        if (document := name.removesuffix(".json")) in wanted:
            sync.remove(remote, f"{DEAD}/{name}")
            ledger.revive(root, document)
