"""The scheduler of periodic tasks. It sends nothing to a queue that no worker empties."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from celery import Celery, beat

from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.store_names import list_stores
from workers import liveness
from workers.dispatch import count_messages, request_task

MAX_WAITING: Final = 4
"""Messages that may wait in a queue: room for both periodic tasks, so that neither blocks the other for long."""

MAX_WAITING_OF_FLEET: Final = 1_000
"""The same for a fleet for many stores."""

UNCHANGED: Final = 3_600.0
"""Seconds between two maintenances of a store that does not change: garbage grows old, deletions resume."""


class Scheduler(beat.Scheduler):  # type: ignore[misc]
    """Celery's scheduler, which skips a task if its queue holds enough messages."""

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Run due tasks as Celery does, and touch the file of HELIX_ALIVE."""
        liveness.touch(load().alive)
        return float(super().tick(*arguments, **options))

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        """Send a task as Celery does, or return None if its queue is full. For many stores, send it to those due."""
        settings = load()
        if settings.stores:
            send_to_due(self.app, entry.task, settings)
            return None
        with self.app.connection_for_write() as connection:
            if count_messages(connection, self.app.conf.task_routes[entry.task]["queue"]) >= MAX_WAITING:
                return None
        return super().apply_async(entry, producer=producer, advance=advance, **options)


def send_to_due(app: Celery, task: str, settings: Settings) -> int:
    """Request a task for the stores that need it; return how many messages were sent.

    Raises:
        Any of BROKER_ERRORS: the broker cannot be reached.
    """
    with app.connection_for_write() as connection:
        room = MAX_WAITING_OF_FLEET - count_messages(connection, app.conf.task_routes[task]["queue"])
    sent = 0
    for store in list_due(Path(settings.stores), task, settings.tidy_interval, time.time()):
        if sent >= room:
            break
        sent += request_task(app, task, store)
    return sent


def list_due(stores: Path, task: str, interval: float, now: float) -> Iterator[str]:
    """Yield the stores for which a periodic task has work.

    `touch` is due where events wait; `maintain` after a change, and once within UNCHANGED, when a store's turn has
    come: the turns are spread over that time.

    Args:
        interval: seconds between two calls.
        now: seconds since the epoch.
    """
    turns = max(1, round(UNCHANGED / interval))
    for store in list_stores(stores):
        root = stores / store
        if task == "helix.touch":
            if any((root / "events").glob("*.jsonl")):
                yield store
        elif zlib.crc32(store.encode()) % turns == int(now / interval) % turns or _has_changed(root, 2 * interval):
            yield store


def _has_changed(root: Path, seconds: float) -> bool:
    return (root / "CURRENT").exists() and paths.measure_age(root / "CURRENT") < seconds
