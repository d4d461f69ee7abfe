"""`helix serve`: one process or several on one socket, which share the pages of the mapped store."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ipaddress
import logging
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import uvicorn

from helix.cli.logging import configure_logging, is_text
from helix.cli.terminal import format_count, print_note
from helix.errors import HelixError, UsageError
from helix.settings import Settings
from helix.snapshot.store_names import list_stores
from query.access_log import AccessLog
from query.auth import KeyRing, get_key_file, load_keys
from query.connections import Bounds, Connections, Protocol, raise_file_limit
from query.discovery_read import get_local_address
from query.discovery_write import Announcer
from query.middleware import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger("helix.query")

MAX_PROCESSES: Final = 64

_MAX_HEAD: Final = 128 << 10  # bytes of a request's head: the longest question, percent-encoded
_HEALTH_TIMEOUT: Final = 20  # seconds a worker process may be silent before it is replaced
_KEEP_ALIVE: Final = 130  # seconds; a proxy must close first (Caddy after 120, others after 60)
_SHUTDOWN: Final = 10  # seconds for running answers at the end


def make_policy(
    host: str,
    settings: Settings,
    *,
    allowed: Sequence[str] = (),
    keyed: bool = False,
    processes: int = 1,
    many: bool = False,
    fetched: bool = False,
) -> Policy:
    """Return the policy of a server that listens on `host`. Only a plain loopback server is open without a key.

    Args:
        allowed: names of proxies in the Host header; their requests come from elsewhere.
        keyed: require keys on loopback, too.
        processes: the number that share a key's rate.
        many: the server is of many stores.
        fetched: another process fetches them.
    """
    loopback = is_loopback(host)
    own = {"localhost", host.lower()} if not loopback else {"localhost"}
    return Policy(
        hosts=frozenset(own | {name.lower().rstrip(".") for name in allowed}),
        loopback=loopback,
        keyless=loopback and not allowed and not keyed,
        token=secrets.token_urlsafe(32),
        rate=settings.rate_limit / processes,
        processes=processes,
        concurrent=settings.max_concurrent,
        seconds=settings.request_timeout,
        many=many,
        fetched=fetched,
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(root: Path, settings: Settings, policy: Policy, host: str, port: int, processes: int = 1) -> int:
    """Serve until a signal; return the exit status, 3 where the server could not start.

    Args:
        root: the store; of a server of many, the folder of all stores.

    Raises:
        UsageError: the address cannot be bound.
    """
    configure_logging(settings)
    listener = _bind(host, port)
    address = listener.getsockname()[:2]
    name = f"[{address[0]}]" if ":" in address[0] else address[0]
    url, access = f"http://{name}:{address[1]}", "without keys" if policy.keyless else "with keys only"
    if is_text(settings) and not settings.log_name:
        _print_banner(root, url, access, many=policy.many)
    else:
        log.info("listening on %s (%s)", url, access)
    if not policy.keyless and not load_keys(get_key_file(root, settings)):
        log.warning("there is no key yet, so every request is refused; make one with 'helix keys create'")
    announcer = Announcer(root, policy.token)
    threading.Thread(target=_announce, args=(announcer, *address), daemon=True).start()
    try:
        if processes > 1:
            return _run_workers(root, settings, policy, listener, processes)
        server = _Server(_configure(root, settings, policy), announcer)
        with contextlib.suppress(KeyboardInterrupt):
            server.run([listener])
        if is_text(settings) and server.started:
            print_note("stopped")
        return 0 if server.started else 3
    finally:
        announcer.stop()


def _print_banner(root: Path, url: str, access: str, *, many: bool) -> None:
    """Print where to look, what is served and how to stop, for a person."""
    from helix.snapshot.status import read_status

    if many:
        print_note(f"page   {url}/stores/NAME/   ({access})")
        print_note(f"REST   {url}/stores/NAME/v1/recall?query=…   MCP {url}/stores/NAME/mcp")
        print_note(f"stores {root} ({format_count(len(list_stores(root)), 'store')})")
        print_note("Ctrl-C stops")
        return
    try:
        state = read_status(root)
        holds = f"{format_count(state['items'], 'item')} of {format_count(state['sessions'], 'session')}"
    except HelixError:
        holds = "no store yet: requests are answered 503 until there is one"
    print_note(f"page   {url}   ({access})")
    print_note(f"REST   {url}/v1/recall?query=…   MCP {url}/mcp")
    print_note(f"store  {root} ({holds})")
    print_note("Ctrl-C stops")


class _Server(uvicorn.Server):
    """A server that withdraws its announcement first: the signal ends the process at once afterwards."""

    def __init__(self, config: uvicorn.Config, announcer: Announcer) -> None:
        super().__init__(config)
        self._announcer = announcer

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._announcer.stop()
        await super().shutdown(sockets)


def _announce(announcer: Announcer, host: str, port: int) -> None:
    """Announce the address once the server answers: hooks that find it earlier would wait."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(get_local_address(host), port, timeout=600)
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()
        announcer.start(host, port)


def _run_workers(root: Path, settings: Settings, policy: Policy, listener: socket.socket, processes: int) -> int:
    """Serve by several processes; replace one that ends."""
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

    with tempfile.TemporaryDirectory(prefix="helix-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # shares each process's counts
        config = _configure(root, replace(settings, threads=settings.threads or 1), policy)
        config.workers = processes
        config.timeout_worker_healthcheck = _HEALTH_TIMEOUT
        supervisor = Multiprocess(config, [listener])
        supervisor.run()
    return 3 if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes) else 0


def _configure(root: Path, settings: Settings, policy: Policy) -> uvicorn.Config:
    return uvicorn.Config(
        partial(make_application, root, settings, policy),
        factory=True,
        http=cast(type[asyncio.Protocol], partial(Protocol, Connections(_compute_bounds(settings, policy)))),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client cannot name its own address
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_SHUTDOWN,
    )


def _compute_bounds(settings: Settings, policy: Policy) -> Bounds:
    """Return the bounds of connections; half of the open files are left for everything else."""
    most = min(settings.max_connections, raise_file_limit() // 2)
    if most < settings.max_connections:
        log.warning("at most %d connections: raise the limit of open files (ulimit -n) for more", most)
    return Bounds(most, settings.max_connections_of_address, settings.receive_timeout, policy.seconds)


def make_application(root: Path, settings: Settings, policy: Policy) -> ASGIApp:
    """Return the ASGI application of one process."""
    from query.rest import create_app
    from query.service import QueryService
    from query.store_gate import StoreGate
    from query.stores.many import ManyStores

    configure_logging(settings)
    keys = KeyRing(get_key_file(root, settings), many=policy.many)
    if policy.many:
        own = replace(settings, stores_memory=max(1, settings.stores_memory // policy.processes))
        stores = ManyStores(root, own, fetched=policy.fetched)
        gate = StoreGate(stores.limits, policy.processes, root if policy.fetched else None)
        app = create_app(stores, policy, keys, gate)
    else:
        app = create_app(QueryService(root, settings), policy, keys)
    return AccessLog(app) if is_text(settings) else app


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raise UsageError for an address in use, or of another machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With IPPROTO_TCP named, asyncio sends an answer's body without waiting for the head's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        text = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise UsageError(text, "give another --host or --port") from None
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener
