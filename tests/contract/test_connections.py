"""Connections that never finish: each one ends, and any number of them leaves room for others."""

from __future__ import annotations

import json
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from query.middleware import group_address
from query.service import QueryService
from tests.compat.history import DIM
from tests.support.processes import wait_until
from tests.support.serving import ServerProcess, serving
from tests.support.tiny import SETTINGS, make_store

pytestmark = pytest.mark.usefixtures("processes")  # for its mark

ASKED = "GET /v1/recall?query=walnut HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POSTED = "POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
SECONDS = 1.0  # what a head or a body may take here
FILES = 500  # that the server may have open


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("connections") / "store"
    make_store(root, [f"walnut bread {i}" for i in range(8)], np.ones((8, DIM)) / 2)
    return root


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """Allow this process the clients' ends, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def serve_here(root: Path, **settings: Any) -> Iterator[tuple[str, int]]:
    with serving(root, replace(SETTINGS, **settings)) as client:
        yield client.base_url.host, client.base_url.port or 80


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def read_to_end(connection: socket.socket) -> bytes:
    """Return every byte until the other side closes."""
    connection.settimeout(30)
    answer = b""
    try:
        while part := connection.recv(65_536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def problem(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower(), answer
    return int(head.split()[1]), json.loads(body)["detail"]


def read_status(connection: socket.socket) -> int:
    """Read the next answer, and return its status."""
    answer = b""
    connection.settimeout(30)
    while (missing := count_missing(answer)) and (part := connection.recv(missing)):
        answer += part
    return int(answer.split()[1])


def count_missing(answer: bytes) -> int:
    """Return the least number of bytes that an answer still lacks."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return int(length[1]) - len(body) if end and length else 1


def drip(connection: socket.socket, stop: threading.Event, data: bytes) -> None:
    """Send a byte now and then."""
    try:
        for at in range(1_000_000):
            if stop.wait(SECONDS / 10):
                return
            connection.sendall(data[at % len(data) :][:1])
    except OSError:
        return


def test_an_endless_connection_is_closed(root: Path) -> None:
    stop = threading.Event()
    with serve_here(root, receive_timeout=SECONDS) as place, ExitStack() as stack:

        def connect(text: str = "") -> socket.socket:
            connection = stack.enter_context(socket.create_connection(place))
            connection.sendall(text.encode())
            return connection

        silent, half, body = connect(), connect(ASKED[:-2]), connect(POSTED)
        after, drained = connect(ASKED + ASKED[:20]), connect(POSTED.replace("Host: 127.0.0.1", "Host: evil.example"))
        dripping = {"head": connect("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "), "body": connect(POSTED)}
        for connection in dripping.values():
            threading.Thread(target=drip, args=(connection, stop, b"   "), daemon=True).start()
        resting = connect(ASKED)
        began = time.monotonic()
        try:
            assert read_to_end(silent) == b""
            assert problem(read_to_end(half)) == (408, HEAD_LATE)
            assert problem(read_to_end(body)) == (408, BODY_LATE)
            assert problem(read_to_end(dripping["head"])) == (408, HEAD_LATE)
            assert problem(read_to_end(dripping["body"])) == (408, BODY_LATE)
            answers = read_to_end(after)
            assert answers.startswith(b"HTTP/1.1 200 OK")
            assert answers.count(b"HTTP/1.1 408") == 1
            assert read_to_end(drained).startswith(b"HTTP/1.1 403")
        finally:
            stop.set()
        assert time.monotonic() - began > SECONDS / 2  # they had some time
        assert read_status(resting) == 200
        resting.sendall(ASKED.encode())  # an idle connection stays open
        assert read_status(resting) == 200


def test_a_client_that_reads_no_answer_is_cut_off(root: Path) -> None:
    with serve_here(root, request_timeout=3.0) as place, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(place)
        deaf.sendall(("GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200).encode())
        wait_until(60, lambda: is_closed(deaf))


HEAD_LATE = "the head of the request has not come in time; send it faster, or raise HELIX_RECEIVE_TIMEOUT"
BODY_LATE = "the body of the request has not come in time; send it faster, or raise HELIX_RECEIVE_TIMEOUT"


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed the connection, without reading from it."""
    try:
        connection.sendall(b" ")
    except OSError:
        return True
    return False


def test_any_number_of_endless_connections_leaves_room(root: Path) -> None:
    """More connections than open files: without a head, with half a head or body, or with an unread answer."""
    log = root.parent / "log"
    with (
        log.open("wb") as output,
        ServerProcess(root, stderr=output, preexec_fn=limit_files) as server,
        ExitStack() as stack,
        httpx.Client(base_url=server.wait_for_address(log.read_text).url) as before,
    ):
        host, port = before.base_url.host, before.base_url.port or 80
        assert before.get("/healthz").status_code == 200
        for i in range(FILES + 150):
            connection = stack.enter_context(socket.create_connection((host, port), 30))
            connection.sendall(("", ASKED[:-2], POSTED, ASKED)[i % 4].encode())
        for path in ("/healthz", "/readyz", "/v1/recall?query=walnut"):
            for _ in range(10):
                assert httpx.get(f"{server.url}{path}").status_code == 200  # over a new connection
        found = httpx.post(f"{server.url}/v1/recall", json={"query": "walnut"})
        assert found.status_code == 200
        assert before.get("/healthz").status_code == 200  # over its own, or a new one
        assert "those that wait longest are closed" in log.read_text()
        assert server.stop() in (0, -signal.SIGTERM), log.read_text()


def test_a_waiting_connection_makes_room_and_a_served_one_does_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> dict[str, Any]:
        begun.release()
        assert go_on.wait(60)
        return {"skipped": False, "ms": {}, "degraded": []}

    monkeypatch.setattr(QueryService, "recall", slow)
    with serve_here(root, max_connections_of_address=2) as place, ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(place)) for _ in range(3)]
        assert read_to_end(connections[0]) == b""  # the first of three that wait
        for connection in connections[1:]:
            connection.sendall(ASKED.encode())
            assert begun.acquire(timeout=30)
        with socket.create_connection(place) as another:
            assert problem(read_to_end(another))[0] == 503
        go_on.set()
        for connection in connections[1:]:
            assert read_status(connection) == 200
        for connection in connections[1:]:  # once more, one after the other
            connection.sendall(ASKED.encode())
            assert read_status(connection) == 200
        with socket.create_connection(place) as another:  # now they wait, and the first of them makes room
            another.sendall(ASKED.encode())
            assert read_status(another) == 200
            assert read_to_end(connections[1]) == b""
            connections[2].sendall(ASKED.encode())
            assert read_status(connections[2]) == 200


def test_clients_are_grouped_by_network() -> None:
    assert group_address("192.0.2.7") != group_address("192.0.2.8")
    assert group_address("2001:db8::1") == group_address("2001:db8::ffff:1") != group_address("2001:db8:0:1::1")
    assert group_address("::ffff:192.0.2.7") == group_address("192.0.2.7")
    assert group_address("fe80::1%eth0") == group_address("fe80::2%eth0")
