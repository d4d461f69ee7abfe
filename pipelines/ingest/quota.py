"""The most items of a store that has a limit (`stores.toml` in the folder of all stores)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from helix.errors import InputRefused
from helix.snapshot.ledger import inbox
from helix.snapshot.store_limits import FILE, read_limits

COUNTED: Final = 5.0
"""Seconds for which a count is used."""


class Quota:
    """The limit of one store's items.

    Args:
        root: the store; its limit is in the folder above.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._checked = float("-inf")
        self._fault = ""

    def check(self) -> None:
        """Check that the store may have more items.

        Raises:
            InputRefused: it is full.
            StoreError: the limits cannot be read.
        """
        if time.monotonic() - self._checked > COUNTED:
            self._fault, self._checked = self._find_fault(), time.monotonic()
        if self._fault:
            raise InputRefused(self._fault, f"forget some, or raise its limit in {self._root.parent / FILE}")

    def _find_fault(self) -> str:
        place = self._root.absolute()
        most = read_limits(place.parent).find(place.name).items
        if not most:
            return ""
        _, manifest = inbox.load_current(self._root)
        items = manifest.counts["items"] if manifest else 0
        return f"not accepted: {place.name} has {items:,} items, and its limit is {most:,}" if items >= most else ""
