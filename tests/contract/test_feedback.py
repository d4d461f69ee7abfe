"""Feedback about items over REST, and its effect."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix.settings import Settings
from helix.snapshot.ledger import access_events
from pipelines.maintain.touch import touch
from query.schema.answers import render_item
from query.schema.requests import FeedbackRequest
from query.service import QueryService
from tests.support.processes import wait_until
from tests.support.serving import ServerProcess, serving
from tests.support.tiny import BASE, SETTINGS, count_accesses, list_ids, make_store

GIVEN = (
    {"speaker": "Ana", "type": "decision"},
    {"acl": ["ana", "priya"]},
    {"acl": ["ana"]},
    {},
    {"session": "other", "time": None},
)
NOBODY = "f" * 16


@pytest.fixture
def store(tmp_path: Path) -> Path:
    texts = ["walnut loaf", "for ana and priya", "for ana alone", "parsley", "elsewhere"]
    make_store(tmp_path / "s", texts, given=GIVEN, cuts=[3])
    return tmp_path / "s"


@pytest.fixture
def client(store: Path) -> Iterator[httpx.Client]:
    with serving(store, Settings(reload_interval=0.05)) as client:
        yield client


def lines(root: Path) -> list[dict[str, Any]]:
    found = sorted((root / "events").glob("*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def same_refusal(found: httpx.Response, path: str) -> None:
    assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json")
    assert found.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "no live item has this id",
        "instance": path,
    }


def test_an_item_is_fetched_by_its_id(client: httpx.Client, store: Path) -> None:
    first, _, _, fourth, other = list_ids(store)
    found = client.get(f"/v1/items/{first}")
    assert found.status_code == 200
    assert found.json() == {
        "id": first,
        "type": "decision",
        "role": "user",
        "text": "walnut loaf",
        "session": "s",
        "turns": ["t0"],
        "speaker": "Ana",
        "voice": "Ana",
        "time": "2023-11-14T22:13:20Z",
        "time_quality": "exact",
        "project": "p",
        "source": "tiny.jsonl",
        "title": None,
        "salience": 0.5,
        "confidence": 0.5,
        "vouched": None,
        "tokens": 2,
        "previous": None,
        "next": fourth,  # the items between have an ACL
        "replaced_by": None,
    }
    assert BASE == 1_700_000_000
    assert client.get(f"/v1/items/{fourth}").json()["previous"] == first
    assert client.get(f"/v1/items/{other}").json()["time"] is None


def test_neighbours_are_limited_to_the_principals_view(client: httpx.Client, store: Path) -> None:
    first, second, third, fourth, _ = list_ids(store)

    def around(item: str, principal: str) -> tuple[str | None, str | None]:
        found = client.get(f"/v1/items/{item}", params={"principal": principal}).json()
        return found["previous"], found["next"]

    assert around(first, "ana") == (None, second)
    assert around(second, "ana") == (first, third)
    assert around(third, "ana") == (second, fourth)
    assert around(second, "priya") == (first, fourth)
    assert around(fourth, "priya") == (second, None)


def test_a_recalled_item_equals_the_fetched_one(sample_store: Path) -> None:
    service = QueryService(sample_store, SETTINGS)
    service.start()
    try:
        for item in service.memory.recall("What did I tell Priya about vacation?").items:
            stored = service.memory.item(item.id)
            assert stored is not None
            recalled = render_item(item)
            of_answer = ("score", "relevance", "why")
            assert {name: stored[name] for name in recalled if name not in of_answer} == {
                name: value for name, value in recalled.items() if name not in of_answer
            }
    finally:
        service.stop()


def test_a_hidden_item_and_none_at_all_are_answered_alike(client: httpx.Client, store: Path) -> None:
    hidden = list_ids(store)[2]
    for item in (hidden, NOBODY, "nonsense", "-1", "0x10", "1" * 40):
        same_refusal(client.get(f"/v1/items/{item}"), f"/v1/items/{item}")
        same_refusal(client.post("/v1/feedback", json={"item": item, "kind": "used"}), "/v1/feedback")
    same_refusal(client.get(f"/v1/items/{hidden}", params={"principal": "priya"}), f"/v1/items/{hidden}")
    sent = {"item": hidden, "kind": "used", "principal": "priya"}
    same_refusal(client.post("/v1/feedback", json=sent), "/v1/feedback")
    assert lines(store) == []
    assert client.get(f"/v1/items/{hidden}", params={"principal": "ana"}).json()["text"] == "for ana alone"
    assert client.post("/v1/feedback", json={**sent, "principal": "ana"}).status_code == 202
    assert [event["item"] for event in lines(store)] == [hidden, hidden]


@pytest.mark.parametrize("kind", access_events.KINDS)
def test_feedback_is_an_event_and_no_write_to_the_store(client: httpx.Client, store: Path, kind: str) -> None:
    first = list_ids(store)[0]
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}
    began = time.time()
    found = client.post("/v1/feedback", json={"item": first, "kind": kind, "principal": "priya"})
    assert found.status_code == 202
    assert (found.json()["item"], found.json()["kind"]) == (first, kind)
    assert began <= found.json()["at"] <= time.time()
    assert lines(store) == [found.json()]  # no principal in it
    after = {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()}
    new = set(after) - set(before)
    assert {path.parent.name for path in new} == {"events"}
    assert {path: when for path, when in after.items() if path not in new} == before


@pytest.mark.parametrize(
    ("send", "message"),
    [
        ({"kind": "used"}, "item"),
        ({"item": NOBODY}, "kind"),
        ({"item": NOBODY, "kind": "liked"}, "there are used, helpful, wrong"),
        ({"item": NOBODY, "kind": "used", "query": "secret"}, "query"),
        ({"item": "0" * 65, "kind": "used"}, "64 characters"),
        ({"item": 5, "kind": "used"}, "item"),
        ([], "dictionary"),
    ],
)
def test_malformed_feedback_is_refused(client: httpx.Client, store: Path, send: Any, message: str) -> None:
    found = client.post("/v1/feedback", json=send)
    assert (found.status_code, found.headers["content-type"]) == (400, "application/problem+json")
    assert message in found.json()["detail"]
    assert lines(store) == []


def test_a_body_has_a_limit(client: httpx.Client) -> None:
    assert client.post("/v1/feedback", json={"item": "0" * 300_000, "kind": "used"}).status_code == 413


def test_a_fold_counts_the_feedback(client: httpx.Client, store: Path) -> None:
    first, second, _, fourth, _ = list_ids(store)
    for _ in range(3):
        assert client.get(f"/v1/items/{first}").status_code == 200
    for kind in access_events.KINDS:
        assert client.post("/v1/feedback", json={"item": fourth, "kind": kind}).status_code == 202
    assert client.get(f"/v1/items/{second}", params={"principal": "priya"}).status_code == 200
    done = touch(store, SETTINGS)
    assert (done.generation, done.events, done.items, done.ignored) == (2, 7, 3, 2)  # neither wrong nor stale counts
    assert count_accesses(store) == {first: 3, second: 1, fourth: 3}
    # The process that served them takes the new generation.
    wait_until(60, lambda: client.get("/readyz").json()["snapshot"] == 2)
    assert client.get(f"/v1/items/{first}").status_code == 200
    assert touch(store, SETTINGS).events == 1
    assert count_accesses(store)[first] == 4


def test_a_read_only_store_still_answers_items(store: Path, caplog) -> None:
    first = list_ids(store)[0]
    (store / "events").rmdir()
    (store / "events").write_text("as good as a read-only volume")
    with serving(store, SETTINGS) as client:
        logging.getLogger("helix.query").addHandler(caplog.handler)  # the server has removed it from the root
        for _ in range(3):
            assert client.get(f"/v1/items/{first}").json()["text"] == "walnut loaf"
        assert len([record for record in caplog.records if "not recorded" in record.message]) == 1
        found = client.post("/v1/feedback", json={"item": first, "kind": "used"})
        assert (found.status_code, found.headers["content-type"]) == (503, "application/problem+json")
        assert "cannot append access events" in found.json()["detail"]
        assert "write access" in found.json()["detail"]
        logging.getLogger("helix.query").removeHandler(caplog.handler)
        (store / "events").unlink()
        assert client.post("/v1/feedback", json={"item": first, "kind": "used"}).status_code == 202
    assert len(lines(store)) == 1


def test_a_stopped_server_releases_its_events_file(store: Path) -> None:
    service = QueryService(store, SETTINGS)
    service.start()
    assert service.feedback(FeedbackRequest(item=list_ids(store)[0], kind="used")) is not None
    touch(store, SETTINGS)
    assert len(list((store / "events").iterdir())) == 1
    service.stop()
    touch(store, SETTINGS)
    assert list((store / "events").iterdir()) == []


def test_items_and_feedback_without_a_store_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "none", SETTINGS) as client:
        for found in (
            client.get(f"/v1/items/{NOBODY}"),
            client.post("/v1/feedback", json={"item": NOBODY, "kind": "used"}),
        ):
            assert (found.status_code, found.headers["content-type"]) == (503, "application/problem+json")
    assert not (tmp_path / "none").exists()


def test_the_paths_are_in_the_openapi_schema(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/items/{id}", "/v1/feedback"} <= set(paths)
    assert "202" in paths["/v1/feedback"]["post"]["responses"]
    assert [part["name"] for part in paths["/v1/items/{id}"]["get"]["parameters"]] == ["id", "principal"]


def test_the_served_process_and_the_command_agree(store: Path, run_helix) -> None:
    first = list_ids(store)[0]
    with ServerProcess(store) as server:
        url = server.wait_for_address().url
        assert httpx.get(f"{url}/v1/items/{first}").status_code == 200
        done = run_helix("touch", "--store", store, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"generation": 2, "events": 1, "items": 1, "ignored": 0}
        assert httpx.post(f"{url}/v1/feedback", json={"item": first, "kind": "wrong"}).status_code == 202
    done = run_helix("touch", "--store", store)
    assert done.stdout == "0 events on 0 items folded, 1 ignored; generation 3\n"
    assert list((store / "events").iterdir()) == []
    assert count_accesses(store) == {first: 1}
    assert run_helix("touch", "--store", store).stdout == "0 events on 0 items folded; generation 3\n"
    (store / "none").mkdir()
    nowhere = run_helix("touch", "--store", store / "none")
    assert nowhere.returncode == 4
    assert "no Helix store" in nowhere.stderr
    assert list((store / "none").iterdir()) == []
