"""Deletes what no kept generation and no reader needs any more."""

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
    """What was removed, by path within the store; bytes of it; generations that stay and how many are pinned."""

    removed: tuple[str, ...]
    bytes: int
    kept: int
    pinned: int


def collect_garbage(root: Path, keep: int, grace: float, wait: float) -> GarbageReport:
    """Delete all but the newest `keep` generations, then every file no generation left names.

    What is current, being built (NEXT) or held open by a reader stays whatever its age, and nothing younger than
    `grace` goes: a reader without a pin, on a read-only mount, or a copy under way may still want it. Nor does what
    nobody can prove superseded: generations made from the current one, and all of it before there is a current one.

    Args:
        keep: generations, at least 1.
        grace: seconds.
        wait: seconds to wait for another writer.

    Raises:
        StoreError: another writer is at work, or a pointer or a manifest that may have to be kept is damaged.
    """
    with _reindex_lock(root, wait), writer.acquire_lock(root, wait):  # the order `swap` takes them in
        held = list_pinned(root)
        newest = manifests.read_current(root)
        if newest is None:
            return GarbageReport((), 0, 0, len(held))
        current = {name for pointer in writer.LOCKS if (name := manifests.read_current(root, pointer))}
        before = time.time() - grace
        kept: list[Path] = []
        gone: list[Path] = []
        load = cache(partial(manifests.load, root))  # a log that is being written makes hundreds of them an hour
        chain = set(_newest(root, keep)) | _just_replaced(root, before, load) | _later(root, newest, load)
        for path in manifests.list_manifests(root):
            stays = path.name in held | current | chain or path.stat().st_mtime > before
            (kept if stays else gone).append(path)
        named = _named([load(path.name) for path in kept])
        removed: list[str] = []
        size = 0
        # Manifests first: a kill in between leaves files nobody names, never a manifest that names what is gone.
        doomed = {path.name: path.read_bytes() for path in gone}
        for path in gone:
            size += path.stat().st_size
            path.unlink()
            removed.append(f"manifests/{path.name}")
        failpoint("gc.manifests")
        # A reader pins and then loads. One that could still load it has pinned it by now, and keeps its files.
        named |= _named(_whole(doomed, list_pinned(root)))
        for path in list_unnamed(root, named, before):
            size += sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
            paths.remove_path(path)
            removed.append(str(path.relative_to(root)))
        return GarbageReport(tuple(removed), size, len(kept), len(held))


@contextlib.contextmanager
def _reindex_lock(root: Path, wait: float) -> Iterator[None]:
    """The lock of NEXT. Where the disk is too full to make its file, no reindex can run, and `gc` is what is needed."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(writer.acquire_lock(root, wait, "NEXT"))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        yield


def _newest(root: Path, keep: int) -> list[str]:
    """The newest generations, following `parent` from CURRENT: an abandoned or foreign manifest is not among them."""
    name = manifests.read_current(root)
    found: list[str] = []
    while name and len(found) < max(1, keep) and (root / "manifests" / name).exists():
        found.append(name)
        try:
            name = manifests.load(root, name).parent
        except HelixError:
            break
    return found


def _later(root: Path, current: str, load: Callable[[str], Manifest]) -> set[str]:
    """Return the generations made from the current one: an older CURRENT may have been put back in its place.

    Raises:
        StoreError: a manifest with a later number is damaged, so nobody can tell what it was made from.
    """
    first, found = load(current).generation, {current}
    for path in manifests.list_manifests(root):  # by number: a parent comes before what was made from it
        if manifests.parse_generation(path) > first and load(path.name).parent in found:
            found.add(path.name)
    return found


def _just_replaced(root: Path, before: float, load: Callable[[str], Manifest]) -> set[str]:
    """Generations that were current until a younger one than `before` took their place: one may be about to be read."""
    young = [path for path in (root / "manifests").glob("[0-9]*.json") if path.stat().st_mtime > before]
    return {load(path.name).parent or "" for path in young}


def _whole(doomed: dict[str, bytes], names: set[str]) -> list[Manifest]:
    """Those of the removed manifests that have these names and that a reader could have opened."""
    found: list[Manifest] = []
    for name in names & doomed.keys():
        with contextlib.suppress(HelixError):
            found.append(manifests.parse(name, doomed[name]))
    return found


def _named(kept: list[Manifest]) -> set[str]:
    """The folders and files that manifests name, as `<folder>/<entry>`."""
    return {"/".join(file.path.split("/", 2)[:2]) for manifest in kept for file in manifest.files()}


def list_unnamed(root: Path, named: set[str], before: float) -> list[Path]:
    """Entries older than `before` that nobody names."""
    return [
        path
        for folder in paths.OWNED
        for path in sorted((root / folder).glob("[0-9a-f]*"))
        if f"{folder}/{path.name}" not in named and path.stat().st_mtime <= before
    ]
