"""`helix worker` and `helix beat`: the processes that run tasks and schedule them."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import add_log_format, build_parser, parse_port, resolve_store
from helix.errors import UsageError
from helix.settings import Settings, load
from workers.queues import ALL_QUEUES, DEEP, QUEUES

_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def worker(argv: Sequence[str]) -> int:
    """Process queued tasks: enrich in parallel, commit one at a time."""
    new = build_parser(
        "worker",
        worker.__doc__ or "",
        "  helix worker                    # all queues in one process, fresh turns first\n"
        "  helix worker --queues enrich    # fresh turns only: they never wait for an import\n"
        "  helix worker --queues bulk --concurrency 4\n"
        "  helix worker --queues deep      # calls HELIX_DEEP_URL and HELIX_RERANK_URL; needs its own worker",
    )
    queues_help = f"of {', '.join(QUEUES)} (all); or deep"
    new.add_argument("--queues", default=",".join(QUEUES), metavar="A,B", help=queues_help)
    concurrency_help = "processes (1; commits run one at a time anyway)"
    new.add_argument("--concurrency", type=int, default=1, metavar="N", help=concurrency_help)
    metrics_help = "Prometheus metrics on this port (none)"
    new.add_argument("--metrics-port", type=parse_port, default=0, metavar="N", help=metrics_help)
    add_log_format(new)
    options = new.parse_args(argv)
    import workers.app  # noqa: F401 — report a missing package or a wrong setting before anything starts

    chosen = {name.strip() for name in options.queues.split(",") if name.strip()}
    if not chosen or chosen - {*ALL_QUEUES}:
        raise UsageError(f"unknown queue in {options.queues!r}", f"there are {', '.join(ALL_QUEUES)}")
    if DEEP in chosen and len(chosen) > 1:
        raise UsageError(f"the queue {DEEP} with others", f"give it a worker of its own: helix worker --queues {DEEP}")
    root, settings = _prepare(options)
    if DEEP in chosen:
        _check_endpoint(settings)
    if settings.share and "commit" in chosen:
        from pipelines.maintain.replication import primary

        primary.claim(root, settings)
    if options.metrics_port and _METRICS_FOLDER not in os.environ:
        # Set before any import of prometheus_client, here and in pool processes.
        os.environ[_METRICS_FOLDER] = tempfile.mkdtemp(prefix="helix-metrics-")
        atexit.register(shutil.rmtree, os.environ[_METRICS_FOLDER], ignore_errors=True)
    from workers.run import run_worker

    ordered = [name for name in ALL_QUEUES if name in chosen]
    run_worker(root, ordered, max(1, options.concurrency), options.metrics_port)
    return 0


def _check_endpoint(settings: Settings) -> None:
    """Raise UsageError if no endpoint is set, or if a setting of the deep tier is wrong."""
    from helix.deep.ask import read_endpoints
    from helix.deep.techniques import choose

    if read_endpoints(settings) is None:
        remedy = (
            "set HELIX_DEEP_URL and HELIX_DEEP_MODEL, e.g. http://127.0.0.1:11434/v1 and a model it serves, "
            "or HELIX_RERANK_URL and HELIX_RERANK_MODEL"
        )
        raise UsageError("no endpoint is set", remedy)
    choose(settings)


def beat(argv: Sequence[str]) -> int:
    """Queue maintenance tasks on a schedule: merges, feedback, training. Run one per store."""
    new = build_parser("beat", beat.__doc__ or "", "  helix beat --store memory &")
    add_log_format(new)
    options = new.parse_args(argv)
    _prepare(options)
    from workers.run import run_beat

    run_beat()
    return 0


def _prepare(options: argparse.Namespace) -> tuple[Path, Settings]:
    """Check broker, storage level, store and HELIX_ALIVE, and set the environment of pool processes."""
    settings = load()
    if not settings.redis_url:
        remedy = "set HELIX_REDIS_URL, e.g. redis://localhost:6379/0, or use 'helix ingest' without one"
        raise UsageError("no broker", remedy)
    root = resolve_store(options, settings).absolute()
    from helix.snapshot import paths
    from helix.snapshot.index import dense
    from workers import liveness

    dense.parse_prefix(settings.vectors.removesuffix(dense.FLOAT))  # fail now, not at the first commit
    paths.create_folders(root)
    liveness.create_file(settings.alive)
    # Pool processes are new interpreters: they read the store from the environment.
    os.environ["HELIX_STORE"] = str(root)
    # SIGTERM begins Celery's soft shutdown, like Ctrl-C: running tasks may end, others are returned.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    return root, settings
