"""Publishes generations and writes their small files. One writer at a time; see FORMAT.md, "Publishing"."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from helix.errors import StoreBusy, StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import partial, paths
from helix.snapshot.manifest import Deletes, File, Index, Manifest, describe_file, describe_tree, make_id
from helix.snapshot.shared_encoders import ENCODER_FILES, link_or_copy, share_encoder
from helix.snapshot.store_names import name_store
from helix.types import U32, AnyArray
from helix.util.failpoints import failpoint

LOCKS = {"CURRENT": "writer.lock", "NEXT": "reindex.lock"}


@dataclass(frozen=True, slots=True)
class WriterLock:
    """The right to publish, as long as the lock file holds `token`."""

    root: Path
    token: int
    pointer: str = "CURRENT"

    def check(self) -> None:
        """Raise StoreError if another writer has taken over."""
        token = _read_holder(self.root / LOCKS[self.pointer]).get("token")
        if token != self.token:
            raise StoreError(
                f"this writer holds token {self.token} of {self.root}, but token {token} has taken over",
                "nothing was published; run the command again",
            )


def _read_holder(path: Path) -> dict[str, Any]:
    try:
        return dict(orjson.loads(path.read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return {}


@contextmanager
def acquire_lock(
    root: Path, wait: float, pointer: str = "CURRENT", *, mend: bool = False, partial_too: bool = False
) -> Iterator[WriterLock]:
    """Become the one writer of a pointer. The kernel frees the lock when its holder dies.

    Args:
        root: the store.
        wait: seconds to wait for another writer.
        pointer: CURRENT, or NEXT for a lineage under construction.
        mend: accept a damaged pointer, which the caller is going to repair.
        partial_too: accept a replica that is still arriving, which the caller is going to complete.

    Raises:
        StoreBusy: another process still writes after that time.
        StoreError: the store cannot be written, or it is still arriving.
    """
    path = root / LOCKS[pointer]
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise paths.make_write_error(root, error) from None
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    raise paths.make_write_error(root, error) from None
                if time.monotonic() >= deadline:
                    holder = _read_holder(path)
                    raise StoreBusy(
                        f"process {holder.get('pid')} on {holder.get('host')} writes the store {root}",
                        "wait for it, or raise HELIX_LOCK_WAIT",
                    ) from None
                time.sleep(0.02)
        if not partial_too and (found := partial.read_partial(root)):
            partial.require_all_parts(root, found.manifest)
        token = max(int(_read_holder(path).get("token") or 0), _read_published_token(root, pointer, mend)) + 1
        data = orjson.dumps({"token": token, "pid": os.getpid(), "host": socket.gethostname()})
        os.pwrite(handle, data.ljust(256), 0)
        os.fsync(handle)
        paths.remove_leftovers(root)
        yield WriterLock(root, token, pointer)
    finally:
        os.close(handle)


def _read_published_token(root: Path, pointer: str, mend: bool) -> int:
    try:
        name = manifests.read_current(root, pointer)
        return manifests.load(root, name, write=True).token if name else 0
    except StoreError:
        if not mend:
            raise
        return max((manifest.token for _, manifest in manifests.load_readable(root)), default=0)


def write_deletes(root: Path, segment: str, rows: U32) -> Deletes:
    """Write all deleted rows of one segment as a new file."""
    return Deletes(segment, len(rows), write_array(root, "deletes", np.sort(rows).astype(np.uint32)))


def write_array(root: Path, kind: str, array: AnyArray) -> File:
    """Write one array as a file of the folder `kind`."""
    path = root / kind / f"{make_id()}.npy"
    paths.write_file(path, _dump_npy(array))
    return describe_file(root, path, len(array))


def write_documents(root: Path, table: pa.Table) -> File:
    """Write the documents of one commit."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = root / "documents" / f"{make_id()}.parquet"
    paths.write_file(path, sink.getvalue().to_pybytes())
    return describe_file(root, path, table.num_rows)


def write_index(root: Path, kind: str, files: Mapping[str, bytes], params: Mapping[str, Any]) -> Index:
    """Write an index of whole files."""
    identity = make_id()
    target = root / "indexes" / identity
    with paths.build_folder(target) as folder:
        for name, data in files.items():
            path = folder / kind / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(data)
    return Index(identity, kind, (), describe_tree(root, target), params)


def copy_encoder(root: Path, folder: Path, fingerprint: str, stores: str = "") -> tuple[File, ...]:
    """Copy an exported encoder into the store, so that a query node needs only the store.

    Args:
        stores: the folder of many stores; one that holds this store shares a copy of the files.
    """
    target = root / "encoders" / fingerprint
    if not target.is_dir():
        is_shared = bool(name_store(stores, root))
        source = share_encoder(root.parent, folder, fingerprint) if is_shared else folder
        with paths.build_folder(target) as new:
            for name in ENCODER_FILES:
                (link_or_copy if is_shared else shutil.copyfile)(source / name, new / name)
    return describe_tree(root, target)


def _dump_npy(array: AnyArray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def build_next(held: WriterLock, name: str | None, manifest: Manifest, **changes: Any) -> Manifest:
    """Return the generation after `manifest`, which is called `name`, with some fields changed."""
    return replace(
        manifest,
        generation=manifest.generation + 1,
        parent=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        token=held.token,
        **changes,
    )


def publish_generation(held: WriterLock, manifest: Manifest) -> str:
    """Make a manifest the current generation. Return its file name.

    Raises:
        StoreError: CURRENT is no longer the parent, or another writer has taken over; nothing was published.
    """
    root = held.root
    name, data = manifests.dump(manifest)
    if manifest.parent is None and held.pointer == "CURRENT":
        mark_empty(root)
    paths.write_file(root / "manifests" / name, data)
    failpoint("commit.manifest")
    held.check()
    current = manifests.read_current(root, held.pointer)
    if current != manifest.parent:
        raise StoreError(
            f"{held.pointer} of {root} was {manifest.parent} when this commit began and is {current} now",
            "nothing was published; run the command again",
        )
    failpoint("commit.checked")
    write_pointer(root, name, held.pointer)
    failpoint("commit.current")
    return name


def mark_empty(root: Path) -> None:
    """Write an empty CURRENT before the first manifest, so that a missing CURRENT always means loss."""
    if not (root / "CURRENT").exists():
        write_pointer(root, manifests.NOTHING)


def write_pointer(root: Path, name: str, pointer: str = "CURRENT") -> None:
    """Replace a pointer, durably."""
    paths.write_file(root / pointer, f"{name}\n".encode())
