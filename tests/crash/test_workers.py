"""Celery with a real redis-server: enqueued documents become one store, whatever is killed."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import redis

from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.status import read_status
from helix.snapshot.verify import verify_store
from tests.crash.test_kill import items, write_log
from tests.support.fleet import count_done, expected_texts, list_turns, worker, write_documents
from tests.support.processes import pick_port, wait_until


def check_store(root: Path, documents: int, turns: int = 3) -> None:
    assert items(root) == expected_texts(documents, turns)  # `items` fails on a doubled turn
    assert verify_store(root).problems == ()


@pytest.mark.soak
def test_small_segments_are_merged_in_the_background(tmp_path: Path, redis_url: str, run_helix) -> None:
    root, log = tmp_path / "store", tmp_path / "workers.log"
    documents = write_documents(tmp_path / "in", 10)
    with worker(root, redis_url, "enrich,bulk,commit,maintain", log):
        for i, path in enumerate(sorted(documents.iterdir())):
            sent = run_helix("enqueue", path, "--store", root, HELIX_REDIS_URL=redis_url)
            assert sent.returncode == 0, sent.stderr
            wait_until(60, lambda i=i: count_done(root) == i + 1, log)  # each has a commit of its own
        wait_until(60, lambda: len(inbox.load_current(root)[1].segments) < 8, log)
        wait_until(60, lambda: not any((root / "building").iterdir()), log)
    manifest = inbox.load_current(root)[1]
    assert manifest.generation > 10  # ten commits and a merge at least
    assert len(manifest.documents) < 10
    check_store(root, 10)


def test_one_folder_under_two_names_is_one_store(tmp_path: Path, redis_url: str, run_helix) -> None:
    """Two machines that mount a folder differ in its path only: the locks are the file system's."""
    root, log = tmp_path / "store", tmp_path / "workers.log"
    root.mkdir()
    (tmp_path / "mounted").mkdir()
    other = tmp_path / "mounted" / "elsewhere"
    other.symlink_to(root)
    documents = write_documents(tmp_path / "in", 4)
    with worker(root, redis_url, "commit", log), worker(other, redis_url, "enrich,bulk", log):
        sent = run_helix("enqueue", documents, "--store", other, HELIX_REDIS_URL=redis_url)
        assert sent.returncode == 0, sent.stderr
        wait_until(90, lambda: count_done(root) == 4, log)
    check_store(root, 4)
    assert items(other) == items(root)


@pytest.mark.soak
def test_workers_reindex_with_the_encoder_of_the_store(
    tmp_path: Path, redis_url: str, tiny_encoders: list[str], run_helix
) -> None:
    """A message names no folder: the worker has another path to the store, and its own cache."""
    root, other, log = tmp_path / "store", tmp_path / "elsewhere", tmp_path / "workers.log"
    assert run_helix("ingest", write_documents(tmp_path / "in", 6), "--store", root).returncode == 0
    before = inbox.load_current(root)[1]
    other.symlink_to(root)
    call = ("reindex", "--encoder", tiny_encoders[0], "--store", root, "--json")
    with worker(other, redis_url, "enrich,bulk", log, HELIX_CACHE=str(tmp_path / "cache")):
        done = run_helix(*call, HELIX_REDIS_URL=redis_url)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["swapped"], result["documents"], result["items"]) == (True, 6, 18)
    assert log.read_text(errors="replace").count("enriched for the new lineage") == 6
    after = inbox.load_current(root)[1]
    assert after.lineage.name == "tiny-32"
    assert after.lineage.pipeline != before.lineage.pipeline
    assert not {segment.id for segment in after.segments} & {segment.id for segment in before.segments}
    assert not (root / "NEXT").exists()
    check_store(root, 6)


@pytest.mark.soak
def test_items_are_recallable_first_and_expanded_later(
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
    # One process runs one task at a time: the generations show the order, however busy the machine is.
    with worker(root, redis_url, "enrich,bulk,commit,maintain,expand", log, HELIX_DOC2QUERY=str(copying_t5)):
        wait_until(90, lambda: count_done(root) == 1 and not read_status(root)["backlog"], log)
        state = json.loads(run_helix("status", "--store", root, "--json").stdout)
    assert (state["backlog"], state["coverage"]["doc2query"]["items"]) == ({}, 3)
    first, last = (Snapshot(root, path.name) for path in sorted((root / "manifests").glob("[0-9]*.json")))
    assert [entry["text"] for entry in first.text(np.arange(3))] == texts  # recallable before any question is written
    assert first.manifest.coverage["doc2query"]["items"] == 0
    assert first.lexical.expansion is None
    assert last.lexical.expansion.looked.all()
    assert any(last.lexical.expansion.questions_of(np.arange(3)))
    assert verify_store(root).problems == ()


def test_a_reindex_without_its_broker_says_so(tmp_path: Path, run_helix) -> None:
    root, url = tmp_path / "store", f"redis://127.0.0.1:{pick_port()}/0"
    assert run_helix("ingest", write_documents(tmp_path / "in", 1), "--store", root).returncode == 0
    done = run_helix("reindex", "--store", root, HELIX_REDIS_URL=url, HELIX_ITEM_WORDS="100")
    assert done.returncode == 4
    assert "the broker cannot be reached" in done.stderr
    assert "unset HELIX_REDIS_URL" in done.stderr
    assert "Traceback" not in done.stderr
    assert items(root) == expected_texts(1)


def test_a_worker_that_starts_sends_lost_messages_again(tmp_path: Path, redis_url: str, run_helix) -> None:
    """Without a broker `helix enqueue` sends none. A worker reconciles at its start, not only in each interval."""
    root, log = tmp_path / "store", tmp_path / "workers.log"
    assert run_helix("enqueue", write_documents(tmp_path / "in", 1), "--store", root).returncode == 0
    with worker(root, redis_url, "enrich,bulk,commit", log, HELIX_RECONCILE_INTERVAL="3600"):
        wait_until(90, lambda: count_done(root) == 1, log)
    assert items(root) == expected_texts(1)


def test_a_worker_with_a_wrong_setting_does_not_start(tmp_path: Path, run_helix) -> None:
    for setting, value, message in (
        ("HELIX_VECTORS", "int4", "'int4'"),
        ("HELIX_VISIBILITY_TIMEOUT", "10", "HELIX_VISIBILITY_TIMEOUT"),
    ):
        environ = {"HELIX_REDIS_URL": "redis://127.0.0.1:1/0", setting: value}
        done = run_helix("worker", "--store", tmp_path / "s", **environ)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "s").exists()


def test_messages_carry_names_and_nothing_else(tmp_path: Path, redis_url: str, run_helix) -> None:
    root, client = tmp_path / "store", redis.Redis.from_url(redis_url)
    client.delete("enrich")
    write_log(tmp_path / "one.jsonl", "m", ["a quite unmistakable sentence"])
    run_helix("enqueue", tmp_path / "one.jsonl", "--store", root, HELIX_REDIS_URL=redis_url)
    (raw,) = client.lrange("enrich", 0, -1)
    message = json.loads(raw)
    assert message["content-type"] == "application/json"
    body = base64.b64decode(message["body"])
    assert b"unmistakable" not in raw + body
    assert json.loads(body)[0] == inbox.list_accepted(root)
    client.delete("enrich")


def test_the_reconciler_requests_questions_for_items_that_lack_them(
    tmp_path: Path, redis_url: str, copying_t5: Path, run_helix
) -> None:
    from workers.app import create
    from workers.reconcile import reconcile

    root = tmp_path / "store"
    write_log(tmp_path / "one.jsonl", "w0", list_turns(0, 3))
    ingested = run_helix("ingest", tmp_path / "one.jsonl", "--store", root, HELIX_DOC2QUERY=str(copying_t5))
    assert "3 items wait for their questions: 'helix expand'" in ingested.stderr
    settings = replace(load(), redis_url=redis_url, doc2query=str(copying_t5))
    client = redis.Redis.from_url(redis_url)
    client.delete("expand")
    assert reconcile(create(settings), root, settings) == 1
    assert client.llen("expand") == 1
    assert reconcile(create(settings), root, settings) == 0  # the queue holds a message
    client.delete("expand")
    assert reconcile(create(settings), root, replace(settings, doc2query="off")) == 0


def test_a_task_accepts_only_a_document_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.tasks import accept, enrich

    monkeypatch.setenv("HELIX_STORE", str(tmp_path))
    for name in ("../../etc/passwd", "", "zz"):
        for task in (enrich, accept):
            caplog.clear()
            task(name)
            assert "no document name" in caplog.text, name
    assert not list(tmp_path.iterdir())
