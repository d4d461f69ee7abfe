"""Faults while documents come in: nothing is lost, nothing doubled, and the query process never down.

One fleet goes through all of it; each test adds documents, breaks something, and waits until all is well again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helix.encoders.dense import TokenCounter
from helix.settings import load
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.status import status
from pipelines.ingest.accept import Inbox, Way, take
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import pipeline_fingerprint, try_enrich
from pipelines.ingest.ingest import ingest, open_encoder
from tests.support.fleet import FAST, Fleet, Forks, fleet, within
from tests.support.labelled import REPORT
from workers.app import create
from workers.dispatch import ask

WORKERS = ("accept,enrich,bulk", "commit,maintain")
MAKES, COMMITS = WORKERS


def seed(logs: Path, root: Path) -> None:
    assert not ingest(root, [logs], replace(load(), threads=1)).refused


def commit_apart(running: Fleet, logs: Path) -> None:
    """Each log as a segment of its own, so that there is something to merge."""
    settings = replace(load(), threads=1)
    encoder = open_encoder(running.root, settings)
    for path in sorted(logs.iterdir()):
        for document in take(Inbox(running.root, settings), path, Way()).documents:
            assert try_enrich(running.root, document, encoder, TokenCounter(encoder.folder), settings).part
        commit(running.root, encoder, settings)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, cache: Path, forks: Forks) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("faults") / "fleet", seed, WORKERS, forks) as made:
        within(60, lambda: len(made.events("reconcile begins")) >= len(WORKERS), made.said)
        yield made


@pytest.fixture(autouse=True)
def whole(running: Fleet) -> None:
    """Every test finds all workers, and leaves the fleet as it must be."""
    for queues in WORKERS:
        if queues not in running.running:
            running.worker(queues)


def told(fault: str, seconds: float) -> None:
    REPORT.append(f"{fault}: all done {seconds:.1f} s after it was over")


def midway(running: Fleet, before: int) -> None:
    """Wait until some of what was enqueued is made, and the rest is not."""
    within(60, lambda: running.done() > before or any((running.root / "parts").glob("[0-9a-f]*")), running.said)


def test_a_document_can_be_followed_by_its_name(running: Fleet, tmp_path: Path) -> None:
    """From the order that brought it to the generation it is in."""
    before = len(running.events("accepted"))
    running.enqueue(running.write(tmp_path / "in", "fo", 1), "--defer")
    within(60, lambda: len(running.events("accepted")) > before, running.said)
    running.settles()
    document = running.events("accepted")[before]["document"]
    for event in ("enriched", "committed"):
        within(10, lambda event=event: len(running.events(event, document=document)) == 1, running.said)


def test_a_worker_that_enriches_is_killed(running: Fleet, tmp_path: Path) -> None:
    before = running.done()
    running.enqueue(running.write(tmp_path / "in", "ka", 12, 20))
    midway(running, before)
    running.kill(MAKES)
    assert not running.idle()
    running.worker(MAKES)
    told("kill -9 of enrich", running.settles())


@pytest.mark.parametrize(
    "point",
    ["commit.manifest", *(pytest.param(f"commit.{step}", marks=pytest.mark.soak) for step in ("segment", "current"))],
)
def test_a_worker_that_commits_is_killed(running: Fleet, tmp_path: Path, point: str) -> None:
    running.stop(COMMITS)
    lost = len(running.events("lost"))
    running.worker("victim", "commit", HELIX_FAILPOINT=point)
    running.enqueue(running.write(tmp_path / "in", f"kc{point[7:9]}", 4))
    within(60, lambda: len(running.events("lost")) > lost, running.said)
    running.kill("victim")
    running.worker(COMMITS)
    told(f"kill -9 of commit at {point}", running.settles())


def test_the_process_of_a_pool_is_killed_and_its_document_is_tried_again(running: Fleet, tmp_path: Path) -> None:
    running.enqueue(running.write(tmp_path / "in", "kp", 6, 30))
    within(60, lambda: bool(tries.records(running.root)), running.said)
    for process in running.pool(MAKES):
        os.kill(process, signal.SIGKILL)
    told("kill -9 of a process of the pool", running.settles())


@pytest.mark.parametrize("data", ["kept", "lost"])
def test_redis_is_killed_and_comes_back(running: Fleet, tmp_path: Path, data: str) -> None:
    before = running.done()
    running.enqueue(running.write(tmp_path / "in", f"r{data}", 12, 20))
    midway(running, before)
    running.redis.kill()
    later = running.enqueue(running.write(tmp_path / "late", f"l{data}", 2))
    assert (later.returncode, json.loads(later.stdout)["queued"]) == (0, 0)
    assert "the broker is out of reach" in later.stderr
    if data == "lost":
        running.redis.wipe()
    running.redis.start()
    told(f"kill -9 of Redis, its data {data}", running.settles())


def test_redis_falls_silent(running: Fleet, tmp_path: Path) -> None:
    running.enqueue(running.write(tmp_path / "in", "rs", 8, 60))
    within(60, lambda: any(tries.is_running(running.root, name) for name in tries.records(running.root)), running.said)
    with running.redis.silent():
        began = time.monotonic()
        later = running.enqueue(running.write(tmp_path / "late", "rt", 2))
        assert time.monotonic() - began < 25
        assert "the broker is out of reach" in later.stderr
        assert json.loads(later.stdout)["accepted"] == 2
        # A task that ends meanwhile cannot say so. Its worker takes the next one all the same.
        within(30, lambda: "Couldn't ack" in running.log.read_text(errors="replace"), running.said)
    told("Redis silent", running.settles())


def test_redis_is_full(running: Fleet, tmp_path: Path) -> None:
    running.enqueue(running.write(tmp_path / "in", "rf", 4, 20))
    with running.redis.full():
        later = running.enqueue(running.write(tmp_path / "late", "rg", 3))
        assert json.loads(later.stdout)["accepted"] == 3
        assert json.loads(later.stdout)["queued"] == 0
        time.sleep(3)
    told("Redis full", running.settles())


def test_flushall(running: Fleet, tmp_path: Path) -> None:
    before = running.done()
    running.enqueue(running.write(tmp_path / "in", "fl", 12, 20))
    midway(running, before)
    running.redis.client.flushall()
    told("FLUSHALL", running.settles())


SUBMIT = """
import os, sys
import pipelines.ingest, workers.app, workers.send  # once
from helix.cli.main import main
go, ready = os.pipe()
children = []
for _ in range({n}):
    child = os.fork()
    if not child:
        os.close(ready)
        os.read(go, 1)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        os._exit(main(["enqueue", {path!r}]))
    children.append(child)
os.close(ready)  # all at once
print(sorted({{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}}))
"""


def test_one_document_is_submitted_a_hundred_times_at_once(running: Fleet, tmp_path: Path) -> None:
    path = running.write(tmp_path / "in", "hu", 1)
    before = len(ledger.accepted(running.root))
    done = subprocess.run(
        [sys.executable, "-c", SUBMIT.format(n=100, path=str(path))],
        env={**os.environ, **FAST, **running.place()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[0]", done.stderr
    told("100 submissions at once", running.settles())
    assert len(ledger.accepted(running.root)) == before + 1


def test_a_document_that_kills_its_process_goes_to_the_dead_and_can_be_retried(running: Fleet, tmp_path: Path) -> None:
    running.stop(MAKES)
    running.enqueue(running.write(tmp_path / "in", "po", 1))
    poison = ledger.pending(running.root)[0]
    running.enqueue(running.write(tmp_path / "good", "pg", 4))
    running.worker("poisoned", MAKES, HELIX_FAILPOINT=f"enrich.begin@{poison}")
    within(90, lambda: ledger.is_dead(running.root, poison), running.said)
    within(60, running.idle, running.said)  # the others go on
    error = str(ledger.dead(running.root)[poison]["error"])
    assert "it killed the process that worked on it" in error
    assert "SIGKILL" in error
    assert "tried 3 times" in error
    held = {place: text for place, text in running.expected.items() if place.startswith("po")}
    running.expected = {place: text for place, text in running.expected.items() if place not in held}
    running.check(dead=1)
    running.stop("poisoned")
    running.worker(MAKES)  # where the fault is mended
    running.expected |= held
    retried = running.helix("retry", poison[:12], "--json")
    assert json.loads(retried.stdout) == {"retried": [poison], "queued": 1}, retried.stderr
    told("a poison document, retried", running.settles())


def test_workers_end_under_load_and_hand_back_what_they_had(running: Fleet, tmp_path: Path) -> None:
    before = running.done()
    running.enqueue(running.write(tmp_path / "in", "st", 12, 20))
    midway(running, before)
    for queues in WORKERS:
        assert running.stop(queues) < 20
    assert not running.idle()
    assert not [record for record in tries.records(running.root).values() if record.failed or record.vanished]
    for queues in WORKERS:
        running.worker(queues)
    told("SIGTERM under load", running.settles())


def test_an_order_is_carried_out_though_its_worker_is_killed(running: Fleet, tmp_path: Path) -> None:
    running.stop(MAKES)
    path = running.write(tmp_path / "in", "or", 5)
    said = running.enqueue(path, "--defer")
    assert json.loads(said.stdout)["queued"], said.stderr
    lost = len(running.events("lost"))
    running.worker("victim", "accept", HELIX_FAILPOINT="accept.envelope")
    within(60, lambda: len(running.events("lost")) > lost, running.said)
    running.kill("victim")
    running.worker(MAKES)
    told("kill -9 of accept", running.settles())


def test_a_worker_that_merges_is_killed(running: Fleet, tmp_path: Path) -> None:
    running.stop(COMMITS)
    commit_apart(running, running.write(tmp_path / "in", "me", 9))
    before = ledger.current(running.root)[1]
    assert len(before.segments) >= 8
    lost = len(running.events("lost"))
    running.worker("victim", "maintain", HELIX_FAILPOINT="compact.merged")
    ask(create(replace(load(), redis_url=running.redis.url)), "helix.maintain")
    within(60, lambda: len(running.events("lost")) > lost, running.said)
    running.kill("victim")
    running.check()
    running.worker(COMMITS)
    ask(create(replace(load(), redis_url=running.redis.url)), "helix.maintain")
    took = within(60, lambda: len(ledger.current(running.root)[1].segments) < 8, running.said)
    running.check()
    told("kill -9 of maintain", took)


def test_a_worker_that_expands_is_killed(running: Fleet, tmp_path: Path, copying_t5: Path) -> None:
    model = {"HELIX_DOC2QUERY": str(copying_t5)}
    lost = len(running.events("lost"))
    running.worker("victim", "expand", **model, HELIX_FAILPOINT="expand.asked")
    ask(create(replace(load(), redis_url=running.redis.url)), "helix.expand")
    within(90, lambda: len(running.events("lost")) > lost, running.said)
    running.kill("victim")
    running.worker("expand", **model)
    took = within(90, lambda: not status(running.root)["backlog"] and _expanded(running), running.said)
    running.stop("expand")
    running.check()
    told("kill -9 of expand", took)


def _expanded(running: Fleet) -> bool:
    manifest = ledger.current(running.root)[1]
    return manifest.coverage["doc2query"].get("items") == manifest.counts["items"]


def test_a_fresh_turn_goes_ahead_of_an_import(running: Fleet, tmp_path: Path) -> None:
    running.stop(MAKES)
    running.write(tmp_path / "in", "go", 8, 10)
    for path in sorted((tmp_path / "in").iterdir()):
        take(Inbox(running.root, load()), path, Way())
    pending = ledger.pending(running.root)
    imported, fresh = pending[:5], pending[5:]
    app = create(replace(load(), redis_url=running.redis.url))
    running.redis.client.delete("enrich", "bulk")
    for document in imported:
        app.send_task("helix.enrich", args=[document], queue="bulk")
    for document in fresh:
        app.send_task("helix.enrich", args=[document], queue="enrich")
    running.worker(MAKES)
    running.settles()
    made = [entry["document"] for entry in running.events("enriched")][-8:]
    assert made[: len(fresh)] == fresh
    assert set(made[len(fresh) :]) == set(imported)  # in order, but for one that is sent again meanwhile


def test_a_reindex_survives_its_workers_and_itself(tmp_path: Path, cache: Path) -> None:
    new = {"HELIX_ITEM_WORDS": "100"}
    with fleet(tmp_path / "fleet", seed) as running:  # of its own: that of the others has taken in a lot by now
        seed(running.write(tmp_path / "in", "rx", 14, 20), running.root)
        before = ledger.current(running.root)[1]
        target = pipeline_fingerprint(before.lineage.encoder, replace(load(), item_words=100))
        made = lambda: len(list((running.root / "parts").glob(f"*-{target}")))  # noqa: E731
        running.start("reindex", "reindex", "--json", **new)
        running.worker("new", "bulk", **new)
        within(90, lambda: made() >= 3, running.said)
        running.kill("new")
        running.kill("reindex")
        kept = made()
        assert 0 < kept < before.counts["documents"]
        running.check()  # the old lineage serves meanwhile
        running.worker("new", "bulk", **new)
        process = running.start("reindex", "reindex", "--json", **new)
        took = within(120, lambda: process.poll() is not None, running.said)
        assert running.running.pop("reindex").returncode == 0
        running.stop("new")
        after = ledger.current(running.root)[1]
        assert after.lineage.pipeline == target
        made_once = len(running.events("enriched for the new lineage"))
        assert made_once <= before.counts["documents"] + 1  # one may have been made when its worker was killed
        running.check()
        told(f"kill -9 of a reindex and its worker, {kept} of {before.counts['documents']} documents made", took)
