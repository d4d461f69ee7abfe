"""The real application over a real socket, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import uvicorn

from helix.settings import Settings
from query import serve
from query.middleware import Policy


@contextmanager
def serving(root: Path, settings: Settings, policy: Policy | None = None) -> Iterator[httpx.Client]:
    """A client of a server as `helix serve` configures it."""
    config = serve._configure(root, settings, policy or replace(serve.make_policy("127.0.0.1", settings), token=""))
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
