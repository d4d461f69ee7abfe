"""Where things lie in a store, and how bytes get there so that a crash cannot tear them."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helix.errors import StoreError

FOLDERS = ("manifests", "segments", "indexes", "deletes", "documents", "encoders", "inbox", "parts", "dead")
TEMPORARY = ".tmp-"


def create(root: Path) -> None:
    """Make the store's folders where they are missing.

    Raises:
        StoreError: the folder cannot be made or written.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in FOLDERS:
            (root / name).mkdir(mode=0o700, exist_ok=True)
        probe = root / f"{TEMPORARY}probe-{secrets.token_hex(4)}"
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        raise unwritable(root, error) from None


def unwritable(root: Path, error: OSError) -> StoreError:
    """The error for a store that refuses to be written."""
    return StoreError(
        f"cannot write the store {root}: {error.strerror or error}",
        "check its owner, its permissions and the free space, or name another with --store",
    )


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Make every file below durable and private."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)
            sync_folder(path)
            continue
        path.chmod(0o600)
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file or none: temporary name beside it, sync, rename, sync the folder."""
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(6)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder that appears whole at `target`, or not at all. Where `target` exists already, it stays as it is."""
    temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(6)}"
    temporary.mkdir(mode=0o700)
    try:
        yield temporary
        sync_tree(temporary)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # another process made the same thing: equal by construction
                raise
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sweep(root: Path) -> None:
    """Remove unfinished work. Only the writer may, while it holds the lock.

    The inbox and parts are left alone: others may be writing there this very moment.
    """
    for folder in (root, *(root / name for name in FOLDERS if name not in ("inbox", "parts"))):
        for path in folder.glob(f"{TEMPORARY}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif "probe" not in path.name:
                path.unlink(missing_ok=True)
