"""`helix status`, `helix retry` and `helix drop`: the handling of documents that were given up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.status import measure_throughput, read_status
from tests.crash.test_kill import items, write_log
from tests.support.walk import read_all


@pytest.fixture
def broken_store(tmp_path: Path, run_helix) -> tuple[Path, str, bytes]:
    """A store with one document and an unreadable one; yield also that one's name and envelope."""
    root = tmp_path / "store"
    assert run_helix("ingest", write_log(tmp_path / "a.jsonl", "a", ["we chose dill"]), "--store", root).returncode == 0
    run_helix("enqueue", write_log(tmp_path / "b.jsonl", "b", ["the zorbified harp"]), "--store", root)
    (name,) = inbox.list_pending(root)
    whole = (root / "inbox" / name).read_bytes()
    (root / "inbox" / name).write_bytes(whole[:-1] + b"#")
    assert run_helix("ingest", tmp_path / "a.jsonl", "--store", root).returncode == 3
    assert set(inbox.list_dead(root)) == {name}
    return root, name, whole


def test_dead_documents_are_retried_after_the_fault_is_fixed(broken_store, tmp_path: Path, run_helix) -> None:
    root, name, whole = broken_store
    report = run_helix("status", "--store", root)
    assert f"{name[:12]}… " in report.stdout
    assert "1 document; 'helix retry --all' tries again" in report.stdout
    (root / "inbox" / name).write_bytes(whole)
    retried = run_helix("retry", name[:8], "--store", root, "--json")
    assert json.loads(retried.stdout) == {"retried": [name], "queued": 0}
    assert "no broker is set" in retried.stderr
    assert read_status(root)["pending"] == 1
    run_helix("ingest", tmp_path / "a.jsonl", "--store", root)
    assert items(root) == {"a#a:0": "we chose dill", "b#b:0": "the zorbified harp"}


def test_a_dropped_document_leaves_no_trace_and_does_not_come_back(broken_store, tmp_path: Path, run_helix) -> None:
    root, name, _ = broken_store
    dropped = run_helix("drop", "--all", "--store", root, "--json")
    assert json.loads(dropped.stdout) == {"dropped": [name]}
    assert not [path for path, data in read_all(root) if b"zorbified" in data]
    again = run_helix("ingest", tmp_path / "b.jsonl", "--store", root, "--json")
    assert json.loads(again.stdout)["duplicates"] == 1
    assert items(root) == {"a#a:0": "we chose dill"}
    state = read_status(root)
    assert (state["accepted"], state["done"], state["pending"], state["dead"]) == (2, 2, 0, 0)


def test_rolled_back_documents_are_not_retried_as_failures(tmp_path: Path, run_helix) -> None:
    root = tmp_path / "store"
    for name in ("a", "b"):
        run_helix("ingest", write_log(tmp_path / f"{name}.jsonl", name, [f"the word {name}"]), "--store", root)
    assert run_helix("rollback", "--store", root).returncode == 0
    (name,) = inbox.list_dead(root)
    assert json.loads(run_helix("retry", "--all", "--store", root, "--json").stdout)["retried"] == []
    assert json.loads(run_helix("drop", "--all", "--store", root, "--json").stdout)["dropped"] == []
    refused = run_helix("drop", name, "--store", root)
    assert (refused.returncode, "use 'helix forget'" in refused.stderr) == (2, True)


def test_an_ambiguous_selection_is_refused(broken_store, run_helix) -> None:
    unclear, unknown = "name documents, or give --all", "no dead document has that name"
    for words, why in (((), unclear), (("--all", "12345678"), unclear), (("ffffffff",), unknown), (("ff",), unknown)):
        for command in ("retry", "drop"):
            report = run_helix(command, *words, "--store", broken_store[0])
            assert (report.returncode, why in report.stderr) == (2, True), (command, words, report.stderr)


def test_status_reports_attempts_and_their_waits(broken_store, tmp_path: Path, run_helix) -> None:
    root, _, _ = broken_store
    for name in ("c", "d"):
        run_helix("enqueue", write_log(tmp_path / f"{name}.jsonl", name, [f"word {name}"]), "--store", root)
    failing, running = inbox.list_pending(root)
    attempts.record_failure(root, failing, "out of luck", 60.0)
    with attempts.claim_document(root, running):
        state = read_status(root)
        assert list(state["running"]) == [running]
        assert state["failed"][failing]["tries"] == 1
        assert state["failed"][failing]["error"] == "out of luck"
        assert state["failed"][failing]["next"] > state["published"]
        report = run_helix("status", "--all", "--store", root).stdout
    assert re.search(r"2 pending of [\d.]+ kB \(1 running\), 1 dead", report)
    assert f"{failing[:12]}… 1 time, next at" in report
    assert 0 <= state["lag"] < 60


def test_throughput_counts_recently_published_documents(tmp_path: Path, run_helix) -> None:
    root = tmp_path / "store"
    run_helix("ingest", write_log(tmp_path / "a.jsonl", "a", ["one"]), "--store", root)
    assert measure_throughput(root)["items"] == 0  # one generation is not enough
    for i in range(3):
        run_helix("ingest", write_log(tmp_path / f"{i}.jsonl", f"s{i}", ["two", "three"]), "--store", root)
    report = measure_throughput(root)
    assert report["documents"] == pytest.approx(60 * 3 / report["seconds"], rel=0.1)
    assert report["items"] == pytest.approx(60 * 6 / report["seconds"], rel=0.1)


def test_a_reindex_is_no_throughput(tmp_path: Path, run_helix) -> None:
    root = tmp_path / "store"
    for i in range(2):
        run_helix("ingest", write_log(tmp_path / f"{i}.jsonl", f"s{i}", ["two", "three"]), "--store", root)
    assert measure_throughput(root)["items"] > 0
    assert run_helix("reindex", "--store", root, HELIX_ITEM_WORDS="90").returncode == 0
    assert measure_throughput(root)["items"] == 0
    log = write_log(tmp_path / "more.jsonl", "more", ["four"])
    run_helix("ingest", log, "--store", root, HELIX_ITEM_WORDS="90")
    assert measure_throughput(root)["documents"] == pytest.approx(60 / measure_throughput(root)["seconds"], rel=0.2)


def test_status_follow_keeps_reporting(broken_store) -> None:
    command = [sys.executable, "-m", "helix.cli", "status", "--watch", "--json", "--store", str(broken_store[0])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        states = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert time.monotonic() - began > 1.5
    finally:
        process.kill()
        process.wait()
    assert [state["dead"] for state in states] == [1, 1, 1]
