"""The real server: over a socket in this process, or as `helix serve` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from helix.settings import Settings
from query import serve
from query.discovery_read import read_address
from query.middleware import Policy
from tests.support.processes import wait_until

HELIX = str(Path(sys.executable).with_name("helix"))


def get_status(url: str) -> int:
    """Return the status of a GET request; 0 without an answer."""
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return 0


@contextmanager
def serving(root: Path, settings: Settings, policy: Policy | None = None) -> Iterator[httpx.Client]:
    """Serve a store in this process as `helix serve` would, and yield a client."""
    config = serve._configure(root, settings, policy or replace(serve.make_policy("127.0.0.1", settings), token=""))
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(60, lambda: server.started or not thread.is_alive())
        assert server.started
        host, port = server.servers[0].sockets[0].getsockname()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(60)


class ServerProcess:
    """`helix serve`, on a port of its own choice unless one is given."""

    def __init__(self, root: Path, *options: str, port: int = 0, **popen: Any) -> None:
        self.root = root
        command = [HELIX, "serve", "--store", str(root), "--port", str(port), *options]
        self.process = subprocess.Popen(command, **{"stderr": subprocess.DEVNULL, **popen})
        self.url = f"http://127.0.0.1:{port}"

    def wait_for_address(self, describe: Callable[[], str] = str) -> ServerProcess:
        """Wait until the store names this process, and set its URL."""
        wait_until(60, lambda: read_address(str(self.root)), describe)
        address = read_address(str(self.root))
        assert address
        self.url = f"http://{address[0]}:{address[1]}"
        return self

    def wait_for_status(self, status: int = 200, path: str = "/readyz") -> ServerProcess:
        """Wait until a path answers with a status."""
        wait_until(60, lambda: get_status(f"{self.url}{path}") == status)
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the process, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
