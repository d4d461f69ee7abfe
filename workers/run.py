"""Entry points of a worker and of beat in this process. Both return when they are stopped."""

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
from workers import deep_jobs, fleet_dispatch, metrics, reconcile, worker_death
from workers.app import app
from workers.queues import BACKGROUND, DEEP

log = logging.getLogger("helix.workers")

EXIT_WAIT: Final = 5.0
"""Seconds beyond the soft shutdown for a worker to end; it may wait for a broker that never returns."""


def run_worker(root: Path, queues: list[str], concurrency: int, port: int) -> None:
    """Process the tasks of these queues, and reconcile the ledger in a background thread.

    Args:
        root: the store, or the folder of stores if the settings name one.
        port: of Prometheus metrics; 0: none.
    """
    settings = load()
    configure_logging(settings)
    worker_death.connect()
    if set(queues) <= BACKGROUND:
        lower_priority()
    if port:
        metrics.serve(app, root, port)
    stop = threading.Event()

    def start_watching(**_: object) -> None:
        log.info("ready", extra={"queues": ",".join(queues), "processes": concurrency})
        if queues == [DEEP]:  # workers of other queues reconcile the ledger
            deep_jobs.watch(app, root, stop)
        elif settings.stores:
            fleet_dispatch.watch(app, root, settings, stop)
        else:
            reconcile.watch(app, root, settings)

    worker_ready.connect(start_watching, weak=False)
    worker_shutting_down.connect(lambda **_: stop.set(), weak=False)
    worker_shutting_down.connect(_exit_soon, weak=False)
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
            "--without-heartbeat",  # unused, and it delays the end of a worker that has no broker
        ]
    )


def _exit_soon(**_: object) -> None:
    """Ensure that this process ends. The reconciler sends again what it could not return."""
    timer = threading.Timer(app.conf.worker_soft_shutdown_timeout + EXIT_WAIT, os._exit, (1,))
    timer.daemon = True
    timer.start()


def run_beat() -> None:
    """Send periodic tasks."""
    configure_logging(load())
    log.info("beat begins")
    app.start(["--quiet", "beat", "--pidfile="])
