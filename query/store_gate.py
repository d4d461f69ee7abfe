"""The limits of each store on a server of many: requests a second, and requests at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from helix.errors import HelixError
from helix.snapshot.store_limits import LimitReader
from query.arrivals import await_store
from query.auth import AccessDenied
from query.rates import TokenBuckets


class StoreGate:
    """Refuses requests to a store above its limits. For one event loop.

    Args:
        limits: of each store.
        processes: the number that share the rates.
        fetched: the folder of stores that another process fetches; None: every store is here.
    """

    def __init__(self, limits: LimitReader, processes: int = 1, fetched: Path | None = None) -> None:
        self._limits = limits
        self._fetched = fetched
        self._processes = processes
        self._rates = TokenBuckets(0, 0)
        self._running: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        """Refused requests by (store, limit)."""

    async def enter(self, store: str) -> None:
        """Count a request to a store, which ends with `leave`; wait until the store has arrived.

        Raises:
            AccessDenied: the store is at one of its limits, or does not exist.
            StoreError: it cannot be fetched.
        """
        own = self._limits.find(store)
        if own.concurrent and self._running[store] >= own.concurrent:
            self.refused[store, "concurrent"] += 1
            raise AccessDenied(429, f"{own.concurrent} requests to {store} are under way", "ask again soon", wait=1)
        if wait := self._rates.take(store, own.rate / self._processes):
            self.refused[store, "rate"] += 1
            raise AccessDenied(429, f"{store} gets more than {own.rate:g} requests a second", wait=wait)
        self._running[store] += 1
        if self._fetched is not None:
            try:
                await await_store(self._fetched, store)
            except HelixError:
                self.leave(store)
                raise

    def leave(self, store: str) -> None:
        """Count the end of a request."""
        self._running[store] -= 1
        if not self._running[store]:
            del self._running[store]
