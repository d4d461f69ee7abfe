"""Faults of the machine and its operators: a full disk, a clock set back, an older version, a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from helix.settings import load
from helix.snapshot.ledger import attempts, inbox
from pipelines.embedded.ingest import ingest
from pipelines.ingest import source
from tests.crash.test_full_disk import disk
from tests.crash.test_kill import items, write_log
from tests.support.fleet import MARK, Fleet, Forks, Redis, fleet
from tests.support.paths import ROOT
from tests.support.processes import compile_library, list_processes, wait_until

ALL = "accept,enrich,bulk,commit,maintain"


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    """Check that no process of a test is left."""
    mark = f"{MARK}={os.getpid()}"
    before = set(list_processes(mark))
    yield
    wait_until(60, lambda: set(list_processes(mark)) <= before, lambda: str(list_processes(mark)))


@pytest.mark.soak  # test_full_disk.py has both for each command
def test_a_full_and_then_a_read_only_disk(tmp_path: Path, cache: Path, forks: Forks) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder, "160m") as small, fleet(tmp_path / "fleet", forks=forks) as made:
        shutil.copytree(made.root, small.folder / "store", ignore=shutil.ignore_patterns("pins"))
        made.kill("query")
        made.root = small.folder / "store"
        made.serve()
        made.worker(ALL)
        made.enqueue(made.write(tmp_path / "in", "fd", 6, 20))
        small.fill(64 << 10)  # room for an envelope, not for a part
        wait_until(60, lambda: "OSError 28" in made.read_log() or "No space left" in made.read_log(), made.log)
        time.sleep(2)
        assert inbox.list_dead(made.root) == {}  # the documents are not at fault
        assert not [record for record in attempts.list_records(made.root).values() if record.failed]
        small.empty()
        made.settle()

        made.stop(ALL)
        made.enqueue(made.write(tmp_path / "late", "ro", 3))
        made.stop("query")  # its claim is open for writing
        assert not small.run(f"mount -o remount,ro '{small.inside}'")
        made.serve()
        refused = made.start("worker", "worker", "--queues", ALL)
        assert refused.wait(60) == 4
        assert "cannot write the store" in made.read_log()
        assert "check its owner, its permissions and the free space" in made.read_log()
        made.running.pop("worker")
        made.check_recall("fd0#fd0:0")
        assert set(made.statuses) == {"200"}
        made.stop("query")
        assert not small.run(f"mount -o remount,rw '{small.inside}'")
        made.serve()
        made.worker(ALL)
        made.settle()


@pytest.fixture
def clock(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file with the offset of the clock in seconds, and the environment of processes that use it."""
    offset = tmp_path / "offset"
    offset.write_bytes(struct.pack("l", 0))
    return offset, {"LD_PRELOAD": str(compile_library("clock", tmp_path)), "CLOCK_OFFSET": str(offset)}


def test_of_two_versions_the_later_one_counts_although_the_clock_was_set_back(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = SimpleNamespace(
        now=lambda zone: datetime.now(zone) - timedelta(hours=1), fromtimestamp=datetime.fromtimestamp
    )
    root, plan = tmp_path / "store", tmp_path / "plan.md"
    for day in ("Monday", "Friday"):
        plan.write_text(f"# Plan\n\nWe bake on {day}, and nobody objects.\n")
        assert not ingest(root, [plan], replace(load(), threads=1)).refused
        assert [day in text for text in items(root).values()] == [True]
        monkeypatch.setattr(source, "datetime", late)


@pytest.mark.soak  # the test above has the same without processes
def test_the_clock_is_set_back_an_hour(tmp_path: Path, cache: Path, clock: tuple[Path, dict[str, str]]) -> None:
    offset, environ = clock
    with fleet(tmp_path / "fleet") as made:
        made.environ = environ
        made.kill("query")
        made.serve()
        made.worker(ALL)
        path = write_log(tmp_path / "notes.jsonl", "n", ["the loaf is in the oven"])
        whole = tmp_path / "plan.md"
        whole.write_text("# Plan\n\nWe bake on Monday, and nobody objects.\n")
        assert made.helix("enqueue", str(path), str(whole)).returncode == 0
        wait_until(60, made.is_idle, made.log)
        made.enqueue(made.write(tmp_path / "in", "cb", 6, 20))
        with offset.open("r+b") as file:
            file.write(struct.pack("l", -3_600))
        command = ["python3", "-c", "import time; print(time.time())"]
        now = subprocess.run(command, env={**os.environ, **environ}, capture_output=True)
        assert time.time() - float(now.stdout) > 3_500
        # Of two versions the one accepted later counts, whatever the clock says.
        whole.write_text("# Plan\n\nWe bake on Friday, and nobody objects.\n")
        write_log(path, "n", ["the loaf is in the oven", "and now it is out"])
        late = made.write(tmp_path / "late", "cc", 3)
        assert made.helix("enqueue", str(whole), str(path), str(late)).returncode == 0
        wait_until(60, made.is_idle, made.log)
        made.wait_for_newest()
        texts = [item["text"] for item in made.get("/v1/recall?query=when+do+we+bake&k=20")["items"]]
        assert [text for text in texts if "Friday" in text], texts
        assert not [text for text in texts if "Monday" in text], texts
        made.kill(ALL)  # locks, waits and leases continue, too
        made.worker(ALL)
        made.enqueue(made.write(tmp_path / "last", "cd", 3))
        wait_until(60, made.is_idle, made.log)
        assert inbox.list_dead(made.root) == {}
        made.expected |= {"n#n:0": "the loaf is in the oven", "n#n:1": "and now it is out"}
        plan = {place: text for place, text in items(made.root).items() if "bake" in text}
        assert len(plan) == 1
        made.expected |= plan
        made.check()


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, cache: Path, forks: Forks) -> Iterator[Fleet]:
    """A fleet whose workers a test starts and ends."""
    with fleet(tmp_path_factory.mktemp("fleet") / "fleet", forks=forks) as running:
        yield running


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of a version that made other parts, and knew fewer tasks."""
    folder = tmp_path_factory.mktemp("older")
    for name in ("helix", "pipelines", "workers", "query"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, after in (
        ("pipelines/ingest/part.py", "\nVERSION", "\nVERSION = 1  #"),
        (
            "pipelines/ingest/enrich.py",
            "texts = [record[",
            'texts = [record.update(text=record["text"].upper()) or record[',
        ),
        ("workers/tasks.py", "@_register_task\ndef touch(", "def touch("),
        ("workers/tasks.py", "@_register_task\ndef accept(", "def accept("),
    ):
        text = (folder / file).read_text()
        assert text.count(before) == 1, before
        (folder / file).write_text(text.replace(before, after))
    return folder


def test_a_worker_of_an_older_version_on_the_same_queues(crew: Fleet, tmp_path: Path, older: Path) -> None:
    crew.worker("old", ALL, PYTHONPATH=str(older))
    wait_until(60, lambda: bool(crew.events("reconcile begins")), crew.log)
    crew.enqueue(crew.write(tmp_path / "in", "ov", 4))
    crew.enqueue(crew.write(tmp_path / "order", "oo", 2), "--defer")
    wait_until(60, lambda: len(crew.events("enriched")) >= 4, crew.log)  # its parts are not of this store's pipeline
    crew.worker(ALL)
    crew.settle()
    assert crew.running["old"].poll() is None
    for name in ("old", ALL):
        crew.kill(name)


@pytest.mark.soak  # tests/unit/snapshot/ledger/test_attempts.py: a second process gets no claim
def test_a_task_longer_than_the_visibility_timeout_does_not_run_twice(crew: Fleet, tmp_path: Path) -> None:
    short = {"HELIX_VISIBILITY_TIMEOUT": "4", "HELIX_TASK_TIME_LIMIT": "3"}
    crew.worker("slow", ALL, **short)
    crew.enqueue(crew.write(tmp_path / "in", "vt", 1, 60))
    (document,) = inbox.list_pending(crew.root)
    wait_until(60, lambda: attempts.is_running(crew.root, document), crew.log)
    os.killpg(crew.running["slow"].pid, signal.SIGSTOP)  # so that its own time limit does not end it
    crew.worker("quick", ALL, **short)
    wait_until(60, lambda: bool(crew.events("another process works on it", document=document)), crew.log)
    assert not crew.events("enriched", document=document)
    os.killpg(crew.running["slow"].pid, signal.SIGCONT)
    crew.settle()
    assert len(crew.events("committed", document=document)) == 1
    for name in ("slow", "quick"):
        crew.kill(name)


def test_a_document_that_takes_too_long_is_tried_three_times(crew: Fleet, tmp_path: Path) -> None:
    # The soft limit is one second, the hard one far away. The first task of a process also loads the encoder, so the
    # document is long.
    limits = {"HELIX_TASK_TIME_LIMIT": "20", "HELIX_VISIBILITY_TIMEOUT": "3600", "HELIX_EMBED_BATCH": "4"}
    crew.enqueue(write_log(tmp_path / "long.jsonl", "l", [f"remark {i} {'walnut ' * 100}" for i in range(500)]))
    (document,) = inbox.list_pending(crew.root)
    crew.worker("limited", ALL, **limits)
    wait_until(60, lambda: inbox.is_dead(crew.root, document), crew.log)
    error = str(inbox.list_dead(crew.root)[document]["error"])
    assert "HELIX_TASK_TIME_LIMIT (20 s)" in error
    assert "tried 3 times" in error
    crew.kill("limited")
    crew.check(dead=1)
    (crew.root / "dead" / f"{document}.json").unlink()  # for the other tests of this fleet
    (crew.root / "inbox" / document).unlink()


@pytest.mark.soak
def test_a_worker_starts_although_its_broker_is_silent(tmp_path: Path, cache: Path, forks: Forks) -> None:
    redis = Redis(tmp_path / "redis")
    redis.start()
    with fleet(tmp_path / "fleet", forks=forks) as made:
        own, made.redis = made.redis, redis
        try:
            with redis.silent():
                made.worker(ALL)
                made.enqueue(made.write(tmp_path / "in", "bs", 2))
                time.sleep(4)
                assert made.running[ALL].poll() is None
            made.settle()
        finally:
            made.redis = own
            redis.kill()
