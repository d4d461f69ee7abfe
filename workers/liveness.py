"""A file that is touched as long as a worker or beat is at work: who looks whether it is needs no broker to ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from celery import bootsteps

from helix.errors import UsageError
from helix.settings import load

EVERY: Final = 10.0
"""Seconds between two touches."""


def begin(path: str) -> None:
    """Touch the file for the first time, where one is named.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        touch(path)
    except OSError as error:
        raise UsageError(f"HELIX_ALIVE={path} cannot be written: {error.strerror}", "name a file in a folder") from None


def touch(path: str) -> None:
    """Say that this process is at work."""
    if path:
        Path(path).touch()


class Step(bootsteps.StartStopStep):  # type: ignore[misc]
    """Part of a worker's loop, which goes on while a task runs; it starts anew with each connection to the broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    timer: Any = None  # while the broker is away, it is stopped without having been started

    def start(self, parent: Any) -> None:
        """Touch it from now on."""
        path = load().alive
        touch(path)
        self.timer = parent.timer.call_repeatedly(EVERY, touch, (path,))

    def stop(self, parent: Any) -> None:
        """End that."""
        if self.timer is not None:
            self.timer.cancel()
