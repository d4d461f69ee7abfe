"""The file of HELIX_ALIVE, which a running worker or beat touches. Health checks read it without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from celery import bootsteps

from helix.errors import UsageError
from helix.settings import load

INTERVAL: Final = 10.0
"""Seconds between two touches."""


def create_file(path: str) -> None:
    """Touch the file for the first time, if the setting names one.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        touch(path)
    except OSError as error:
        raise UsageError(f"HELIX_ALIVE={path} cannot be written: {error.strerror}", "name a file in a folder") from None


def touch(path: str) -> None:
    """Touch the file, if the setting names one."""
    if path:
        Path(path).touch()


class LivenessStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """A part of a worker's main loop, which also runs during tasks. It restarts with each broker connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    timer: Any = None  # None while the broker is down: Celery stops the step without a start

    def start(self, parent: Any) -> None:
        """Touch the file now and in each interval."""
        path = load().alive
        touch(path)
        self.timer = parent.timer.call_repeatedly(INTERVAL, touch, (path,))

    def stop(self, parent: Any) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
