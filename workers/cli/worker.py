"""`helix worker` and `helix beat`: the processes that run tasks and schedule them."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import Parser, add_log_format, build_parser, parse_port, resolve_store
from helix.cli.terminal import print_note
from helix.errors import UsageError
from helix.settings import Settings, load
from workers.queues import ALL_QUEUES, DEEP, FLEET_ORDER, QUEUES

_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def worker(argv: Sequence[str]) -> int:
    """Process queued tasks: enrich in parallel, commit one at a time."""
    new = build_parser(
        "worker",
        worker.__doc__ or "",
        "  helix worker                    # all queues in one process, fresh turns first\n"
        "  helix worker --queues enrich    # fresh turns only: they never wait for an import\n"
        "  helix worker --queues bulk --concurrency 4\n"
        "  helix worker --queues deep      # calls HELIX_DEEP_URL and HELIX_RERANK_URL; needs its own worker\n"
        "  helix worker --stores /srv/helix --queues enrich,commit    # fresh turns of every store in this folder",
    )
    queues_help = f"of {', '.join(QUEUES)} (all); or deep"
    new.add_argument("--queues", default=",".join(QUEUES), metavar="A,B", help=queues_help)
    concurrency_help = "processes (1; commits run one at a time anyway)"
    new.add_argument("--concurrency", type=int, default=1, metavar="N", help=concurrency_help)
    metrics_help = "Prometheus metrics on this port (none)"
    new.add_argument("--metrics-port", type=parse_port, default=0, metavar="N", help=metrics_help)
    _add_stores(new)
    add_log_format(new)
    options = new.parse_args(argv)
    import workers.app  # noqa: F401 — report a missing package or a wrong setting before anything starts

    chosen = {name.strip() for name in options.queues.split(",") if name.strip()}
    if not chosen or chosen - {*ALL_QUEUES}:
        raise UsageError(f"unknown queue in {options.queues!r}", f"there are {', '.join(ALL_QUEUES)}")
    if DEEP in chosen and len(chosen) > 1:
        raise UsageError(f"the queue {DEEP} with others", f"give it a worker of its own: helix worker --queues {DEEP}")
    root, settings = _prepare(options)
    if DEEP in chosen and settings.stores:
        remedy = f"start one worker for each store: helix worker --queues {DEEP} --store DIR"
        raise UsageError(f"the queue {DEEP} is of one store", remedy)
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

    ordered = [name for name in (FLEET_ORDER if settings.stores else ALL_QUEUES) if name in chosen]
    if settings.stores and {"enrich", "bulk"} <= chosen:
        remedy = "start one of 'helix worker --queues enrich,commit' as well"
        print_note(f"fresh turns can wait for a document of an import in this worker (15 s); {remedy}")
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
    """Queue maintenance tasks on a schedule: merges, feedback, training. Run one per store, or per folder of stores."""
    new = build_parser("beat", beat.__doc__ or "", "  helix beat --store memory &\n  helix beat --stores /srv/helix &")
    _add_stores(new)
    add_log_format(new)
    options = new.parse_args(argv)
    _prepare(options)
    from workers.run import run_beat

    run_beat()
    return 0


def _add_stores(new: Parser) -> None:
    stores_help = "serve every store in this folder (HELIX_STORES); --store serves one"
    new.add_argument("--stores", metavar="DIR", help=stores_help)


def _prepare(options: argparse.Namespace) -> tuple[Path, Settings]:
    """Check broker, storage level, store and HELIX_ALIVE. Pool processes read the environment, which this sets.

    Returns the store, or the folder of stores if the settings name one.
    """
    if options.store and options.stores:
        raise UsageError("--store and --stores", "give the folder of one store, or that of all")
    if options.store or options.stores:
        os.environ["HELIX_STORES"] = str(Path(options.stores).expanduser().absolute()) if options.stores else ""
    settings = load()
    if not settings.redis_url:
        remedy = "set HELIX_REDIS_URL, e.g. redis://localhost:6379/0, or use 'helix ingest' without one"
        raise UsageError("no broker", remedy)
    from helix.snapshot import paths
    from helix.snapshot.index import dense
    from workers import liveness

    dense.parse_prefix(settings.vectors.removesuffix(dense.FLOAT))  # fail now, not at the first commit
    if settings.stores:
        root = _prepare_stores(settings)
    else:
        root = resolve_store(options, settings).absolute()
        paths.create_folders(root)
        os.environ["HELIX_STORE"] = str(root)
    liveness.create_file(settings.alive)
    # SIGTERM begins Celery's soft shutdown, like Ctrl-C: running tasks may end, others are returned.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    return root, settings


def _prepare_stores(settings: Settings) -> Path:
    """Check the folder of stores, and set the environment of pool processes.

    Raises:
        UsageError: it is missing, or a setting is of one store only.
    """
    stores = Path(settings.stores).expanduser().absolute()
    if not stores.is_dir():
        raise UsageError(f"HELIX_STORES={settings.stores} is no folder", "make it, or name another with --stores")
    if settings.share:
        raise UsageError("HELIX_SHARE with HELIX_STORES", "a share is of one store: unset one of them")
    os.environ["HELIX_STORES"] = str(stores)
    return stores
