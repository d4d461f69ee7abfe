"""A member leaves: their keys end at once, and the notes that only they may read are forgotten in every store.

What they wrote for others stays. A personal store is removed where it is named.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.errors import HelixError, StoreError, UsageError
from helix.snapshot.paths import TEMPORARY, sync_folder
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.store_names import list_stores, locate_store
from helix.types import I64

SECONDS: Final = 600.0
"""The longest deletion of one store."""


@dataclass(frozen=True, slots=True)
class PrivateItems:
    """The items of one store that only one principal may read."""

    store: str
    ids: list[str]  # 16 hex digits each


def find_private_rows(snap: Snapshot, principal: str) -> I64:
    """Return the live rows whose ACL names this principal and no one else: int64[n]."""
    if principal not in snap.catalog.principals:
        return np.empty(0, np.int64)
    readers = np.bincount(snap.files.acl_rows, minlength=snap.files.rows)
    return np.flatnonzero(snap.alive & snap.catalog.named_in_acl(principal) & (readers == 1))


def list_private(stores: Path, principal: str) -> list[PrivateItems]:
    """List the private items of a principal in every store that has any.

    Raises:
        StoreError: a store is damaged.
    """
    found = []
    for name in list_stores(stores):
        if (stores / name / "CURRENT").exists():
            snap = Snapshot.open(stores / name)
            ids = [f"{int(key):016x}" for key in snap.columns.key[find_private_rows(snap, principal)]]
            found += [PrivateItems(name, ids)] if ids else []
    return found


def publish_pending(root: Path) -> None:
    """Publish what waits in a store's inbox, so that a deletion finds it.

    Raises:
        StoreError: the command failed.
    """
    _run_helix("ingest", "--pending", "--store", str(root), "--json")


def forget_private(stores: Path, found: PrivateItems) -> dict[str, Any]:
    """Forget the items for good; return the receipt.

    Raises:
        StoreError: the deletion failed.
    """
    root = str(locate_store(stores, found.store))
    receipt: dict[str, Any] = orjson.loads(
        _run_helix("forget", "--item", "-", "--yes", "--store", root, "--json", ids=found.ids)
    )
    return receipt


def _run_helix(*words: str, ids: Sequence[str] = ()) -> str:
    """Run a command of Helix in a process of its own; return its output."""
    command = [sys.executable, "-P", "-m", "helix.cli", *words]
    try:
        done = subprocess.run(
            command, input="\n".join(ids), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"'helix {words[0]}' has not ended within {SECONDS:g} s", "run it in a terminal") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise StoreError(f"'helix {words[0]}' failed: {reason}", "run it in a terminal")
    return done.stdout


def remove_store(stores: Path, name: str) -> None:
    """Remove a store with everything in it. It is renamed first, so a server never sees a part of it.

    Raises:
        UsageError: there is no such store.
        StoreError: it cannot be removed.
    """
    root = locate_store(stores, name)
    if not root.is_dir():
        raise UsageError(f"{stores} has no store {name!r}", "'helix stores list' prints their names")
    leaving = stores / f"{TEMPORARY}removed-{name}"
    try:
        shutil.rmtree(leaving, ignore_errors=True)
        root.rename(leaving)
        sync_folder(stores)
        shutil.rmtree(leaving)
    except OSError as error:
        raise StoreError(f"{root} cannot be removed: {error.strerror or error}", "check its owner") from None


def measure_store(root: Path) -> dict[str, Any]:
    """Return a store's name, generation, items, sessions and bytes; `error` where it cannot be read."""
    from helix.snapshot.status import read_status

    try:
        state = read_status(root)
    except HelixError as error:
        return {"store": root.name, "generation": 0, "items": 0, "sessions": 0, "bytes": 0, "error": error.what}
    return {"store": root.name, **{name: state[name] for name in ("generation", "items", "sessions", "bytes")}}
