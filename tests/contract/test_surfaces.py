"""One question, three surfaces, one answer; and what the query process promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import helix
from helix.errors import UsageError
from query.schema.answers import render_bundle

NOW = "2026-06-01T00:00:00Z"
KEPT = "f1a3fa0659075602"  # an item of the sample
QUESTIONS = (
    {"query": "What did I tell Priya about vacation?", "now": NOW},
    {"query": "sqlite3.OperationalError: database is locked", "k": 3, "budget": 120, "now": NOW},
    {"query": "timeout", "project": "ledgerline", "type": "decision", "now": NOW},
    {"query": "Priya", "since": "2026-02-01", "until": "2026-02-28", "profile": "helix-paper", "now": NOW},
    {"query": "what is 17*23"},
    {"query": "coffee", "session": "c4", "speaker": "Priya", "now": NOW},
    {"query": "when does the release go out", "rerank": "late", "rerank_top": 5, "current_only": True, "now": NOW},
    {"query": "why did we pick sqlite", "as_of": "2026-02-10", "explain": True, "why_not": KEPT, "now": NOW},
    *(
        {"query": "What did I tell Priya about vacation?", "profile": name, "explain": True, "now": NOW}
        for name in ("annie", "cems", "engram", "memoria")
    ),
)


class Server:
    """`helix serve` in its own process."""

    def __init__(self, root: Path, port: int, *options: str, environ: dict[str, str] | None = None) -> None:
        self.url = f"http://127.0.0.1:{port}"
        command = [str(Path(sys.executable).with_name("helix")), "serve", "--store", str(root), "--port", str(port)]
        self.process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, env={**os.environ, **(environ or {})}
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(url: str, path: str = "/readyz") -> int:
    try:
        return httpx.get(url + path).status_code
    except httpx.TransportError:
        return 0


@pytest.fixture(scope="module")
def served(sample_store: Path) -> Iterator[str]:
    server = Server(sample_store, free_port())
    try:
        until(lambda: answers(server.url) == 200)
        yield server.url
    finally:
        server.stop()


def still(found: dict[str, Any]) -> dict[str, Any]:
    """Without what a clock decides."""
    for stage in found.get("trace", {}).get("stages", ()):
        stage.pop("ms", None)
    found.get("trace", {}).pop("spans", None)
    return {key: value for key, value in found.items() if key != "ms"}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.get("profile", question["query"])[:20])
def test_sdk_rest_and_command_line_say_the_same(served: str, sample_store: Path, run_helix, question) -> None:
    options = [
        str(part)
        for key, value in question.items()
        if key != "query"
        for part in ((f"--{key.replace('_', '-')}",) if value is True else (f"--{key.replace('_', '-')}", value))
    ]
    line = run_helix("recall", question["query"], *options, "--store", sample_store, "--json")
    assert line.returncode == 0, line.stderr
    arguments = dict(question)
    sdk = render_bundle(helix.open(sample_store).recall(str(arguments.pop("query")), **arguments))
    post = httpx.post(f"{served}/v1/recall", json=question)
    get = httpx.get(f"{served}/v1/recall", params=question)
    assert post.status_code == get.status_code == 200, post.text + get.text
    one = still(json.loads(line.stdout))
    assert one == still(json.loads(json.dumps(sdk))) == still(post.json()) == still(get.json())


def test_found_has_the_promised_attributes(sample_store: Path) -> None:
    found = helix.open(sample_store).recall("What did I tell Priya about vacation?", explain=True)
    first = found.items[0]
    for name in ("id", "score", "type", "text", "session", "turns", "speaker", "time", "project", "source", "why"):
        assert hasattr(first, name)
    assert all(item in found.items for item in found.packed)
    assert found.packed[0] is first  # outside-in: the best comes first
    places = [found.context.index(item.text) for item in found.packed]
    assert places == sorted(places)
    assert found.trace is not None
    assert found.snapshot == 1
    assert helix.open(sample_store).recall("Priya").trace is None


def test_the_same_question_gives_the_same_bytes(sample_store: Path) -> None:
    def ask() -> str:
        return json.dumps(still(render_bundle(helix.open(sample_store).recall("database locked", now=NOW))))

    assert ask() == ask()


@pytest.mark.parametrize(
    ("method", "path", "send", "status", "said"),
    [
        ("GET", "/v1/recall?query=", None, 400, "the query is empty"),
        ("GET", "/v1/recall", None, 400, "query"),
        ("GET", "/v1/recall?query=x&k=0", None, 400, "k is 0"),
        ("GET", "/v1/recall?query=x&project=nope", None, 400, "unknown project"),
        ("GET", "/v1/recall?query=x&why_not=nope", None, 400, "no live item has the id 'nope'; take it from"),
        ("POST", "/v1/recall", {"query": "x", "why_not": "f" * 16}, 400, f"no live item has the id '{'f' * 16}'"),
        ("POST", "/v1/recall", {"query": "x" * 100_000}, 400, "100000 characters"),
        ("POST", "/v1/recall", {"query": "x", "kk": 3}, 400, "kk"),
        ("POST", "/v1/recall", {"query": "x" * 300_000}, 413, "at most"),
        ("GET", "/v1/nothing", None, 404, "Not Found"),
        ("DELETE", "/v1/recall", None, 405, "Method Not Allowed"),
    ],
)
def test_every_error_is_a_problem_detail(served: str, method: str, path: str, send, status: int, said: str) -> None:
    found = httpx.request(method, served + path, json=send) if send else httpx.request(method, served + path)
    assert found.status_code == status
    assert found.headers["content-type"] == "application/problem+json"
    body = found.json()
    assert {"type", "title", "status", "detail"} <= set(body)
    assert body["status"] == status
    assert said in body["detail"]


BEYOND = ("9999999999999999d", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


def test_a_time_beyond_the_calendar_is_refused_on_every_surface(served: str, sample_store: Path, run_helix) -> None:
    asked = (
        *(("/v1/recall", {"query": "x"}, name) for name in ("since", "until", "as_of", "now")),
        ("/v1/timeline", {}, "since"),
        ("/v1/timeline", {}, "until"),
        ("/v1/facts", {"entity": "Priya"}, "at"),
    )
    wrong = []
    for time_ in BEYOND:
        for path, given, name in asked:
            found = httpx.get(f"{served}{path}", params={**given, name: time_})
            if found.status_code != 400 or f"{name} {time_!r} is no time" not in found.json()["detail"]:
                wrong.append((path, name, time_, found.text))
        done = run_helix("recall", "x", f"--since={time_}", "--store", sample_store)
        if done.returncode != 2 or "is no time" not in done.stderr or len(done.stderr.splitlines()) > 1:
            wrong.append(("recall --since", time_, done.stderr))
        with pytest.raises(UsageError, match=r"until .* is no time"):
            helix.open(sample_store).timeline(until=time_)
    for now in ("0001-01-01", "9999-12-31T23:59:59Z"):  # the ends of the calendar are no reason to fail
        found = httpx.get(f"{served}/v1/recall", params={"query": "what did Priya say last week", "now": now})
        if found.status_code != 200:
            wrong.append(("now", now, found.text))
    assert not wrong, wrong


def test_a_body_that_is_no_json(served: str) -> None:
    found = httpx.post(f"{served}/v1/recall", content=b"{half", headers={"content-type": "application/json"})
    assert (found.status_code, found.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        b'{"now": "2026-06-01", "query": "why sqlite", "k": 3}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": "3", "explain": "yes"}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": 3.0, "entities": ["Ana"]}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": 2.5}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": NaN}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": true}',
        b'{"now": "2026-06-01", "query": "why sqlite", "k": 99999999999999999999}',
        b'{"query": "x", "now": "2026-06-01", "query": "why sqlite"}',
        b'{"now": "2026-06-01", "query": "why sqlite \\ud800"}',
        b'{"now": "2026-06-01", "query": "why sqlite", "kk": 3}',
        b'\xef\xbb\xbf{"now": "2026-06-01", "query": "why sqlite"}',
        b'{"query": "\xff"}',
        b'{"query": null}',
        b'{"k": 3}',
        b'["why sqlite"]',
        b'"why sqlite"',
        b"null",
        b"{half",
        b"",
    ],
)
def test_a_body_is_read_in_one_way(served: str, body: bytes) -> None:
    """Straight into its model, or as FastAPI reads it where more is said of its type: the same comes of it."""
    said = []
    for kind in ("application/json", "application/json; charset=utf-8"):
        found = httpx.post(f"{served}/v1/recall", content=body, headers={"content-type": kind})
        assert found.status_code in (200, 400)
        answer = found.json()
        answer.pop("ms", None)
        for stage in answer.get("trace", {}).pop("stages", ()):
            stage.pop("ms", None)
        answer.get("trace", {}).pop("spans", None)
        said.append((found.status_code, answer))
    assert said[0] == said[1]
    for kind in ("text/plain", "application/x-www-form-urlencoded"):  # what a form of another page could send
        assert httpx.post(f"{served}/v1/recall", content=body, headers={"content-type": kind}).status_code == 400


def test_status_and_health(served: str) -> None:
    assert httpx.get(f"{served}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{served}/readyz").json() == {"status": "ready", "snapshot": 1}
    state = httpx.get(f"{served}/v1/status").json()
    assert (state["generation"], state["serving"], state["pending"], state["trouble"]) == (1, 1, 0, None)
    assert state["items"] > 100
    paths = httpx.get(f"{served}/openapi.json").json()["paths"]
    assert {"/v1/recall", "/v1/status", "/healthz", "/readyz"} <= set(paths)


def test_a_new_generation_is_taken_without_a_restart_and_without_a_failed_request(
    own_store: Path, tmp_path: Path, run_helix
) -> None:
    server = Server(own_store, free_port())
    failures: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            found = httpx.get(f"{server.url}/v1/recall", params={"query": "where is the saffron", "project": "default"})
            if found.status_code != 200:
                failures.append(found.text)

    try:
        until(lambda: answers(server.url) == 200)
        asking = threading.Thread(target=ask)
        asking.start()
        (tmp_path / "note.md").write_text("# Pantry\n\nThe saffron is behind the cardamom.")
        assert run_helix("ingest", tmp_path / "note.md", "--store", own_store).returncode == 0
        until(lambda: httpx.get(f"{server.url}/readyz").json()["snapshot"] == 2, 10)
        stop.set()
        asking.join()
        found = httpx.get(f"{server.url}/v1/recall", params={"query": "where is the saffron"}).json()
        assert "behind the cardamom" in found["items"][0]["text"]
        assert found["snapshot"] == 2
        assert failures == []
        # A generation it cannot read leaves the last good one serving, and says so.
        (own_store / "CURRENT").write_text("00000003-0123456789abcdef.json\n")
        until(lambda: httpx.get(f"{server.url}/v1/status").status_code == 503)
        assert "does not exist" in httpx.get(f"{server.url}/v1/status").json()["detail"]
        time.sleep(0.6)  # twice the time in which the server looks for a new generation
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert httpx.get(f"{server.url}/v1/recall", params={"query": "saffron"}).json()["snapshot"] == 2
    finally:
        stop.set()
        server.stop()


def test_serving_before_there_is_a_store(tmp_path: Path, sample_store: Path) -> None:
    import shutil

    server = Server(tmp_path / "late", free_port(), "--wait")
    try:
        until(lambda: answers(server.url, "/healthz") == 200)
        assert answers(server.url) == 503
        found = httpx.get(f"{server.url}/v1/recall", params={"query": "x"})
        assert (found.status_code, found.headers["content-type"]) == (503, "application/problem+json")
        assert "no Helix store" in found.json()["detail"]
        shutil.copytree(sample_store, tmp_path / "half")
        (tmp_path / "half").rename(tmp_path / "late")
        until(lambda: answers(server.url) == 200)
    finally:
        server.stop()


def test_a_store_that_is_not_there_is_told_at_once(tmp_path: Path, run_helix) -> None:
    for environ, options in (({}, ("--store", str(tmp_path / "nosuch"))), ({"HELIX_STORE": str(tmp_path)}, ())):
        done = run_helix("serve", *options, "--port", "0", **environ)
        assert (done.returncode, done.stdout) == (4, "")
        assert "no Helix store at" in done.stderr
        assert "'helix serve --wait' starts without a store" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "nosuch").exists()


def test_an_empty_store_answers_with_nothing(tmp_path: Path, run_helix) -> None:
    (tmp_path / "empty.md").write_text("")
    assert run_helix("ingest", tmp_path / "empty.md", "--store", tmp_path / "s").returncode == 3
    done = run_helix("recall", "anything", "--store", tmp_path / "s", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert (found["snapshot"], found["items"], found["context"]) == (0, [], "")


def test_refresh(own_store: Path, tmp_path: Path, run_helix) -> None:
    memory = helix.open(own_store)
    assert memory.refresh() is False
    (tmp_path / "note.md").write_text("# Pantry\n\nThe saffron is behind the cardamom.")
    assert run_helix("ingest", tmp_path / "note.md", "--store", own_store).returncode == 0
    assert memory.recall("saffron").snapshot == 1
    assert memory.refresh() is True
    assert "cardamom" in memory.recall("saffron").items[0].text


def test_the_sdk_refuses_what_the_command_line_refuses(sample_store: Path) -> None:
    memory = helix.open(sample_store)
    for wrong in (
        {"k": 0},
        {"budget": -1},
        {"project": "nope"},
        {"type": "nope"},
        {"profile": "nope"},
        {"now": "x"},
        {"why_not": "f" * 16},
    ):
        with pytest.raises(UsageError):
            memory.recall("x", **wrong)
