"""What is due now and then, but not as long as nobody works off what was."""

from __future__ import annotations

from typing import Any, Final

from celery import beat

from helix.settings import load
from workers import liveness as alive
from workers.dispatch import length

MOST: Final = 4
"""Messages that may wait in a queue. With two that are sent in turn, one cannot keep the other out for long."""


class Scheduler(beat.Scheduler):  # type: ignore[misc]
    """Leaves out what is due where its queue holds enough: none pile up while all workers are away."""

    def tick(self, *arguments: Any, **options: Any) -> float:
        """As Celery's."""
        alive.touch(load().alive)
        return float(super().tick(*arguments, **options))

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **options: Any) -> Any:
        """As Celery's; None where nothing is sent."""
        with self.app.connection_for_write() as connection:
            if length(connection, self.app.conf.task_routes[entry.task]["queue"]) >= MOST:
                return None
        return super().apply_async(entry, producer=producer, advance=advance, **options)
