"""The watch over open stores: those in use are looked at often, and all of them now and then.

A look costs 50 microseconds of the processor among recalls. A thousand in a row every second delayed the recalls that
they met by as much as a recall takes; with 200 in a row four times a second they took a tenth of the processor's time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from query.stores.open_stores import OpenStores
from query.stores.opened import OpenStore, measure_memory

SWEEP: Final = 60.0
"""Seconds between looks at all open stores: some may be gone."""

RECENT: Final = 15.0
"""Seconds after its last use in which a store is looked at each time; its next use after them looks first."""


def watch_stores(
    stores: OpenStores[OpenStore], stop: threading.Event, interval: float, say_used: Callable[[str], None]
) -> None:
    """Look for newer generations until `stop` is set.

    Args:
        interval: seconds between two looks at a store in use.
        say_used: called with the name of each open store now and then.
    """
    swept = time.monotonic()
    while not stop.wait(interval):
        now = time.monotonic()
        if is_sweep := now - swept >= SWEEP:
            swept = now
        for name, found in stores.list_open():
            if is_sweep or now - found.used < RECENT:
                take_newest(stores, name, found)
            if is_sweep:
                say_used(name)


def use_store(stores: OpenStores[OpenStore], name: str, found: OpenStore, interval: float) -> None:
    """Note that a store is used; one that was not watched until now is looked at first."""
    found.used = time.monotonic()
    if found.used - found.looked > 2 * interval:
        take_newest(stores, name, found)


def take_newest(stores: OpenStores[OpenStore], name: str, found: OpenStore) -> None:
    """Take a store's newest generation; close the store if it is gone."""
    if (taken := found.look()) is None:
        stores.drop(name)
    elif taken:
        stores.resize(name, measure_memory(found.service))
