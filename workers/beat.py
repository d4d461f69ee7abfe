"""The scheduler of periodic tasks. It sends nothing to a queue that no worker empties."""

from __future__ import annotations

from typing import Any, Final

from celery import beat

from helix.settings import load
from workers import liveness
from workers.dispatch import count_messages

MAX_WAITING: Final = 4
"""Messages that may wait in a queue: room for both periodic tasks, so that neither blocks the other for long."""


class Scheduler(beat.Scheduler):  # type: ignore[misc]
    """Celery's scheduler, which skips a task if its queue holds enough messages."""

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Run due tasks as Celery does, and touch the file of HELIX_ALIVE."""
        liveness.touch(load().alive)
        return float(super().tick(*arguments, **options))

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        """Send a task as Celery does, or return None if its queue is full."""
        with self.app.connection_for_write() as connection:
            if count_messages(connection, self.app.conf.task_routes[entry.task]["queue"]) >= MAX_WAITING:
                return None
        return super().apply_async(entry, producer=producer, advance=advance, **options)
