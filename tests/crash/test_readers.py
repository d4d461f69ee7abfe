"""Readers: many generations cost nothing, and the files of an open one stay until it lets go or dies."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.errors import StoreError
from helix.sdk.memory import Memory
from helix.snapshot import gc as collector
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, pins, verify, writer
from helix.snapshot.gc import collect_garbage
from helix.snapshot.reader import generation
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment import open as segment
from pipelines.maintain.compact import compact
from tests.compat.history import DIM, current, delete, grow, publish
from tests.support.paths import ROOT
from tests.support.tiny import SETTINGS, make_store

Start = Callable[..., subprocess.Popen[str]]
NOW = "2026-06-01"
TEXTS = [f"remark {i} about walnut bread and the oven of number {i % 7}" for i in range(400)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    make_store(folder, TEXTS, np.ones((len(TEXTS), DIM)) / 2)
    return folder


def list_pins(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "pins").iterdir())


def read_texts(snapshot: Snapshot) -> list[str]:
    """Return every live text, and open the lazy parts."""
    rows = np.flatnonzero(snapshot.alive)
    assert len(snapshot.catalog.last_access) == snapshot.rows
    assert snapshot.vectors.centroids.shape[1] == DIM
    return [entry["text"] for entry in snapshot.text(rows)]


def list_files(root: Path, name: str) -> list[Path]:
    """Return a manifest and the files it names."""
    manifest = manifests.load(root, name)
    return [root / "manifests" / name, *(root / file.path for file in manifest.files())]


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of this process."""

    descriptors: int
    private: int  # bytes that are this process's alone
    mappings: int


def measure_usage() -> Usage:
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup").read_text()
    private = sum(int(kb) for kb in re.findall(r"^Private_\w+: +(\d+) kB", rollup, re.MULTILINE))
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return Usage(len(list(Path("/proc/self/fd").iterdir())), private << 10, mappings)


def write_generations(root: Path, count: int) -> None:
    """Publish on every line of stdin; every tenth generation adds a segment or merges some."""
    for i in range(count):
        sys.stdin.readline()
        if i % 10 == 9:
            grow(root, TEXTS[:8], f"s{i}")
            compact(root, SETTINGS)
        else:
            publish(root, watermarks={"events": {"x": i}})
        if i % 50 == 49:
            collect_garbage(root, keep=3, grace=0.0, wait=5.0)
        sys.stdout.write(f"{i}\n")
        sys.stdout.flush()


@pytest.fixture
def child() -> Iterator[Start]:
    """Start this module, or code, in its own process."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, cwd=ROOT, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=240)


def exchange(process: subprocess.Popen[str], text: str = "") -> str:
    """Send a line, and return the next one."""
    assert process.stdout is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def read_generations(root: Path, count: int) -> None:
    """Open a reader, take each generation that another process writes, and print its usage."""
    writing = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.test_readers", "write", str(root), str(count)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    memory = Memory(root)
    usages = []
    for i in range(count):
        assert exchange(writing) == str(i)
        assert memory.refresh()
        assert memory.snapshot.name == manifests.read_current(root)
        if i in (count // 2 - 1, count - 1):
            usages.append(asdict(measure_usage()))
    assert len(memory.recall("walnut bread").items) == 10
    assert memory.snapshot.live == len(TEXTS) + count // 10 * 8
    assert len(list_pins(root)) == 1
    assert pins.list_pinned(root) == {memory.snapshot.name}
    writing.communicate(timeout=240)
    sys.stdout.write(json.dumps(usages) + "\n")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux reports a process's resources")
@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.soak)])
def test_many_generations_do_not_grow_a_reader(root: Path, child: Start, count: int) -> None:
    """Reader and writer have a process each, without the leftovers of other tests."""
    before, after = (
        Usage(**entry) for entry in json.loads(exchange(child("-m", "tests.crash.test_readers", "read", root, count)))
    )
    assert after.descriptors <= before.descriptors, (before, after)
    # A segment or two and 600 items fit these bounds; a leaked generation takes 1 descriptor and 90 kB.
    assert after.private <= before.private + (4 << 20), (before, after)
    assert after.mappings <= before.mappings + 200, (before, after)


def replace_all(root: Path) -> None:
    """Publish a generation that shares no file with earlier ones."""
    grow(root, ["the parsley is in the blue bowl"], "p")
    delete(root, 0, [1, 2])
    compact(root, SETTINGS, full=True)


def collect_all(root: Path) -> None:
    collect_garbage(root, keep=1, grace=0.0, wait=5.0)


def supersede(root: Path) -> None:
    replace_all(root)
    collect_all(root)


def assert_collected(root: Path, files: list[Path]) -> None:
    collect_all(root)
    assert not any(path.exists() for path in files)


def test_an_open_generation_stays_until_the_reader_takes_the_next(root: Path) -> None:
    grow(root, ["the walnuts are in the jar"])
    delete(root, 0, [3])
    memory = Memory(root)
    name, before = str(memory.snapshot.name), read_texts(memory.snapshot)
    answer = memory.recall("walnut jar", now=NOW).items
    held = list_files(root, name)
    supersede(root)
    assert {path.name for path in (root / "manifests").iterdir()} == {name, manifests.read_current(root)}
    assert all(path.exists() for path in held)
    assert read_texts(Snapshot.open(root, name)) == before  # a second reader of it, opened now
    assert memory.recall("walnut jar", now=NOW).items == answer
    assert verify.verify_store(root).problems == ()
    assert memory.refresh()
    assert_collected(root, held)
    assert {path.name for path in (root / "manifests").iterdir()} == {memory.snapshot.name}
    with pytest.raises(StoreError, match="does not exist"):
        Snapshot.open(root, name)
    assert len(list_pins(root)) == 1
    assert "the parsley is in the blue bowl" in read_texts(memory.snapshot)
    report = verify.verify_store(root)
    assert (report.problems, report.orphans) == ((), ())


def test_an_open_generation_goes_with_its_last_reference(root: Path) -> None:
    memory = Memory(root)
    held = list_files(root, str(memory.snapshot.name))
    replace_all(root)
    snapshot = memory.snapshot
    del memory
    gc.collect()
    collect_all(root)
    assert all(path.exists() for path in held)  # the snapshot alone holds it
    del snapshot
    gc.collect()
    assert list_pins(root) == []
    assert_collected(root, held)


HOLD = """
import sys
from pathlib import Path
from helix.sdk.memory import Memory
memory = Memory(Path(sys.argv[1]))
for line in sys.stdin:
    print(memory.recall("walnut bread").items[0].id, memory.snapshot.generation, flush=True)
"""


def test_an_open_generation_goes_when_its_process_ends_or_is_killed(root: Path, child: Start) -> None:
    reading, ending = child("-c", HOLD, root), child("-c", HOLD, root)
    answer = exchange(reading)
    assert exchange(ending) == answer
    assert len(list_pins(root)) == 2
    ending.communicate(timeout=240)
    assert len(list_pins(root)) == 1
    assert answer.endswith(" 1")
    held = list_files(root, str(manifests.read_current(root)))
    supersede(root)
    assert all(path.exists() for path in held)
    assert exchange(reading) == answer
    assert len(list_pins(root)) == 1
    reading.send_signal(signal.SIGKILL)
    reading.wait(60)
    assert len(list_pins(root)) == 1  # the killed process cannot remove it
    collect_all(root)
    assert list_pins(root) == []
    assert not any(path.exists() for path in held)


@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_fork_shares_a_pin_until_the_last_process_lets_go(root: Path, first: str) -> None:
    """A server that opens the store and then forks its workers."""
    snapshot = Snapshot.open(root)
    held = list_files(root, str(snapshot.name))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # no assertion here: a failure would continue as the test
        if first == "parent":
            os.read(reading, 1)
        del snapshot
        gc.collect()
        os._exit(0)
    if first == "child":
        assert os.waitpid(child, 0)[1] == 0
    else:
        del snapshot
        gc.collect()
    supersede(root)
    assert all(path.exists() for path in held)
    if first == "child":
        assert len(read_texts(snapshot)) == len(TEXTS)
        del snapshot
        gc.collect()
    else:
        os.write(writing, b"x")
        assert os.waitpid(child, 0)[1] == 0
    os.close(reading)
    os.close(writing)
    assert list_pins(root) == []
    assert_collected(root, held)


def test_a_generation_that_cannot_be_opened_is_not_pinned(root: Path) -> None:
    memory = Memory(root)
    before = measure_usage()
    grow(root, ["the parsley is in the blue bowl"], "p")
    broken = root / current(root).segments[-1].files[0].path
    data = broken.read_bytes()
    broken.unlink()
    errors: list[StoreError] = []  # their frames hold what was opened
    for _ in range(20):
        with pytest.raises(StoreError) as error:
            memory.refresh()
        errors.append(error.value)
        assert len(list_pins(root)) == 1
    after = measure_usage()
    assert after.descriptors <= before.descriptors
    assert pins.list_pinned(root) == {memory.snapshot.name}
    errors.clear()
    del error
    paths.write_file(broken, data)
    assert memory.refresh()
    gc.collect()
    assert pins.list_pinned(root) == {memory.snapshot.name}
    current_name = (root / "CURRENT").read_text()
    (root / "CURRENT").unlink()
    with pytest.raises(StoreError, match="CURRENT is missing") as missing:
        memory.refresh()
    assert "helix rollback" in missing.value.remedy
    assert memory.recall("walnut bread").items
    (root / "CURRENT").write_text(current_name)
    assert not memory.refresh()


def test_a_generation_removed_before_its_pin_is_skipped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader reads CURRENT; a commit and a gc follow; then it pins the removed generation."""
    real = pins.pin_generation
    wanted: list[str] = []

    def pin_late(where: Path, name: str) -> Any:
        wanted.append(name)
        if len(wanted) == 1:
            supersede(root)
            assert not (root / "manifests" / name).exists()
        return real(where, name)

    monkeypatch.setattr(generation, "pin_generation", pin_late)
    snapshot = Snapshot.open(root)
    assert snapshot.name == manifests.read_current(root) == wanted[-1] != wanted[0]
    assert "the parsley is in the blue bowl" in read_texts(snapshot)
    assert pins.list_pinned(root) == {snapshot.name}
    assert len(list_pins(root)) == 1


def test_a_reader_keeps_the_files_that_a_gc_is_about_to_remove(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gc reads the pins; then the reader pins and opens; then the manifest goes."""
    old = str(manifests.read_current(root))
    held = list_files(root, old)
    replace_all(root)
    real = pins.list_pinned
    opened: list[Snapshot] = []

    def open_early(where: Path) -> set[str]:
        names = real(where)
        if not opened:
            opened.append(Snapshot.open(root, old))
        return names

    monkeypatch.setattr(collector, "list_pinned", open_early)
    collect_all(root)
    assert not held[0].exists()  # the manifest, which it has in memory
    assert all(path.exists() for path in held[1:])
    assert read_texts(opened[0]) == TEXTS
    assert verify.verify_store(root).problems == ()
    monkeypatch.undo()
    opened.clear()
    gc.collect()
    assert_collected(root, held)


def test_without_pins_files_that_vanish_during_an_open_are_no_damage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only volume allows no pins: the reader takes the newer generation instead."""
    real = segment.open_segment
    tries: list[str] = []

    def open_late(*arguments: Any, **options: Any) -> Any:
        tries.append(str(manifests.read_current(root)))
        if len(tries) == 1:
            supersede(root)
        return real(*arguments, **options)

    monkeypatch.setattr(generation, "pin_generation", lambda *_: None)
    monkeypatch.setattr(generation, "open_segment", open_late)
    snapshot = Snapshot.open(root)
    assert snapshot.name == manifests.read_current(root)
    assert "the parsley is in the blue bowl" in read_texts(snapshot)


def test_generations_that_change_faster_than_they_open_end_in_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pins.pin_generation

    def pin_late(where: Path, name: str) -> Any:
        publish(root, watermarks={"events": {name: 1}})
        collect_all(root)
        return real(where, name)

    monkeypatch.setattr(generation, "pin_generation", pin_late)
    with pytest.raises(StoreError, match="change faster") as error:
        Snapshot.open(root)
    assert error.value.remedy == "try again"
    assert list_pins(root) == []


@pytest.fixture
def without_pins(root: Path) -> Path:
    """A store whose `pins` is a file: even root cannot create a file in it."""
    (root / "pins").rmdir()
    (root / "pins").write_text("")
    return root


def test_a_reader_that_cannot_pin_opens_answers_and_refreshes(without_pins: Path) -> None:
    root = without_pins
    memory = Memory(root)
    assert read_texts(memory.snapshot) == TEXTS
    answer = memory.recall("walnut bread").items
    assert len(answer) == 10
    assert pins.list_pinned(root) == set()
    supersede(root)  # the gc cannot know of the reader, whose mapped files still exist for it
    assert [item.id for item in memory.recall("walnut bread").items] == [item.id for item in answer]
    assert memory.refresh()
    assert "the parsley is in the blue bowl" in read_texts(memory.snapshot)


def test_the_grace_period_protects_readers_that_cannot_pin(without_pins: Path) -> None:
    root = without_pins
    held = list_files(root, str(manifests.read_current(root)))
    replace_all(root)
    collect_garbage(root, keep=1, grace=60.0, wait=5.0)
    assert all(path.exists() for path in held)
    assert read_texts(Snapshot.open(root, held[0].name)) == TEXTS


def test_pins_of_dead_processes_go_and_others_stay(root: Path) -> None:
    snapshot = Snapshot.open(root)
    folder = root / "pins"
    (path,) = folder.iterdir()
    fields = json.loads(path.read_text())
    assert (fields["manifest"], fields["pid"], path.stat().st_mode & 0o077) == (snapshot.name, os.getpid(), 0)
    for name in ("0123456789abcdef", ".tmp-0123456789abcdef", ".tmp-fedcba9876543210"):
        (folder / name).write_text('{"manifest": "00000001-gone.json", "pid": 1, "host": "h"}')
    os.utime(folder / ".tmp-0123456789abcdef", (0, 0))
    assert pins.list_pinned(root) == {snapshot.name}
    assert list_pins(root) == [".tmp-fedcba9876543210", path.name]  # a reader may be about to hold the first


def test_an_empty_store_has_no_pin(tmp_path: Path) -> None:
    paths.create_folders(tmp_path / "s")
    assert Memory(tmp_path / "s").snapshot.generation == 0
    assert list_pins(tmp_path / "s") == []
    with writer.acquire_lock(tmp_path / "s", 1.0):
        pass


if __name__ == "__main__":
    {"write": write_generations, "read": read_generations}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
