"""Runs a worker or the beat in this process, until it is told to stop."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Final

from celery.signals import worker_ready, worker_shutting_down

from helix.cli.logging import configure_logging
from helix.settings import load
from helix.util.priority import lower_priority
from workers import deep_jobs as deep
from workers import metrics
from workers import process_loss as lost
from workers.app import APART, app
from workers.reconcile import watch


def run(root: Path, queues: list[str], concurrency: int, port: int) -> None:
    """Work on these queues. Beside them, a thread sees to what nobody was told of.

    Args:
        port: for Prometheus; 0: none.
    """
    configure_logging()
    lost.listen()
    if set(queues) <= BEHIND:
        lower_priority()
    settings = load()
    if port:
        metrics.serve(app, root, port)

    def begin(**_: object) -> None:
        """Pick up what was accepted while nobody was there, then look again from time to time."""
        if set(queues) <= set(APART):  # the ledger is for others to look after
            deep.watch(app, root, stop)
        else:
            watch(app, root, settings)

    stop = threading.Event()
    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(lambda **_: stop.set(), weak=False)
    worker_shutting_down.connect(_end, weak=False)
    app.worker_main(
        [
            "--quiet",  # no banner
            "worker",
            f"--queues={','.join(queues)}",
            f"--concurrency={concurrency}",
            "--pool=prefork",
            f"--hostname={'-'.join(queues)}-{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",  # nobody listens, and without its broker a worker would not end before the last
        ]
    )


BEHIND: Final = {"bulk", "expand", "maintain"}
"""Queues nobody waits for: who works on nothing else leaves the cores to those who are asked, and to fresh turns."""

PATIENCE: Final = 5.0
"""Seconds more than the soft shutdown that a worker may take to end: it may wait for a broker that is gone for good."""


def _end(**_: object) -> None:
    """See to it that this process ends. What it could not hand back is sent again: the ledger knows of it."""
    timer = threading.Timer(app.conf.worker_soft_shutdown_timeout + PATIENCE, os._exit, (1,))
    timer.daemon = True
    timer.start()


def run_beat() -> None:
    """Send what is due, now and then."""
    configure_logging()
    logging.getLogger("helix.workers").info("beat begins")
    app.start(["--quiet", "beat", "--pidfile="])
