"""Browsing a store: the results equal SQL over the same store, and are the same by SDK, REST and `helix.connect`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import helix
from helix.errors import StoreError, UsageError
from helix.sdk import browse
from helix.sdk.client import Remote
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.sql import run_statement
from query.schema.answers import render_bundle
from query.schema.decisions import DecisionList
from tests.support.serving import serving
from tests.support.tiny import BASE, make_store

NOW = "2026-06-01T00:00:00Z"


@pytest.fixture(scope="module")
def memory(served_store: Path) -> Memory:
    return helix.open(served_store)


@pytest.fixture(scope="module")
def client(served_store: Path) -> Iterator[httpx.Client]:
    with serving(served_store, Settings()) as client:
        yield client


@pytest.fixture(scope="module")
def remote(client: httpx.Client) -> Iterator[Remote]:
    with helix.connect(str(client.base_url)) as remote:
        yield remote


def query_rows(store: Path, statement: str) -> list[dict[str, Any]]:
    with run_statement(store, statement) as answer:
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_a_session_equals_sql(memory: Memory, served_store: Path) -> None:
    counted = query_rows(served_store, "SELECT session FROM items GROUP BY session ORDER BY count(*) DESC LIMIT 2")
    for session in ("c3", *(one["session"] for one in counted)):
        wanted = query_rows(served_store, f"SELECT id, text FROM items WHERE session = '{session}' ORDER BY ord")
        found = memory.session(session)
        assert found is not None
        assert [(item["id"], item["text"]) for item in found["items"]] == [(one["id"], one["text"]) for one in wanted]
        page = memory.session(session, offset=2, limit=3)
        assert (page["items"], page["total"]) == (found["items"][2:5], len(wanted))
        ids = [item["id"] for item in found["items"]]
        assert [item["previous"] for item in found["items"]] == [None, *ids[:-1]]
        assert [item["next"] for item in found["items"]] == [*ids[1:], None]
    assert memory.session("nobody's") is None


def test_the_timeline_equals_sql(memory: Memory, served_store: Path) -> None:
    wanted = query_rows(
        served_store,
        "SELECT session, any_value(project) AS project, min(time) AS began, max(time) AS ended, count(*) AS items "
        "FROM items GROUP BY source, session ORDER BY ended DESC, began DESC",
    )
    found = memory.timeline()
    names = ("session", "project", "began", "ended", "items")
    assert [{name: one[name] for name in names} for one in found["sessions"]] == [
        {**one, **{name: _to_zulu(one[name]) for name in ("began", "ended")}} for one in wanted
    ]
    assert found["total"] == len(wanted)
    for one in found["sessions"]:
        assert sum(one["types"].values()) == one["items"]
    assert memory.timeline(offset=2, limit=2)["sessions"] == found["sessions"][2:4]
    for project in ("holidays", "ledgerline"):
        only = memory.timeline(project=project)["sessions"]
        assert only == [one for one in found["sessions"] if one["project"] == project]
    since, until = "2026-05-11", "2026-05-12"
    within = memory.timeline(since=since, until=until)["sessions"]
    last = "2026-05-12T23:59:59Z"
    assert within == [one for one in found["sessions"] if one["ended"] >= since and one["began"] <= last]
    assert 0 < len(within) < found["total"]
    with pytest.raises(UsageError, match="unknown project 'nope'"):
        memory.timeline(project="nope")


def _to_zulu(value: Any) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def test_a_session_belongs_to_every_span_it_overlaps(tmp_path: Path) -> None:
    given = [{"session": "long"}, {"session": "long", "time": BASE + 900}, {"session": "late", "time": BASE + 800}]
    snap = make_store(tmp_path, ["walnut", "parsley", "saffron"], given=given)

    def list_sessions(**within: int) -> list[str]:
        bounds = {name: datetime.fromtimestamp(BASE + second, UTC) for name, second in within.items()}
        return [one["session"] for one in browse.timeline(snap, **bounds)["sessions"]]

    assert list_sessions() == ["long", "late"]
    assert list_sessions(until=400) == list_sessions(since=850) == list_sessions(since=100, until=700) == ["long"]
    assert list_sessions(since=901) == list_sessions(until=-1) == []


def test_an_item_has_its_neighbours(memory: Memory) -> None:
    session = memory.session("c3")
    items = session["items"]
    found = memory.around(items[2]["id"], before=1, after=2)
    assert found == {"session": "c3", "at": 1, "items": items[1:5]}
    assert memory.around(items[0]["id"], before=100, after=0) == {"session": "c3", "at": 0, "items": items[:1]}
    with pytest.raises(UsageError, match="before is 101"):
        memory.around(items[0]["id"], before=101)


def test_facts_equal_sql(memory: Memory, served_store: Path) -> None:
    wanted = query_rows(
        served_store,
        "SELECT subject, relation, object, item FROM facts WHERE subject ILIKE '%timeout%' OR object ILIKE '%timeout%' "
        "ORDER BY t_valid DESC",
    )
    found = memory.facts("Timeout")
    assert len(wanted) == 3
    assert [{name: fact[name] for name in wanted[0]} for fact in found["facts"]] == wanted
    assert all(fact["holds"] and fact["t_invalid"] is None for fact in found["facts"])
    assert [fact["text"] for fact in found["facts"]] == [
        "the timeout is set to 3600 seconds",
        "we decided to set the Redis visibility timeout to 3600 seconds",
        "Redis visibility timeout is 900 seconds",
    ]
    before = memory.facts("timeout", at="2026-01-01")["facts"]
    assert [fact["holds"] for fact in before] == [False] * 3  # not valid yet
    assert memory.facts("no such thing")["total"] == 0
    assert memory.facts("a.*(b\\")["total"] == 0
    for wrong in ("", " ", "x" * 201):
        with pytest.raises(UsageError, match="entity has"):
            memory.facts(wrong)


def test_a_neighbourhood_has_edges_of_sql(memory: Memory, served_store: Path) -> None:
    item = memory.recall("What did I tell Priya about vacation?", now=NOW).items[0]
    found = memory.neighbours(item.id)
    assert found is not None
    known = {node["id"]: node for node in found["nodes"]}
    assert known[item.id]["label"] == item.text
    edges = {(edge["from"], edge["to"], edge["kind"]) for edge in found["edges"]}
    assert {one for edge in edges for one in edge[:2]} <= set(known)
    real = {
        (one["src"], one["dst"], one["kind"])
        for one in query_rows(served_store, "SELECT src, kind, dst FROM edges WHERE kind IN ('next', 'mentions')")
    }
    assert {edge for edge in edges if edge[2] in ("next", "mentions")} <= real
    named = {node["label"] for node in found["nodes"] if node["kind"] == "entity"}
    assert "Priya" in named
    assert memory.neighbours("f" * 16) is None
    early = memory.neighbours(item.id, as_of="2026-02-11")
    assert early is not None
    then, now = ([node["time"] for node in one["nodes"] if node["kind"] == "item"] for one in (early, found))
    assert max(then) < "2026-02-12" < max(now)
    assert memory.neighbours(item.id, as_of="2026-01-01") is None


def test_choices_equal_sql(memory: Memory, served_store: Path) -> None:
    found = memory.choices()
    for column, name in (("project", "projects"), ("type", "types"), ("speaker", "speakers")):
        counted = query_rows(served_store, f"SELECT {column} AS name, count(*) AS n FROM items GROUP BY 1")
        assert found[name] == {one["name"]: one["n"] for one in counted if one["name"] is not None}
    assert found["items"] == sum(found["types"].values())
    assert {"helix", "cems"} <= set(found["profiles"])


def test_rest_and_a_connection_return_the_same(memory: Memory, client: httpx.Client, remote: Remote) -> None:
    item = memory.recall("vacation", now=NOW).items[0].id
    same = [
        (memory.item(item), f"/v1/items/{item}", remote.item(item)),
        (memory.around(item, after=1), f"/v1/items/{item}/around?after=1", remote.around(item, after=1)),
        (memory.neighbours(item), f"/v1/items/{item}/graph", remote.neighbours(item)),
        (
            memory.neighbours(item, as_of="2026-02-11"),
            f"/v1/items/{item}/graph?as_of=2026-02-11",
            remote.neighbours(item, as_of="2026-02-11"),
        ),
        (memory.session("c3", limit=2), "/v1/sessions/c3?limit=2", remote.session("c3", limit=2)),
        (memory.timeline(project="home"), "/v1/timeline?project=home", remote.timeline(project="home")),
        (memory.facts("Ana"), "/v1/facts?entity=Ana", remote.facts("Ana")),
        (memory.choices(), "/v1/choices", remote.choices()),
        (memory.decisions("default"), "/v1/decisions?project=default", remote.decisions("default")),
        (
            memory.decisions(as_of="2026-05-12", history=True, limit=2),
            "/v1/decisions?as_of=2026-05-12&history=true&limit=2",
            remote.decisions(as_of="2026-05-12", history=True, limit=2),
        ),
    ]
    for own, path, far in same:
        assert own == client.get(path).json() == far
        assert own


def test_a_connection_recalls_like_the_store(memory: Memory, remote: Remote) -> None:
    options: dict[str, Any] = {"k": 4, "budget": 90, "since": datetime(2026, 2, 1), "now": NOW, "explain": True}
    far, own = (one.recall("What did I tell Priya about vacation?", **options) for one in (remote, memory))
    assert far.items == own.items
    assert far.packed == own.packed
    assert far.packed[0] is far.items[0]
    assert (far.context, far.tokens, far.snapshot, far.degraded) == (own.context, own.tokens, own.snapshot, ())
    assert far.trace["candidates"] == own.trace["candidates"]
    facts = remote.recall("when do we keep events", profile="memoria", now=NOW)
    assert [item.text for item in facts.packed] == [
        item.text for item in memory.recall("when do we keep events", profile="memoria", now=NOW).packed
    ]


def test_a_context_is_plain_text(client: httpx.Client, remote: Remote, memory: Memory) -> None:
    found = client.get("/v1/context", params={"query": "vacation", "budget": 200})
    assert found.headers["content-type"].startswith("text/plain")
    assert found.text == remote.context("vacation", budget=200) == memory.recall("vacation", budget=200).context
    annie = {"query": "webhook twice", "limit": 10, "profile": "annie", "look_back": 1_000_000}
    given = {"k": 10, "profile": "annie", "look_back": 1_000_000}
    bullets = client.get("/v1/context", params=annie).text
    assert bullets == client.get("/v1/context", params={"query": "webhook twice", **given}).text
    assert bullets == remote.context("webhook twice", **given)
    assert bullets == memory.recall("webhook twice", budget=1800, **given).context
    assert bullets.count("\n- ") > 5  # more than the profile's own number
    assert client.get("/v1/context", params={**annie, "look_back": 1}).text != bullets
    both = client.get("/v1/context", params={**annie, "k": 9})
    assert (both.status_code, both.json()["detail"][:22]) == (400, "k is 9 and limit is 10")
    briefing = remote.context(project="ledgerline", budget=400)
    assert briefing.startswith("<memory>")
    assert briefing.split("\n")[2] == "Decisions that hold:"
    assert "Decisions that hold:" not in client.get("/v1/context").text  # of every project
    assert client.get("/v1/context").text.startswith("<memory>")
    assert client.get("/v1/context?project=nope").status_code == 400


def test_wrong_arguments_raise_the_same_error(memory: Memory, remote: Remote) -> None:
    for call, arguments in (
        ("recall", {"query": "x", "k": 0}),
        ("recall", {"query": ""}),
        ("timeline", {"project": "nope"}),
        ("facts", {"entity": ""}),
        ("decisions", {"project": "nope"}),
        ("decisions", {"limit": 0}),
        ("session", {"name": "c3", "limit": 0}),
        ("feedback", {"item": "f" * 16, "kind": "liked"}),
    ):
        messages = []
        for one in (memory, remote):
            with pytest.raises(UsageError) as error:
                getattr(one, call)(**arguments)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    with pytest.raises(UsageError, match="no live item has this id"):
        remote.feedback("f" * 16)


def test_an_unreachable_server_is_an_error() -> None:
    with pytest.raises(UsageError, match="is no URL"):
        helix.connect("memory.lan")
    with helix.connect("http://127.0.0.1:9") as gone, pytest.raises(StoreError, match="cannot be reached"):
        gone.recall("x")


def test_an_idle_connection_stays_open(client: httpx.Client) -> None:
    """A proxy reuses idle connections, and loses a request on one that was closed meanwhile."""
    kept = HTTPConnection(client.base_url.host, client.base_url.port)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read() == b'{"status":"ok"}'
    kept.sock.settimeout(6)  # a second longer than by default
    with pytest.raises(TimeoutError):
        kept.sock.recv(1)
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200
    kept.close()


def test_another_server_is_an_error() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<h1>Welcome</h1>"
            self.send_response(404 if "items" in self.path else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with helix.connect(f"http://127.0.0.1:{other.server_port}") as wrong:
            with pytest.raises(StoreError, match="is no query process"):
                wrong.choices()
            with pytest.raises(UsageError, match="answers 404 and is no query process"):
                wrong.item("f" * 16)
        other.shutdown()


def test_answers_match_their_schemas(client: httpx.Client, memory: Memory) -> None:
    from query.schema import answers

    own = render_bundle(memory.recall("vacation", explain=True))
    answers.RecallAnswer.model_validate(own)
    assert set(own) == set(answers.RecallAnswer.model_fields) - {
        "deep",
        "stores",
    }  # only with the deep tier, of many stores
    item = memory.recall("vacation").items[0].id
    for path, model in (
        (f"/v1/items/{item}", answers.StoredItem),
        (f"/v1/items/{item}/graph", answers.Neighbourhood),
        ("/v1/timeline", answers.Timeline),
        ("/v1/decisions", DecisionList),
        ("/v1/status", answers.StoreStatus),
    ):
        model.model_validate(client.get(path).json())
