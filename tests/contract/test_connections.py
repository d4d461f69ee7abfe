"""Connections that never finish: none stays for ever, and however many there are, who asks is answered."""

from __future__ import annotations

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from query.discovery_read import read_address
from query.middleware import group_address
from query.service import QueryService
from tests.compat.history import DIM
from tests.support.serving import serving
from tests.support.tiny import SETTINGS, make_store

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
    """This process holds the other ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def here(root: Path, **given: Any) -> Iterator[tuple[str, int]]:
    """The same server in this process."""
    with serving(root, replace(SETTINGS, **given)) as client:
        yield client.base_url.host, client.base_url.port or 80


def few_files() -> None:
    """No more than this, whatever the system would allow."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@contextmanager
def process(root: Path) -> Iterator[tuple[str, int]]:
    """`helix serve` in a process of its own, and where it listens."""
    command = [str(Path(sys.executable).with_name("helix")), "serve", "--store", str(root), "--port", "0"]
    log = root.parent / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stderr=output, preexec_fn=few_files)
    try:
        until(lambda: read_address(str(root)), log.read_text)
        place = read_address(str(root))
        assert place
        yield place[0], place[1]
    finally:
        server.terminate()
        assert server.wait(30) in (0, -signal.SIGTERM), log.read_text()


def until(condition: Callable[[], object], told: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)


def ended(connection: socket.socket) -> bytes:
    """What came before the other side closed."""
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


def status(connection: socket.socket) -> int:
    """Of the next answer, which is read to its end."""
    answer = b""
    connection.settimeout(30)
    while (missing := left(answer)) and (part := connection.recv(missing)):
        answer += part
    return int(answer.split()[1])


def left(answer: bytes) -> int:
    """Bytes of an answer that are still to come, at least."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return int(length[1]) - len(body) if end and length else 1


def drip(connection: socket.socket, stop: threading.Event, said: bytes) -> None:
    """Send a byte now and then, for ever."""
    try:
        for at in range(1_000_000):
            if stop.wait(SECONDS / 10):
                return
            connection.sendall(said[at % len(said) :][:1])
    except OSError:
        return


def test_what_never_ends_is_ended(root: Path) -> None:
    stop = threading.Event()
    with here(root, receive_timeout=SECONDS, request_timeout=3.0) as place, ExitStack() as kept:

        def connect(said: str = "") -> socket.socket:
            connection = kept.enter_context(socket.create_connection(place))
            connection.sendall(said.encode())
            return connection

        silent, half, body = connect(), connect(ASKED[:-2]), connect(POSTED)
        after, drained = connect(ASKED + ASKED[:20]), connect(POSTED.replace("Host: 127.0.0.1", "Host: evil.example"))
        dripping = {"head": connect("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "), "body": connect(POSTED)}
        for connection in dripping.values():
            threading.Thread(target=drip, args=(connection, stop, b"   "), daemon=True).start()
        deaf = kept.enter_context(socket.socket())
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(place)
        deaf.sendall(("GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200).encode())
        resting = connect(ASKED)
        began = time.monotonic()
        try:
            assert ended(silent) == b""
            assert problem(ended(half)) == (408, HEAD_LATE)
            assert problem(ended(body)) == (408, BODY_LATE)
            assert problem(ended(dripping["head"])) == (408, HEAD_LATE)
            assert problem(ended(dripping["body"])) == (408, BODY_LATE)
            answers = ended(after)
            assert answers.startswith(b"HTTP/1.1 200 OK")
            assert answers.count(b"HTTP/1.1 408") == 1
            assert ended(drained).startswith(b"HTTP/1.1 403")
            until(lambda: gone(deaf))
        finally:
            stop.set()
        assert time.monotonic() - began > SECONDS / 2  # they had their time
        assert status(resting) == 200
        resting.sendall(ASKED.encode())  # one that waits between two requests is left alone
        assert status(resting) == 200


HEAD_LATE = "the head of the request has not come in time; send it faster, or raise HELIX_RECEIVE_TIMEOUT"
BODY_LATE = "the body of the request has not come in time; send it faster, or raise HELIX_RECEIVE_TIMEOUT"


def gone(connection: socket.socket) -> bool:
    """Whether the other side has given it up, though nothing was read."""
    try:
        connection.sendall(b" ")
    except OSError:
        return True
    return False


def test_however_many_never_finish_others_are_answered(root: Path) -> None:
    """More than it may have files: without a head, with half of one, of a body, with an answer that is not read."""
    with process(root) as place, ExitStack() as kept, httpx.Client(base_url="http://{}:{}".format(*place)) as before:
        assert before.get("/healthz").status_code == 200
        for i in range(FILES + 150):
            connection = kept.enter_context(socket.create_connection(place, 30))
            connection.sendall(("", ASKED[:-2], POSTED, ASKED)[i % 4].encode())
        for path in ("/healthz", "/readyz", "/v1/recall?query=walnut"):
            for _ in range(10):
                assert httpx.get("http://{}:{}{}".format(*place, path)).status_code == 200  # over a new connection
        found = httpx.post("http://{}:{}/v1/recall".format(*place), json={"query": "walnut"})
        assert found.status_code == 200
        assert before.get("/healthz").status_code == 200  # over its own, or a new one
        assert "those that wait longest are closed" in (root.parent / "log").read_text()


def test_one_that_waits_makes_room_and_one_that_is_served_does_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> dict[str, Any]:
        begun.release()
        assert go_on.wait(60)
        return {"skipped": False, "ms": {}, "degraded": []}

    monkeypatch.setattr(QueryService, "recall", slow)
    with here(root, max_connections_of_address=2) as place, ExitStack() as kept:
        connections = [kept.enter_context(socket.create_connection(place)) for _ in range(3)]
        assert ended(connections[0]) == b""  # of three that wait the first
        for connection in connections[1:]:
            connection.sendall(ASKED.encode())
            assert begun.acquire(timeout=30)
        with socket.create_connection(place) as another:
            assert problem(ended(another))[0] == 503
        go_on.set()
        for connection in connections[1:]:
            assert status(connection) == 200
        for connection in connections[1:]:  # once more, one after the other
            connection.sendall(ASKED.encode())
            assert status(connection) == 200
        with socket.create_connection(place) as another:  # now they wait, and the first of them makes room
            another.sendall(ASKED.encode())
            assert status(another) == 200
            assert ended(connections[1]) == b""
            connections[2].sendall(ASKED.encode())
            assert status(connections[2]) == 200


def test_clients_are_told_apart_by_what_they_cannot_choose() -> None:
    assert group_address("192.0.2.7") != group_address("192.0.2.8")
    assert group_address("2001:db8::1") == group_address("2001:db8::ffff:1") != group_address("2001:db8:0:1::1")
    assert group_address("::ffff:192.0.2.7") == group_address("192.0.2.7")
    assert group_address("fe80::1%eth0") == group_address("fe80::2%eth0")
