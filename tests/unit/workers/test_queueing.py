"""Queues: their order, their limits and the reconciler, with a real redis-server and no worker."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from celery import Celery

from helix.errors import InputRefused
from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.status import read_status
from pipelines.ingest import orders
from pipelines.ingest.accept_all import Backlog
from pipelines.ingest.orders import Order
from workers import liveness
from workers.app import create
from workers.beat import MAX_WAITING, Scheduler
from workers.dispatch import FRESH_BYTES, MAX_MESSAGES, Sender, request_task
from workers.messages import MessageFormat, rebuild_message
from workers.queues import ALL_QUEUES, ROUTES
from workers.reconcile import reconcile


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paths.create_folders(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    """An application whose queues are empty."""
    made = create(replace(load(), redis_url=redis_url))
    client(redis_url).delete(*ALL_QUEUES)
    yield made
    client(redis_url).delete(*ALL_QUEUES)


def client(url: str) -> redis.Redis:
    return redis.Redis(port=urlsplit(url).port)


def list_sent(url: str, queue: str) -> list[object]:
    """Return the first argument of every message in a queue, oldest first."""
    messages = [json.loads(raw) for raw in reversed(client(url).lrange(queue, 0, -1))]
    return [next(iter(json.loads(base64.b64decode(message["body"]))[0]), None) for message in messages]


def put(root: Path, number: int, size: int = 100, age: float = 0.0) -> str:
    name = f"{number:064x}"
    now = datetime.now(UTC)
    inbox.accept_envelope(root, Envelope(name, f"/logs/{number}", "x" * size, "jsonl", None, (), now, now, {}, ()))
    when = time.time() - age
    os.utime(root / "inbox" / name, (when, when))
    return name


def test_small_documents_go_to_enrich_unless_a_large_one_precedes_them(root: Path, app: Celery, redis_url: str) -> None:
    """The end of an import is small, but no fresh turn: a worker of `enrich` would wait for all of it."""
    before, large, after = put(root, 1), put(root, 2, FRESH_BYTES + 1), put(root, 3)
    assert Sender(app, root).send([before, large, after]) == 3
    assert list_sent(redis_url, "enrich") == [before]
    assert list_sent(redis_url, "bulk") == [large, after]
    assert Sender(app, root).send([after]) == 1
    assert list_sent(redis_url, "enrich") == [before, after]


def test_an_import_of_small_documents_goes_to_bulk_except_its_beginning(
    root: Path, app: Celery, redis_url: str
) -> None:
    documents = [put(root, number, FRESH_BYTES // 4) for number in range(12)]
    sender = Sender(app, root)
    assert sender.send(documents) == 12
    fresh = len(list_sent(redis_url, "enrich"))
    assert fresh in (3, 4)  # each is a quarter of the allowance, and has a header
    assert len(list_sent(redis_url, "bulk")) == 12 - fresh
    assert set(list_sent(redis_url, "enrich")) | set(list_sent(redis_url, "bulk")) == set(documents)


def test_slow_text_is_always_fresh(root: Path, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sender = Sender(app, root, _since=now[0])
    for number in range(20):  # 8 kB a second
        assert sender.choose_queue(put(root, number, FRESH_BYTES // 4)) == "enrich"
        now[0] += 2
    queues = [sender.choose_queue(put(root, 100 + number, FRESH_BYTES // 4)) for number in range(20)]  # all at once
    assert queues.count("enrich") <= 4


def test_a_queue_has_a_limit_of_messages(
    root: Path, app: Celery, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.dispatch.MAX_MESSAGES", 5)
    assert MAX_MESSAGES == 5_000
    documents = [put(root, number, 10) for number in range(9)]
    assert Sender(app, root).send(documents) == 5
    assert Sender(app, root).send(documents[5:]) == 0


def test_a_task_is_not_requested_twice(app: Celery, redis_url: str) -> None:
    assert request_task(app, "helix.commit")
    assert not request_task(app, "helix.commit")
    assert len(list_sent(redis_url, "commit")) == 1


def test_beat_sends_nothing_to_a_queue_without_a_worker(
    app: Celery, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_ALIVE", str(tmp_path / "alive"))
    liveness.LivenessStep(None).stop(None)  # as Celery does if the broker was never reached
    scheduler = Scheduler(app)
    assert scheduler.tick() <= liveness.INTERVAL
    assert (tmp_path / "alive").exists()
    for _ in range(9):
        for entry in list(scheduler.schedule.values()):
            scheduler.apply_entry(entry)
    assert client(redis_url).llen("maintain") == MAX_WAITING
    tasks = [json.loads(raw)["headers"]["task"] for raw in client(redis_url).lrange("maintain", 0, -1)]
    assert set(tasks) == {"helix.maintain", "helix.touch"}
    client(redis_url).delete("maintain")
    scheduler.apply_entry(next(iter(scheduler.schedule.values())))
    assert client(redis_url).llen("maintain") == 1


def test_every_sent_message_is_valid(root: Path, app: Celery, redis_url: str) -> None:
    for task, route in ROUTES.items():
        names = ["ab" * (int(form.pattern.partition("{")[2].rstrip("}")) // 2) for form in route.arguments]
        for queue in route.queues:
            app.send_task(task, args=names, queue=queue)
            (raw,) = client(redis_url).lrange(queue, 0, -1)
            client(redis_url).delete(queue)
            assert json.loads(rebuild_message(queue, raw, MessageFormat()))["headers"]["task"] == task


def test_the_reconciler_skips_running_waiting_and_young_documents(root: Path, app: Celery, redis_url: str) -> None:
    settings = replace(load(), redis_url=redis_url)
    lost, young, waits, running = put(root, 1, age=100), put(root, 2), put(root, 3, age=100), put(root, 4, age=100)
    attempts.record_failure(root, waits, "it failed", 60.0)
    with attempts.claim_document(root, running):
        assert reconcile(app, root, settings, grace=30.0) == 1
    assert list_sent(redis_url, "enrich") == [lost]
    client(redis_url).delete("enrich")
    assert reconcile(app, root, settings) == 3  # at its start: also the young one, and the one that no longer runs
    assert set(list_sent(redis_url, "enrich")) == {lost, young, running}
    future = put(root, 5, age=-3_600)  # accepted before the clock was set back
    client(redis_url).delete("enrich")
    assert reconcile(app, root, settings, grace=30.0) == 3
    assert set(list_sent(redis_url, "enrich")) == {lost, running, future}


def test_the_reconciler_skips_a_queue_that_holds_messages(root: Path, app: Celery, redis_url: str) -> None:
    settings = replace(load(), redis_url=redis_url)
    for number in range(150):
        put(root, number, 10, age=200 - number)
    assert reconcile(app, root, settings) == 150
    assert reconcile(app, root, settings) == 0
    client(redis_url).delete("enrich")  # lost
    assert reconcile(app, root, settings) == 150


def test_a_full_backlog_accepts_nothing(root: Path) -> None:
    settings = Settings(max_backlog=3)
    backlog = Backlog(root, settings)
    backlog.check()
    backlog.add([put(root, number) for number in range(2)])
    backlog.check()
    backlog.add([put(root, 2)])
    with pytest.raises(InputRefused, match="3 documents wait for the workers already"):
        backlog.check()
    with pytest.raises(InputRefused, match="HELIX_MAX_BACKLOG"):
        Backlog(root, Settings(max_backlog=2)).check()


def test_enqueue_refuses_files_beyond_the_backlog(tmp_path: Path, run_helix) -> None:
    paths = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for path in paths:
        path.write_text(f'{{"text": "the word {path.stem}"}}\n')
    done = run_helix("enqueue", *paths, "--json", "--store", tmp_path / "store", HELIX_MAX_BACKLOG="2")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert report["accepted"] == 2
    assert [entry["path"] for entry in report["refused"]] == [str(paths[2])]
    assert "2 documents wait for the workers already" in report["refused"][0]["reason"]


def test_an_order_is_durable_until_it_is_carried_out(root: Path, tmp_path: Path, app: Celery, redis_url: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "we chose parsley"}\n')
    identity = orders.place(root, Order((str(tmp_path / "in"), str(tmp_path / "gone")), project="p"))
    assert orders.list_orders(root) == [identity]
    assert reconcile(app, root, replace(load(), redis_url=redis_url)) == 1
    assert list_sent(redis_url, "accept") == [identity]
    delivered: list[str] = []
    done = orders.carry_out(root, identity, load(), delivered.extend)
    assert (done.accepted, [entry["path"] for entry in done.refused]) == (1, [str(tmp_path / "gone")])
    assert delivered == inbox.list_accepted(root)
    assert inbox.read_envelope(root, delivered[0]).project == "p"
    assert orders.list_orders(root) == []
    (outcome,) = read_status(root)["orders"]["done"]
    assert (outcome["order"], outcome["accepted"], len(outcome["refused"])) == (identity, 1, 1)
    assert orders.carry_out(root, identity, load(), delivered.extend).accepted == 0  # by a second message
    old = time.time() - orders.RETAINED - 10
    os.utime(root / "orders" / f"{identity}.done.json", (old, old))
    orders.sweep(root)
    assert read_status(root)["orders"] == {"waiting": 0, "done": []}


def test_an_order_waits_while_the_backlog_is_full(root: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "we chose parsley"}\n')
    put(root, 1)
    identity = orders.place(root, Order((str(tmp_path / "a.jsonl"),)))
    with pytest.raises(InputRefused):
        orders.carry_out(root, identity, Settings(max_backlog=1), lambda _: None)
    assert orders.list_orders(root) == [identity]
