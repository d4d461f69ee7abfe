"""Folders of a store, and writes that a crash cannot tear."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helix.errors import StoreError

FOLDERS = (
    *("manifests", "segments", "indexes", "deletes", "documents", "forgotten", "access", "encoders"),
    *("inbox", "sources", "orders", "tries", "parts", "dead"),
    *("events", "purges", "receipts", "pins", "building", "deep"),
)
OWNED = ("segments", "indexes", "deletes", "documents", "forgotten", "access", "encoders")
"""Folders of immutable files, whose entries live as long as a manifest names them."""

ENCODER_CHOICE = "encoder-choice.json"
"""Encoder that a new store begins with where the settings name none: a digest, then {"encoder", "why"}."""

TEMPORARY = ".tmp-"
STALE = 60.0  # seconds: writing one file takes far less, so an older unfinished file has no writer


def create_folders(root: Path) -> None:
    """Make the missing folders of a store.

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
        raise make_write_error(root, error) from None


def make_write_error(root: Path, error: OSError) -> StoreError:
    """Return the error for a store that cannot be written."""
    return StoreError(
        f"cannot write the store {root}: {error.strerror or error}",
        "check its owner, its permissions and the free space, or name another with --store",
    )


def read_regular(path: Path, most: int) -> bytes:
    """Read a small file whole. A pipe, a device or a folder is refused at once, without blocking.

    Args:
        most: bytes it may have.

    Raises:
        FileNotFoundError: it is missing.
        OSError: it is not regular, is larger, or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if info.st_size > most:
            raise OSError(errno.EFBIG, f"it has {info.st_size} bytes, more than the {most} it may have", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_SYNCS = 8
"""Files of a tree that are synced at once: the journal of a file system writes them together."""


def sync_tree(folder: Path) -> None:
    """Make every file below durable and private."""
    from concurrent.futures import ThreadPoolExecutor  # here: readers sync nothing

    with ThreadPoolExecutor(_SYNCS) as pool:
        for _ in pool.map(_sync_entry, [folder, *folder.rglob("*")]):
            pass


def _sync_entry(path: Path) -> None:
    if path.is_dir():
        path.chmod(0o700)
        sync_folder(path)
    else:
        sync_file(path)


def sync_file(path: Path) -> None:
    """Make a file durable and private."""
    path.chmod(0o600)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_OWN = 0o600


@contextmanager
def name_path_in_errors(path: Path) -> Iterator[None]:
    """Add the path to disk errors, which libraries omit."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.ENOSPC  # NumPy reports a short write without errno
        if error.filename is not None or number not in _REFUSALS:
            raise
        raise OSError(number, os.strerror(number), str(path)) from None


def write_file(path: Path, data: bytes, mode: int = _OWN, *, settle: bool = True) -> None:
    """Write a file whole or not at all: temporary name in the same folder, sync, rename, sync the folder.

    Args:
        settle: False leaves syncing the folder to the caller, for many files; until then the name may be lost.
    """
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(6)}"
    with name_path_in_errors(path):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if mode != _OWN:  # some file systems do not support it
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if settle:
            sync_folder(path.parent)


@contextmanager
def build_folder(target: Path) -> Iterator[Path]:
    """Yield a folder that appears at `target` whole or not at all. An existing `target` stays."""
    temporary = target.parent / f"{TEMPORARY}{secrets.token_hex(6)}"
    temporary.mkdir(mode=0o700)
    try:
        with name_path_in_errors(target):
            yield temporary
            sync_tree(temporary)
            try:
                temporary.rename(target)
            except OSError:
                if not target.is_dir():  # another process made the same folder, with equal content
                    raise
            sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def open_workplace(root: Path) -> Iterator[Path]:
    """Yield a folder in `building/` for this process; its remaining files are removed at the end.

    Leftovers of killed builders are removed first: a merge can be as large as the store, and the disk may not hold two.
    """
    _sweep_builders(root)
    base = root / "building" / secrets.token_hex(8)
    hidden = base.with_name(f"{TEMPORARY}{base.name}")
    hidden.mkdir(mode=0o700)
    handle = -1
    try:
        handle = os.open(hidden / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        (hidden / "files").mkdir(mode=0o700)
        hidden.rename(base)  # others see it only when it is locked
        with name_path_in_errors(base):
            yield base / "files"
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(base, ignore_errors=True)
        if handle >= 0:  # last: a process that waits for this builder finds its files removed
            os.close(handle)


def move_into_place(folder: Path, target: Path) -> None:
    """Move a built folder into place, whole and durable."""
    sync_tree(folder)
    folder.rename(target)
    sync_folder(target.parent)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Wait for a lock file and hold it; the kernel releases it when the process dies."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Return whether a living process holds this lock file."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not disturb each other
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def list_builders(root: Path) -> list[Path]:
    """List the folders in `building/` of living builders."""
    return [path for path in sorted((root / "building").glob("[0-9a-f]*")) if is_held(path / "lock")]


def remove_leftovers(root: Path) -> None:
    """Remove unfinished files of dead processes, except from folders that others may write to now."""
    for folder in (root, *(root / name for name in FOLDERS if name not in ("inbox", "parts", "events", "pins"))):
        for path in folder.glob(f"{TEMPORARY}*"):
            if measure_age(path) > STALE:
                remove_path(path)
    _sweep_builders(root)


def _sweep_builders(root: Path) -> None:
    for path in (root / "building").glob("[0-9a-f]*"):
        if not is_held(path / "lock"):
            remove_path(path)


def measure_age(path: Path) -> float:
    """Return seconds since a file or folder was last written; 0 if it no longer exists."""
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove_path(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
