"""The arrival of stores that are published in an object store, for a server of many (`helix.snapshot.wanted`)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import wanted
from query.auth import make_unknown_store

PATIENCE: Final = 20.0
"""Seconds for which a request waits for the words of a store."""

_POLL: Final = 0.02  # seconds between two looks


def is_here(root: Path) -> bool:
    """Return whether a generation of a store is in its folder."""
    try:
        return manifests.read_current(root) is not None
    except StoreError:
        return False


def refuse_arriving(name: str) -> StoreError:
    """Return the error for a store that is not here yet."""
    return StoreError(f"the store {name} is arriving", "ask again in a moment")


async def await_store(stores: Path, name: str, patience: float = PATIENCE) -> None:
    """Ask for a store, and wait until it answers from words.

    Raises:
        AccessDenied: nothing is published under this name.
        StoreError: it cannot be fetched, or does not arrive in time.
    """
    asked = time.time()
    wanted.want(stores, name)
    end = time.monotonic() + patience
    while not is_here(stores / name):
        fault = wanted.read_fault(stores, name)
        if fault and fault.is_missing and fault.at >= asked:
            raise make_unknown_store()
        if time.monotonic() >= end:
            if fault:
                raise StoreError(f"the store {name} does not arrive: {fault.text}", fault.remedy)
            raise refuse_arriving(name)
        await asyncio.sleep(_POLL)
