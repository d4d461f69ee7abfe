"""Many stores in one server: rights by store, one recall over several, limits, and stores that come and go."""

from __future__ import annotations

import gc
import json
import re
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import helix
from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot.replication.push import push_store
from helix.snapshot.replication.wanted_replicas import locate_remote
from helix.snapshot.verify import verify_store
from query import auth
from query.replica import keep_replica
from query.schema.requests import WideRecallRequest
from query.serve import make_policy
from query.service import QueryService
from query.stores.many import ManyStores
from tests.conftest import copy_store
from tests.contract.test_sync import Bucket, bucket, server
from tests.support.processes import wait_until
from tests.support.serving import serving

__all__ = ["bucket", "server"]

TURNS: dict[str, list[dict[str, Any]]] = {
    "ana": [
        {"session": "a1", "id": "1", "speaker": "Ana", "text": "My walnut loaf needs an hour in the oven."},
        {"session": "a1", "id": "2", "speaker": "Ana", "text": "The release train leaves on Tuesday."},
    ],
    "bob": [{"session": "b1", "id": "1", "speaker": "Bob", "text": "Bob alone knows the walnut price is nine."}],
    "team": [
        {"session": "t1", "id": "1", "speaker": "Cid", "text": "The team roasts walnuts on Fridays."},
        {"session": "t1", "id": "2", "speaker": "Ana", "text": "Ana's walnut secret is cardamom.", "acl": ["ana"]},
        {"session": "t1", "id": "3", "speaker": "Bob", "text": "Bob's walnut secret is rye.", "acl": ["bob"]},
        {"session": "t1", "id": "4", "speaker": "Bob", "text": "Ana and Bob share a walnut grove.",
         "acl": ["ana", "bob"]},
    ],
    "company": [
        {"session": "c1", "id": "1", "speaker": "Eve", "text": "The company buys walnuts from one supplier."},
        {"session": "c1", "id": "2", "speaker": "Eve", "text": "The release train leaves on Tuesday."},
    ],
}  # fmt: skip


def fill_store(root: Path, turns: list[dict[str, Any]], settings: Settings) -> None:
    from pipelines.embedded.ingest import ingest

    path = root.parent / f"{root.name}.jsonl"
    path.write_text("\n".join(json.dumps({**turn, "ts": "2026-03-01T08:00:00Z", "project": "p"}) for turn in turns))
    assert not ingest(root, [path], settings).refused
    path.unlink()


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The stores, to be copied."""
    folder = tmp_path_factory.mktemp("company") / "stores"
    folder.mkdir()
    for name, turns in TURNS.items():
        fill_store(folder / name, turns, Settings(cache=str(cache)))
    return folder


@pytest.fixture
def folder(company: Path, tmp_path: Path) -> Path:
    """A copy of the stores, to change."""
    for name in TURNS:
        copy_store(company / name, tmp_path / "stores" / name)
    return tmp_path / "stores"


def make_keys(folder: Path) -> dict[str, str]:
    every = {
        "ana": {"ana": ["recall", "remember", "forget"], "team": ["recall", "feedback"], "company": ["recall"]},
        "bob": {"bob": ["recall"], "team": ["recall"]},
        "eve": {"company": ["recall", "remember", "admin"]},
        "dan": {"company": ["recall"], "bob": ["admin"]},
    }
    path = folder / auth.FILE
    keys = {name: auth.create_key(path, name, grants=grants)[0] for name, grants in every.items()}
    return keys | {"root": auth.create_key(path, "root", scopes=["admin", "recall"])[0]}


@contextmanager
def serving_many(folder: Path, **changes: Any) -> Iterator[Callable[..., httpx.Response]]:
    """Serve the stores with keys; yield a function that asks with the key of a name."""
    settings, keys = replace(Settings(), **changes), make_keys(folder)
    policy = replace(make_policy("127.0.0.1", settings, keyed=True, many=True), token="")
    with serving(folder, settings, policy) as client:

        def ask(name: str, path: str, body: Any = None) -> httpx.Response:
            headers = {"authorization": f"Bearer {keys[name]}"}
            if body is None:
                return client.get(path, headers=headers)
            return client.post(path, headers=headers, json=body)

        ask.url, ask.keys = str(client.base_url), keys  # type: ignore[attr-defined]
        yield ask


@pytest.fixture(scope="module")
def ask(company: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., httpx.Response]]:
    """A running server of a copy of the stores, which no test changes."""
    folder = tmp_path_factory.mktemp("served") / "stores"
    for name in TURNS:
        copy_store(company / name, folder / name)
    with serving_many(folder) as asking:
        yield asking


def list_texts(answer: httpx.Response) -> dict[str, str]:
    """Return the store of each recalled text."""
    assert answer.status_code == 200, answer.text
    return {item["text"]: item.get("store", "") for item in answer.json()["items"]}


WALNUT = "who knows about walnuts?"


def test_a_store_answers_at_its_own_path(ask: Callable[..., httpx.Response]) -> None:
    found = list_texts(ask("ana", f"/stores/ana/v1/recall?query={WALNUT}"))
    assert set(found) <= {turn["text"] for turn in TURNS["ana"]}
    assert found
    assert set(found.values()) == {""}, "the answer of one store names none"


def test_a_key_opens_its_stores_only_and_learns_of_no_other(ask: Callable[..., httpx.Response]) -> None:
    refused = [ask("ana", f"/stores/{name}/v1/recall?query=x") for name in ("bob", "nobody", "%2e%2e", "KEYS", "a%2Fb")]
    assert {answer.status_code for answer in refused} == {404}
    assert len({answer.json()["detail"] for answer in refused[:2]}) == 1, "a hidden store reads like a missing one"
    listed = ask("ana", "/v1/stores").json()["stores"]
    assert [one["store"] for one in listed] == ["ana", "team", "company"]
    assert listed[1]["scopes"] == ["recall", "feedback"]


@pytest.mark.parametrize(
    "path", ["/v1/items/x", "/v1/timeline", "/v1/home", "/v1/choices", "/v1/status", "/v1/facts?entity=x"]
)
def test_no_path_of_a_store_opens_without_a_right_to_it(ask: Callable[..., httpx.Response], path: str) -> None:
    assert ask("bob", f"/stores/ana{path}").status_code == 404
    assert ask("eve", f"/stores/team{path}").status_code == 404


def test_rights_are_those_of_the_store(ask: Callable[..., httpx.Response]) -> None:
    assert ask("ana", "/stores/team/v1/notes", {"text": "a note"}).status_code == 403
    assert ask("ana", "/stores/company/v1/forget", {"session": "c1"}).status_code == 403
    assert ask("eve", "/stores/company/v1/status").json()["store"], "admin sees all of the state"
    assert "store" not in ask("ana", "/stores/company/v1/status").json()
    for path in ("/metrics", "/stores/company/metrics"):
        assert [ask(name, path).status_code for name in ("ana", "eve", "root")] == [403, 403, 200]
    assert ask("eve", "/v1/status").json()["store"], "the only store of a key needs no name"
    assert "store" not in ask("dan", "/v1/status").json(), "admin of another store"
    assert ask("root", "/stores/bob/v1/recall?query=walnut").status_code == 200, (
        "a key without grants opens every store"
    )


def test_one_recall_over_the_stores_of_a_key_names_each_items_store(ask: Callable[..., httpx.Response]) -> None:
    answer = ask("ana", f"/v1/recall?query={WALNUT}")
    found = list_texts(answer)
    for text, store in found.items():
        assert text in [turn["text"] for turn in TURNS[store]]
    assert {"ana", "team", "company"} <= set(found.values())
    assert set(answer.json()["stores"]) == {"ana", "team", "company"}
    assert "Bob alone knows the walnut price is nine." not in answer.text, "another member's store"
    assert "Bob's walnut secret is rye." not in answer.text, "another member's ACL in a shared store"
    assert found["Ana's walnut secret is cardamom."] == "team"


def test_a_fused_context_says_where_each_item_is_from(ask: Callable[..., httpx.Response]) -> None:
    answer = ask(
        "ana", "/v1/recall", {"query": "walnut loaf, team walnuts on Fridays, walnut supplier", "budget": 2000}
    )
    body = answer.json()
    shown = [(*body["items"], *body["beyond"])[at] for at in body["packed"]]
    assert body["context"].startswith("<memory>")
    assert shown
    for item in shown:
        assert item["text"] in body["context"]
        assert item["store"] in body["context"]
    assert body["tokens"] <= 2000


def test_the_same_text_in_two_stores_is_one_item(ask: Callable[..., httpx.Response]) -> None:
    items = ask("ana", "/v1/recall?query=when does the release train leave?").json()["items"]
    trains = [item for item in items if "release train" in item["text"]]
    # Its relevance differs a little between the stores, and processors round the vectors in their own way.
    assert [sorted([item["store"], *item["also_in"]]) for item in trains] == [["ana", "company"]]


def test_a_recall_names_some_of_the_stores(ask: Callable[..., httpx.Response]) -> None:
    found = list_texts(ask("ana", "/v1/recall", {"query": WALNUT, "stores": ["team", "company"]}))
    assert set(found.values()) == {"team", "company"}
    assert ask("ana", "/v1/recall", {"query": WALNUT, "stores": ["team", "bob"]}).status_code == 404
    assert ask("root", "/v1/recall?query=walnut").status_code == 400, "every store of a company is too many"
    assert set(list_texts(ask("root", "/v1/recall", {"query": WALNUT, "stores": ["bob", "team"]})).values()) == {
        "bob",
        "team",
    }


def test_an_answer_without_one_store_says_so(folder: Path) -> None:
    (folder / "company" / "CURRENT").write_text("damaged\n")
    with serving_many(folder) as asking:
        body = asking("ana", f"/v1/recall?query={WALNUT}").json()
    assert {item["store"] for item in body["items"]} == {"ana", "team"}
    assert [reason.partition(":")[0] for reason in body["degraded"]] == ["company"]


def test_an_item_is_found_in_the_store_that_has_it(ask: Callable[..., httpx.Response]) -> None:
    items = ask("ana", f"/v1/recall?query={WALNUT}").json()["items"]
    for item in items:
        assert ask("ana", f"/v1/items/{item['id']}").json()["text"] == item["text"]
    (hidden,) = ask("bob", f"/stores/bob/v1/recall?query={WALNUT}").json()["items"]
    assert ask("ana", f"/v1/items/{hidden['id']}").status_code == 404


def test_the_sdk_asks_a_store_by_its_url(ask: Any) -> None:
    with helix.connect(f"{ask.url}/stores/team", ask.keys["bob"]) as remote:
        texts = [item.text for item in remote.recall(WALNUT).items]
        assert "Bob's walnut secret is rye." in texts
        assert "Ana's walnut secret is cardamom." not in texts
    with (
        helix.connect(f"{ask.url}/stores/ana", ask.keys["bob"]) as remote,
        pytest.raises(UsageError, match="no store of yours"),
    ):
        remote.recall(WALNUT)


def test_a_note_without_a_store_goes_to_the_keys_own(folder: Path) -> None:
    with serving_many(folder, redis_url="redis://127.0.0.1:1/0") as asking:  # a broker: nothing is published here
        assert asking("ana", "/v1/notes", {"text": "the grove is sold"}).status_code == 202
        assert asking("bob", "/v1/notes", {"text": "the grove is sold"}).status_code == 403
    counts = {name: len([*(folder / name / "inbox").iterdir()]) for name in TURNS}
    assert counts["ana"] == 2
    assert (counts["team"], counts["company"], counts["bob"]) == (1, 1, 1)


def test_a_store_at_its_limits_refuses_and_others_do_not(folder: Path) -> None:
    (folder / "stores.toml").write_text(
        "[limits]\nrate = 1000\n[stores.team]\nrate = 0.01\n[stores.ana]\nitems = 1\n[stores.company]\nconcurrent = 1\n"
    )
    with serving_many(folder) as asking:
        team = [asking("ana", "/stores/team/v1/recall?query=walnut") for _ in range(4)]
        assert [answer.status_code for answer in team] == [200, 429, 429, 429]
        assert int(team[-1].headers["retry-after"]) >= 1
        assert asking("ana", "/stores/company/v1/recall?query=walnut").status_code == 200
        assert asking("ana", "/stores/ana/v1/notes", {"text": "one more"}).status_code == 507
        assert 'helix_store_refused_total{limit="rate",store="team"} 3.0' in asking("root", "/metrics").text


def test_a_full_store_accepts_no_document(folder: Path, run_helix: Any, tmp_path: Path) -> None:
    (folder / "stores.toml").write_text("[stores.ana]\nitems = 2\n")
    (tmp_path / "more.jsonl").write_text('{"session": "s", "text": "one more"}\n')
    refused = run_helix("ingest", tmp_path / "more.jsonl", "--store", folder / "ana", "--json")
    assert refused.returncode == 3
    assert "its limit is 2" in json.loads(refused.stdout)["refused"][0]["reason"]
    assert run_helix("ingest", tmp_path / "more.jsonl", "--store", folder / "team").returncode == 0
    (folder / "stores.toml").write_text("[stores.ana]\nitem = 2\n")
    broken = run_helix("ingest", tmp_path / "more.jsonl", "--store", folder / "ana")
    assert broken.returncode == 4
    assert "has no limit 'item'" in broken.stderr


def test_a_store_that_is_removed_is_gone_and_one_that_appears_is_served(folder: Path) -> None:
    with serving_many(folder) as asking:
        assert asking("ana", f"/stores/team/v1/recall?query={WALNUT}").status_code == 200
        shutil.rmtree(folder / "team")
        assert asking("ana", f"/stores/team/v1/recall?query={WALNUT}").status_code == 404
        assert {item["store"] for item in asking("ana", f"/v1/recall?query={WALNUT}").json()["items"]} == {
            "ana",
            "company",
        }
        shutil.copytree(folder / "company", folder / "team")  # another store of the same name
        found = list_texts(asking("bob", f"/stores/team/v1/recall?query={WALNUT}"))
        assert set(found) <= {turn["text"] for turn in TURNS["company"]}
        assert found


def test_a_new_generation_is_served_soon(folder: Path, cache: Path) -> None:
    with serving_many(folder) as asking:
        assert "a fresh walnut fact" not in list_texts(asking("ana", "/stores/team/v1/recall?query=fresh walnut fact"))
        fill_store(
            folder / "team", [{"session": "t2", "id": "1", "text": "a fresh walnut fact"}], Settings(cache=str(cache))
        )
        wait_until(
            30,
            lambda: (
                "a fresh walnut fact" in list_texts(asking("ana", "/stores/team/v1/recall?query=fresh walnut fact"))
            ),
        )


def test_a_store_out_of_use_answers_from_its_newest_generation(folder: Path, cache: Path) -> None:
    many = ManyStores(folder, Settings(reload_interval=0.01))  # without the thread that watches the stores in use
    request, caller = WideRecallRequest(query="fresh walnut fact"), auth.OWNER.enter("team")
    many.recall(request, caller)
    fill_store(
        folder / "team", [{"session": "t2", "id": "1", "text": "a fresh walnut fact"}], Settings(cache=str(cache))
    )
    assert "a fresh walnut fact" in [item["text"] for item in many.recall(request, caller)["items"]]
    many.stop()


def test_the_least_recently_used_store_gives_back_its_pages(folder: Path) -> None:
    many = ManyStores(folder, Settings())
    request = WideRecallRequest(query=WALNUT)
    asked = {name: many.recall(request, auth.OWNER.enter(name))["items"] for name in ("team", "ana")}
    many._open.bound = many.count_open().bytes
    segments = str(folder / "team" / "segments")
    before = count_resident(segments)
    try:
        many.find(auth.OWNER.enter("bob"))
        assert many.count_open()[2:] == (1, 0)
        assert many.count_open().bytes <= many.memory_bound
        assert before > 0
        wait_until(60, lambda: count_resident(segments) == 0)
        assert many.recall(request, auth.OWNER.enter("team"))["items"] == asked["team"]
        assert {name for name, _ in many._open.list_open()} == {"ana", "bob", "team"}
    finally:
        many.stop()


def count_resident(prefix: str) -> int:
    """Count the KiB of memory that this process holds of mapped files below a folder."""
    maps = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M)
    own = [one for one in maps if f" {prefix}/" in one]
    return sum(int(size) for one in own for size in re.findall(r"^Rss: +(\d+) kB", one, re.M))


def test_the_least_recently_used_store_is_closed_and_answers_again(folder: Path) -> None:
    many = ManyStores(folder, Settings())
    caller = auth.OWNER
    many.start()
    try:
        first = many.find(caller.enter("ana"))[0]
        many.find(caller.enter("team"))
        assert many.find(caller.enter("ana"))[0] is first
        many._open.bound = sum(one.size.held for one in many._open._entries.values())
        many.find(caller.enter("bob"))
        assert [name for name, _ in many._open.list_open()] == ["bob"], "the last one stays, whatever its size"
        many._open.bound <<= 10
        many._open._most_files = 2 * many._open._files
        many.find(caller.enter("ana"))
        many.find(caller.enter("team"))
        assert {name for name, _ in many._open.list_open()} == {"ana", "team"}, "the system bounds a process's maps"
        assert many.find(caller.enter("bob"))[0].memory.snapshot.live == len(TURNS["bob"])
    finally:
        many.stop()


def test_a_closed_store_leaves_memory_at_once(folder: Path) -> None:
    many = ManyStores(folder, Settings())
    request = WideRecallRequest(query=WALNUT)
    assert many.recall(request, auth.OWNER.enter("team"))["items"]
    held = weakref.ref(many.find(auth.OWNER.enter("team"))[0].memory.snapshot.files)
    gc.disable()
    try:
        many._open.drop("team")
        assert held() is None, "its files stay mapped until the garbage collector runs"
    finally:
        gc.enable()
        many.stop()


def test_the_garbage_collector_does_not_look_through_open_stores(folder: Path) -> None:
    """It stops every thread, a second for a thousand stores."""
    many = ManyStores(folder, Settings())
    try:
        opened = {id(many.find(auth.OWNER.enter(name))[0].memory.snapshot.files) for name in TURNS}
        assert len(opened) == len(TURNS)
        assert not opened & {id(one) for one in gc.get_objects()}
    finally:
        many.stop()
    assert gc.get_freeze_count() == 0  # what is left is collected as ever


def test_open_stores_share_one_encoder(folder: Path) -> None:
    many = ManyStores(folder, Settings())
    many.start()
    try:
        encoders = {id(many.find(auth.OWNER.enter(name))[0].memory.snapshot.encoder) for name in TURNS}
        assert len(encoders) == 1
    finally:
        many.stop()


def test_a_key_to_named_stores_opens_no_server_of_one_store(folder: Path, tmp_path: Path) -> None:
    key = make_keys(folder)["ana"]
    with pytest.raises(auth.AccessDenied, match="named stores"):
        auth.KeyRing(folder / auth.FILE).identify(key)


def test_a_member_leaves(folder: Path, run_helix: Any) -> None:
    keys = make_keys(folder)
    shown = run_helix("stores", "leave", "ana", "--stores", folder, "--remove", "ana", "--json")
    assert json.loads(shown.stdout)["items"] == {"team": 1}
    assert (folder / "ana").is_dir(), "a preview changes nothing"
    done = run_helix("stores", "leave", "ana", "--stores", folder, "--remove", "ana", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["done"]
    assert (receipt["items"], receipt["removed"]) == ({"team": 1}, ["ana"])
    assert not (folder / "ana").exists()
    assert (folder / "team" / "receipts" / f"{receipt['receipts']['team']}.json").is_file()
    with pytest.raises(auth.AccessDenied):
        auth.KeyRing(folder / auth.FILE, many=True).identify(keys["ana"])
    assert auth.KeyRing(folder / auth.FILE, many=True).identify(keys["bob"]).principal == "bob"
    service = QueryService(folder / "team", Settings())
    service.look()
    texts = [entry["text"] for entry in service.memory.snapshot.text(service.memory.snapshot.alive.nonzero()[0])]
    service.stop()
    assert sorted(texts) == sorted(turn["text"] for turn in TURNS["team"] if turn.get("acl") != ["ana"])


def test_each_store_has_its_metrics(ask: Callable[..., httpx.Response]) -> None:
    ask("bob", "/stores/bob/v1/recall?query=walnut")
    ask("root", "/stores/none/v1/recall?query=walnut")
    text = ask("root", "/metrics").text
    assert 'helix_store_recalls_total{outcome="answered",store="bob"}' in text
    assert 'store="none"' not in text, "a client cannot make a series by asking for a store"
    assert "helix_stores_open " in text


def test_a_node_that_has_nothing_serves_stores_of_an_object_store(
    company: Path, tmp_path: Path, server: str, bucket: Bucket
) -> None:
    url = f"s3://memories/company?endpoint_override={server}&scheme=http"
    for name in ("team", "ana"):
        push_store(company / name, locate_remote(url, name))
    folder = tmp_path / "node"
    folder.mkdir()
    settings, keys = Settings(), make_keys(folder)
    policy = replace(make_policy("127.0.0.1", settings, keyed=True, many=True, fetched=True), token="")
    with keep_replica(url, folder, many=True), serving(folder, settings, policy) as client:

        def ask_as(name: str, path: str) -> httpx.Response:
            return client.get(path, headers={"authorization": f"Bearer {keys[name]}"})

        found = list_texts(ask_as("ana", f"/stores/team/v1/recall?query={WALNUT}"))
        assert "Ana's walnut secret is cardamom." in found
        assert "Bob's walnut secret is rye." not in found
        assert ask_as("root", "/stores/nothing/v1/recall?query=x").status_code == 404
        assert not (folder / "ana").exists(), "what nobody asks for is not fetched"
        assert ask_as("bob", "/stores/ana/v1/recall?query=x").status_code == 404
        assert not (folder / ".wanted" / "ana").exists(), "a key without a right makes no node fetch"
        wait_until(60, lambda: not ask_as("ana", f"/stores/team/v1/recall?query={WALNUT}").json()["degraded"])
        assert not verify_store(folder / "team").problems
        first = ask_as("ana", f"/v1/recall?query={WALNUT}").json()
        assert {reason.partition(":")[0] for reason in first["degraded"]} >= {"company"}, "it was never pushed"
        ask_as("ana", "/stores/ana/v1/recall?query=x")
        fused = ask_as("ana", f"/v1/recall?query={WALNUT}").json()
        assert {"ana", "team"} <= {item["store"] for item in fused["items"]}
