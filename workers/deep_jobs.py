"""Beside a worker of the queue `deep`: sees the jobs that are left in the store, and sends a task for each.

Who leaves them has no broker. One worker a store looks; that it does is what others see of there being one.
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
from workers.dispatch import BROKEN

log = logging.getLogger("helix.workers")

LOOK: Final = 0.05
"""Seconds between two looks: nothing, beside what a language model takes."""

ANYWAY: Final = 1.0
"""Seconds after which all of it is looked through, though the folder's time tells nothing new: it moves in ticks."""

AGAIN: Final = 5.0
"""Seconds after which a job that nothing came of is sent again: its message, or who had it, may be lost. One that is
worked on is found to be, and let be.
"""


def watch(app: Celery, root: Path, stop: threading.Event) -> threading.Thread:
    """Look until told to stop, in a thread beside the worker."""

    def look() -> None:
        while not stop.is_set():
            try:
                with jobs.attending(root) as mine:
                    if mine:
                        _attend(app, root, stop)
            except HelixError as error:
                log.error("no deep recall is taken up: %s", error)
            except Exception as error:  # noqa: BLE001  the thread must go on: the next look is another try
                log.error("no deep recall is taken up: %s", type(error).__name__)
            stop.wait(1.0)

    thread = threading.Thread(target=look, name="helix-deep", daemon=True)
    thread.start()
    return thread


def _attend(app: Celery, root: Path, stop: threading.Event) -> None:
    sent: dict[str, float] = {}
    left, seen, looked = list[str](), 0, 0.0
    while not stop.wait(LOOK):
        changed, now = (root / jobs.FOLDER).stat().st_mtime_ns, time.monotonic()
        if changed == seen and not left and now - looked < ANYWAY:  # as nearly always
            continue
        seen, looked, left = changed, now, jobs.waiting(root)
        sent = {job: when for job, when in sent.items() if job in set(left)}
        for job in left:
            if now - sent.get(job, -AGAIN) >= AGAIN:
                sent[job] = now
                _send(app, job)


def _send(app: Celery, job: str) -> None:
    try:
        with app.connection_for_write() as connection:
            app.send_task("helix.deep", args=[job], queue="deep", connection=connection)
    except BROKEN as error:
        log.warning("the broker is out of reach, a deep recall waits: %s", type(error).__name__)
