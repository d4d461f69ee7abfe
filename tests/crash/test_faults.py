"""Faults during ingestion: nothing is lost, nothing doubled, and the query process is never down.

All tests share one fleet. Each adds documents, breaks something, and waits until all is well again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from helix.encoders.token_counter import TokenCounter
from helix.settings import load
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.status import read_status
from pipelines.ingest.accept import accept_source
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import try_enrich
from pipelines.ingest.lineage import open_encoder
from pipelines.ingest.part import pipeline_fingerprint
from pipelines.ingest.source import AcceptOptions, Inbox
from tests.support.fleet import Fleet, Forks, fleet, seed_store
from tests.support.labelled import REPORT
from tests.support.marks import soak_all_but
from tests.support.processes import wait_until
from workers.app import create
from workers.dispatch import request_task

WORKERS = ("accept,enrich,bulk", "commit,maintain")
MAKES, COMMITS = WORKERS


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, cache: Path, forks: Forks) -> Iterator[Fleet]:
    """A fleet that may have no workers."""
    with fleet(tmp_path_factory.mktemp("faults") / "fleet", forks=forks) as made:
        yield made


@pytest.fixture
def running(crew: Fleet) -> Fleet:
    """The fleet with all workers, also those that an earlier test ended."""
    for queues in WORKERS:
        if queues not in crew.running:
            crew.worker(queues)
    wait_until(60, lambda: len(crew.events("reconcile begins")) >= len(WORKERS), crew.log)
    return crew


def report(fault: str, seconds: float) -> None:
    REPORT.append(f"{fault}: all done {seconds:.1f} s after it was over")


def enqueue_some(running: Fleet, folder: Path, name: str, documents: int = 12) -> None:
    """Enqueue documents, and wait until some are enriched and the rest is not."""
    before = running.count_done()
    running.enqueue(running.write(folder, name, documents, 20))
    parts = running.root / "parts"
    wait_until(60, lambda: running.count_done() > before or any(parts.glob("[0-9a-f]*")), running.log)


def kill_at(running: Fleet, queues: str, point: str, trigger: Callable[[], object], **environ: str) -> None:
    """Let a task of a worker die at a failpoint, then kill the worker."""
    lost = len(running.events("lost"))
    running.worker("victim", queues, HELIX_FAILPOINT=point, **environ)
    try:
        trigger()
        wait_until(90, lambda: len(running.events("lost")) > lost, running.log)
    finally:
        running.kill("victim")


def request_now(running: Fleet, task: str) -> bool:
    return request_task(create(replace(load(), redis_url=running.redis.url)), task)


def test_a_fresh_turn_is_enriched_before_an_import(crew: Fleet, tmp_path: Path) -> None:
    for path in sorted(crew.write(tmp_path / "in", "go", 8, 10).iterdir()):
        accept_source(Inbox(crew.root, load()), path, AcceptOptions())
    pending = inbox.list_pending(crew.root)
    imported, fresh = pending[:5], pending[5:]
    app = create(replace(load(), redis_url=crew.redis.url))
    for queue, documents in (("bulk", imported), ("enrich", fresh)):
        for document in documents:
            app.send_task("helix.enrich", args=[document], queue=queue)
    for queues in WORKERS:
        crew.worker(queues)
    crew.settle()
    made = [entry["document"] for entry in crew.events("enriched")]
    assert made[: len(fresh)] == fresh
    assert set(made[len(fresh) :]) == set(imported)  # in order, except a document that is sent twice


def test_documents_that_cannot_be_enriched_are_dead_and_can_be_retried(running: Fleet, tmp_path: Path) -> None:
    """One kills its process, one is damaged; no log has a word of them."""
    running.stop(MAKES)
    running.enqueue(running.write(tmp_path / "bad", "po", 2))
    poison, damaged = inbox.list_pending(running.root)
    running.enqueue(running.write(tmp_path / "good", "pg", 4))
    envelope = running.root / "inbox" / damaged
    whole = envelope.read_bytes()
    envelope.write_bytes(whole[:-1] + b"#")
    running.worker("poisoned", MAKES, HELIX_FAILPOINT=f"enrich.begin@{poison}")
    wait_until(90, lambda: len(inbox.list_dead(running.root)) == 2, running.log)
    wait_until(60, running.is_idle, running.log)  # the others continue
    error = str(inbox.list_dead(running.root)[poison]["error"])
    for words in ("it killed the process that worked on it", "SIGKILL", "tried 3 times"):
        assert words in error
    state = json.loads(running.helix("status", "--json").stdout)
    assert (state["dead"], state["pending"]) == (2, 0)
    for text in (state["errors"][damaged], inbox.list_dead(running.root)[damaged]["error"]):
        assert "damaged" in str(text)
    assert running.events("given up")
    assert "the word of po" not in running.read_log()
    lines = [line for line in running.read_log().splitlines() if line.startswith("{")]
    assert lines
    assert all({"time", "level", "logger", "event"} <= json.loads(line).keys() for line in lines)
    expected = running.expected
    running.expected = {place: text for place, text in expected.items() if not place.startswith("po")}
    envelope.write_bytes(whole)
    running.check(dead=2)
    running.stop("poisoned")
    running.worker(MAKES)  # without the fault
    running.expected = expected
    retried = running.helix("retry", poison[:12], damaged[:12], "--json")
    assert json.loads(retried.stdout) == {"retried": [poison, damaged], "queued": 2}, retried.stderr
    report("two dead documents, retried", running.settle())


def test_a_document_can_be_followed_by_its_name_from_order_to_generation(running: Fleet, tmp_path: Path) -> None:
    before = len(running.events("accepted"))
    running.enqueue(running.write(tmp_path / "in", "fo", 1), "--defer")
    wait_until(60, lambda: len(running.events("accepted")) > before, running.log)
    running.settle()
    document = running.events("accepted")[before]["document"]
    for event in ("enriched", "committed"):
        wait_until(60, lambda event=event: len(running.events(event, document=document)) == 1, running.log)


@pytest.mark.soak  # test_a_pool_process_is_killed_and_its_document_is_tried_again
def test_a_worker_that_enriches_is_killed(running: Fleet, tmp_path: Path) -> None:
    enqueue_some(running, tmp_path / "in", "ka")
    running.kill(MAKES)
    assert not running.is_idle()
    running.worker(MAKES)
    report("kill -9 of enrich", running.settle())


@pytest.mark.soak
@pytest.mark.parametrize("point", ["commit.segment", "commit.current"])
def test_a_worker_that_commits_is_killed(running: Fleet, tmp_path: Path, point: str) -> None:
    running.stop(COMMITS)
    folder = running.write(tmp_path / "in", f"kc{point[7:9]}", 4)
    kill_at(running, "commit", point, lambda: running.enqueue(folder))
    running.worker(COMMITS)
    report(f"kill -9 of commit at {point}", running.settle())


def test_a_pool_process_is_killed_and_its_document_is_tried_again(running: Fleet, tmp_path: Path) -> None:
    running.enqueue(running.write(tmp_path / "in", "kp", 6, 30))
    wait_until(60, lambda: bool(attempts.list_records(running.root)), running.log)
    for process in running.list_pool(MAKES):
        os.kill(process, signal.SIGKILL)
    report("kill -9 of a process of the pool", running.settle())


@pytest.mark.parametrize("data", soak_all_but(["retained", "lost"], "lost"))
def test_redis_is_killed_and_comes_back(running: Fleet, tmp_path: Path, data: str) -> None:
    enqueue_some(running, tmp_path / "in", f"r{data}")
    running.redis.kill()
    later = running.enqueue(running.write(tmp_path / "late", f"l{data}", 2))
    assert (later.returncode, json.loads(later.stdout)["queued"]) == (0, 0)
    assert "the broker cannot be reached" in later.stderr
    if data == "lost":
        running.redis.wipe()
    running.redis.start()
    report(f"kill -9 of Redis, its data {data}", running.settle())


def test_redis_is_full_and_falls_silent(running: Fleet, tmp_path: Path) -> None:
    running.enqueue(running.write(tmp_path / "in", "rs", 8, 60))
    wait_until(
        60,
        lambda: any(attempts.is_running(running.root, name) for name in attempts.list_records(running.root)),
        running.log,
    )
    with running.redis.full():
        later = json.loads(running.enqueue(running.write(tmp_path / "full", "rg", 3)).stdout)
        assert (later["accepted"], later["queued"]) == (3, 0)
        time.sleep(1)
    with running.redis.silent():
        began = time.monotonic()
        later = running.enqueue(running.write(tmp_path / "late", "rt", 2))
        assert time.monotonic() - began < 60
        assert "the broker cannot be reached" in later.stderr
        assert json.loads(later.stdout)["accepted"] == 2
        # A task that ends now cannot be acknowledged. Its worker takes the next one all the same.
        wait_until(60, lambda: "Couldn't ack" in running.read_log(), running.log)
    report("Redis full, then silent", running.settle())


@pytest.mark.soak  # like data that is lost
def test_redis_is_flushed(running: Fleet, tmp_path: Path) -> None:
    enqueue_some(running, tmp_path / "in", "fl")
    running.redis.client.flushall()
    report("FLUSHALL", running.settle())


SUBMIT = """
import os, sys
import pipelines.ingest.accept_all, workers.app, workers.dispatch  # once
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


def test_one_document_submitted_many_times_at_once_is_accepted_once(running: Fleet, tmp_path: Path) -> None:
    path = running.write(tmp_path / "in", "hu", 1)
    before = len(inbox.list_accepted(running.root))
    command = [sys.executable, "-c", SUBMIT.format(n=30, path=str(path))]
    done = subprocess.run(command, env=running.command_environ(), capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0]", done.stderr
    report("30 submissions at once", running.settle())
    assert len(inbox.list_accepted(running.root)) == before + 1


def test_workers_end_under_load_and_return_their_messages(running: Fleet, tmp_path: Path) -> None:
    enqueue_some(running, tmp_path / "in", "st")
    for queues in WORKERS:
        assert running.stop(queues) < 20
    assert not running.is_idle()
    assert not [record for record in attempts.list_records(running.root).values() if record.failed or record.vanished]
    for queues in WORKERS:
        running.worker(queues)
    report("SIGTERM under load", running.settle())


@pytest.mark.soak  # test_kill.py kills the same steps in process
def test_workers_that_accept_and_publish_are_killed(running: Fleet, tmp_path: Path) -> None:
    for queues in WORKERS:
        running.stop(queues)
    queued = running.enqueue(running.write(tmp_path / "order", "or", 5), "--defer")
    assert json.loads(queued.stdout)["queued"], queued.stderr
    kill_at(running, "accept", "accept.envelope", bool)
    running.worker(MAKES)
    kill_at(running, "commit", "commit.manifest", bool)
    running.worker(COMMITS)
    report("kill -9 of accept and commit", running.settle())


@pytest.mark.soak  # test_maintenance.py kills the same steps in process
def test_a_worker_that_merges_is_killed(running: Fleet, tmp_path: Path) -> None:
    running.stop(COMMITS)
    commit_each(running, running.write(tmp_path / "in", "me", 9))
    assert len(inbox.load_current(running.root)[1].segments) >= 8
    kill_at(running, "maintain", "compact.merged", lambda: request_now(running, "helix.maintain"))
    running.check()
    running.worker(COMMITS)
    request_now(running, "helix.maintain")
    took = wait_until(60, lambda: len(inbox.load_current(running.root)[1].segments) < 8, running.log)
    running.check()
    report("kill -9 of maintain", took)


def commit_each(running: Fleet, logs: Path) -> None:
    """Commit each log as a segment of its own, to be merged."""
    settings = replace(load(), threads=1)
    encoder = open_encoder(running.root, settings)
    for path in sorted(logs.iterdir()):
        for document in accept_source(Inbox(running.root, settings), path, AcceptOptions()).documents:
            assert try_enrich(running.root, document, encoder, TokenCounter(encoder.folder), settings).part
        commit(running.root, encoder, settings)


@pytest.mark.soak
def test_a_worker_that_expands_is_killed(running: Fleet, tmp_path: Path, copying_t5: Path) -> None:
    model = {"HELIX_DOC2QUERY": str(copying_t5)}
    kill_at(running, "expand", "expand.asked", lambda: request_now(running, "helix.expand"), **model)
    running.worker("expand", **model)

    def is_expanded() -> bool:
        manifest = inbox.load_current(running.root)[1]
        return manifest.coverage["doc2query"].get("items") == manifest.counts["items"]

    took = wait_until(90, lambda: not read_status(running.root)["backlog"] and is_expanded(), running.log)
    running.stop("expand")
    running.check()
    report("kill -9 of expand", took)


@pytest.mark.soak  # test_maintenance.py kills the same steps in process
def test_a_reindex_survives_its_workers_and_itself(tmp_path: Path, cache: Path) -> None:
    new = {"HELIX_ITEM_WORDS": "100"}
    with fleet(tmp_path / "fleet") as running:  # a small store of its own
        seed_store(running.write(tmp_path / "in", "rx", 14, 20), running.root)
        before = inbox.load_current(running.root)[1]
        target = pipeline_fingerprint(before.lineage.encoder, replace(load(), item_words=100))

        def count_parts() -> int:
            return len(list((running.root / "parts").glob(f"*-{target}")))

        running.start("reindex", "reindex", "--json", **new)
        running.worker("new", "bulk", **new)
        wait_until(90, lambda: count_parts() >= 3, running.log)
        running.kill("new")
        running.kill("reindex")
        retained = count_parts()
        assert 0 < retained < before.counts["documents"]
        running.check()  # the old lineage serves meanwhile
        running.worker("new", "bulk", **new)
        process = running.start("reindex", "reindex", "--json", **new)
        took = wait_until(120, lambda: process.poll() is not None, running.log)
        assert running.running.pop("reindex").returncode == 0
        running.stop("new")
        assert inbox.load_current(running.root)[1].lineage.pipeline == target
        enriched = len(running.events("enriched for the new lineage"))
        assert enriched <= before.counts["documents"] + 1  # the killed worker may have made one
        running.check()
        report(f"kill -9 of a reindex and its worker, {retained} of {before.counts['documents']} documents made", took)
