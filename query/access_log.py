"""One line a request for a person who watches `helix serve`: method, path, status, time; never a question."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from helix.cli.logging import ACCESS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LONGEST: Final = 80  # characters of a path
_UNLISTED: Final = ("/healthz", "/readyz", "/metrics", "/page/")
"""Beginnings of paths that machines and the page's own files make many of."""

log = logging.getLogger(ACCESS)


class AccessLog:
    """ASGI middleware that logs each answered request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application and log its answer."""
        if scope["type"] != "http" or scope["path"].startswith(_UNLISTED):
            await self._app(scope, receive, send)
            return
        began, path = time.perf_counter(), scope["path"]  # a server of many stores takes the store's name off it
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        finally:
            shown = path if len(path) <= _LONGEST else f"{path[: _LONGEST - 1]}…"
            level = logging.WARNING if status >= 500 or not status else logging.INFO
            outcome = status or "no answer"
            log.log(level, "%s %s %s %.0f ms", scope["method"], shown, outcome, 1_000 * (time.perf_counter() - began))
