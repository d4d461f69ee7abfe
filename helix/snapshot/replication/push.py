"""Publishes the current generation of a store at an object store or in a shared folder.

Only files that a manifest names are sent; the inbox stays local. An interrupted push resumes with the missing files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helix.errors import StoreError, UsageError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, pins
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.replication import object_store, transfer
from helix.snapshot.replication.object_store import RemoteStore
from helix.snapshot.replication.transfer import TransferReport
from helix.util.failpoints import failpoint

KEEP = 2  # manifests that `--prune` retains: a pull of the one before last may be running


def push_store(root: Path, url: str, *, force: bool = False, prune: bool = False, keep: int = KEEP) -> TransferReport:
    """Publish the store's current generation at `url`: missing files, then the manifest, then CURRENT.

    Every file is verified. The generation at `url` must be an ancestor of the local one, by the `parent` links of the
    local manifests. If `gc` has cut that line, a number below the oldest known ancestor passes too. CURRENT is read
    again right before it is replaced, but the two are not atomic: only one machine at a time may push to a place.

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
            return _push_generation(root, remote, name, force, keep if prune else 0, started)

    remedy = "run 'helix verify'; pull it from where it was pushed, or from a backup"
    return transfer.retry_while_moving(current, work, str(root), remedy)


def _push_generation(
    root: Path, remote: RemoteStore, name: str, force: bool, keep: int, started: float
) -> TransferReport:
    data = b"".join(transfer.read_local_blocks(root, f"manifests/{name}"))
    manifest = manifests.parse(name, data)
    present = {
        **object_store.list_files(remote, "files"),
        **object_store.list_files(remote, "manifests"),
    }  # a share holds many other objects
    if keep:
        present |= object_store.list_files(remote, recursive=False)
    old = _read_replaced(remote, force)
    if old and not force:
        _check_history(root, remote, name, old)
    wanted = {file.sha256: file for file in manifest.files()}
    missing = [file for digest, file in wanted.items() if _measure_size(present, f"files/{digest}") != file.bytes]
    failpoint("push.begin")

    def send(file: File) -> None:
        remedy = "nothing was published; restore it from a backup"
        local = transfer.read_local_blocks(root, file.path)
        blocks = transfer.verify_blocks(local, file, str(root / file.path), remedy)
        object_store.put_blocks(remote, f"files/{file.sha256}", blocks)
        failpoint("push.file")

    object_store.map_parallel(send, missing)
    if _measure_size(present, f"manifests/{name}") != len(data):
        object_store.put_file(remote, f"manifests/{name}", data)
    failpoint("push.manifest")
    if old != name:
        if _read_replaced(remote, force) != old:
            raise StoreError(f"CURRENT of {remote.url} was replaced by another push meanwhile", "run the command again")
        object_store.put_file(remote, "CURRENT", f"{name}\n".encode())
    try:
        removed = _prune(remote, present, name, manifest, keep) if keep else 0
    except StoreError as error:
        text = f"generation {manifest.generation} is published, but old files are not removed: {error.what}"
        raise StoreError(text, error.remedy) from None
    return transfer.build_report(remote, name, len(wanted), missing, removed, started)


def _check_history(root: Path, remote: RemoteStore, name: str, old: str) -> None:
    """Raise StoreError unless the published generation `old` may be replaced by `name`; see `push_store`."""
    history = transfer.trace_history(name, lambda ancestor: transfer.load_local_manifest(root, ancestor))
    if old not in history and transfer.parse_generation(old) >= transfer.parse_generation(history[-1]):
        raise StoreError(
            f"{remote.url} is at generation {transfer.parse_generation(old)} ({old}), "
            f"which is no ancestor of generation {transfer.parse_generation(name)} of {root}",
            "pull it first, or push to another place; --force replaces it",
        )


def _read_replaced(remote: RemoteStore, force: bool) -> str | None:
    """Read CURRENT of the remote; with `force` a damaged one counts as none."""
    try:
        return transfer.read_remote_current(remote)
    except StoreError:
        if force:
            return None
        raise


def _measure_size(present: Mapping[str, Any], name: str) -> int | None:
    return int(present[name].size) if name in present else None


@contextmanager
def _pin_generation(root: Path, name: str) -> Iterator[None]:
    """Pin a generation while it is read, if the store can be written."""
    held = pins.pin_generation(root, name)
    try:
        yield
    finally:
        if held:
            pins.release_pin(*held)


def _prune(remote: RemoteStore, present: Mapping[str, Any], current: str, manifest: Manifest, keep: int) -> int:
    """Delete files that the newest `keep` manifests do not name. Return their number.

    `present` was listed before the push, so files that others have sent since stay.
    """
    others = [
        name
        for path in present
        if transfer.MANIFEST_NAME.fullmatch(name := path.removeprefix("manifests/")) and name != current
    ]
    others.sort(key=lambda name: (present[f"manifests/{name}"].mtime_ns or 0, name), reverse=True)
    named = {file.sha256 for file in manifest.files()}
    for name in others[: keep - 1]:
        named.update(file.sha256 for file in transfer.load_remote_manifest(remote, name).files())
    old = [f"manifests/{name}" for name in others[keep - 1 :]]
    files = [
        path for path in present if transfer.SHA256.fullmatch(key := path.removeprefix("files/")) and key not in named
    ]
    files += [path for path in present if path.removeprefix("manifests/").startswith(paths.TEMPORARY)]
    # Manifests go first, so that no manifest names a deleted file.
    object_store.map_parallel(lambda path: object_store.delete_file(remote, path), old)
    object_store.map_parallel(lambda path: object_store.delete_file(remote, path), files)
    return len(old) + len(files)
