"""The background thread of a `deep` worker: it sends a task for each deep job in the store.

A query process has no broker, so it writes its job to the store. One worker a store holds the lock of `jobs.attend`;
other processes see by it that a worker runs.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Final

from celery import Celery

from helix.deep import jobs
from helix.errors import HelixError
from workers.dispatch import BROKER_ERRORS, send_task

log = logging.getLogger("helix.workers")

INTERVAL: Final = 0.05
"""Seconds between two looks at the folder's time: little, compared to a language model."""

FULL_INTERVAL: Final = 1.0
"""Seconds between two full listings, since a folder's time has coarse ticks."""

RESEND: Final = 5.0
"""Seconds after which an unfinished job is sent again, as its message may be lost. A running job ignores it."""


def watch(app: Celery, root: Path, stop: threading.Event) -> threading.Thread:
    """Start the thread; it ends at `stop`."""

    def attend() -> None:
        while not stop.is_set():
            try:
                with jobs.attend(root) as is_mine:
                    if is_mine:
                        _send_jobs(app, root, stop)
            except HelixError as error:
                log.error("deep recalls cannot be read: %s", error)
            except Exception as error:  # noqa: BLE001 — the thread continues with the next look
                log.error("deep recalls cannot be read: %s", type(error).__name__)
            stop.wait(1.0)

    thread = threading.Thread(target=attend, name="helix-deep", daemon=True)
    thread.start()
    return thread


def _send_jobs(app: Celery, root: Path, stop: threading.Event) -> None:
    sent: dict[str, float] = {}
    waiting, seen, listed = list[str](), 0, 0.0
    while not stop.wait(INTERVAL):
        changed, now = (root / jobs.FOLDER).stat().st_mtime_ns, time.monotonic()
        if changed == seen and not waiting and now - listed < FULL_INTERVAL:
            continue
        seen, listed, waiting = changed, now, jobs.list_waiting(root)
        sent = {job: when for job, when in sent.items() if job in set(waiting)}
        for job in waiting:
            if now - sent.get(job, -RESEND) >= RESEND:
                sent[job] = now
                _send(app, job)


def _send(app: Celery, job: str) -> None:
    try:
        send_task(app, "helix.deep", job)
    except BROKER_ERRORS as error:
        log.warning("the broker cannot be reached, a deep recall waits: %s", type(error).__name__)
