"""A proxy before a real S3 server that adds latency and faults, and lists objects that are not there."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

Fault = Literal["throttle", "error", "reset", "cut", "lost", "skew", "conflict"]
"""503 SlowDown; 500; the connection ends in the middle of the body; a shorter body that claims to be whole; the request
arrives and its answer does not; 403 of a server whose clock is a day away; 409 of a write while another one runs."""

ERRORS: dict[str, tuple[int, str]] = {
    "throttle": (503, "SlowDown"),
    "error": (500, "InternalError"),
    "skew": (403, "RequestTimeTooSkewed"),
    "conflict": (409, "ConditionalRequestConflict"),
}


@dataclass(frozen=True)
class Request:
    """A request: its method, the object's name (of a list: `?`), and how many of its kind came before."""

    method: str
    name: str
    before: int


@dataclass
class S3Proxy:
    """The proxy's address and faults, which may be changed while it runs."""

    address: str
    latency: float = 0.0  # seconds, before each answer
    bandwidth: float = 0.0  # bytes a second, of all connections together; 0: no bound
    shift: float = 0.0  # seconds that the server's clock is ahead, in Date and Last-Modified
    fault: Callable[[Request], Fault | None] = lambda _: None
    hides: Callable[[str], bool] = lambda _: False  # keys that lists lack
    ghosts: list[tuple[str, int]] = field(default_factory=list)  # (key, bytes) that lists show
    ignores_conditions: bool = False
    seen: list[Request] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)
    _line: Any = field(default_factory=threading.Lock)
    _writing: Any = field(default_factory=threading.Lock)

    def note(self, method: str, name: str) -> Request:
        """Count a request."""
        with self._lock:
            made = Request(method, name, sum(one.method == method and one.name == name for one in self.seen))
            self.seen.append(made)
            return made

    def count(self, method: str, pattern: str = "") -> int:
        """Return how many requests there were."""
        return sum(one.method == method and re.search(pattern, one.name) is not None for one in self.seen)

    def transfer(self, size: int) -> None:
        """Take the time that the line needs."""
        if self.bandwidth:
            with self._line:
                time.sleep(size / self.bandwidth)

    @contextlib.contextmanager
    def write(self) -> Iterator[None]:
        """Let one conditional write at a time through: S3 checks and writes at once, the test server does not."""
        with self._writing:
            yield

    def edit_list(self, body: bytes) -> bytes:
        """Return a list without hidden objects and with ghosts."""
        text = body.decode()
        for block in re.findall(r"<Contents>.*?</Contents>", text, re.DOTALL):
            key = re.search(r"<Key>(.*?)</Key>", block)
            if key and self.hides(key[1]):
                text = text.replace(block, "")
        asked = re.search(r"<Prefix>(.*?)</Prefix>", text)
        prefix = asked[1] if asked else ""
        when = "2026-01-01T00:00:00.000Z"
        new = "".join(
            f'<Contents><Key>{key}</Key><LastModified>{when}</LastModified><ETag>"0"</ETag><Size>{size}</Size></Contents>'
            for key, size in self.ghosts
            if key.startswith(prefix)
        )
        return text.replace("</ListBucketResult>", f"{new}</ListBucketResult>").encode()


@contextlib.contextmanager
def run_proxy(server: str) -> Iterator[S3Proxy]:
    """Run a proxy before the server at host:port."""
    proxy = S3Proxy("")

    class Handler(_Handler):
        pass

    Handler.proxy, Handler.server_address = proxy, server
    listener = _Listener(("127.0.0.1", 0), Handler)
    proxy.address = f"127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client, or a server, that is gone."""


class _Handler(BaseHTTPRequestHandler):
    proxy: S3Proxy
    server_address: str
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        is_list = self.command == "GET" and "list-type=2" in parts.query
        name = "?" if is_list else unquote(parts.path).lstrip("/").partition("/")[2]
        request = self.proxy.note(self.command, name)
        fault = self.proxy.fault(request)
        if self.proxy.latency:
            time.sleep(self.proxy.latency)
        if fault in ERRORS:
            status, code = ERRORS[fault]
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
            self._send(status, {"Content-Type": "application/xml"}, body, fault)
            return
        self.proxy.transfer(len(data))
        status, headers, body = self._forward(data)
        if fault == "lost":
            self._break_connection()
            return
        self._send(status, headers, self.proxy.edit_list(body) if is_list and status == 200 else body, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815

    def _forward(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        conditional = {"if-match", "if-none-match"}
        is_write = self.command == "PUT" and any(name.lower() in conditional for name in self.headers)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        if is_write and self.proxy.ignores_conditions:
            headers = {name: value for name, value in headers.items() if name.lower() not in conditional}
        with self.proxy.write() if is_write else contextlib.nullcontext():
            connection = http.client.HTTPConnection(self.server_address, timeout=60)
            connection.request(self.command, self.path, data, headers)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
        return answer.status, dict(answer.getheaders()), body

    def _send(self, status: int, headers: dict[str, str], body: bytes, fault: Fault | None) -> None:
        if fault == "cut":
            body = body[: len(body) // 2]
        self.send_response_only(status)
        own = {"content-length", "connection", "transfer-encoding", "date"}
        for name, value in headers.items():
            if name.lower() == "last-modified" and self.proxy.shift:
                value = formatdate(parsedate_to_datetime(value).timestamp() + self.proxy.shift, usegmt=True)
            if name.lower() not in own:
                self.send_header(name, value)
        self.send_header("Date", formatdate(time.time() + self.proxy.shift, usegmt=True))
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        if status != 304:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "reset":
            self.wfile.write(body[: len(body) // 2])
            self._break_connection()
            return
        step = 1 << 18
        for start in range(0, len(body), step):
            self.proxy.transfer(len(body[start : start + step]))
            self.wfile.write(body[start : start + step])

    def _break_connection(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass
