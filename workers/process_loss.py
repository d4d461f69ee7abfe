"""What a task's own process cannot tell any more: it was killed, or ran out of time. Its worker tells the ledger."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any, Final

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import signals

from helix.errors import HelixError
from helix.settings import load
from helix.snapshot.digests import TRY
from helix.snapshot.ledger import attempts as tries
from workers import metrics

log = logging.getLogger("helix.workers")

_ABOUT_ONE: Final = {"helix.enrich": float(tries.STRIKES), "helix.accept": float("inf")}
"""Tasks about one document or order, and after how many strikes it is given up here; an order gives itself up."""

_WAIT: Final = 0.5
"""Seconds between looks whether the parent lives."""


def listen() -> None:
    """Connect what a worker hears of its processes. For the worker's own process."""
    signals.task_failure.connect(_failed, weak=False)


def _failed(sender: Any = None, exception: Any = None, args: Any = (), **_: Any) -> None:
    if isinstance(exception, WorkerLostError | TimeLimitExceeded):
        _strike(sender.name, args, exception)


def _strike(task: str, arguments: Any, exception: BaseException) -> None:
    """Beside the worker's loop: a process that is out of time holds its lock until it is ended."""
    name = task.removeprefix("helix.")
    metrics.LOST.labels(name).inc()
    document = next((str(one) for one in arguments if TRY.fullmatch(str(one))), "")
    log.error("lost", extra={"task": name, "why": str(exception)[:200], **({"document": document} if document else {})})
    if task not in _ABOUT_ONE or not document:
        return
    if isinstance(exception, TimeLimitExceeded):
        said = "it took longer than HELIX_TASK_TIME_LIMIT, and could not be stopped"
    else:
        said = f"it killed the process that worked on it ({str(exception).strip().rstrip('.')})"

    def note() -> None:
        settings = load()
        try:
            for _ in range(20):
                if not tries.is_running(Path(settings.store), document):
                    break
                time.sleep(_WAIT)
            dead = tries.strike(Path(settings.store), document, said, settings.retry_wait, _ABOUT_ONE[task])
            if dead:
                log.error("given up", extra={"document": document})
        except (HelixError, OSError) as error:
            log.error("a strike was not noted: %s", type(error).__name__, extra={"document": document})

    threading.Thread(target=note, name="helix-strike", daemon=True).start()
