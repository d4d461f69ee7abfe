"""What goes to which queue, how much of it, and what is refused: with a real redis-server, without a worker."""

from __future__ import annotations

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
from pipelines.ingest.deferred import Order

from helix.errors import InputRefused
from helix.settings import Settings, load
from helix.snapshot import paths
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.status import status
from pipelines.ingest import deferred as orders
from pipelines.ingest.backpressure import Backlog
from workers import liveness as alive
from workers.app import APART, QUEUES, create
from workers.beat import MOST, Scheduler
from workers.dispatch import FRESH, HELD, Sender, ask
from workers.messages import KINDS, Form, renew
from workers.reconcile import reconcile


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paths.create(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    """An application whose queues are empty."""
    made = create(replace(load(), redis_url=redis_url))
    client(redis_url).delete(*QUEUES, *APART)
    yield made
    client(redis_url).delete(*QUEUES, *APART)


def client(url: str) -> redis.Redis:
    return redis.Redis(port=urlsplit(url).port)


def sent(url: str, queue: str) -> list[object]:
    """The first argument of every message in a queue, the oldest first."""
    import base64

    messages = [json.loads(raw) for raw in reversed(client(url).lrange(queue, 0, -1))]
    return [next(iter(json.loads(base64.b64decode(message["body"]))[0]), None) for message in messages]


def put(root: Path, number: int, size: int = 100, age: float = 0.0) -> str:
    name = f"{number:064x}"
    now = datetime.now(UTC)
    ledger.write(root, Envelope(name, f"/logs/{number}", "x" * size, "jsonl", None, (), now, now, {}, ()))
    when = time.time() - age
    os.utime(root / "inbox" / name, (when, when))
    return name


def test_small_documents_go_ahead_of_large_ones(root: Path, app: Celery, redis_url: str) -> None:
    small, large = put(root, 1), put(root, 2, FRESH + 1)
    assert Sender(app, root).send([small, large]) == 2
    assert sent(redis_url, "enrich") == [small]
    assert sent(redis_url, "bulk") == [large]


def test_what_comes_behind_a_large_one_waits_with_it(root: Path, app: Celery, redis_url: str) -> None:
    """The end of an import is small, and no fresh turn: its worker would have to wait for all of it."""
    large, small = put(root, 1, FRESH + 1), put(root, 2)
    assert Sender(app, root).send([large, small]) == 2
    assert sent(redis_url, "bulk") == [large, small]
    assert Sender(app, root).send([small]) == 1
    assert sent(redis_url, "enrich") == [small]


def test_an_import_of_small_documents_goes_to_bulk_but_for_its_beginning(
    root: Path, app: Celery, redis_url: str
) -> None:
    documents = [put(root, number, FRESH // 4) for number in range(12)]
    sender = Sender(app, root)
    assert sender.send(documents) == 12
    fresh = len(sent(redis_url, "enrich"))
    assert fresh in (3, 4)  # of a quarter each, with their heads
    assert len(sent(redis_url, "bulk")) == 12 - fresh
    assert set(sent(redis_url, "enrich")) | set(sent(redis_url, "bulk")) == set(documents)


def test_what_comes_slowly_is_fresh_for_ever(root: Path, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sender = Sender(app, root, _since=now[0])
    for number in range(20):  # 8 kB a second
        assert sender.queue_of(put(root, number, FRESH // 4)) == "enrich"
        now[0] += 2
    queues = [sender.queue_of(put(root, 100 + number, FRESH // 4)) for number in range(20)]  # all at once
    assert queues.count("enrich") <= 4


def test_a_queue_holds_no_more_than_the_broker_should(
    root: Path, app: Celery, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.dispatch.HELD", 5)
    assert HELD == 5_000
    documents = [put(root, number, 10) for number in range(9)]
    assert Sender(app, root).send(documents) == 5
    assert Sender(app, root).send(documents[5:]) == 0


def test_nothing_is_asked_for_twice(app: Celery, redis_url: str) -> None:
    assert ask(app, "helix.commit")
    assert not ask(app, "helix.commit")
    assert len(sent(redis_url, "commit")) == 1


def test_beat_sends_nothing_where_nobody_works_it_off(
    app: Celery, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_ALIVE", str(tmp_path / "alive"))
    scheduler = Scheduler(app)
    assert scheduler.tick() <= alive.EVERY
    assert (tmp_path / "alive").exists()
    for _ in range(9):
        for entry in list(scheduler.schedule.values()):
            scheduler.apply_entry(entry)
    assert client(redis_url).llen("maintain") == MOST
    tasks = [json.loads(raw)["headers"]["task"] for raw in client(redis_url).lrange("maintain", 0, -1)]
    assert set(tasks) == {"helix.maintain", "helix.touch"}
    client(redis_url).delete("maintain")
    scheduler.apply_entry(next(iter(scheduler.schedule.values())))
    assert client(redis_url).llen("maintain") == 1


def test_what_we_send_is_what_we_take(root: Path, app: Celery, redis_url: str) -> None:
    """Each task with its names: a message that a worker would drop is not sent."""
    for task, kind in KINDS.items():
        names = ["ab" * (32 if "64" in form.pattern else 16 if "32" in form.pattern else 8) for form in kind.names]
        for queue in kind.queues:
            app.send_task(task, args=names, queue=queue)
            (raw,) = client(redis_url).lrange(queue, 0, -1)
            client(redis_url).delete(queue)
            assert json.loads(renew(queue, raw, Form()))["headers"]["task"] == task


def test_the_reconciler_leaves_out_what_is_under_way_waits_or_was_just_sent(
    root: Path, app: Celery, redis_url: str
) -> None:
    settings = replace(load(), redis_url=redis_url)
    lost, young, waits, running = put(root, 1, age=100), put(root, 2), put(root, 3, age=100), put(root, 4, age=100)
    tries.strike(root, waits, "it failed", 60.0)
    with tries.claim(root, running):
        assert reconcile(app, root, settings, grace=30.0) == 1
    assert sent(redis_url, "enrich") == [lost]
    client(redis_url).delete("enrich")
    assert reconcile(app, root, settings) == 3  # at its start: the young one, and the one that runs no more
    assert set(sent(redis_url, "enrich")) == {lost, young, running}


def test_the_reconciler_leaves_a_queue_alone_that_is_not_worked_off(root: Path, app: Celery, redis_url: str) -> None:
    settings = replace(load(), redis_url=redis_url)
    for number in range(150):
        put(root, number, 10, age=200 - number)
    assert reconcile(app, root, settings) == 150
    assert reconcile(app, root, settings) == 0
    client(redis_url).delete("enrich")  # lost
    assert reconcile(app, root, settings) == 150


def test_what_the_clock_puts_into_the_future_is_sent(root: Path, app: Celery, redis_url: str) -> None:
    put(root, 1, age=-3_600)  # accepted before the clock was set back
    assert reconcile(app, root, replace(load(), redis_url=redis_url), grace=30.0) == 1


def test_beyond_the_backlog_nothing_is_accepted(root: Path) -> None:
    settings = Settings(max_backlog=3)
    backlog = Backlog(root, settings)
    backlog.check()
    for number in range(2):
        put(root, number)
    backlog.add(2)
    backlog.check()
    backlog.add(1)
    with pytest.raises(InputRefused, match="3 documents wait for the workers already"):
        backlog.check()
    assert "HELIX_MAX_BACKLOG" in _refusal(Backlog(root, Settings(max_backlog=2)))


def _refusal(backlog: Backlog) -> str:
    with pytest.raises(InputRefused) as refused:
        backlog.check()
    return str(refused.value)


def test_enqueue_says_when_too_much_waits(tmp_path: Path, run_helix) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "the word {name}"}}\n')
    said = run_helix(
        "enqueue",
        tmp_path / "a.jsonl",
        tmp_path / "b.jsonl",
        tmp_path / "c.jsonl",
        "--json",
        "--store",
        tmp_path / "store",
        HELIX_MAX_BACKLOG="2",
    )
    assert said.returncode == 3
    told = json.loads(said.stdout)
    assert told["accepted"] == 2
    assert [entry["path"] for entry in told["refused"]] == [str(tmp_path / "c.jsonl")]
    assert "2 documents wait for the workers already" in told["refused"][0]["reason"]


def test_an_order_is_durable_until_it_is_carried_out(root: Path, tmp_path: Path, app: Celery, redis_url: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "we chose parsley"}\n')
    identity = orders.place(root, Order((str(tmp_path / "in"), str(tmp_path / "gone")), project="p"))
    assert orders.waiting_orders(root) == [identity]
    assert reconcile(app, root, replace(load(), redis_url=redis_url)) == 1
    assert sent(redis_url, "accept") == [identity]
    delivered: list[str] = []
    done = orders.carry_out(root, identity, load(), delivered.extend)
    assert (done.accepted, [entry["path"] for entry in done.refused]) == (1, [str(tmp_path / "gone")])
    assert delivered == ledger.accepted(root)
    assert ledger.read(root, delivered[0]).project == "p"
    assert orders.waiting_orders(root) == []
    (told,) = status(root)["orders"]["done"]
    assert (told["order"], told["accepted"], len(told["refused"])) == (identity, 1, 1)
    assert orders.carry_out(root, identity, load(), delivered.extend).accepted == 0  # a message that came twice
    old = time.time() - orders.KEPT - 10
    os.utime(root / "orders" / f"{identity}.done.json", (old, old))
    orders.sweep(root)
    assert status(root)["orders"] == {"waiting": 0, "done": []}


def test_an_order_waits_while_too_much_does(root: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "we chose parsley"}\n')
    put(root, 1)
    identity = orders.place(root, Order((str(tmp_path / "a.jsonl"),)))
    with pytest.raises(InputRefused):
        orders.carry_out(root, identity, Settings(max_backlog=1), lambda _: None)
    assert orders.waiting_orders(root) == [identity]


def test_what_shows_that_a_worker_is_at_work_ends_though_it_never_began() -> None:
    """As where the broker was away all the time."""
    alive.Step(None).stop(None)
