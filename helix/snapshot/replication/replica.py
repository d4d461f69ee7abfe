"""A replica: a store that has nothing answers from words first, then completely, then follows a remote.

Opened, it has the manifest, the columns, texts and postings. Its mark (`helix.snapshot.partial`) names what it lacks:
vectors, indexes of them, encoders, and what only a writer or SQL reads. `complete_replica` fetches those.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import partial, paths
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.replication import object_store, transfer
from helix.snapshot.replication.pull import follow_current, install, pull_store
from helix.snapshot.replication.transfer import TransferReport
from helix.snapshot.segment.layout import OF_MEANING
from helix.snapshot.store_names import STORE_NAME

_UNREAD: Final = ("bands.key.npy", "bands.row.npy", "items.parquet", "edges.parquet")
"""Files of a segment that no recall reads."""

_OF_MODELS: Final = ("dense", "sparse", "sparse_encoder", "tokens", "router")
"""Kinds of index that a question asks with a model."""

_JITTER: Final = 0.2  # share of the interval by which looks of replicas that started together drift apart


def open_replica(url: str, root: Path, *, wait: float = 60.0) -> bool:
    """Fetch what a recall by words needs of the generation published at `url`, into a store that has none.

    Returns:
        False if a generation is here already; nothing is asked of the remote then.

    Raises:
        UsageError, StoreError: as `pull_store`.
    """
    if (root / "inbox").is_dir() and manifests.read_current(root) is not None:
        return False
    started = time.monotonic()
    remote = object_store.connect(url)
    object_store.check_apart(root, remote)

    def current() -> str:
        return transfer.require_remote_current(remote)

    def work(name: str) -> TransferReport:
        data = b"".join(object_store.read_blocks(remote, f"manifests/{name}"))
        later = list_later(transfer.parse_remote_manifest(remote, name, data))
        return install(root, remote, name, data, _refuse, wait, started, lambda file: file.path in later)

    transfer.retry_while_moving(current, work, remote.url, "push it again from a whole store")
    return True


def _refuse(mine: str, _: Manifest) -> None:
    """Refuse a generation that appeared meanwhile."""
    raise StoreError(f"the store got generation {mine} meanwhile", "run the command again")


def list_later(manifest: Manifest) -> frozenset[str]:
    """Return the files that a recall by words does not read."""
    arrays = {*_UNREAD, *(f"{name}.npy" for name in OF_MEANING)}
    later = [*manifest.encoder]
    later += [file for segment in manifest.segments for file in segment.files if _get_name(file) in arrays]
    later += [file for index in manifest.indexes if index.kind in _OF_MODELS for file in index.files]
    return frozenset(file.path for file in later)


def _get_name(file: File) -> str:
    return file.path.rpartition("/")[2]


def complete_replica(url: str, root: Path, *, wait: float = 60.0) -> TransferReport | None:
    """Fetch the rest of what `open_replica` began, of the newest generation; None if nothing is missing.

    Raises:
        UsageError, StoreError: as `pull_store`.
    """
    if not root.is_dir() or partial.read_partial(root) is None:
        return None
    return pull_store(url, root, wait=wait)


def follow_replica(
    url: str, root: Path, seconds: float, sleep: Callable[[float], object] = time.sleep, *, wait: float = 60.0
) -> Iterator[TransferReport | StoreError | str]:
    """Open and complete a replica, then pull each new generation; yield what happened, or an error, after each look.

    A look is one conditional request. After an error the next look tries again.

    Args:
        seconds: between two looks.
        sleep: waits so long.
    """
    known: object_store.Pointer | None = None
    while True:
        report: TransferReport | StoreError | str = ""
        try:
            remote = object_store.connect(url)
            if open_replica(url, root, wait=wait):
                report = f"{root} answers from words; vectors follow"
                known = None
            else:
                pointer = object_store.read_newer_pointer(remote, "CURRENT", known)
                if pointer is None:
                    transfer.require_remote_current(remote)
                elif pointer is not known or partial.read_partial(root) is not None:
                    report = follow_current(url, root, transfer.parse_current(remote, pointer), wait) or ""
                    known = pointer
        except StoreError as error:
            report, known = error, None
        except OSError as error:  # of the local disk
            report, known = paths.make_write_error(root, error), None
        yield report
        if not isinstance(report, str) or not report:
            sleep(seconds * random.uniform(1 - _JITTER, 1 + _JITTER))


def list_remote_stores(url: str) -> list[str]:
    """List the names of the stores that were pushed below `url`, each to `url/<name>`.

    A list of an object store may lack a new one and name one that is gone: it serves to find stores, not to rely on.

    Raises:
        UsageError, StoreError: as `pull_store`.
    """
    remote = object_store.connect(url)
    names = [name for name in object_store.list_folders(remote) if STORE_NAME.fullmatch(name) and ".." not in name]
    found = object_store.map_parallel(lambda name: object_store.read_size(remote, f"{name}/CURRENT"), names)
    return sorted(name for name, size in found if size is not None)
