"""A fleet for many stores: names in messages, fresh text of each store, the dispatcher; with a real redis-server."""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from celery import Celery

from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.store_names import name_store
from pipelines.ingest import orders
from pipelines.ingest.orders import Order
from tests.support.messages import element, name
from tests.unit.workers.test_queueing import put
from workers import beat, hints, tasks
from workers.app import create
from workers.dispatch import Sender, request_task
from workers.fleet_dispatch import LOCK, WINDOW, Dispatcher, hold_turn
from workers.messages import MessageFormat, MessageRefused, rebuild_message

HOSTILE = ("../other", "a/b", ".hidden", "a..b", "A", "", "x" * 64, "a\n", "é", "-", None, 5, ["a"])


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "stores"
    for store in ("one", "two"):
        paths.create_folders(folder / store)
    monkeypatch.setenv("HELIX_STORES", str(folder))
    return folder


@pytest.fixture
def broker(redis_url: str) -> redis.Redis:
    client = redis.Redis(port=urlsplit(redis_url).port)
    client.flushdb()
    return client


@pytest.fixture
def app(redis_url: str, broker: redis.Redis) -> Iterator[Celery]:
    yield create(replace(load(), redis_url=redis_url))
    broker.flushdb()


@pytest.fixture
def settings(stores: Path, redis_url: str) -> Settings:
    return replace(load(), redis_url=redis_url)


def list_sent(broker: redis.Redis, queue: str) -> list[list[str]]:
    """Return task and arguments of every message in a queue, oldest first."""
    messages = [json.loads(raw) for raw in reversed(broker.lrange(queue, 0, -1))]
    return [[message["headers"]["task"], *json.loads(base64.b64decode(message["body"]))[0]] for message in messages]


# ---------------------------------------------------------------- messages


def test_a_message_names_its_store_last(app: Celery, broker: redis.Redis) -> None:
    for task, names, queue in (("helix.enrich", [name(1)], "bulk"), ("helix.commit", [], "commit")):
        app.send_task(task, args=[*names, "team-a.x_1"], queue=queue)
        (raw,) = broker.lrange(queue, 0, -1)
        made = json.loads(rebuild_message(queue, raw, MessageFormat()))
        assert json.loads(base64.b64decode(made["body"]))[0] == [*names, "team-a.x_1"]
        broker.delete(queue)


@pytest.mark.parametrize("store", HOSTILE)
def test_a_message_with_a_name_that_no_store_has_is_refused(store: object) -> None:
    with pytest.raises(MessageRefused, match="names"):
        rebuild_message("bulk", element(names=[name(1), store]), MessageFormat())


def test_only_one_name_more_is_accepted_and_none_for_the_deep_tier() -> None:
    for task, names in (("helix.enrich", [name(1), "one", "two"]), ("helix.deep", ["ab" * 16, "one"])):
        with pytest.raises(MessageRefused, match="names"):
            rebuild_message("deep" if "deep" in task else "bulk", element(task, names), MessageFormat())


def test_a_store_is_one_of_many_only_in_their_folder(stores: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(stores)
    assert name_store(str(stores), stores / "one") == "one"
    assert name_store(str(stores), tmp_path / "link" / "one") == "one"
    assert name_store(str(stores), stores / "two" / ".." / "one") == "one"
    outside = (stores, tmp_path / "one", stores / "one" / "inbox", stores / ".hidden", stores / "a..b")
    assert [name_store(str(stores), root) for root in outside] == [""] * 5
    assert name_store("", stores / "one") == ""


# ---------------------------------------------------------------- tasks


def test_a_task_of_a_deleted_store_ends_and_makes_nothing(stores: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    shutil.rmtree(stores / "two")
    for task, names in (
        (tasks.enrich, [name(1)]), (tasks.accept, ["ab" * 16]), (tasks.reindex, [name(1), "ab" * 8]),
        *((task, []) for task in (tasks.commit, tasks.maintain, tasks.touch, tasks.train, tasks.expand)),
    ):  # fmt: skip
        caplog.clear()
        task(*names, "two")
        assert "its store does not exist" in caplog.text
        assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [path.name for path in stores.iterdir()] == ["one"]


def test_a_store_deleted_during_its_task_is_no_error(
    stores: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    document = put(stores / "two", 1)

    def delete(root: Path) -> None:
        shutil.rmtree(root)
        (root / "parts").mkdir()

    monkeypatch.setattr(tasks.models, "open_encoder", delete)
    tasks.enrich(document, "two")
    assert "its store was deleted meanwhile" in caplog.text
    assert not (stores / "two").exists()


@pytest.mark.parametrize("store", ["../one", "a..b", ".x"])
def test_a_task_refuses_a_name_that_no_store_has(store: str, stores: Path, caplog: pytest.LogCaptureFixture) -> None:
    for task, names in ((tasks.enrich, [name(1)]), (tasks.commit, [])):
        caplog.clear()
        task(*names, store)
        assert "is not the name of a store" in caplog.text
    assert sorted(path.name for path in stores.iterdir()) == ["one", "two"]


def test_a_message_without_a_store_or_for_another_fleet_ends(
    stores: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("HELIX_STORE", str(stores / "one"))
    tasks.commit()
    monkeypatch.setenv("HELIX_STORES", "")
    tasks.commit("one")
    assert caplog.text.count("its store does not exist") == 2


# ---------------------------------------------------------------- senders


def test_small_batches_are_fresh_and_imports_are_left_to_the_dispatcher(
    stores: Path, app: Celery, broker: redis.Redis
) -> None:
    root = stores / "one"
    turn, batch = put(root, 1), [put(root, number, 2_000) for number in range(10, 30)]
    assert Sender(app, root, "one").send([turn]) == 1
    assert Sender(app, root, "one").send(batch) == 20
    assert list_sent(broker, "enrich") == [["helix.enrich", turn, "one"]]
    assert list_sent(broker, "bulk") == []
    assert hints.take_imports(broker) == ["one"]
    assert hints.take_imports(broker) == []


def test_fresh_text_is_counted_by_store_over_all_its_senders(stores: Path, app: Celery, broker: redis.Redis) -> None:
    for number in range(30):
        Sender(app, stores / "one", "one").send([put(stores / "one", number, 1_000)])
    Sender(app, stores / "two", "two").send([put(stores / "two", 1, 1_000)])
    sent = Counter(store for _, _, store in list_sent(broker, "enrich"))
    assert sent["two"] == 1
    cost = hints.cost_document(1_300)
    assert hints.FRESH_COST // cost <= sent["one"] < 30
    assert 0 < broker.ttl("helix:fresh:one") <= hints.FRESH_SECONDS  # then it may send again


def test_names_that_no_store_has_are_dropped_from_the_hints(broker: redis.Redis) -> None:
    for bad in ("../x", "a/b", b"\xff\xfe", "", "ok"):
        broker.sadd(hints.IMPORTS, bad)
    assert hints.take_imports(broker) == ["ok"]


def test_each_store_has_one_waiting_request_of_a_task_in_a_queue(app: Celery, broker: redis.Redis) -> None:
    assert [request_task(app, "helix.commit", store) for store in ("one", "two", "one")] == [True, True, False]
    assert request_task(app, "helix.commit", "one", "bulk")  # an import's commit waits elsewhere
    assert list_sent(broker, "commit") == [["helix.commit", "one"], ["helix.commit", "two"]]
    with app.connection_for_write() as connection:
        hints.end_request(hints.open_client(connection), "helix.commit", "commit", "one")
    assert request_task(app, "helix.commit", "one")


# ---------------------------------------------------------------- the dispatcher


def step(dispatcher: Dispatcher) -> int:
    with dispatcher.app.connection_for_write() as connection:
        return dispatcher.step(connection)


def test_the_dispatcher_keeps_the_queue_short_and_takes_turns(
    stores: Path, app: Celery, broker: redis.Redis, settings: Settings
) -> None:
    for number in range(60):
        put(stores / "one", number, 20_000)
        put(stores / "two", number, 20_000)
    dispatcher = Dispatcher(app, stores, settings)
    assert step(dispatcher) == WINDOW
    assert step(dispatcher) == 0
    sent = list_sent(broker, "bulk")
    assert Counter(store for _, _, store in sent) == {"one": WINDOW // 2, "two": WINDOW // 2}
    assert [document for _, document, store in sent if store == "two"] == [name(i) for i in range(WINDOW // 2)]
    broker.ltrim("bulk", 0, WINDOW - 4)  # three are taken
    assert step(dispatcher) == 3


def test_a_hint_is_read_at_once_and_others_in_the_next_round(
    stores: Path, app: Celery, broker: redis.Redis, settings: Settings
) -> None:
    dispatcher = Dispatcher(app, stores, settings)
    assert step(dispatcher) == 0
    document = put(stores / "two", 1, 50_000)
    assert step(dispatcher) == 0  # its round is 30 s away
    hints.add_import(broker, "two")
    assert step(dispatcher) == 1
    assert list_sent(broker, "bulk") == [["helix.enrich", document, "two"]]
    hints.add_import(broker, "two")
    assert step(dispatcher) == 0  # not sent twice


def test_a_round_sends_lost_documents_orders_and_commits(
    stores: Path, app: Celery, broker: redis.Redis, settings: Settings, tmp_path: Path
) -> None:
    lost, waits, running = put(stores / "one", 1), put(stores / "one", 2), put(stores / "one", 3)
    attempts.record_failure(stores / "one", waits, "it failed", 60.0)
    order = orders.place(stores / "two", Order((str(tmp_path),)))
    made = put(stores / "two", 4)
    (stores / "two" / "parts" / f"{made}-{'ab' * 8}").mkdir()
    dispatcher = Dispatcher(app, stores, settings)
    with attempts.claim_document(stores / "one", running):
        assert step(dispatcher) == 1
    assert ["helix.enrich", lost, "one"] in list_sent(broker, "bulk")
    assert ["helix.commit", "two"] in list_sent(broker, "bulk")
    assert list_sent(broker, "accept") == [["helix.accept", order, "two"]]


def test_a_damaged_or_deleted_store_does_not_stop_the_others(
    stores: Path, app: Celery, broker: redis.Redis, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    (stores / "one" / "CURRENT").write_text("nonsense\n")
    put(stores / "two", 1)
    hints.add_import(broker, "gone")
    dispatcher = Dispatcher(app, stores, settings)
    assert step(dispatcher) == 1
    assert "documents are sent later" in caplog.text
    put(stores / "two", 2)
    shutil.rmtree(stores / "two")
    hints.add_import(broker, "two")
    assert step(dispatcher) == 0
    assert sorted(path.name for path in stores.iterdir()) == ["one"]


def test_an_idle_store_is_read_again_only_after_a_change(
    stores: Path, app: Celery, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()
    monkeypatch.setattr(
        "workers.fleet_dispatch.find_unfinished",
        lambda root, settings: read.append(root.name) or _find_unfinished(root, settings),
    )
    dispatcher = Dispatcher(app, stores, replace(settings, reconcile_interval=0.0))
    step(dispatcher)
    assert read == ["one", "two"]
    step(dispatcher)
    assert read == ["one", "two"]
    put(stores / "two", 1)
    os.utime(stores / "two" / "inbox", (time.time() + 5,) * 2)  # a coarse clock may not have ticked
    step(dispatcher)
    step(dispatcher)  # it has work now, and is read in each round
    assert read == ["one", "two", "two", "two"]


def _find_unfinished(root: Path, settings: Settings) -> object:
    from workers.reconcile import find_unfinished

    return find_unfinished(root, settings)


def test_one_process_dispatches_at_a_time(stores: Path) -> None:
    with hold_turn(stores) as first, hold_turn(stores) as second:
        assert (first, second) == (True, False)
    with hold_turn(stores) as again:
        assert again
    assert (stores / LOCK).exists()


# ---------------------------------------------------------------- beat


def test_beat_asks_for_maintenance_of_changed_stores_and_of_each_in_its_turn(stores: Path) -> None:
    now = time.time()
    rounds = [set(beat.list_due(stores, "helix.maintain", 60.0, now + 60 * i)) for i in range(60)]
    assert Counter(store for due in rounds for store in due) == {"one": 1, "two": 1}
    (stores / "one" / "CURRENT").write_text("x")
    assert all("one" in beat.list_due(stores, "helix.maintain", 60.0, now + 60 * i) for i in range(3))
    assert list(beat.list_due(stores, "helix.touch", 60.0, now)) == []
    (stores / "two" / "events" / "a.jsonl").touch()
    assert list(beat.list_due(stores, "helix.touch", 60.0, now)) == ["two"]


def test_beat_sends_to_each_due_store_once(stores: Path, app: Celery, broker: redis.Redis, settings: Settings) -> None:
    for store in ("one", "two"):
        (stores / store / "events" / "a.jsonl").touch()
    assert [beat.send_to_due(app, "helix.touch", settings) for _ in range(2)] == [2, 0]
    assert list_sent(broker, "maintain") == [["helix.touch", "one"], ["helix.touch", "two"]]


def test_a_full_ledger_of_one_store_does_not_refuse_another(stores: Path) -> None:
    from helix.errors import InputRefused
    from pipelines.ingest.accept_all import Backlog

    for number in range(3):
        put(stores / "one", number, 4_000)
    limits = replace(load(), max_backlog_bytes=10_000)
    with pytest.raises(InputRefused, match="HELIX_MAX_BACKLOG_BYTES"):
        Backlog(stores / "one", limits).check()
    Backlog(stores / "two", limits).check()
    other = Backlog(stores / "two", limits)
    other.check()
    other.add([put(stores / "two", number, 4_000) for number in range(3)])
    with pytest.raises(InputRefused, match="bytes wait for the workers already"):
        other.check()
    assert inbox.list_accepted(stores / "two")
