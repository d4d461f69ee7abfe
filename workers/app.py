"""The Celery application, with the reason of each setting. The values are in helix/settings.py."""

from __future__ import annotations

import os
from typing import Final

from celery import Celery, signals

from helix.cli.logging import configure_logging
from helix.errors import UsageError
from helix.settings import Settings, load
from workers import kombu_patch, liveness, signing
from workers.queues import ROUTES

PERIODIC: Final = ("maintain", "touch")
"""Tasks that beat sends."""


def create(settings: Settings) -> Celery:
    """Return an application on the given broker.

    Raises:
        UsageError: Redis could run a task twice at once by its visibility timeout, or signing is misconfigured.
    """
    if settings.visibility_timeout <= settings.task_time_limit:
        raise UsageError(
            f"HELIX_VISIBILITY_TIMEOUT ({settings.visibility_timeout} s) is not above HELIX_TASK_TIME_LIMIT "
            f"({settings.task_time_limit} s): Redis would deliver a running task again",
            "raise the first or lower the second",
        )
    form = signing.choose_format(settings)
    kombu_patch.install(form)  # Celery sees valid messages only
    app = Celery("helix", broker=settings.redis_url or "redis://localhost:6379/0")
    app.conf.update(
        task_serializer=form.serializer,  # messages are JSON, signed or not
        accept_content=[form.serializer],
        task_ignore_result=True,  # the ledger holds the results
        task_acks_late=True,  # the broker delivers a killed worker's task again; tasks are idempotent
        worker_prefetch_multiplier=1,  # a busy worker holds no task that another could run
        task_retry_on_worker_lost=False,  # the ledger counts it, and the reconciler sends it again
        task_reject_on_worker_lost=False,  # unbounded: a document that kills workers would return for ever
        task_time_limit=settings.task_time_limit,  # ends a task that hangs
        task_soft_time_limit=max(1, settings.task_time_limit - 60),  # raised first, to record the document
        broker_connection_retry_on_startup=True,  # a worker may start before its Redis
        broker_connection_max_retries=None,  # and waits for it without a limit
        broker_channel_error_retry=True,  # also if Redis refuses a command: it is full or a replica
        broker_connection_timeout=2,  # seconds
        broker_transport_options={
            "visibility_timeout": settings.visibility_timeout,
            "socket_timeout": 2,  # seconds, so that publishing to a silent broker fails soon
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,  # drops a silent connection within half a minute
            "max_retries": 1,
            "queue_order_strategy": "priority",  # a worker of several queues empties them in order
            # A killed worker's message returns after the timeout. Every tenth poll looks for one.
            "unacked_restore_interval": max(1, min(6, settings.visibility_timeout // 100)),
        },
        broker_pool_limit=2,  # idle connections of a process
        task_publish_retry=False,  # the document is already durable: report the broker and continue
        worker_soft_shutdown_timeout=10,  # seconds for running tasks; then their messages are returned
        worker_pool_start_method="spawn",  # ONNX Runtime sessions do not survive a fork
        worker_proc_alive_timeout=60,  # a spawned child imports numpy and pyarrow: more than Celery's 4 s
        worker_cancel_long_running_tasks_on_connection_loss=False,  # the work is valid without Redis
        worker_hijack_root_logger=False,  # Helix logs JSON, with the document's name
        worker_send_task_events=False,  # unused, and they would fill Redis
        worker_enable_remote_control=False,  # otherwise any client of the broker could stop workers
        task_create_missing_queues=True,
        task_default_queue="enrich",
        task_routes={name: {"queue": route.queues[0]} for name, route in ROUTES.items()},
        beat_max_loop_interval=liveness.INTERVAL,  # an idle beat touches its file, too
        beat_scheduler="workers.beat:Scheduler",  # in memory: Celery's default writes a pickle. Tasks may repeat
        beat_schedule={name: {"task": f"helix.{name}", "schedule": settings.tidy_interval} for name in PERIODIC},
        imports=("workers.tasks",),  # Celery imports it in each pool process
    )
    app.steps["consumer"].add(liveness.LivenessStep)
    signing.set_up_signing(app, settings, form)
    return app


@signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
def _configure_logging(**_: object) -> None:
    """Replace Celery's logs in a worker and in its pool processes, which inherit nothing."""
    configure_logging(load())


app = create(load())
# A pool process is a new interpreter: it reads its settings from the environment it inherits.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
