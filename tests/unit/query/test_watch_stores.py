"""The watch over the open stores of a server of many."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from query.stores import watch
from query.stores.open_stores import OpenSize, OpenStores
from tests.support.processes import wait_until


class Store:
    """An open store that counts the looks for a newer generation."""

    def __init__(self, used: float) -> None:
        self.used = self.looked = used
        self.looks = 0

    def look(self) -> bool:
        self.looks += 1
        return False


def test_a_store_in_use_is_looked_at_each_time_and_all_of_them_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: Any = OpenStores(1 << 30, lambda _: None, lambda _: None)
    busy, idle = Store(time.monotonic() + 3_600), Store(time.monotonic() - 2 * watch.RECENT)
    for name, store in (("busy", busy), ("idle", idle)):
        stores.get(name, lambda store=store: (store, OpenSize(1, 1)))
    said, stop = Counter[str](), threading.Event()
    watching = threading.Thread(target=watch.watch_stores, args=(stores, stop, 0.001, lambda name: said.update([name])))
    watching.start()
    try:
        wait_until(60, lambda: busy.looks > 5)
        assert idle.looks == 0 == said.total()
        monkeypatch.setattr(watch, "SWEEP", 0.0)
        wait_until(60, lambda: idle.looks > 5)
        assert min(said["busy"], said["idle"]) > 4
    finally:
        stop.set()
        watching.join()
