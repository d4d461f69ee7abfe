"""Worker death: how the ledger learns that a process died during a task.

- A pool process is killed or exceeds its hard time limit: its worker notes a failed attempt here. After three failed
  attempts the document is dead.
- A whole worker is killed: the kernel frees its locks at once, and `workers.reconcile` sends its documents again. The
  next attempt finds the unfinished one; five of these make a document dead (`helix.snapshot.ledger.attempts`).
- The message of a killed worker returns after the visibility timeout. Its task finds the work done, or does it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import signals

from helix.errors import HelixError
from helix.snapshot.digests import ATTEMPT
from helix.snapshot.ledger import attempts
from workers import metrics
from workers.place import StoreGone, read_place
from workers.queues import split_arguments

log = logging.getLogger("helix.workers")

_MAX_ATTEMPTS: Final = {"helix.enrich": float(attempts.MAX_FAILURES), "helix.accept": float("inf")}
"""Failed attempts after which a task's document is dead. An order ends itself."""

_LOOKS: Final = 20
_PAUSE: Final = 0.5
"""Seconds between two looks whether the dead process still holds its lock."""


def connect() -> None:
    """Listen for deaths of pool processes. Call it in the worker's own process."""
    signals.task_failure.connect(_on_failure, weak=False)


def _on_failure(sender: Any = None, exception: Any = None, args: Any = (), **_: Any) -> None:
    if isinstance(exception, WorkerLostError | TimeLimitExceeded):
        _record_death(sender.name, args, exception)


def _record_death(task: str, arguments: Any, exception: BaseException) -> None:
    name = task.removeprefix("helix.")
    metrics.LOST.labels(name).inc()
    names, store = split_arguments(task, arguments)
    document = next((name for name in names if ATTEMPT.fullmatch(name)), "")
    about = {**({"document": document} if document else {}), **({"store": store} if store else {})}
    log.error("lost", extra={"task": name, "why": str(exception)[:200], **about})
    if task not in _MAX_ATTEMPTS or not document:
        return
    if isinstance(exception, TimeLimitExceeded):
        reason = "it took longer than HELIX_TASK_TIME_LIMIT, and could not be stopped"
    else:
        reason = f"it killed the process that worked on it ({str(exception).strip().rstrip('.')})"

    def note_attempt() -> None:
        try:
            settings, root = read_place(store)
            for _ in range(_LOOKS):
                if not attempts.is_running(root, document):
                    break
                time.sleep(_PAUSE)
            if attempts.record_failure(root, document, reason, settings.retry_wait, _MAX_ATTEMPTS[task]):
                log.error("given up", extra=about)
        except StoreGone:
            return
        except (HelixError, OSError) as error:
            log.error("a failed attempt was not noted: %s", type(error).__name__, extra=about)

    # In a thread, since a process that is out of time holds its lock until it ends.
    threading.Thread(target=note_attempt, name="helix-attempt", daemon=True).start()
