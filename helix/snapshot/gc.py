"""Deletes generations and files that no retained generation and no reader needs."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from helix.errors import HelixError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.manifest import Manifest
from helix.snapshot.pins import list_pinned
from helix.util.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """Result of a garbage collection."""

    removed: tuple[str, ...]  # paths within the store
    bytes: int  # of these
    kept: int  # generations that stay
    pinned: int  # of these, held by readers


def collect_garbage(root: Path, keep: int, grace: float, wait: float) -> GarbageReport:
    """Delete all but the newest `keep` generations, then every file that no remaining generation names.

    The current generation, NEXT and pinned generations stay, whatever their age. Files younger than `grace` stay too,
    for readers without a pin (on a read-only mount) and running copies. So do generations made from the current one,
    and everything before the first generation is current: these are not provably superseded.

    Args:
        keep: generations, at least 1.
        grace: seconds.
        wait: seconds to wait for another writer.

    Raises:
        StoreError: another writer is at work, or a pointer or a manifest that may have to stay is damaged.
    """
    with _lock_reindex(root, wait), writer.acquire_lock(root, wait):  # in the order of `swap`
        pinned = list_pinned(root)
        newest = manifests.read_current(root)
        if newest is None:
            return GarbageReport((), 0, 0, len(pinned))
        current = {name for pointer in writer.LOCKS if (name := manifests.read_current(root, pointer))}
        before = time.time() - grace
        kept: list[Path] = []
        gone: list[Path] = []
        load = cache(partial(manifests.load, root))
        chain = {*_list_newest(root, keep), *_find_just_replaced(root, before, load)}
        chain |= _find_descendants(root, newest, load)
        for path in manifests.list_manifests(root):
            stays = path.name in pinned | current | chain or path.stat().st_mtime > before
            (kept if stays else gone).append(path)
        named = _list_named([load(path.name) for path in kept])
        removed: list[str] = []
        size = 0
        # Manifests first: a kill in between leaves unnamed files, never a manifest that names a missing one.
        doomed = {path.name: path.read_bytes() for path in gone}
        for path in gone:
            size += path.stat().st_size
            path.unlink()
            removed.append(f"manifests/{path.name}")
        failpoint("gc.manifests")
        # A reader pins before it loads. If it could still load a removed manifest, its pin retains the files.
        named |= _list_named(_parse_readable(doomed, list_pinned(root)))
        for path in list_unnamed(root, named, before):
            size += sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
            paths.remove_path(path)
            removed.append(str(path.relative_to(root)))
        return GarbageReport(tuple(removed), size, len(kept), len(pinned))


@contextlib.contextmanager
def _lock_reindex(root: Path, wait: float) -> Iterator[None]:
    """Hold the lock of NEXT. If the disk is too full for its file, no reindex can run, and `gc` goes ahead without."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(writer.acquire_lock(root, wait, "NEXT"))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        yield


def _list_newest(root: Path, keep: int) -> list[str]:
    """List the newest generations along `parent` from CURRENT, without abandoned or foreign manifests."""
    name = manifests.read_current(root)
    names: list[str] = []
    while name and len(names) < max(1, keep) and (root / "manifests" / name).exists():
        names.append(name)
        try:
            name = manifests.load(root, name).parent
        except HelixError:
            break
    return names


def _find_descendants(root: Path, current: str, load: Callable[[str], Manifest]) -> set[str]:
    """Return the generations made from the current one: an older CURRENT may have been restored.

    Raises:
        StoreError: a manifest with a later number is damaged, so its parent is unknown.
    """
    first, family = load(current).generation, {current}
    for path in manifests.list_manifests(root):  # by number: a parent comes before its children
        if manifests.parse_generation(path) > first and load(path.name).parent in family:
            family.add(path.name)
    return family


def _find_just_replaced(root: Path, before: float, load: Callable[[str], Manifest]) -> set[str]:
    """Return the parents of generations younger than `before`: a reader may be about to open one."""
    young = [path for path in (root / "manifests").glob("[0-9]*.json") if path.stat().st_mtime > before]
    return {load(path.name).parent or "" for path in young}


def _parse_readable(doomed: dict[str, bytes], names: set[str]) -> list[Manifest]:
    """Return the removed manifests of these names that a reader could have opened."""
    readable: list[Manifest] = []
    for name in names & doomed.keys():
        with contextlib.suppress(HelixError):
            readable.append(manifests.parse(name, doomed[name]))
    return readable


def _list_named(kept: list[Manifest]) -> set[str]:
    """Return the folders and files that manifests name, as `<folder>/<entry>`."""
    return {"/".join(file.path.split("/", 2)[:2]) for manifest in kept for file in manifest.files()}


def list_unnamed(root: Path, named: set[str], before: float) -> list[Path]:
    """List entries older than `before` that are not in `named`."""
    return [
        path
        for folder in paths.OWNED
        for path in sorted((root / folder).glob("[0-9a-f]*"))
        if f"{folder}/{path.name}" not in named and path.stat().st_mtime <= before
    ]
