"""Fetches the generation that is published at an object store or in a shared folder into a store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import partial, paths
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.replication import object_store, transfer
from helix.snapshot.replication.object_store import RemoteStore
from helix.snapshot.replication.transfer import MANIFEST_NAME, TransferReport
from helix.util.failpoints import failpoint
from helix.util.hashing import hash_file


def pull_store(url: str, root: Path, *, force: bool = False, wait: float = 60.0) -> TransferReport:
    """Make the generation published at `url` the store's current one: missing files, the manifest, then CURRENT.

    Every file is verified. A local file that a local manifest names is trusted; another is compared by digest, so an
    interrupted pull resumes. The writer's lock is held throughout.

    No local commit may get lost: the remote must have the local generation, by its manifest or as an ancestor of the
    published one. If the line of ancestors is cut there, a local generation passes that has a smaller number than the
    oldest ancestor, is of the same lineage, and was not built upon a generation that the remote has.

    Args:
        url: see `push_store`.
        root: the store; made if it does not exist.
        force: replace the local generation anyway. Local generations that the remote lacks are given up, deletions
            among them; documents accepted here stay in the inbox and are committed again.
        wait: seconds to wait for another writer.

    Raises:
        UsageError: `push_store` does not accept `url`.
        StoreError: nothing published or no access, a damaged file, or local generations that would be lost. The store
            stays at its generation; files that arrived whole are retained for the next pull.
    """
    started = time.monotonic()
    remote = object_store.connect(url)
    object_store.check_apart(root, remote)

    def current() -> str:
        return transfer.require_remote_current(remote)

    def work(name: str) -> TransferReport:
        data = b"".join(object_store.read_blocks(remote, f"manifests/{name}"))

        def check(mine: str, manifest: Manifest) -> None:
            if not force and not manifests.load(root, mine).is_ledger:  # a ledger holds no item that could get lost
                _check_nothing_lost(root, mine, remote, name, manifest)

        return install(root, remote, name, data, check, wait, started)

    return transfer.retry_while_moving(current, work, remote.url, "push it again from a whole store")


def follow_store(url: str, root: Path, *, wait: float = 60.0) -> TransferReport | None:
    """Pull if another generation is published, and remove older ones; None if it is current already.

    Raises:
        UsageError, StoreError: as `pull_store`.
    """
    remote = object_store.connect(url)
    object_store.check_apart(root, remote)
    return follow_current(url, root, transfer.read_remote_current(remote), wait)


def follow_current(url: str, root: Path, name: str | None, wait: float) -> TransferReport | None:
    """Pull unless the store is at the generation `name`, and whole; remove older ones."""
    mine = manifests.read_current(root) if (root / "inbox").is_dir() else None
    is_current = name is not None and name == mine and partial.read_partial(root) is None
    report = None if is_current else pull_store(url, root, wait=wait)
    if report or _has_stale_generations(root):
        from helix.snapshot.gc import collect_garbage

        collect_garbage(root, 1, paths.STALE, wait)
    return report


def _has_stale_generations(root: Path) -> bool:
    current = manifests.read_current(root)
    older = (path for path in (root / "manifests").glob("[0-9]*.json") if path.name != current)
    return any(paths.measure_age(path) > paths.STALE for path in older)


def install(
    root: Path,
    remote: RemoteStore,
    name: str,
    data: bytes,
    check: Callable[[str, Manifest], None],
    wait: float,
    started: float,
    is_later: Callable[[File], bool] = lambda _: False,
) -> TransferReport:
    """Fetch the missing files of a manifest and make it current.

    Args:
        data: the manifest's bytes.
        check: raises StoreError if the manifest must not replace the local one of this name.
        is_later: whether a store without a generation gets a file in a later call only; until then it is partial.

    Raises:
        StoreError: the manifest or a file is damaged, or another writer is at work.
        MissingFile: a file does not exist.
    """
    from helix.snapshot import writer  # here, since only this direction writes a store

    manifest = transfer.parse_remote_manifest(remote, name, data)
    paths.create_folders(root)
    with writer.acquire_lock(root, wait, partial_too=True) as held, paths.open_workplace(root) as workplace:
        mine = manifests.read_current(root)
        marked = partial.read_partial(root)
        if mine and mine != name and not (marked and marked.manifest == mine):  # a replica has no commit to lose
            check(mine, manifest)
        trusted = _list_named_files(root)
        later = frozenset(file.path for file in manifest.files() if mine is None and is_later(file))
        files = list({file.path: file for file in manifest.files() if file.path not in later}.values())
        results = object_store.map_parallel(lambda file: _fetch(root, remote, file, trusted, workplace), files)
        with _report_unwritable(root):
            for folder in {parent for file in files for parent in PurePosixPath(file.path).parents}:
                paths.sync_folder(root / folder)
            if mine is None:
                writer.mark_empty(root)
            if later:
                _drop_partial(root, marked, name)
                partial.mark_partial(root, name, later)
            failpoint("pull.marked")
            path = root / "manifests" / name
            if not (path.is_file() and path.read_bytes() == data):
                paths.write_file(path, data)
            failpoint("pull.manifest")
            held.check()
            if mine != name:
                writer.write_pointer(root, name)
            failpoint("pull.current")
            if marked and not later:
                _drop_partial(root, marked, name)
                partial.clear_mark(root)
    return transfer.build_report(remote, name, len(files), [file for file, new in results if new], 0, started)


def _drop_partial(root: Path, marked: partial.PartialGeneration | None, name: str) -> None:
    """Remove the manifest of a partial generation that another one replaces: it names files that never arrive."""
    if marked and marked.manifest != name and MANIFEST_NAME.fullmatch(marked.manifest):
        (root / "manifests" / marked.manifest).unlink(missing_ok=True)


def _fetch(root: Path, remote: RemoteStore, file: File, trusted: set[tuple[str, int, str]], workplace: Path) -> bool:
    """Fetch a file into the store; False if it is there already."""
    target, source = root / file.path, f"files/{file.sha256}"
    is_present = target.is_file() and target.stat().st_size == file.bytes
    if is_present and ((file.path, file.bytes, file.sha256) in trusted or hash_file(target) == file.sha256):
        return False
    blocks = transfer.verify_blocks(
        object_store.read_blocks(remote, source),
        file,
        f"{remote.url}: {source} ({file.path})",
        "the local store is unchanged; remove that file there and push again from a whole store",
    )
    with _report_unwritable(root):
        object_store.write_blocks(workplace / secrets.token_hex(8), target, blocks)
    failpoint("pull.file")
    return True


def _check_nothing_lost(root: Path, mine: str, remote: RemoteStore, name: str, manifest: Manifest) -> None:
    """Raise StoreError if a pull would lose local generations; see `pull_store`."""

    def is_there(ancestor: str) -> bool:
        return object_store.read_size(remote, f"manifests/{ancestor}") is not None

    def load(ancestor: str) -> Manifest | None:
        return manifest if ancestor == name else transfer.find_remote_manifest(remote, ancestor)

    if is_there(mine):
        return
    history = transfer.trace_history(name, load, transfer.parse_generation(mine))
    if mine in history:
        return
    local = transfer.trace_history(mine, lambda ancestor: transfer.load_local_manifest(root, ancestor))
    if (
        transfer.parse_generation(mine) < transfer.parse_generation(history[-1])
        and manifests.load(root, mine).lineage == manifest.lineage
        and not any(is_there(ancestor) for ancestor in local)
    ):
        return
    raise StoreError(
        f"{root} is at generation {transfer.parse_generation(mine)} ({mine}), which {remote.url}, at generation "
        f"{transfer.parse_generation(name)}, does not have",
        "push it there, or pull into another folder; --force discards generations that are not there",
    )


def _list_named_files(root: Path) -> set[tuple[str, int, str]]:
    """Return (path, bytes, sha256) of files that local manifests name; they were verified when they were written."""
    named: set[tuple[str, int, str]] = set()
    for path in (root / "manifests").glob("[0-9]*.json"):
        manifest = transfer.load_local_manifest(root, path.name)
        named.update((file.path, file.bytes, file.sha256) for file in (manifest.files() if manifest else ()))
    return named


@contextmanager
def _report_unwritable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise paths.make_write_error(root, error) from None
