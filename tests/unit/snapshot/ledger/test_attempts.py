"""Attempts: one process at a time works on a document, and too many failed ones make it dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from helix.errors import UsageError
from helix.settings import load
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from helix.snapshot.ledger.attempts import AttemptRecord
from helix.snapshot.ledger.inbox import Envelope
from pipelines.ingest import orders
from pipelines.ingest.part import part_folder

DOCUMENT = "ab" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dead").mkdir()
    return tmp_path


def record(root: Path) -> AttemptRecord | None:
    return attempts.list_records(root).get(DOCUMENT)


def holder(root: Path) -> subprocess.Popen[bytes]:
    """Start a process that claims the document until it is killed."""
    code = (
        "import sys, time; from pathlib import Path; from helix.snapshot.ledger import attempts\n"
        f"with attempts.claim_document(Path({str(root)!r}), {DOCUMENT!r}):\n"
        "    print('begun', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    return process


def test_a_finished_document_leaves_no_record_nor_does_an_unrelated_exception(root: Path) -> None:
    with attempts.claim_document(root, DOCUMENT) as claimed:
        assert claimed is not None
        assert record(root) == AttemptRecord(running=claimed.record.running)
        assert claimed.record.running.startswith(f"{os.getpid()} on ")
        claimed.clear()
    assert record(root) is None
    with pytest.raises(OSError, match="full"), attempts.claim_document(root, DOCUMENT):
        raise OSError("full")
    assert record(root) is None


def test_a_second_process_gets_no_claim(root: Path) -> None:
    process = holder(root)
    try:
        assert attempts.is_running(root, DOCUMENT)
        with attempts.claim_document(root, DOCUMENT) as claimed:
            assert claimed is None
        assert not attempts.record_failure(root, DOCUMENT, "late", 1.0)
    finally:
        process.kill()
        process.wait()
    assert not attempts.is_running(root, DOCUMENT)


def test_five_vanished_workers_end_the_attempts(root: Path) -> None:
    for gone in range(attempts.MAX_LOST):
        process = holder(root)
        assert record(root).vanished == gone
        process.send_signal(signal.SIGKILL)
        process.wait()
    with attempts.claim_document(root, DOCUMENT) as claimed:
        assert claimed.record.vanished == attempts.MAX_LOST
        assert "5 workers disappeared" in claimed.record.explain_end()


def test_three_failed_attempts_make_a_document_dead(root: Path) -> None:
    assert not attempts.record_failure(root, DOCUMENT, "first", 10.0)
    assert record(root).failed == 1
    assert record(root).is_waiting()
    assert [AttemptRecord(failed=1, after=time.time() + wait).is_waiting() for wait in (3_600, -1)] == [False, False]
    assert 5 < record(root).after - time.time() <= 10
    assert not attempts.record_failure(root, DOCUMENT, "second", 10.0)
    assert 35 < record(root).after - time.time() <= 40  # four times as long
    assert attempts.record_failure(root, DOCUMENT, "third", 10.0)
    assert inbox.list_dead(root)[DOCUMENT]["error"] == "third (tried 3 times)"
    assert record(root) is None


def test_a_revived_document_has_no_failed_attempts(root: Path) -> None:
    for _ in range(attempts.MAX_FAILURES - 1):
        attempts.record_failure(root, DOCUMENT, "again", 0.0)
    inbox.give_up(root, DOCUMENT, "by hand")
    assert inbox.revive_document(root, DOCUMENT)
    assert record(root) is None


def test_a_torn_record_counts_as_empty(root: Path) -> None:
    (root / "tries").mkdir()
    (root / "tries" / DOCUMENT).write_bytes(b'{"failed": 2, "van')
    with attempts.claim_document(root, DOCUMENT) as claimed:
        assert claimed.record.failed == 0


def test_a_malformed_name_becomes_no_path(tmp_path: Path) -> None:
    root, victim = tmp_path / "store", tmp_path / ("ab" * 32)
    paths.create_folders(root)
    victim.write_text("precious")
    (tmp_path / f"{victim.name}.json").write_text("precious")
    now = datetime.now(UTC)
    uses: dict[str, Callable[[str], object]] = {
        "claim": lambda name: attempts.claim_document(root, name).__enter__(),
        "failure": lambda name: attempts.record_failure(root, name, "it failed", 0.0, 1),
        "is_running": lambda name: attempts.is_running(root, name),
        "read": lambda name: inbox.read_envelope(root, name),
        "write": lambda name: inbox.accept_envelope(root, Envelope(name, "", "", "jsonl", None, (), now, now, {}, ())),
        "seal": lambda name: inbox.read_seal(root, name),
        "accepted_at": lambda name: inbox.read_accepted_time(root, name),
        "forget": lambda name: inbox.forget_text(root, name),
        "is_pending": lambda name: inbox.is_pending(root, name),
        "is_dead": lambda name: inbox.is_dead(root, name),
        "give_up": lambda name: inbox.give_up(root, name, "it failed"),
        "revive": lambda name: inbox.revive_document(root, name),
        "part_folder": lambda name: part_folder(root, name, "ab" * 8),
        "part_folder of": lambda name: part_folder(root, DOCUMENT, name),
        "carry_out": lambda name: orders.carry_out(root, name, load(), lambda _: None),
        "fail": lambda name: orders.fail(root, name, "it failed"),
    }
    names = [str(victim), f"../../{victim.name}", "", ".", DOCUMENT.upper(), f"{DOCUMENT}\n", DOCUMENT[:-1], "١" * 64]
    passed = []
    for (use, call), name in product(uses.items(), names):
        with suppress(UsageError):
            call(name)
            passed.append((use, name))
    assert not passed
    assert victim.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"store", victim.name, f"{victim.name}.json"}
    assert not [path for path in root.rglob("*") if path.is_file()]
    (root / "inbox" / ".DS_Store").write_text("")  # a stray file is no document
    (root / "tries" / "abc").write_text("{}")
    assert inbox.list_accepted(root) == inbox.list_pending(root) == []
    assert attempts.list_records(root) == {}
