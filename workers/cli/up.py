"""`helix up`: all services on this machine, with a Redis of their own."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from helix.cli.parser import add_log_format, build_parser, parse_port, resolve_store
from helix.errors import StoreError, UsageError
from helix.settings import Settings, load
from workers.queues import ALL_QUEUES
from workers.supervisor import PATIENCE, StopFlag, SupervisedProcess, supervise

SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    **{queue: ("worker", "--queues", queue) for queue in ALL_QUEUES},
    "beat": ("beat",),
    "query": ("serve", "--wait"),
}
"""The arguments of `helix` of each service, as in docker-compose.yml. `deep` needs an endpoint."""

REDIS: Final = ("--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction")
"""Options of our own Redis. It writes nothing to disk: the queues can be filled again from the ledger."""

RECONCILE_INTERVAL: Final = 2.0
"""Seconds, by default, between reconciliations on one machine: `helix enqueue` may not know the broker."""


def run_services(argv: Sequence[str]) -> int:
    """Run everything on this machine: workers, beat and query process, with a Redis of its own. Ctrl-C ends all."""
    examples = "  helix up --store memory\n  helix up --watch             # and ingest agents' logs while they grow"
    new = build_parser("up", run_services.__doc__ or "", examples)
    new.add_argument("--port", type=parse_port, default=8765, help="of the query process, on 127.0.0.1 (8765)")
    new.add_argument("--watch", action="store_true", help="also watch the session folders of all your agents")
    metrics_help = "Prometheus metrics of all workers (none)"
    new.add_argument("--metrics-port", type=parse_port, default=0, metavar="N", help=metrics_help)
    new.add_argument("--bulk", type=int, default=1, metavar="N", help="processes for imports and reindexing (1)")
    add_log_format(new)
    options = new.parse_args(argv)
    import celery  # noqa: F401 — report a missing package before anything starts

    from helix.snapshot import paths

    settings = load()
    root = resolve_store(options, settings).absolute()
    paths.create_folders(root)
    _export_encoder(root, settings)
    stop = StopFlag()
    with open_broker(settings) as (url, redis), tempfile.TemporaryDirectory(prefix="helix-metrics-") as metrics:
        place = {"HELIX_STORE": str(root), "HELIX_REDIS_URL": url}
        environ = {"HELIX_RECONCILE_INTERVAL": str(RECONCILE_INTERVAL), **os.environ, **place}
        worker_environ = {**environ, "PROMETHEUS_MULTIPROC_DIR": metrics} if options.metrics_port else environ
        _introduce(root, url, options.port, settings)
        services = [
            SupervisedProcess(
                name, command, {**(worker_environ if name in ALL_QUEUES else environ), "HELIX_LOG_NAME": name}
            )
            for name, command in _list_commands(options, settings).items()
        ]
        supervise([*redis, *services], stop)
    return 0


def _introduce(root: Path, url: str, port: int, settings: Settings) -> None:
    """Say where everything is and how to stop it; log it where a machine reads."""
    import logging

    from helix.cli.logging import configure_logging, is_text

    configure_logging(settings)
    page = f"http://127.0.0.1:{port}"
    if not is_text(settings):
        logging.getLogger("helix.up").info("starts", extra={"store": str(root), "broker": url, "query": page})
        return
    print(f"page    {page}\nstore   {root}\nbroker  {url}", file=sys.stderr)
    print(f"for other terminals: export HELIX_STORE={root} HELIX_REDIS_URL={url}", file=sys.stderr)
    print("Ctrl-C stops all; documents that wait are done after the next start", file=sys.stderr)


def _list_commands(options: argparse.Namespace, settings: Settings) -> dict[str, list[str]]:
    """Return the command of each service."""
    commands = {name: [sys.executable, "-m", "helix.cli", *words] for name, words in SERVICES.items()}
    commands["deep"] += ["--concurrency", str(settings.deep_concurrent)]
    if not (settings.deep_url or settings.rerank_url):
        del commands["deep"]
    commands["bulk"] += ["--concurrency", str(max(1, options.bulk))]
    if options.metrics_port:  # one worker answers for all
        commands["maintain"] += ["--metrics-port", str(options.metrics_port)]
    commands["query"] += ["--port", str(options.port)]
    if options.watch:
        commands["watch"] = [sys.executable, "-m", "helix.cli", "watch"]
    return commands


@contextmanager
def open_broker(settings: Settings) -> Iterator[tuple[str, list[SupervisedProcess]]]:
    """Yield the broker's URL and its process: none if a URL is set, else our own on a socket for this user only."""
    if settings.redis_url:
        yield settings.redis_url, []
        return
    binary = shutil.which("redis-server")
    if binary is None:
        raise UsageError(
            "no broker is given, and redis-server is not installed",
            "install it (Debian: apt install redis-server; macOS: brew install redis), or set HELIX_REDIS_URL",
        )
    with tempfile.TemporaryDirectory(prefix="helix-") as folder:  # mode 0700
        socket = Path(folder) / "redis.sock"
        where = ("--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", folder)
        command = [binary, *where, *REDIS, "--loglevel", "warning"]
        redis = SupervisedProcess("redis", command, os.environ)
        redis.check(time.monotonic())
        deadline = time.monotonic() + PATIENCE
        while not socket.exists():
            if (redis.process and redis.process.poll() is not None) or time.monotonic() > deadline:
                raise StoreError("redis-server does not start", f"try it by hand: {' '.join(command)}")
            time.sleep(0.05)
        yield f"redis+socket://{socket}", [redis]


def _export_encoder(root: Path, settings: Settings) -> None:
    """Export the encoder of a new store once, before each worker would."""
    from helix.encoders.dense_export import cache_encoder, is_encoder_cached
    from helix.encoders.registry import choose_encoder
    from helix.snapshot.ledger import inbox

    if inbox.load_current(root)[0] is None:
        weights = choose_encoder(settings)
        if not is_encoder_cached(weights, Path(settings.cache)):
            print(f"exporting and quantising {weights.model.name}, once", file=sys.stderr)
            cache_encoder(weights, Path(settings.cache))
