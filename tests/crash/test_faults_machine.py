"""Faults of the machine and of its operators: a disk that is full, a clock set back, an older version, a time limit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import helix
from helix.settings import load
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest.ingest import ingest
from tests.crash.test_full_disk import disk
from tests.crash.test_kill import write_log
from tests.support.fleet import Fleet, Forks, Redis, fleet, left, within
from tests.support.paths import ROOT

ALL = "accept,enrich,bulk,commit,maintain"
HERE = ROOT / "tests" / "support"
SOURCES = Path(helix.__file__).parents[1]


def seed(logs: Path, root: Path) -> None:
    assert not ingest(root, [logs], replace(load(), threads=1)).refused


# ---------------------------------------------------------------- the disk


def test_a_full_and_then_a_read_only_disk(tmp_path: Path, cache: Path, forks: Forks) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder, "160m") as small, fleet(tmp_path / "fleet", seed, forks=forks) as made:
        shutil.copytree(made.root, small.folder / "store", ignore=shutil.ignore_patterns("pins"))
        made.kill("query")
        made.root = small.folder / "store"
        made.serve()
        made.worker(ALL)
        made.enqueue(made.write(tmp_path / "in", "fd", 6, 20))
        small.fill(64 << 10)  # an envelope fits, a part does not
        within(60, lambda: "OSError 28" in made.said() or "No space left" in made.said(), made.said)
        time.sleep(2)
        assert ledger.dead(made.root) == {}  # it is no fault of the documents
        assert not [record for record in tries.records(made.root).values() if record.failed]
        small.empty()
        made.settles()

        made.stop(ALL)
        made.enqueue(made.write(tmp_path / "late", "ro", 3))
        made.stop("query")  # it has its claim open to be written
        assert not small.run(f"mount -o remount,ro '{small.inside}'")
        made.serve()
        refused = made.start("worker", "worker", "--queues", ALL)
        assert refused.wait(30) == 4  # a clear word, and no worker
        assert "cannot write the store" in made.said()
        assert "check its owner, its permissions and the free space" in made.said()
        made.running.pop("worker")
        made.recallable("fd0#fd0:0")
        assert set(made.asked) == {"200"}
        made.stop("query")
        assert not small.run(f"mount -o remount,rw '{small.inside}'")
        made.serve()
        made.worker(ALL)
        made.settles()


# ---------------------------------------------------------------- the clock


@pytest.fixture
def clock(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file that holds by how many seconds the clock is off, and the environment of processes that go by it."""
    library = tmp_path / "clock.so"
    done = subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "clock.c"), "-ldl"], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    offset = tmp_path / "offset"
    offset.write_bytes(struct.pack("l", 0))
    return offset, {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}


def set_clock(offset: Path, seconds: int) -> None:
    with offset.open("r+b") as file:
        file.write(struct.pack("l", seconds))


def test_the_clock_is_set_back_an_hour(tmp_path: Path, cache: Path, clock: tuple[Path, dict[str, str]]) -> None:
    offset, environ = clock
    with fleet(tmp_path / "fleet", seed) as made:
        made.environ = environ
        made.kill("query")
        made.serve()
        made.worker(ALL)
        path = write_log(tmp_path / "notes.jsonl", "n", ["the loaf is in the oven"])
        whole = tmp_path / "plan.md"
        whole.write_text("# Plan\n\nWe bake on Monday, and nobody objects.\n")
        assert made.helix("enqueue", str(path), str(whole)).returncode == 0
        within(60, made.idle, made.said)
        made.enqueue(made.write(tmp_path / "in", "cb", 6, 20))
        set_clock(offset, -3_600)
        now = subprocess.run(
            ["python3", "-c", "import time; print(time.time())"], env={**os.environ, **environ}, capture_output=True
        )
        assert time.time() - float(now.stdout) > 3_500  # it is set back
        # What comes later counts, whatever the clock says: a version and a log that grew.
        whole.write_text("# Plan\n\nWe bake on Friday, and nobody objects.\n")
        write_log(path, "n", ["the loaf is in the oven", "and now it is out"])
        late = made.write(tmp_path / "late", "cc", 3)
        assert made.helix("enqueue", str(whole), str(path), str(late)).returncode == 0
        within(60, made.idle, made.said)
        made.serves_newest()
        told = [item["text"] for item in made.get("/v1/recall?query=when+do+we+bake&k=20")["items"]]
        assert [text for text in told if "Friday" in text], told
        assert not [text for text in told if "Monday" in text], told
        made.kill(ALL)  # locks, waits and leases go on, too
        made.worker(ALL)
        made.enqueue(made.write(tmp_path / "last", "cd", 3))
        within(60, made.idle, made.said)
        assert ledger.dead(made.root) == {}
        made.expected |= {"n#n:0": "the loaf is in the oven", "n#n:1": "and now it is out"}
        plan = {place: text for place, text in _items(made).items() if "bake" in text}
        assert len(plan) == 1
        made.expected |= plan
        made.check()


def _items(made: Fleet) -> dict[str, str]:
    from tests.crash.test_kill import items

    return items(made.root)


# ---------------------------------------------------------------- versions


WRONG = """    for record in found.records:
        record["text"] = record["text"].upper()
    texts = [record["text"] for record in found.records]"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of a version that made other parts, and knew fewer tasks."""
    folder = tmp_path_factory.mktemp("older")
    for name in ("helix", "pipelines", "workers", "query"):
        shutil.copytree(SOURCES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, after in (
        ("pipelines/ingest/enrich.py", "\nVERSION = ", "\nVERSION = 1"),
        ("pipelines/ingest/enrich.py", '    texts = [record["text"] for record in found.records]', WRONG),
        ("workers/tasks.py", "@_task\ndef touch()", "def touch()"),
        ("workers/tasks.py", "@_task\ndef accept(", "def accept("),
    ):
        text = (folder / file).read_text()
        assert text.count(before) == 1
        (folder / file).write_text(text.replace(before, after))
    return folder


def test_a_worker_of_an_older_version_on_the_same_queues(
    tmp_path: Path, cache: Path, older: Path, forks: Forks
) -> None:
    with fleet(tmp_path / "fleet", seed, forks=forks) as made:
        made.worker("old", ALL, PYTHONPATH=str(older))
        within(60, lambda: bool(made.events("reconcile begins")), made.said)
        made.enqueue(made.write(tmp_path / "in", "ov", 4))
        made.enqueue(made.write(tmp_path / "order", "oo", 2), "--defer")
        within(60, lambda: len(made.events("enriched")) >= 4, made.said)  # its parts are not what this store is made of
        made.worker(ALL)
        made.settles()
        assert made.running["old"].poll() is None


# ---------------------------------------------------------------- time


def test_a_task_that_takes_longer_than_the_visibility_timeout_does_not_run_twice(
    tmp_path: Path, cache: Path, forks: Forks
) -> None:
    short = {"HELIX_VISIBILITY_TIMEOUT": "4", "HELIX_TASK_TIME_LIMIT": "3"}
    with fleet(tmp_path / "fleet", seed, forks=forks) as made:
        made.worker("slow", ALL, **short)
        made.enqueue(made.write(tmp_path / "in", "vt", 1, 60))
        within(60, lambda: any(tries.is_running(made.root, name) for name in tries.records(made.root)), made.said)
        os.killpg(made.running["slow"].pid, signal.SIGSTOP)  # no clock of its own runs now
        document = next(iter(tries.records(made.root)))
        made.worker("quick", ALL, **short)
        within(60, lambda: bool(made.events("another process is at it", document=document)), made.said)
        assert not made.events("enriched", document=document)
        os.killpg(made.running["slow"].pid, signal.SIGCONT)
        made.settles()
        assert len(made.events("committed", document=document)) == 1


def test_a_document_that_takes_too_long_is_tried_three_times(tmp_path: Path, cache: Path, forks: Forks) -> None:
    # The soft limit is one second. The first task of a process loads the encoder: the limit is tried with a long one.
    limits = {"HELIX_TASK_TIME_LIMIT": "2", "HELIX_VISIBILITY_TIMEOUT": "3600", "HELIX_EMBED_BATCH": "4"}
    with fleet(tmp_path / "fleet", seed, forks=forks) as made:
        made.worker("limited", ALL, **limits)
        path = write_log(tmp_path / "long.jsonl", "l", [f"remark {i} {'walnut ' * 100}" for i in range(2_000)])
        made.enqueue(path)
        document = ledger.pending(made.root)[0]
        within(60, lambda: ledger.is_dead(made.root, document), made.said)
        assert "HELIX_TASK_TIME_LIMIT (2 s)" in str(ledger.dead(made.root)[document]["error"])
        assert "tried 3 times" in str(ledger.dead(made.root)[document]["error"])
        made.check(dead=1)


# ---------------------------------------------------------------- what is said


def test_no_log_holds_a_word_of_a_document(tmp_path: Path, cache: Path, forks: Forks) -> None:
    """Whatever goes wrong with it."""
    with fleet(tmp_path / "fleet", seed, forks=forks) as made:
        made.enqueue(write_log(tmp_path / "a.jsonl", "a", ["the zorbified harp is mine"] * 3))
        made.enqueue(write_log(tmp_path / "b.jsonl", "b", ["the zorbified lute is mine"]))
        broken = ledger.pending(made.root)[1]
        envelope = made.root / "inbox" / broken
        envelope.write_bytes(envelope.read_bytes()[:-1] + b"#")
        poison = ledger.pending(made.root)[0]
        made.worker(ALL, HELIX_FAILPOINT=f"enrich.begin@{poison}")
        within(90, lambda: len(ledger.dead(made.root)) == 2, made.said)
        said = made.log.read_text(errors="replace")
        assert "zorbified" not in said
        stages = {entry["event"] for entry in made.events("given up")}
        assert stages == {"given up"}
        workers = [line for line in said.splitlines() if line.startswith("{")]
        assert workers
        assert all({"time", "level", "logger", "event"} <= json.loads(line).keys() for line in workers)


# ---------------------------------------------------------------- starting and stopping


def test_a_broker_that_is_silent_at_first(tmp_path: Path, cache: Path, forks: Forks) -> None:
    redis = Redis(tmp_path / "redis")
    redis.start()
    with fleet(tmp_path / "fleet", seed, forks=forks) as made:
        own, made.redis = made.redis, redis
        try:
            with redis.silent():
                made.worker(ALL)
                made.enqueue(made.write(tmp_path / "in", "bs", 2))
                time.sleep(4)
                assert made.running[ALL].poll() is None
            made.settles()
        finally:
            made.redis = own
            redis.kill()


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    """Whatever a test does to its workers, none of their processes is left."""
    before = set(left())
    yield
    within(10, lambda: set(left()) <= before, lambda: str(left()))
