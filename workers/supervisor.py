"""`helix up`: all of it on one machine. The processes of docker-compose.yml, watched over by this one."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from helix.cli.parser import build_parser, parse_port, resolve_store
from helix.errors import StoreError, UsageError
from helix.settings import Settings, load
from workers.app import APART, QUEUES

SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "accept": ("worker", "--queues", "accept"),
    "enrich": ("worker", "--queues", "enrich"),
    "bulk": ("worker", "--queues", "bulk"),
    "commit": ("worker", "--queues", "commit"),
    "maintain": ("worker", "--queues", "maintain"),
    "expand": ("worker", "--queues", "expand"),
    "deep": ("worker", "--queues", "deep"),
    "beat": ("beat",),
    "query": ("serve", "--wait"),
}
"""The arguments of `helix` that each service runs; `docker-compose.yml` has the same. `deep` only where an endpoint is
named.
"""

REDIS: Final = ("--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction")
"""Our own server keeps nothing on disk: the ledger has all of it, and fills the queues again."""

SOON: Final = 2.0
"""Seconds between looks for documents nobody was told of, on one machine: `helix enqueue` may not know the broker."""

PATIENCE: Final = 20.0
"""Seconds a process has to end by itself, more than a worker's soft shutdown."""

RESTART: Final = (1.0, 30.0)
"""Seconds before a process that ended is started again: at first, and at most."""

ATTEMPTS: Final = 3
"""How often in a row a process may end by saying that it was called wrongly, each time before it has lived long."""

_LOOK: Final = 0.2
_PDEATHSIG: Final = 1  # prctl(2)


def up(argv: Sequence[str]) -> int:
    """Run everything on this machine: workers, beat and query process, with a Redis of its own. Ctrl-C ends all."""
    new = build_parser(
        "up",
        up.__doc__ or "",
        "  helix up --store memory\n  helix up --watch             # and take in what agents write, as they write it",
    )
    new.add_argument("--port", type=parse_port, default=8765, help="of the query process, on 127.0.0.1 (8765)")
    new.add_argument("--watch", action="store_true", help="also watch the session folders of every agent of yours")
    new.add_argument(
        "--metrics-port", type=parse_port, default=0, metavar="N", help="Prometheus metrics of all workers (none)"
    )
    new.add_argument("--bulk", type=int, default=1, metavar="N", help="processes for imports and reindexing (1)")
    options = new.parse_args(argv)
    settings = load()
    root = resolve_store(options, settings).absolute()
    from helix.snapshot import paths

    paths.create(root)
    _export(root, settings)
    stop = Stop()
    with broker(settings) as (url, redis), tempfile.TemporaryDirectory(prefix="helix-metrics-") as counted:
        environ = {
            "HELIX_RECONCILE_INTERVAL": str(SOON),
            **os.environ,
            "HELIX_STORE": str(root),
            "HELIX_REDIS_URL": url,
        }
        workers = {**environ, "PROMETHEUS_MULTIPROC_DIR": counted} if options.metrics_port else environ
        print(f"store   {root}\nbroker  {url}\nquery   http://127.0.0.1:{options.port}", file=sys.stderr)
        print(f"for other terminals: export HELIX_STORE={root} HELIX_REDIS_URL={url}", file=sys.stderr)
        commands = {name: [sys.executable, "-m", "helix.cli", *words] for name, words in SERVICES.items()}
        commands["deep"] += ["--concurrency", str(settings.deep_concurrent)]
        if not settings.deep_url:
            del commands["deep"]
        commands["bulk"] += ["--concurrency", str(max(1, options.bulk))]
        if options.metrics_port:  # one answers for all
            commands["maintain"] += ["--metrics-port", str(options.metrics_port)]
        commands["query"] += ["--port", str(options.port)]
        if options.watch:
            commands["watch"] = [sys.executable, "-m", "helix.cli", "watch"]
        services = [redis] if redis else []
        apart = {*QUEUES, *APART}
        services += [
            Service(name, command, workers if name in apart else environ) for name, command in commands.items()
        ]
        supervise(services, stop)
    return 0


class Stop:
    """Set by Ctrl-C and SIGTERM."""

    def __init__(self) -> None:
        self.wanted = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self.wanted = True


@dataclass
class Service:
    """One process, started again when it ends."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    waits: float = RESTART[0]  # before the next start
    due: float = field(default=0.0)
    refused: int = 0  # starts in a row that were wrong use

    def look(self, now: float) -> None:
        """Start it where it does not run, and it is time.

        Raises:
            UsageError: it cannot be started as it is called.
        """
        if self.process is not None and (status := self.process.poll()) is not None:
            print(f"helix up: {self.name} ended ({_status(status)})", file=sys.stderr)
            long = now - self.began > RESTART[1]
            self.waits = RESTART[0] if long else min(2 * self.waits, RESTART[1])
            self.refused = self.refused + 1 if status == UsageError.exit_status and not long else 0
            self.due, self.process = now + self.waits, None
            if self.refused == ATTEMPTS:
                raise UsageError(
                    f"{self.name} ended {ATTEMPTS} times in a row because it cannot run as it is called",
                    f"it says why above; by hand: {shlex.join(self.command)}",
                )
        if self.process is None and now >= self.due:
            self.process, self.began = start(self.command, self.environ), now


def start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A process in a session of its own (Ctrl-C is for us to hand on) that ends with us, however we end."""
    return subprocess.Popen(
        command,
        env=dict(environ),
        stdout=subprocess.DEVNULL,  # what they have to say is on stderr
        start_new_session=True,
        preexec_fn=_end_with(os.getpid()),
    )


def _end_with(parent: int) -> Callable[[], None] | None:
    """Have the kernel end a process with its parent; where there is no such call, only our own end ends it."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)

    return ask


def _status(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"status {code}"


def supervise(services: Sequence[Service], stop: Stop) -> None:
    """Keep all of them running until told to stop, then end them: nothing is left behind.

    Raises:
        UsageError: one of them cannot be started as it is called; the others are ended, too.
    """
    try:
        while not stop.wanted:
            for service in services:
                service.look(time.monotonic())
            time.sleep(_LOOK)
        print("helix up: ending", file=sys.stderr)
    finally:
        # The broker goes last: workers hand back what they could not finish.
        end([service.process for service in services if service.process and service.name != "redis"])
        end([service.process for service in services if service.process and service.name == "redis"])


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and all they have started; by force where they take too long."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"helix up: process {process.pid} is killed: it did not end", file=sys.stderr)
        _kill_session(process.pid)
        process.wait()


def _kill_session(leader: int) -> None:
    """Whatever is left of a session."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def broker(settings: Settings) -> Iterator[tuple[str, Service | None]]:
    """The broker's URL, and where none is given a server of our own: on a socket that only this user can reach.

    Raises:
        UsageError: no broker is given, and there is no redis-server.
        StoreError: ours does not start.
    """
    if settings.redis_url:
        yield settings.redis_url, None
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
        service = Service("redis", command, os.environ)
        service.look(time.monotonic())
        deadline = time.monotonic() + PATIENCE
        while not socket.exists():
            if (service.process and service.process.poll() is not None) or time.monotonic() > deadline:
                raise StoreError("redis-server does not start", f"try it by hand: {' '.join(command)}")
            time.sleep(0.05)
        yield f"redis+socket://{socket}", service


def _export(root: Path, settings: Settings) -> None:
    """Make the encoder of a new store now, once, instead of in every worker that begins."""
    from helix.encoders.dense_export import cached, is_cached
    from helix.encoders.registry import choose
    from helix.snapshot.ledger import inbox as ledger

    if ledger.current(root)[0] is None:
        weights = choose(settings)
        if not is_cached(weights, Path(settings.cache)):
            print(f"exporting and quantising {weights.model.name}, once", file=sys.stderr)
            cached(weights, Path(settings.cache))
