"""The Celery application. Every setting has its reason here; the figures are in helix/settings.py."""

from __future__ import annotations

import os

from celery import Celery

from helix.errors import UsageError
from helix.settings import Settings, load


def create(settings: Settings) -> Celery:
    """An application on the given broker.

    Raises:
        UsageError: the visibility timeout would let Redis run a task twice at once.
    """
    if settings.visibility_timeout <= settings.task_time_limit:
        raise UsageError(
            f"HELIX_VISIBILITY_TIMEOUT ({settings.visibility_timeout} s) is not above HELIX_TASK_TIME_LIMIT "
            f"({settings.task_time_limit} s): Redis would hand a running task out again",
            "raise the first or lower the second",
        )
    app = Celery("helix", broker=settings.redis_url or "redis://localhost:6379/0")
    app.conf.update(
        task_serializer="json",  # nothing but JSON crosses the queue
        accept_content=["json"],
        task_ignore_result=True,  # the ledger is the truth, never a result
        task_acks_late=True,  # a killed worker's task is handed out again; tasks are idempotent
        worker_prefetch_multiplier=1,  # nobody sits on work that another could do
        task_reject_on_worker_lost=False,  # unbounded redelivery of a poison task; the reconciler retries, and counts
        task_time_limit=settings.task_time_limit,
        task_soft_time_limit=max(1, settings.task_time_limit - 60),
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=2,
        broker_transport_options={
            "visibility_timeout": settings.visibility_timeout,
            "socket_timeout": 2,  # a silent broker fails a publish in seconds instead of hanging it
            "socket_connect_timeout": 2,
            "max_retries": 1,
        },
        task_publish_retry=False,  # the document is durable already: say that the broker is away and go on
        worker_soft_shutdown_timeout=20,  # finish what runs; a Ctrl-C need not cost a document's work
        worker_pool_start_method="spawn",  # ONNX Runtime sessions do not survive a fork
        worker_proc_alive_timeout=60,  # a spawned child imports numpy and pyarrow first: longer than 4 s
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        task_default_queue="enrich",
        task_routes={
            "helix.enrich": {"queue": "enrich"},
            "helix.reindex": {"queue": "enrich"},
            "helix.commit": {"queue": "commit"},
            "helix.maintain": {"queue": "maintain"},
            "helix.expand": {"queue": "expand"},
            "helix.train": {"queue": "maintain"},
        },
        imports=("workers.tasks",),
    )
    return app


app = create(load())
# A child of the pool is a fresh interpreter: it finds its settings in the environment it inherits.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
