"""Targets of exports: each is written next to its place first, so that it appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from helix.errors import StoreError, UsageError
from helix.snapshot.paths import sync_folder
from helix.snapshot.sql_export import open_workplace


@contextmanager
def open_file(root: Path, target: Path, force: bool) -> Iterator[IO[bytes]]:
    """Open a file of mode 0600 that replaces the target when the block ends without an error.

    Raises:
        UsageError: the target exists, is in the store, or cannot be written.
        StoreError: the disk is full.
    """
    check_place(root, target)
    if os.path.lexists(target) and (not force or not target.is_file()):
        raise UsageError(f"{target} exists", "--force replaces it, or name another file")
    with open_workplace(target) as folder:
        made = folder / "made"
        try:
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            made.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise explain_failure(target, error) from None


@contextmanager
def open_folder(root: Path, target: Path) -> Iterator[Path]:
    """Yield a new private folder, to be renamed; its parent, for what else the export needs, is removed at the end.

    Raises:
        UsageError: the target is in the store, or cannot be written.
        StoreError: the disk is full.
    """
    check_place(root, target)
    with open_workplace(target) as folder:
        made = folder / "made"
        try:
            made.mkdir(mode=0o700)
            yield made
        except OSError as error:
            raise explain_failure(target, error) from None


def check_place(root: Path, target: Path) -> None:
    """Check that a target is outside the store, in a folder that exists.

    Raises:
        UsageError: it is not.
    """
    with suppress(OSError):
        if root.resolve() in (target.resolve(), *target.resolve().parents):
            raise UsageError(
                f"{target} is inside the store {root}", "name a place outside: a store holds its own files only"
            )
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {target.parent}", "make the folder first")


def explain_failure(target: Path, error: OSError) -> UsageError | StoreError:
    """Return an error of writing as the caller sees it."""
    kind = StoreError if error.errno in (28, 122) else UsageError  # ENOSPC, EDQUOT
    remedy = "check the permissions and the free space of its folder, or name another place"
    return kind(f"cannot write {target}: {error.strerror or error}", remedy)
