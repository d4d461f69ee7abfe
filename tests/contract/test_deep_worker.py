"""Deep recall through real processes: a chat endpoint, a worker with its Redis, a query process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import StdioServerParameters

import helix
from helix.deep import jobs
from helix.recipes.load_profile import names
from helix.settings import load
from helix.types import RecallOptions
from query.auth import OWNER, Caller, create_key
from query.schema.answers import render_bundle
from query.schema.requests import RecallRequest
from query.service import QueryService
from tests.conftest import copy_store
from tests.support.chat_server import Chat
from tests.support.clients import call_tool, run_client
from tests.support.fleet import worker
from tests.support.processes import compile_library, wait_until
from tests.support.serving import HELIX, ServerProcess, serving

pytestmark = pytest.mark.usefixtures("no_requests")

NOW = "2026-06-01T00:00:00Z"
QUESTION = "Who brought the new laptop? wanted: passport"


@pytest.fixture
def no_requests(chat: Chat) -> None:
    """An empty log of the endpoint."""
    chat.forget()


@pytest.fixture(scope="module")
def store(sample_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_store(sample_store, tmp_path_factory.mktemp("deep") / "store")


_begun: list[Path] = []
"""Stores that had a worker: a broker belongs to one store, so each has its own database."""


@contextmanager
def at_work(store: Path, url: str, chat: Chat, log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the queue `deep` that already looks for jobs."""
    if store not in _begun:
        _begun.append(store)
    broker = f"{url.removesuffix('0')}{_begun.index(store)}"
    given = {"HELIX_DEEP_URL": chat.url, "HELIX_DEEP_MODEL": "good", "HELIX_DEEP_PROJECTS": "*"}
    with worker(store, broker, "deep", log, **{**given, "HELIX_DEEP_SECONDS": "20", **environ}) as process:
        wait_until(60, lambda: jobs.has_worker(store) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process


@pytest.fixture(scope="module")
def working(store: Path, redis_url: str, chat: Chat, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    log = tmp_path_factory.mktemp("log") / "worker.log"
    with at_work(store, redis_url, chat, log):
        yield store


@pytest.fixture(scope="module")
def client(working: Path) -> Iterator[httpx.Client]:
    with serving(working, replace(load(), deep_seconds=20.0)) as client:
        yield client


def wait_for_answer(client: httpx.Client, job: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_done() -> bool:
        found.update(client.get(f"/v1/recall/deep/{job}").raise_for_status().json())
        return bool(found["status"] == "done")

    wait_until(60, is_done)
    return found


def test_a_job_gives_a_first_answer_at_once_and_a_deep_one_later(client: httpx.Client, chat: Chat) -> None:
    plain = client.post("/v1/recall", json={"query": QUESTION, "now": NOW}).json()
    begun = client.post("/v1/recall/deep", json={"query": QUESTION, "now": NOW})
    assert begun.status_code == 202, begun.text
    first = begun.json()
    assert first["status"] in ("waiting", "running")
    assert begun.headers["location"] == f"/v1/recall/deep/{first['job']}"
    assert first["answer"]["items"] == plain["items"]
    assert "deep" not in first["answer"]
    found = wait_for_answer(client, first["job"])["answer"]
    assert "passport" in found["items"][0]["text"]
    assert found["degraded"] == []
    assert len(chat.list_requests()) == found["deep"]["calls"] == 4
    # A second poll asks no model.
    assert wait_for_answer(client, first["job"])["answer"]["items"] == found["items"]
    assert len(chat.list_requests()) == 4


def test_every_surface_gives_the_deep_answer(
    client: httpx.Client, working: Path, chat: Chat, run_helix, redis_url: str
) -> None:
    question = {"query": f"Tell all: {QUESTION}", "k": 4, "now": NOW}
    job = client.post("/v1/recall/deep", json=question).json()["job"]
    rest = wait_for_answer(client, job)["answer"]
    query, options = question["query"], {"k": 4, "now": NOW, "tier": "deep"}
    sdk = helix.open(working).recall(query, **options)
    remote = helix.connect(str(client.base_url)).recall(query, **options)
    command = ("recall", query, "--k", 4, "--now", NOW, "--tier", "deep", "--store", working)
    line = run_helix(*command, "--json")
    assert line.returncode == 0, line.stderr
    answers = [rest, render_bundle(sdk), render_bundle(remote), json.loads(line.stdout)]
    fixed = [
        json.loads(json.dumps({**answer, "ms": 0, "deep": {**answer["deep"], "cached": 0, "calls": 0}}))
        for answer in answers
    ]
    assert fixed[0] == fixed[1] == fixed[2] == fixed[3]
    assert len(chat.list_requests()) == 4  # only the first surface asked the model
    assert "deep · good · cached · " in run_helix(*command).stdout


def test_mcp_has_the_deep_tier(client: httpx.Client, working: Path) -> None:
    url = f"{str(client.base_url).rstrip('/')}/mcp"
    answer = call_tool(url, "recall", query=QUESTION, tier="deep", k=3)
    assert "passport" in answer["context"]
    assert (len(answer["items"]), answer["degraded"]) == (3, [])
    assert call_tool(url, "recall", query=QUESTION, k=3)["items"] != answer["items"]
    assert run_client(url, lambda mcp: mcp.call_tool("recall", {"query": QUESTION, "tier": "deepest"})).is_error
    arguments, environ = ["mcp", "--store", str(working)], {**os.environ, "HELIX_DEEP_SECONDS": "20"}
    stdio = StdioServerParameters(command=HELIX, args=arguments, env=environ)
    assert "passport" in call_tool(stdio, "recall", query=QUESTION, tier="deep", k=3)["context"]


def read_events(client: httpx.Client, job: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    with client.stream("GET", f"/v1/recall/deep/{job}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event:"):
                name = line.removeprefix("event:").strip()
            if line.startswith("data:"):
                found.append((name, json.loads(line.removeprefix("data:"))))
    return found


def test_the_answers_come_as_read_events(client: httpx.Client, chat: Chat) -> None:
    job = client.post("/v1/recall/deep", json={"query": f"By events: {QUESTION}", "now": NOW}).json()["job"]
    received = read_events(client, job)
    assert [name for name, _ in received] == ["first", "deep"]
    first, deep = (found for _, found in received)
    assert (deep["status"], deep["job"]) == ("done", job)
    assert first["status"] != "done"
    assert first["answer"]["items"] != deep["answer"]["items"]
    assert "passport" in deep["answer"]["items"][0]["text"]
    assert [name for name, _ in read_events(client, job)] == ["deep"]  # for a late reader
    assert client.get(f"/v1/recall/deep/{job}/events", headers={"Last-Event-ID": "deep"}).status_code == 204
    assert len(read_events(client, job, **{"Last-Event-ID": "first"})) == 1


def test_an_unknown_job_is_not_found(client: httpx.Client) -> None:
    for path in ("0" * 32, "x", "..%2f..%2fkeys", "0" * 32 + "/events"):
        found = client.get(f"/v1/recall/deep/{path}")
        assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json"), path


def test_a_wrong_request_places_no_job(client: httpx.Client, working: Path) -> None:
    before = len(list((working / "deep").glob("*.job")))
    wrong = (
        {},
        {"query": " "},
        *({"query": "x", **more} for more in ({"k": 0}, {"profile": "none"}, {"tier": "deep"})),
    )
    for body in (*wrong, {"query": "x", "why_not": "0" * 16}):
        found = client.post("/v1/recall/deep", json=body)
        assert found.status_code == 400, found.text
    assert len(list((working / "deep").glob("*.job"))) == before


def test_a_job_is_visible_to_its_caller_only(working: Path) -> None:
    service = QueryService(working, load())
    service.start()
    try:
        ana, ben = (Caller(f"k-{name}", name, None, frozenset({"recall"})) for name in ("ana", "ben"))
        job = service.start_deep(RecallRequest(query=QUESTION, now=NOW), ana)["job"]
        assert service.report_deep(job, ben) is None
        assert asyncio.run(service.stream_deep(job, ben)) is None
        assert service.report_deep(job, ana) is not None
        assert service.report_deep(job, OWNER) is not None
    finally:
        service.stop()


def test_hidden_memories_are_neither_sent_nor_shown(working: Path, chat: Chat) -> None:
    caller = Caller("k", "ana", ("holidays",), frozenset({"recall"}))
    service = QueryService(working, load())
    service.start()
    try:
        found = asyncio.run(service.await_deep(RecallRequest(query=QUESTION, now=NOW, k=50), caller))
    finally:
        service.stop()
    assert found["degraded"] == []
    assert {item["project"] for item in found["items"]} == {"holidays"}
    assert "Redis" not in chat.read_text()


def test_a_failure_in_a_worker_is_reported_to_its_caller(
    store: Path, redis_url: str, chat: Chat, tmp_path: Path, own_store: Path
) -> None:
    with (
        at_work(own_store, redis_url, chat.start_log("refused"), tmp_path / "log", HELIX_DEEP_MODEL="429"),
        serving(own_store, load()) as client,
    ):
        job = client.post("/v1/recall/deep", json={"query": QUESTION, "now": NOW}).json()["job"]
        found = wait_for_answer(client, job)["answer"]
        plain = client.post("/v1/recall", json={"query": QUESTION, "now": NOW}).json()
        metrics = client.get("/metrics").text
    assert {**found, "ms": 0, "degraded": 0} == {**plain, "ms": 0, "degraded": 0}
    assert found["degraded"][0].startswith("deep: ")
    assert "429" in found["degraded"][0]
    assert "fell back" in (tmp_path / "log").read_text()
    assert "laptop" not in (tmp_path / "log").read_text()  # logs quote no question
    assert metrics


def test_the_job_of_a_killed_worker_is_done_by_the_next_one(
    redis_url: str, chat: Chat, tmp_path: Path, own_store: Path
) -> None:
    job, slow = jobs.place(own_store, QUESTION, RecallOptions(), 60), chat.start_log("killed")
    with at_work(own_store, redis_url, slow, tmp_path / "log", HELIX_DEEP_MODEL="wait-30") as process:
        wait_until(60, lambda: bool(slow.list_requests()))
        assert jobs.is_claimed(own_store, job)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    # The children of the worker end after it.
    wait_until(60, lambda: not jobs.is_claimed(own_store, job) and not jobs.has_worker(own_store))
    assert jobs.read_outcome(own_store, job) is None
    with at_work(own_store, redis_url, chat, tmp_path / "log"):
        assert jobs.wait_for_outcome(own_store, job).replies is not None


def test_a_missing_worker_is_reported_at_once(own_store: Path) -> None:
    with serving(own_store, load()) as client:
        begun = client.post("/v1/recall/deep", json={"query": QUESTION, "now": NOW}).json()
        plain = client.post("/v1/recall", json={"query": QUESTION, "now": NOW}).json()
        assert begun["status"] == "done"
        assert begun["answer"]["degraded"] == [f"deep: {jobs.NO_WORKER}"]
        assert begun["answer"]["items"] == plain["items"]
        assert client.get(f"/v1/recall/deep/{begun['job']}").json()["answer"]["degraded"] == begun["answer"]["degraded"]
        assert [name for name, _ in read_events(client, begun["job"])] == ["deep"]
        skipped = client.post("/v1/recall/deep", json={"query": "what is 17*23"}).json()
        assert (skipped["status"], skipped["answer"]["skipped"], skipped["answer"]["degraded"]) == ("done", True, [])


def test_keys_protect_jobs(own_store: Path) -> None:
    key, _ = create_key(own_store / "keys.json", "ana", scopes=("recall",))
    other, _ = create_key(own_store / "keys.json", "ben", scopes=("recall",))
    from query.serve import make_policy

    policy = replace(make_policy("127.0.0.1", load(), keyed=True), token="")
    with serving(own_store, load(), policy) as client:
        body = {"query": QUESTION, "now": NOW}
        assert client.post("/v1/recall/deep", json=body).status_code == 401
        job = client.post("/v1/recall/deep", json=body, headers={"Authorization": f"Bearer {key}"}).json()["job"]
        for path in (f"/v1/recall/deep/{job}", f"/v1/recall/deep/{job}/events"):
            found = {
                name: client.get(path, headers={"Authorization": f"Bearer {name}"}).status_code for name in (key, other)
            }
            assert found == {key: 200, other: 404}


def test_a_worker_without_an_endpoint_says_so(own_store: Path, redis_url: str, run_helix) -> None:
    url = "http://h/v1"
    for queues, given, message in (
        ("deep", {}, "HELIX_DEEP_URL"),
        ("deep", {"URL": url, "MODEL": "m", "TECHNIQUES": "magic"}, "magic"),
        ("enrich,deep", {}, "of its own"),
    ):
        environ = {"HELIX_REDIS_URL": redis_url, **{f"HELIX_DEEP_{name}": value for name, value in given.items()}}
        done = run_helix("worker", "--queues", queues, "--store", own_store, **environ)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


# ---------------------------------------------------------------- the query process


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that notes every connection."""
    return compile_library("connect", tmp_path_factory.mktemp("connect"))


def test_the_query_process_opens_no_connection(working: Path, connections: Path, chat: Chat, tmp_path: Path) -> None:
    """It neither asks the endpoint nor the broker, although its settings name both."""
    log = tmp_path / "connections"
    environ = {
        "LD_PRELOAD": str(connections),
        "CONNECT_LOG": str(log),
        "HELIX_DEEP_URL": chat.url,
        "HELIX_DEEP_MODEL": "good",
        "HELIX_DEEP_PROJECTS": "*",
        "HELIX_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    # The library notes connections of Python and of libuv.
    ways = (
        "import socket; socket.socket().connect_ex(('127.0.0.1', 9))",
        "import asyncio, uvloop\nasync def go():\n    await asyncio.open_connection('127.0.0.1', 9)\n"
        "try: uvloop.run(go())\nexcept OSError: pass",
    )
    for way in ways:
        subprocess.run([sys.executable, "-c", way], env={**os.environ, **environ}, check=True)
        assert log.read_text() == "connect 127.0.0.1 9\n"
        log.unlink()
    with ServerProcess(working, env={**os.environ, **environ}) as server:
        server.wait_for_address().wait_for_status()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for profile in names():
                client.post("/v1/recall", json={"query": QUESTION, "profile": profile}).raise_for_status()
            client.post("/v1/recall", json={"query": QUESTION, "rerank": "late"}).raise_for_status()
            for path in ("/v1/context", "/v1/timeline", "/v1/status", "/v1/choices", "/metrics", "/", "/openapi.json"):
                client.get(path).raise_for_status()
            client.get("/v1/facts", params={"entity": "Priya"}).raise_for_status()
            job = client.post("/v1/recall/deep", json={"query": QUESTION}).raise_for_status().json()["job"]
            assert "passport" in wait_for_answer(client, job)["answer"]["items"][0]["text"]
            read_events(client, job)
        assert "passport" in call_tool(f"{server.url}/mcp", "recall", query=QUESTION, tier="deep")["context"]
    # Except the one to itself, at the start.
    assert log.read_text() == f"connect 127.0.0.1 {server.url.rpartition(':')[2]}\n"
