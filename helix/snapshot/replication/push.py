"""Publishes the current generation of a store at an object store or in a shared folder.

Only files that a manifest names are sent; the inbox stays local. An interrupted push resumes with the missing files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from helix.errors import StoreError, UsageError
from helix.snapshot import manifest as manifests
from helix.snapshot import partial, pins
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.replication import object_store, prune, transfer
from helix.snapshot.replication.object_store import Overtaken, Pointer, RemoteStore
from helix.snapshot.replication.transfer import TransferReport
from helix.util.failpoints import failpoint

KEEP = 2  # manifests that `--prune` retains: a pull of the one before last may be running


@dataclass(frozen=True, slots=True)
class LocalGeneration:
    """The generation to publish, and how."""

    root: Path
    name: str
    data: bytes  # of its manifest
    manifest: Manifest
    force: bool
    keep: int  # manifests that stay; 0: delete nothing


def push_store(root: Path, url: str, *, force: bool = False, prune: bool = False, keep: int = KEEP) -> TransferReport:
    """Publish the store's current generation at `url`: missing files, then the manifest, then CURRENT.

    Every file is verified. The generation at `url` must be an ancestor of the local one, by the `parent` links of the
    local manifests. If `gc` has cut that line, a number below the oldest known ancestor passes too. CURRENT is replaced
    only if no other push has replaced it since it was read. Else the history is checked again, and the push starts
    over.

    Args:
        root: the store.
        url: `s3://bucket/prefix[?endpoint_override=HOST:PORT&scheme=http&region=R]`, a `file://` URL or a folder.
            Credentials come from the environment or the usual AWS files.
        force: replace the generation at `url`, whatever its history.
        prune: at the end, delete old manifests there and files that the newest `keep` manifests do not name.
        keep: at least 1. 1 is for a push after a deletion (`forget`), so that the previous generation goes at once.

    Raises:
        UsageError: `url` is none of these, or is the store itself.
        StoreError: nothing to publish, a damaged local file, another history or no access. CURRENT there stays.
    """
    started = time.monotonic()
    if keep < 1:
        raise UsageError(f"keep={keep}: the current generation cannot go", "keep at least 1")
    remote = object_store.connect(url)
    object_store.check_apart(root, remote)

    def current() -> str:
        name = manifests.read_current(root)
        if name is None:
            raise StoreError(f"nothing is published in {root} yet", "ingest something first: 'helix ingest PATH'")
        return name

    def work(name: str) -> TransferReport:
        with _pin_generation(root, name):
            data = b"".join(transfer.read_local_blocks(root, f"manifests/{name}"))
            manifest = manifests.parse(name, data)
            partial.require_all_parts(root, name)
            made = LocalGeneration(root, name, data, manifest, force, keep if prune else 0)
            return _push_until_settled(remote, made, started)

    remedy = "run 'helix verify'; pull it from where it was pushed, or from a backup"
    return transfer.retry_while_moving(current, work, str(root), remedy)


def _push_until_settled(remote: RemoteStore, made: LocalGeneration, started: float) -> TransferReport:
    """Push, again from the start after each push that another process has finished meanwhile."""
    for attempt in range(transfer.RESTARTS):
        try:
            return _push_generation(remote, made, started, again=attempt > 0)
        except Overtaken:
            if made.force:  # it would replace a generation that was not seen when the command was given
                break
    text = f"CURRENT of {remote.url} was replaced by another push meanwhile"
    raise StoreError(text, "run the command again") from None


def _push_generation(remote: RemoteStore, made: LocalGeneration, started: float, *, again: bool) -> TransferReport:
    """Push once.

    Raises:
        Overtaken: CURRENT was replaced meanwhile.
    """
    read, old = _read_replaced(remote, made.force)
    free = prune.wait_for_prune(remote)  # after CURRENT was read
    if read is None:
        free = _require_conditions(remote, free)
    if old and not made.force:
        _check_history(remote, made, old, again)
    wanted = {file.sha256: file for file in made.manifest.files()}
    missing = _find_missing(remote, made, old, list(wanted.values()))
    failpoint("push.begin")

    def send(file: File) -> None:
        remedy = "nothing was published; restore it from a backup"
        local = transfer.read_local_blocks(made.root, file.path)
        blocks = transfer.verify_blocks(local, file, str(made.root / file.path), remedy)
        object_store.put_blocks(remote, f"files/{file.sha256}", blocks)
        failpoint("push.file")

    object_store.map_parallel(send, missing)
    if old != made.name or object_store.read_size(remote, f"manifests/{made.name}") != len(made.data):
        object_store.put_file(remote, f"manifests/{made.name}", made.data)
    failpoint("push.manifest")
    removed = 0
    if made.keep:
        with prune.hold_prune(remote, free) as renew:
            object_store.replace_pointer(remote, "CURRENT", made.name, read)
            failpoint("push.current")
            removed = _prune(remote, made, old, renew)
    elif old != made.name:
        object_store.replace_pointer(remote, "CURRENT", made.name, read)
    return transfer.build_report(remote, made.name, len(wanted), missing, removed, started)


def _require_conditions(remote: RemoteStore, free: Pointer | None) -> Pointer:
    """Check that the remote refuses a write whose condition does not hold; else two pushes could both win.

    Args:
        free: PRUNE as it was read; returned as it is now.

    Raises:
        StoreError: it does not refuse.
    """
    free = free or object_store.replace_pointer(remote, prune.PRUNE, prune.FREE, None)
    try:
        object_store.replace_pointer(remote, prune.PRUNE, prune.FREE, None)
    except Overtaken:
        return free
    text = f"the server of {remote.url} ignores the condition of a write (If-None-Match), so pushes are not safe there"
    raise StoreError(text, "use a server with conditional writes, such as AWS S3, MinIO or Cloudflare R2")


def _find_missing(remote: RemoteStore, made: LocalGeneration, old: str | None, wanted: list[File]) -> list[File]:
    """Return the files to send. A list only saves requests: what it claims of a file is confirmed.

    A listed file that the published manifest does not name may be of a push that was killed, or deleted long ago.
    """
    listed = object_store.list_files(remote, "files")
    published = _load_published(remote, made.root, old)
    named = {file.sha256 for file in published.files()} if published else set[str]()

    def is_present(file: File) -> bool:
        name = f"files/{file.sha256}"
        is_listed = name in listed and listed[name].size == file.bytes
        if is_listed == (file.sha256 in named):
            return is_listed  # both say so
        return object_store.read_size(remote, name) == file.bytes

    return [file for file, present in object_store.map_parallel(is_present, wanted) if not present]


def _load_published(remote: RemoteStore, root: Path, old: str | None) -> Manifest | None:
    """Load the published manifest, from here if it is here: its name has its digest."""
    if old is None:
        return None
    return transfer.load_local_manifest(root, old) or transfer.find_remote_manifest(remote, old)


def _check_history(remote: RemoteStore, made: LocalGeneration, old: str, again: bool) -> None:
    """Raise StoreError unless the published generation `old` may be replaced; see `push_store`."""
    history = transfer.trace_history(made.name, lambda ancestor: transfer.load_local_manifest(made.root, ancestor))
    if old not in history and transfer.parse_generation(old) >= transfer.parse_generation(history[-1]):
        how = ", by another push meanwhile" if again else ""
        raise StoreError(
            f"{remote.url} is at generation {transfer.parse_generation(old)} ({old}){how}, "
            f"which is no ancestor of generation {made.manifest.generation} of {made.root}",
            "pull it first, or push to another place; --force replaces it",
        )


def _read_replaced(remote: RemoteStore, force: bool) -> tuple[Pointer | None, str | None]:
    """Read CURRENT of the remote: as it is, and the manifest it names; with `force` a damaged one names none."""
    read = object_store.read_pointer(remote, "CURRENT")
    if read is None:
        return None, None
    try:
        return read, transfer.parse_current(remote, read)
    except StoreError:
        if force:
            return read, None
        raise


@contextmanager
def _pin_generation(root: Path, name: str) -> Iterator[None]:
    """Pin a generation while it is read, if the store can be written."""
    held = pins.pin_generation(root, name)
    try:
        yield
    finally:
        if held:
            pins.release_pin(*held)


def _prune(remote: RemoteStore, made: LocalGeneration, old: str | None, renew: Callable[[], None]) -> int:
    """Delete manifests but the newest, and files that these do not name. Return the number of deleted files.

    The newest are this generation, the one it replaced, and its ancestors. A list that lacks a file leaves it there.

    Raises:
        StoreError: the generation is published, but files are left.
    """
    try:
        kept = {made.name: made.manifest}
        history = transfer.trace_history(made.name, lambda name: transfer.load_local_manifest(made.root, name))
        for name in dict.fromkeys([*([old] if old else []), *history]):
            if len(kept) < made.keep and name not in kept and (found := transfer.find_remote_manifest(remote, name)):
                kept[name] = found
        named = {file.sha256 for manifest in kept.values() for file in manifest.files()}
        removed = prune.delete_unfinished(remote)
        # Manifests go first, so that no manifest names a deleted file.
        for folder, form, needed in (("manifests", transfer.MANIFEST_NAME, {*kept}), ("files", transfer.SHA256, named)):
            listed = [name.removeprefix(f"{folder}/") for name in object_store.list_files(remote, folder)]
            left = [f"{folder}/{name}" for name in listed if form.fullmatch(name) and name not in needed]
            removed += prune.delete_files(remote, left, renew)
        return removed
    except StoreError as error:
        text = f"generation {made.manifest.generation} is published, but old files are not removed: {error.what}"
        raise StoreError(text, error.remedy) from None
