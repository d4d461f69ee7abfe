"""One question, three surfaces, one answer; and the promises of the query process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import helix
from helix.errors import UsageError
from helix.settings import Settings
from query.rest import create_app
from query.routes import DirectRoute
from query.schema.answers import render_bundle
from query.service import QueryService
from tests.support.processes import pick_port, wait_until
from tests.support.serving import ServerProcess, get_status

NOW = "2026-06-01T00:00:00Z"
SAMPLE_ITEM = "f1a3fa0659075602"
PRIYA = "What did I tell Priya about vacation?"
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"query": PRIYA, "now": NOW},
    {"query": "sqlite3.OperationalError: database is locked", "k": 3, "budget": 120, "now": NOW},
    {"query": "timeout", "project": "ledgerline", "type": "decision", "now": NOW},
    {"query": "Priya", "since": "2026-02-01", "until": "2026-02-28", "profile": "helix-paper", "now": NOW},
    {"query": "what is 17*23"},
    {"query": "coffee", "session": "c4", "speaker": "Priya", "now": NOW},
    {"query": "when does the release go out", "rerank": "late", "rerank_top": 5, "current_only": True, "now": NOW},
    {"query": "why did we pick sqlite", "as_of": "2026-02-10", "explain": True, "why_not": SAMPLE_ITEM, "now": NOW},
    {"query": "why did we pick sqlite", "as_of": "2026-01-01", "now": NOW},
    {"query": "coffee", "ingested_as_of": "2026-02-10", "as_of": "2026-02-10", "now": NOW},
    {"query": PRIYA, "profile": "cems", "mode": "hybrid", "now": NOW},
    {"query": PRIYA, "profile": "annie", "look_back": 3_000, "k": 8, "explain": True, "now": NOW},
    *(
        {"query": PRIYA, "profile": name, "explain": True, "now": NOW}
        for name in ("annie", "cems", "engram", "memoria")
    ),
)


@pytest.fixture(scope="module")
def url(sample_store: Path) -> Iterator[str]:
    with ServerProcess(sample_store, port=pick_port()) as server:
        yield server.wait_for_status().url


def drop_times(answer: dict[str, Any]) -> dict[str, Any]:
    for stage in answer.get("trace", {}).get("stages", ()):
        stage.pop("ms", None)
    answer.get("trace", {}).pop("spans", None)
    return {key: value for key, value in answer.items() if key != "ms"}


def test_sdk_rest_and_command_line_answer_the_same(url: str, sample_store: Path, run_helix, call_helix) -> None:
    memory, different = helix.open(sample_store), []
    for i, question in enumerate(QUESTIONS):
        options = [
            f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}")
            for key, value in question.items()
            if key != "query"
        ]
        call = call_helix if i else run_helix
        line = call("recall", question["query"], *options, "--store", sample_store, "--json")
        assert line.returncode == 0, line.stderr
        sdk = render_bundle(memory.recall(**question))
        post = httpx.post(f"{url}/v1/recall", json=question)
        get = httpx.get(f"{url}/v1/recall", params=question)
        assert post.status_code == get.status_code == 200, post.text + get.text
        answer = drop_times(json.loads(line.stdout))
        others = [drop_times(other) for other in (json.loads(json.dumps(sdk)), post.json(), get.json())]
        if others != [answer] * 3:
            different.append((question, answer, others))
    assert not different


def test_a_hint_at_an_entity_seeds_the_walk_on_every_surface(url: str, sample_store: Path, call_helix) -> None:
    """The question has no name; by the hint the fact of Tomas is the first of the walk."""
    asked: dict[str, Any] = {"query": "which change is next", "profile": "memoria", "now": NOW, "entities": ["Tomas"]}
    call = ("recall", asked["query"], "--profile", "memoria", "--now", NOW, "--entity", "Tomas", "--json")
    answers = [
        render_bundle(helix.open(sample_store).recall(**asked)),
        httpx.post(f"{url}/v1/recall", json=asked).json(),
        httpx.get(f"{url}/v1/recall", params=asked).json(),
        json.loads(call_helix(*call, "--store", sample_store).stdout),
    ]
    walked = [[item["text"] for item in answer["items"] if item["why"]["graph"] == 1] for answer in answers]
    assert walked == [["the retention change is owned by Tomas"]] * 4
    plain = helix.open(sample_store).recall(**{**asked, "entities": ()})
    assert [item.why["graph"] for item in plain.items] == [None] * len(plain.items)


def test_an_empty_answer_names_its_option_of_time_on_every_surface(url: str, sample_store: Path, call_helix) -> None:
    notice = "nothing was said by 2026-01-01 (as_of); the earliest item is of 2026-02-03 18:05"
    early = {"as_of": "2026-01-01"}
    done = call_helix("recall", PRIYA, "--as-of", "2026-01-01", "--store", sample_store)
    assert (done.returncode, done.stdout.startswith("nothing found"), notice in done.stderr) == (0, True, True)
    found = {path: httpx.get(f"{url}/v1/{path}", params={**more, **early}) for path, more in (
        ("recall", {"query": PRIYA}), ("timeline", {}), ("sessions/c1", {}), ("facts", {"entity": "Ana"}),
        ("context", {"query": PRIYA}),
    )}  # fmt: skip
    assert found.pop("context").text == notice
    facts = found.pop("facts").json()["notice"]
    assert facts.startswith("nothing was said by 2026-01-01 (as_of); the earliest fact is of 2026-0")
    assert {path: answer.json()["notice"] for path, answer in found.items()} == dict.fromkeys(found, notice)
    audit = httpx.get(f"{url}/v1/context", params={"ingested_as_of": "2026-01-01", "project": "ledgerline"}).text
    assert audit.startswith("nothing was ingested by 2026-01-01 (ingested_as_of); the earliest item within the other ")
    assert httpx.get(f"{url}/v1/context", params={"as_of": "2030-01-01"}).text.startswith("<memory>")


def test_an_answer_has_the_promised_attributes(sample_store: Path) -> None:
    found = helix.open(sample_store).recall(PRIYA, explain=True)
    first = found.items[0]
    names = ("id", "score", "type", "text", "session", "turns", "speaker", "time", "project", "source", "why")
    for name in (*names, "replaced_by", "relevance"):
        assert hasattr(first, name)
    assert all(item in (*found.items, *found.beyond) for item in found.packed)
    assert all(item in found.packed for item in found.beyond)
    assert 0 < found.answered <= 1
    assert found.packed[0] is first  # outside-in: the best comes first
    places = [found.context.index(item.text) for item in found.packed]
    assert places == sorted(places)
    assert found.trace is not None
    assert found.snapshot == 1
    assert helix.open(sample_store).recall("Priya").trace is None


FAULTS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "recall?query=", None, 400, "the query is empty"), ("GET", "recall", None, 400, "query"),
    ("GET", "recall?query=x&k=0", None, 400, "k is 0"), ("POST", "recall", {"query": "x", "kk": 3}, 400, "kk"),
    ("GET", "recall?query=x&project=nope", None, 400, "unknown project"), ("POST", "recall", b"{half", 400, "JSON"),
    ("GET", "recall?query=x&why_not=nope", None, 400, "no live item has the id 'nope'; take it from"),
    ("POST", "recall", {"query": "x", "why_not": "f" * 16}, 400, f"no live item has the id '{'f' * 16}'"),
    ("POST", "recall", {"query": "x" * 100_000}, 400, "100000 characters"), ("GET", "nothing", None, 404, "Not Found"),
    ("GET", "recall?query=x&mode=vector", None, 400, "the profile 'helix' has no mode; leave it out, or use"),
    ("POST", "recall", {"query": "x", "look_back": 3}, 400, "the profile 'helix' has no look_back"),
    ("GET", "recall?query=x&profile=cems&mode=fast", None, 400, "unknown mode 'fast'; there is"),
    ("GET", "recall?query=x&profile=annie&look_back=-1", None, 400, "look_back is -1"),
    ("POST", "recall", {"query": "x" * 300_000}, 413, "at most"), ("DELETE", "recall", None, 405, "Method Not Allowed"),
]  # fmt: skip


def test_every_error_is_a_problem_detail(url: str) -> None:
    wrong = []
    for method, path, body, status, detail in FAULTS:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        found = httpx.request(method, f"{url}/v1/{path}", content=content, headers=headers)
        assert found.headers["content-type"] == "application/problem+json", path
        problem = found.json()
        assert {"type", "title", "status", "detail"} <= set(problem)
        if (found.status_code, problem["status"]) != (status, status) or detail not in problem["detail"]:
            wrong.append((method, path, status, problem))
    assert not wrong


BEYOND = ("9999999999999999d", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


def test_a_time_beyond_the_calendar_is_refused_on_every_surface(url: str, sample_store: Path, call_helix) -> None:
    requests = (
        *(("/v1/recall", {"query": "x"}, name) for name in ("since", "until", "as_of", "ingested_as_of", "now")),
        ("/v1/timeline", {}, "since"),
        ("/v1/timeline", {}, "until"),
        ("/v1/facts", {"entity": "Priya"}, "at"),
        *((path, fields, "as_of") for path, fields in (("/v1/timeline", {}), ("/v1/facts", {"entity": "Priya"}))),
        *((path, {}, "ingested_as_of") for path in ("/v1/sessions/c3", "/v1/context")),
    )
    wrong, memory = [], helix.open(sample_store)
    for time in BEYOND:
        for path, params, name in requests:
            found = httpx.get(f"{url}{path}", params={**params, name: time})
            if found.status_code != 400 or f"{name} {time!r} is no time" not in found.json()["detail"]:
                wrong.append((path, name, time, found.text))
        done = call_helix("recall", "x", f"--since={time}", "--store", sample_store)
        if done.returncode != 2 or "is no time" not in done.stderr or len(done.stderr.splitlines()) > 1:
            wrong.append(("recall --since", time, done.stderr))
        with pytest.raises(UsageError, match=r"until .* is no time"):
            memory.timeline(until=time)
    for now in ("0001-01-01", "9999-12-31T23:59:59Z"):  # the ends of the calendar are times
        found = httpx.get(f"{url}/v1/recall", params={"query": "what did Priya say last week", "now": now})
        if found.status_code != 200:
            wrong.append(("now", now, found.text))
    assert not wrong, wrong


DATED = b'{"now": "2026-06-01", "query": "why sqlite"'
BODIES = (
    *(DATED + rest for rest in (b', "k": 3}', b', "k": "3", "explain": "yes"}', b', "k": 3.0, "entities": ["Ana"]}')),
    *(b'{"query": "why sqlite", "k": %s}' % k for k in (b"2.5", b"NaN", b"true", b"99999999999999999999")),
    b'{"query": "x", "now": "2026-06-01", "query": "why sqlite"}', b'{"query": "why sqlite \\ud800"}',
    b'{"query": "why sqlite", "kk": 3}', b"\xef\xbb\xbf" + DATED + b"}", b'{"query": "\xff"}', b'{"query": null}',
    b'{"k": 3}', b'["why sqlite"]', b'"why sqlite"', b"null", b"{half", b"",
)  # fmt: skip


def test_a_body_is_read_in_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The direct route and FastAPI's own read the same request, or refuse it with the same words."""

    def echo(service: QueryService, request: Any, caller: Any) -> dict[str, Any]:
        return {"request": repr(request), "skipped": False, "ms": {}, "degraded": []}

    monkeypatch.setattr(QueryService, "recall", echo)
    wrong, statuses = [], set()
    with TestClient(create_app(QueryService(tmp_path, Settings())), "http://localhost") as client:
        for body in BODIES:
            replies = []
            for kind in ("application/json", "application/json; charset=utf-8"):
                found = client.post("/v1/recall", content=body, headers={"content-type": kind})
                replies.append((found.status_code, found.json()))
            statuses.add(replies[0][0])
            if replies[0] != replies[1]:
                wrong.append((body, replies))
            for kind in ("text/plain", "application/x-www-form-urlencoded"):  # as another site's form could send
                found = client.post("/v1/recall", content=body, headers={"content-type": kind})
                if found.status_code != 400:
                    wrong.append((body, kind, found.text))
    assert not wrong
    assert statuses == {200, 400}


QUERIES = (
    "query=why+sqlite", "query=why+sqlite&k=3&explain=true&min_relevance=.5&current_only=1&look_back=7", "query=", "",
    "query=why%20sqlite%ff", "query=%ud800", "query=x&query=y", "query=x&entities=Priya", "query=x&quality=best",
    "query=x&entities=Priya&entities=Ana&stores=a", "query=x&entities=", "query=x&stores", "query=x&project=&k=3",
    *(f"query=why+sqlite&k={k}" for k in ("", "2.5", "NaN", "true", "+3", "%203", "3.0", "99999999999999999999")),
    "query=x&kk=3", "query=x&explain=maybe", "query=x&quality=none", "query=x;k=3", "query=x&k=null", "=x&query=x",
)  # fmt: skip


def test_a_query_is_read_in_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The direct route and FastAPI's own read the same request, or refuse it with the same words."""

    def echo(service: QueryService, request: Any, caller: Any) -> dict[str, Any]:
        return {"request": repr(request), "skipped": False, "ms": {}, "degraded": []}

    monkeypatch.setattr(QueryService, "recall", echo)
    monkeypatch.setattr(QueryService, "context", lambda service, request, caller: repr(request))
    answers = []
    for handler in (DirectRoute.get_route_handler, APIRoute.get_route_handler):
        monkeypatch.setattr(DirectRoute, "get_route_handler", handler)
        with TestClient(create_app(QueryService(tmp_path, Settings())), "http://localhost") as client:
            found = [client.get(f"/v1/{path}?{query}") for query in QUERIES for path in ("recall", "context")]
        answers.append([(one.url.query, one.status_code, one.text) for one in found])
    assert answers[0] == answers[1]
    assert {status for _, status, _ in answers[0]} == {200, 400}


def test_status_and_health(url: str) -> None:
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{url}/readyz").json() == {"status": "ready", "snapshot": 1}
    state = httpx.get(f"{url}/v1/status").json()
    assert (state["generation"], state["serving"], state["pending"], state["trouble"]) == (1, 1, 0, None)
    assert state["items"] > 100
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    assert {"/v1/recall", "/v1/status", "/healthz", "/readyz"} <= set(paths)


def test_a_server_may_start_before_its_store(tmp_path: Path, sample_store: Path, run_helix) -> None:
    with ServerProcess(tmp_path / "late", "--wait", port=pick_port()) as server:
        server.wait_for_status(path="/healthz")
        assert get_status(f"{server.url}/readyz") == 503
        found = httpx.get(f"{server.url}/v1/recall", params={"query": "x"})
        assert (found.status_code, found.headers["content-type"]) == (503, "application/problem+json")
        assert "no Helix store" in found.json()["detail"]
        shutil.copytree(sample_store, tmp_path / "half")
        (tmp_path / "half").rename(tmp_path / "late")
        server.wait_for_status()
        (tmp_path / "note.md").write_text("# Pantry\n\nThe saffron is behind the cardamom.")
        assert run_helix("ingest", tmp_path / "note.md", "--store", tmp_path / "late").returncode == 0
        wait_until(60, lambda: httpx.get(f"{server.url}/readyz").json()["snapshot"] == 2)


def test_a_missing_store_fails_at_once(tmp_path: Path, call_helix) -> None:
    for environ, options in (({}, ("--store", str(tmp_path / "nosuch"))), ({"HELIX_STORE": str(tmp_path)}, ())):
        done = call_helix("serve", *options, "--port", "0", **environ)
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
