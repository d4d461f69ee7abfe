"""Replicas of the stores that servers want: each is opened from words first, completed, and followed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from helix.errors import StoreError
from helix.snapshot import wanted
from helix.snapshot.replication.replica import follow_replica
from helix.snapshot.replication.transfer import NothingPublished, TransferReport

THREADS: Final = 8
"""Stores that are looked at or fetched at once."""

POLL: Final = 0.05
"""Seconds between two looks for wanted stores."""

_JITTER: Final = 0.2  # share of the interval by which looks drift apart


def locate_remote(url: str, name: str) -> str:
    """Return the URL of a store that is published below another URL."""
    if "://" not in url:
        return f"{url.rstrip('/')}/{name}"
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def follow_wanted(
    url: str, stores: Path, seconds: float, sleep: Callable[[float], object] = time.sleep, *, wait: float = 60.0
) -> Iterator[tuple[str, StoreError | str]]:
    """Fetch and follow wanted stores; yield (name, what happened in words or an error) of each look with an outcome.

    Args:
        url: each store is published at `url/NAME`.
        seconds: between two looks at a store.
        sleep: waits so long between two looks for wanted stores.
    """
    looks: dict[str, Iterator[Any]] = {}
    due: dict[str, float] = {}
    running: dict[str, Future[Any]] = {}
    pool = ThreadPoolExecutor(THREADS, "helix-replicas")
    try:
        while True:
            names = set(wanted.list_wanted(stores))
            for name in [name for name in looks if name not in names and name not in running]:
                del looks[name], due[name]
            now = time.monotonic()
            for name in sorted(names - set(running), key=lambda name: due.get(name, 0.0)):
                if due.setdefault(name, 0.0) <= now and len(running) < THREADS:
                    if name not in looks:
                        looks[name] = _look(locate_remote(url, name), stores / name, wait)
                    running[name] = pool.submit(next, looks[name])
            for name in [name for name, look in running.items() if look.done()]:
                outcome = running.pop(name).result()
                has_begun = isinstance(outcome, str) and bool(outcome)  # the rest follows at once
                due[name] = 0.0 if has_begun else now + seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
                _report(stores, name, outcome)
                if isinstance(outcome, TransferReport):
                    yield name, f"generation {outcome.generation}, {outcome.bytes / 1e6:.1f} MB fetched"
                elif outcome:
                    yield name, outcome
            sleep(POLL)
            yield "", ""
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _look(url: str, root: Path, wait: float) -> Iterator[Any]:
    """Yield the outcome of each look at a store, without a pause between them."""
    return follow_replica(url, root, 0.0, lambda _: None, wait=wait)


def _report(stores: Path, name: str, outcome: object) -> None:
    if isinstance(outcome, StoreError):
        is_missing = isinstance(outcome, NothingPublished)
        wanted.report_fault(stores, name, outcome.what, outcome.remedy, is_missing=is_missing)
    else:
        wanted.report_fault(stores, name)
