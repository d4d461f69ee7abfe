"""Celery and a real redis-server: documents enqueued become one store, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.settings import load
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import status
from helix.snapshot.verify import verify
from tests.crash.test_kill import items, write_log

HELIX = str(Path(sys.executable).with_name("helix"))
FAST = {"HELIX_RECONCILE_INTERVAL": "1", "HELIX_RETRY_WAIT": "0.2"}


@contextmanager
def worker(root: Path, url: str, queue: str, log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one queue in its own session, so that a kill can take its children along."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [HELIX, "worker", "--queues", queue, "--store", str(root)],
            env={**os.environ, **FAST, "HELIX_REDIS_URL": url, **environ},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


def until(condition: Callable[[], bool], seconds: float, log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s\n{log.read_text(errors='replace')[-6000:]}")
        time.sleep(0.2)


def says(i: int, turns: int) -> list[str]:
    return [f"document {i} says {j}: walnuts and parsley" for j in range(turns)]


def expected(n: int, turns: int = 3) -> dict[str, str]:
    return {f"w{i}#w{i}:{j}": text for i in range(n) for j, text in enumerate(says(i, turns))}


def write_documents(folder: Path, n: int, turns: int = 3) -> Path:
    folder.mkdir()
    for i in range(n):
        write_log(folder / f"{i:02}.jsonl", f"w{i}", says(i, turns))
    return folder


def done(root: Path) -> int:
    return len(ledger.done(root, ledger.current(root)[1]))


@pytest.mark.soak
def test_twenty_documents_become_one_store_though_the_enrich_worker_is_killed(
    tmp_path: Path, redis_url: str, run_helix
) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 20, turns=60)  # long enough to be killed amid
    sent = run_helix("enqueue", documents, "--store", root, "--json", HELIX_REDIS_URL=redis_url)
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["accepted"] == 20
    assert json.loads(sent.stdout)["queued"] == 20
    with worker(root, redis_url, "commit", log):
        with worker(root, redis_url, "enrich,bulk", log) as victim:
            until(lambda: any((root / "parts").glob("[0-9a-f]*")) or done(root) > 0, 90, log)
            os.killpg(victim.pid, signal.SIGKILL)  # midway: some documents are enriched, most are not
            victim.wait(10)
        assert done(root) < 20
        with worker(root, redis_url, "enrich,bulk", log):
            until(lambda: done(root) == 20, 120, log)
    assert items(root) == expected(20, turns=60)  # nothing lost; `items` itself fails on a double
    assert verify(root).problems == ()
    assert ledger.pending(root) == []


@pytest.mark.soak
def test_what_is_committed_is_merged_in_the_background(tmp_path: Path, redis_url: str, run_helix) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 10)
    with worker(root, redis_url, "enrich,bulk,commit,maintain", log):
        for i, path in enumerate(sorted(documents.iterdir())):
            sent = run_helix("enqueue", path, "--store", root, HELIX_REDIS_URL=redis_url)
            assert sent.returncode == 0, sent.stderr
            until(lambda i=i: done(root) == i + 1, 60, log)  # so that each has a commit of its own
        until(lambda: len(ledger.current(root)[1].segments) < 8, 60, log)
        until(lambda: not any((root / "building").iterdir()), 60, log)
    manifest = ledger.current(root)[1]
    assert manifest.generation > 10  # ten commits and a merge at least
    assert len(manifest.documents) < 10
    assert items(root) == expected(10)
    assert verify(root).problems == ()


def test_one_folder_under_two_names_is_one_store(tmp_path: Path, redis_url: str, run_helix) -> None:
    """As two machines have it mounted: locks are the file system's, so nothing but the path differs."""
    root, log = tmp_path / "store", tmp_path / "workers.log"
    root.mkdir()
    (tmp_path / "mounted").mkdir()
    other = tmp_path / "mounted" / "elsewhere"
    other.symlink_to(root)
    documents = write_documents(tmp_path / "in", 4)
    with worker(root, redis_url, "commit", log), worker(other, redis_url, "enrich,bulk", log):
        sent = run_helix("enqueue", documents, "--store", other, HELIX_REDIS_URL=redis_url)
        assert sent.returncode == 0, sent.stderr
        until(lambda: done(root) == 4, 90, log)
    assert items(root) == items(other) == expected(4)
    assert verify(root).problems == ()


@pytest.mark.soak
def test_a_reindex_is_handed_to_the_workers(tmp_path: Path, redis_url: str, run_helix) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 6)
    assert run_helix("ingest", documents, "--store", root).returncode == 0
    before = ledger.current(root)[1]
    new = {"HELIX_REDIS_URL": redis_url, "HELIX_ITEM_WORDS": "100"}
    with worker(root, redis_url, "enrich,bulk", log, HELIX_ITEM_WORDS="100"):
        swapped = run_helix("reindex", "--store", root, "--json", **new)
    assert swapped.returncode == 0, swapped.stderr
    told = json.loads(swapped.stdout)
    assert (told["swapped"], told["documents"], told["items"]) == (True, 6, 18)
    assert log.read_text(errors="replace").count("enriched for the new lineage") == 6
    after = ledger.current(root)[1]
    assert after.lineage.pipeline != before.lineage.pipeline
    assert not {segment.id for segment in after.segments} & {segment.id for segment in before.segments}
    assert not (root / "NEXT").exists()
    assert items(root) == expected(6)
    assert verify(root).problems == ()


@pytest.mark.soak
def test_a_reindex_finds_its_encoder_in_the_store(tmp_path: Path, redis_url: str, run_helix) -> None:
    """A message names no folder: the worker has the store mounted elsewhere, and a cache of its own."""
    from tests.unit.encoders.test_dense import tiny_bert

    root, other, log = tmp_path / "store", tmp_path / "elsewhere", tmp_path / "workers.log"
    assert run_helix("ingest", write_documents(tmp_path / "in", 3), "--store", root).returncode == 0
    other.symlink_to(root)
    encoder = str(tiny_bert(tmp_path / "tiny"))
    with worker(other, redis_url, "bulk", log, HELIX_CACHE=str(tmp_path / "cache")):
        swapped = run_helix("reindex", "--encoder", encoder, "--store", root, HELIX_REDIS_URL=redis_url)
    assert swapped.returncode == 0, swapped.stderr
    assert log.read_text(errors="replace").count("enriched for the new lineage") == 3
    assert ledger.current(root)[1].lineage.name == "tiny"
    assert items(root) == expected(3)
    assert verify(root).problems == ()


@pytest.mark.soak
def test_items_are_recallable_first_and_expanded_afterwards(
    tmp_path: Path, redis_url: str, copying_t5: Path, run_helix
) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    texts = [
        "Priya booked the flight to the city in March for vacation.",
        "The worker lost the queue because the timeout was short.",
        "We keep the store in one folder and write a manifest.",
    ]
    write_log(tmp_path / "one.jsonl", "w0", texts)
    shared = {"HELIX_REDIS_URL": redis_url, "HELIX_DOC2QUERY": str(copying_t5)}
    assert run_helix("enqueue", tmp_path / "one.jsonl", "--store", root, **shared).returncode == 0
    # One process, one task at a time: what came first is in the generations, whatever the machine is busy with.
    with worker(root, redis_url, "enrich,bulk,commit,maintain,expand", log, HELIX_DOC2QUERY=str(copying_t5)):
        until(lambda: done(root) == 1 and not status(root)["backlog"], 90, log)
        state = json.loads(run_helix("status", "--store", root, "--json").stdout)
    assert state["backlog"] == {}
    assert state["coverage"]["doc2query"]["items"] == 3
    first, last = (Snapshot.open(root, path.name) for path in sorted((root / "manifests").glob("[0-9]*.json")))
    assert [entry["text"] for entry in first.text(np.arange(3))] == texts  # recallable, with nothing asked yet
    assert first.manifest.coverage["doc2query"]["items"] == 0
    assert first.expansion is None
    assert last.expansion.looked.all()
    assert any(last.expansion.of(np.arange(3)))
    assert verify(root).problems == ()


@pytest.mark.soak
def test_redis_out_of_reach(tmp_path: Path, redis_url: str, run_helix) -> None:
    """Enqueue still accepts and says so; a later worker picks the documents up without any message."""
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 3)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    began = time.monotonic()
    sent = run_helix("enqueue", documents, "--store", root, "--json", HELIX_REDIS_URL=f"redis://127.0.0.1:{port}/0")
    assert time.monotonic() - began < 20
    assert sent.returncode == 0
    assert "broker is out of reach" in sent.stderr
    assert (json.loads(sent.stdout)["accepted"], json.loads(sent.stdout)["queued"]) == (3, 0)
    assert len(ledger.pending(root)) == 3
    # Not from time to time, but at its start.
    with worker(root, redis_url, "enrich,bulk,commit", log, HELIX_RECONCILE_INTERVAL="3600"):
        until(lambda: done(root) == 3, 90, log)
    assert items(root) == expected(3)


def test_a_reindex_without_its_broker_says_so(tmp_path: Path, run_helix) -> None:
    root = tmp_path / "store"
    assert run_helix("ingest", write_documents(tmp_path / "in", 1), "--store", root).returncode == 0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
    told = run_helix("reindex", "--store", root, HELIX_REDIS_URL=url, HELIX_ITEM_WORDS="100")
    assert told.returncode == 4
    assert "the broker is out of reach" in told.stderr
    assert "unset HELIX_REDIS_URL" in told.stderr
    assert "Traceback" not in told.stderr
    assert items(root) == expected(1)


def test_a_lost_message_is_sent_again_while_the_worker_runs(tmp_path: Path, redis_url: str, run_helix) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    write_log(tmp_path / "one.jsonl", "w0", says(0, 3))
    with worker(root, redis_url, "enrich,bulk,commit", log):
        until(lambda: "ready" in log.read_text(errors="replace"), 60, log)
        assert run_helix("enqueue", tmp_path / "one.jsonl", "--store", root).returncode == 0  # no broker: no message
        until(lambda: done(root) == 1, 90, log)
    assert items(root) == expected(1)


def test_a_silent_broker_does_not_hang_enqueue(tmp_path: Path, run_helix) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)  # accepts, and never answers
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        began = time.monotonic()
        documents = write_documents(tmp_path / "in", 2)
        sent = run_helix("enqueue", documents, "--store", tmp_path / "store", "--json", HELIX_REDIS_URL=url)
    assert sent.returncode == 0
    assert "broker is out of reach" in sent.stderr
    assert json.loads(sent.stdout)["accepted"] == 2
    assert time.monotonic() - began < 25


def test_a_worker_of_no_known_tier_does_not_start(tmp_path: Path, run_helix) -> None:
    told = run_helix("worker", "--store", tmp_path / "s", HELIX_REDIS_URL="redis://127.0.0.1:1/0", HELIX_VECTORS="int4")
    assert (told.returncode, "no storage tier 'int4'" in told.stderr) == (2, True)
    assert not (tmp_path / "s").exists()


def test_messages_carry_names_and_nothing_else(tmp_path: Path, redis_url: str, run_helix) -> None:
    import redis

    root = tmp_path / "store"
    client = redis.Redis.from_url(redis_url)
    client.delete("enrich")
    write_log(tmp_path / "one.jsonl", "m", ["a quite unmistakable sentence"])
    run_helix("enqueue", tmp_path / "one.jsonl", "--store", root, HELIX_REDIS_URL=redis_url)
    messages = client.lrange("enrich", 0, -1)
    assert len(messages) == 1
    message = json.loads(messages[0])
    assert message["content-type"] == "application/json"
    assert b"unmistakable" not in messages[0]
    import base64

    body = base64.b64decode(message["body"])
    assert b"unmistakable" not in body
    assert json.loads(body)[0] == ledger.accepted(root)
    client.delete("enrich")


def test_a_document_that_cannot_be_enriched_goes_to_the_dead_and_the_rest_goes_on(
    tmp_path: Path, redis_url: str, run_helix
) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 2)
    run_helix("enqueue", documents, "--store", root)
    first = ledger.accepted(root)[0]
    envelope = root / "inbox" / first
    envelope.write_bytes(envelope.read_bytes()[:-1] + b"#")
    with worker(root, redis_url, "enrich,bulk,commit", log):
        until(lambda: done(root) == 1 and len(ledger.dead(root)) == 1, 90, log)
    assert "damaged" in ledger.dead(root)[first]["error"]
    state = json.loads(run_helix("status", "--store", root, "--json").stdout)
    assert (state["done"], state["dead"], state["pending"]) == (1, 1, 0)
    assert "damaged" in state["errors"][first]


def test_items_that_wait_for_questions_are_asked_for_again(
    tmp_path: Path, redis_url: str, copying_t5: Path, run_helix
) -> None:
    """Whatever became of the message after their commit."""
    import redis

    from workers.app import create
    from workers.reconcile import reconcile

    root = tmp_path / "store"
    write_log(tmp_path / "one.jsonl", "w0", says(0, 3))
    said = run_helix("ingest", tmp_path / "one.jsonl", "--store", root, HELIX_DOC2QUERY=str(copying_t5))
    assert "3 items wait for their questions: 'helix expand'" in said.stderr
    settings = replace(load(), redis_url=redis_url, doc2query=str(copying_t5))
    client = redis.Redis.from_url(redis_url)
    client.delete("expand")
    assert reconcile(create(settings), root, settings) == 1
    assert client.llen("expand") == 1
    assert reconcile(create(settings), root, settings) == 0  # it is on its way
    client.delete("expand")
    assert reconcile(create(settings), root, replace(settings, doc2query="off")) == 0


def test_the_visibility_timeout_is_checked_at_start(tmp_path: Path, run_helix) -> None:
    found = run_helix(
        "worker", "--store", tmp_path / "s", HELIX_REDIS_URL="redis://127.0.0.1:1/0", HELIX_VISIBILITY_TIMEOUT="10"
    )
    assert found.returncode == 2
    assert "HELIX_VISIBILITY_TIMEOUT" in found.stderr


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "zz"])
def test_a_task_takes_nothing_but_a_document_name(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.tasks import accept, enrich

    monkeypatch.setenv("HELIX_STORE", str(tmp_path))
    for task in (enrich, accept):
        caplog.clear()
        task(name)
        assert "no document name" in caplog.text
    assert not list(tmp_path.iterdir())
