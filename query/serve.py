"""`helix serve`: one process or several on one socket, each with the snapshot mapped; they share its pages."""

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

from helix.errors import UsageError
from helix.settings import Settings
from helix.util import logging as logs
from query.auth import Keys, load, path_of
from query.connections import Bounds, Connections, Protocol, descriptors
from query.discovery_write import Announced
from query.middleware import Policy

if TYPE_CHECKING:
    from query.middleware import Guard

log = logging.getLogger("helix.query")

MOST: Final = 64
"""Processes, at most."""

_HEAD: Final = 128 << 10  # bytes of a request's head: the longest question, percent-encoded
_SILENT: Final = 20  # seconds that a process may say nothing to the one that watches it, before it is replaced
_IDLE: Final = 130  # seconds that a connection is kept: a proxy has to let go first (Caddy after 120, others after 60)
_END: Final = 10  # seconds that answers under way have when it ends


def policy_of(
    host: str, settings: Settings, *, allowed: Sequence[str] = (), keyed: bool = False, processes: int = 1
) -> Policy:
    """How a server that listens on `host` is reached. Without a key only where nobody else can ask.

    Args:
        allowed: names that requests may be addressed to: of a proxy in front of it. They come from elsewhere.
        keyed: ask for keys on loopback, too.
        processes: that share what a key may ask.
    """
    loopback = is_loopback(host)
    own = {"localhost", host.lower()} if not loopback else {"localhost"}
    return Policy(
        hosts=frozenset(own | {name.lower().rstrip(".") for name in allowed}),
        loopback=loopback,
        keyless=loopback and not allowed and not keyed,
        token=secrets.token_urlsafe(32),
        rate=settings.rate_limit / processes,
        concurrent=settings.max_concurrent,
        seconds=settings.request_timeout,
    )


def is_loopback(host: str) -> bool:
    """Whether nobody on another machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(root: Path, settings: Settings, policy: Policy, host: str, port: int, processes: int = 1) -> int:
    """Serve until a signal ends it; the exit status: 3 where it could not begin.

    Raises:
        UsageError: the address cannot be listened on.
    """
    logs.begin()
    listener = _bound(host, port)
    address = listener.getsockname()[:2]
    log.info("listening on http://%s:%d (%s)", *_shown(*address), "no key asked" if policy.keyless else "for keys only")
    if not policy.keyless and not load(path_of(root, settings)):
        log.warning("there is no key yet, so nobody is let in; 'helix keys create' makes one")
    announced = Announced(root, policy.token)
    threading.Thread(target=_announce, args=(announced, *address), daemon=True).start()
    try:
        if processes > 1:
            return _several(root, settings, policy, listener, processes)
        server = _Server(_config(root, settings, policy), announced)
        with contextlib.suppress(KeyboardInterrupt):
            server.run([listener])
        return 0 if server.started else 3
    finally:
        announced.end()


class _Server(uvicorn.Server):
    """Takes back what it said in the store before it ends: the signal that ends it ends this process at once."""

    def __init__(self, config: uvicorn.Config, announced: Announced) -> None:
        super().__init__(config)
        self._announced = announced

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._announced.end()
        await super().shutdown(sockets)


def _shown(host: str, port: int) -> tuple[str, int]:
    return (f"[{host}]" if ":" in host else host), port


def _announce(announced: Announced, host: str, port: int) -> None:
    """Say in the store where it listens, as soon as it answers: hooks find it there, and would wait for it."""
    from query.hooks.command import dialled

    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(*dialled(host, port), timeout=600)
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.close()
        announced.begin(host, port)


def _several(root: Path, settings: Settings, policy: Policy, listener: socket.socket, processes: int) -> int:
    """The same by several processes: one that ends is replaced."""
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import Multiprocess

    with tempfile.TemporaryDirectory(prefix="helix-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # what each counts, for whichever of them is asked
        config = _config(root, replace(settings, threads=settings.threads or 1), policy)
        config.workers = processes
        config.timeout_worker_healthcheck = _SILENT
        supervisor = Multiprocess(config, [listener])
        supervisor.run()
    return 3 if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes) else 0


def _config(root: Path, settings: Settings, policy: Policy) -> uvicorn.Config:
    return uvicorn.Config(
        partial(application, root, settings, policy),
        factory=True,
        http=cast(type[asyncio.Protocol], partial(Protocol, Connections(_bounds(settings, policy)))),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # no header says who the client is
        h11_max_incomplete_event_size=_HEAD,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_END,
    )


def _bounds(settings: Settings, policy: Policy) -> Bounds:
    """Return the bounds of connections; half of the files that may be open are left for the rest."""
    most = min(settings.max_connections, descriptors() // 2)
    if most < settings.max_connections:
        log.warning("at most %d connections: the limit of open files (ulimit -n) allows no more", most)
    return Bounds(most, settings.max_connections_of_address, settings.receive_timeout, policy.seconds)


def application(root: Path, settings: Settings, policy: Policy) -> Guard:
    """What a process serves."""
    from query.rest import create_app
    from query.service import Service

    logs.begin()
    return create_app(Service(root, settings), policy, Keys(path_of(root, settings)))


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UsageError: it is taken, or no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP: only then asyncio sends the body of an answer without waiting for its head to be acknowledged.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        what = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise UsageError(what, "give another --host or --port") from None
    found.listen(2048)
    found.set_inheritable(True)
    return found
