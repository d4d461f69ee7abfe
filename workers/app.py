"""The Celery application. Every setting has its reason here; the figures are in helix/settings.py."""

from __future__ import annotations

import os
from typing import Final

from celery import Celery, signals

from helix.cli.logging import configure_logging
from helix.errors import UsageError
from helix.settings import Settings, load
from workers import kombu_patch as broker
from workers import liveness as alive
from workers import signing
from workers.messages import KINDS

QUEUES: Final = ("accept", "enrich", "bulk", "commit", "expand", "maintain")
"""In the order in which a worker of several takes them up: what somebody waits for goes first."""

APART: Final = ("deep",)
"""Queues that only a worker of their own works on: a language model takes seconds, and nothing shall wait behind it."""


def create(settings: Settings) -> Celery:
    """An application on the given broker.

    Raises:
        UsageError: the visibility timeout would let Redis run a task twice at once, or messages cannot be signed as the
            settings say.
    """
    if settings.visibility_timeout <= settings.task_time_limit:
        raise UsageError(
            f"HELIX_VISIBILITY_TIMEOUT ({settings.visibility_timeout} s) is not above HELIX_TASK_TIME_LIMIT "
            f"({settings.task_time_limit} s): Redis would hand a running task out again",
            "raise the first or lower the second",
        )
    form = signing.form_of(settings)
    broker.install(form)  # only messages of ours get any farther
    app = Celery("helix", broker=settings.redis_url or "redis://localhost:6379/0")
    app.conf.update(
        task_serializer=form.serializer,  # nothing but JSON crosses the queue, signed or not
        accept_content=[form.serializer],
        task_ignore_result=True,  # the ledger is the truth, never a result
        task_acks_late=True,  # a killed worker's task is handed out again; tasks are idempotent
        worker_prefetch_multiplier=1,  # nobody sits on work that another could do
        task_retry_on_worker_lost=False,  # the ledger counts it, and the reconciler sends it again when it is time
        task_reject_on_worker_lost=False,  # that one is not bounded: a poison task would come back for ever
        task_time_limit=settings.task_time_limit,  # whatever hangs is ended
        task_soft_time_limit=max(1, settings.task_time_limit - 60),  # before that it can say which document it was
        broker_connection_retry_on_startup=True,  # a worker may be up before its Redis
        broker_connection_max_retries=None,  # and outlive it, however long it is away
        broker_channel_error_retry=True,  # nor does it end because Redis is full, or a replica, and refuses a command
        broker_connection_timeout=2,
        broker_transport_options={
            "visibility_timeout": settings.visibility_timeout,
            "socket_timeout": 2,  # a silent broker fails a publish in seconds instead of hanging it
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,  # a connection that fell silent is dropped within half a minute
            "max_retries": 1,
            "queue_order_strategy": "priority",  # a worker of several queues takes them in their order
            # What a killed worker held comes back once it is as old as the timeout. Every tenth of these looks.
            "unacked_restore_interval": max(1, min(6, settings.visibility_timeout // 100)),
        },
        broker_pool_limit=2,  # idle connections a process keeps
        task_publish_retry=False,  # the document is durable already: say that the broker is away and go on
        worker_soft_shutdown_timeout=10,  # what runs may end; what does not is handed back
        worker_pool_start_method="spawn",  # ONNX Runtime sessions do not survive a fork
        worker_proc_alive_timeout=60,  # a spawned child imports numpy and pyarrow first: longer than 4 s
        worker_cancel_long_running_tasks_on_connection_loss=False,  # the work is good, whether Redis hears of it or not
        worker_hijack_root_logger=False,  # logs are ours (helix/cli/logging.py): JSON, with the document's name
        worker_send_task_events=False,  # nobody listens; a Redis that is full would only get fuller
        worker_enable_remote_control=False,  # whoever writes to the broker could end workers, or have them tell all
        task_create_missing_queues=True,
        task_default_queue="enrich",
        task_routes={name: {"queue": kind.queues[0]} for name, kind in KINDS.items()},
        beat_max_loop_interval=alive.EVERY,  # it is at work, though nothing is due
        beat_scheduler="workers.beat:Scheduler",  # in memory: the one on disk is a pickle. All it sends may come twice
        beat_schedule={
            name: {"task": f"helix.{name}", "schedule": settings.tidy_interval} for name in ("maintain", "touch")
        },
        imports=("workers.tasks",),
    )
    app.steps["consumer"].add(alive.Step)
    signing.use(app, settings, form)
    return app


@signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
def _log(**_: object) -> None:
    """In place of Celery's own logs, in a worker and in the processes of its pool, which inherit nothing."""
    configure_logging()


app = create(load())
# A child of the pool is a fresh interpreter: it finds its settings in the environment it inherits.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
