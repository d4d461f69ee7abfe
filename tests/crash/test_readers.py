"""Readers: many generations cost an open one nothing, and what it has open stays until it lets go or dies."""

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
from helix.snapshot.gc import collect
from helix.snapshot.reader import snapshot as reader
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


def pinned_files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "pins").iterdir())


def found(snapshot: Snapshot) -> list[str]:
    """What a snapshot shows: every live text, and what the lazily opened parts say."""
    rows = np.flatnonzero(snapshot.alive)
    assert len(snapshot.catalog.last_access) == snapshot.rows
    assert snapshot.vectors.centroids.shape[1] == DIM
    return [entry["text"] for entry in snapshot.text(rows)]


def files_of(root: Path, name: str) -> list[Path]:
    """A manifest and what it names."""
    manifest = manifests.load(root, name)
    return [root / "manifests" / name, *(root / file.path for file in manifest.files())]


# ---------------------------------------------------------------- what an open reader costs


@dataclass(frozen=True, slots=True)
class Usage:
    """Of this process."""

    descriptors: int
    private: int  # bytes that are this process's alone
    mappings: int


def usage() -> Usage:
    gc.collect()
    rollup = Path("/proc/self/smaps_rollup").read_text()
    private = sum(int(kb) for kb in re.findall(r"^Private_\w+: +(\d+) kB", rollup, re.MULTILINE))
    mappings = len(Path("/proc/self/maps").read_text().splitlines())
    return Usage(len(list(Path("/proc/self/fd").iterdir())), private << 10, mappings)


def write_generations(root: Path, count: int) -> None:
    """Publish on every line of stdin; every tenth generation has a segment more, or fewer where they were merged."""
    for i in range(count):
        sys.stdin.readline()
        if i % 10 == 9:
            grow(root, TEXTS[:8], f"s{i}")
            compact(root, SETTINGS)
        else:
            publish(root, watermarks={"events": {"x": i}})
        if i % 50 == 49:
            collect(root, keep=3, grace=0.0, wait=5.0)
        sys.stdout.write(f"{i}\n")
        sys.stdout.flush()


@pytest.fixture
def child() -> Iterator[Start]:
    """Starts this module, or code, in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=10)


def line(process: subprocess.Popen[str], say: str = "") -> str:
    """Say a line and wait for one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{say}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def read_generations(root: Path, count: int) -> None:
    """Open a reader, have generations written by another process, take each, and tell what it cost."""
    writing = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.test_readers", "write", str(root), str(count)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    memory = Memory(root)
    usages = []
    for i in range(count):
        assert line(writing) == str(i)
        assert memory.refresh()
        assert memory.snapshot.name == manifests.current_name(root)
        if i in (199, count - 1):
            usages.append(asdict(usage()))
    assert len(memory.recall("walnut bread").items) == 10
    assert memory.snapshot.live == len(TEXTS) + count // 10 * 8
    assert len(pinned_files(root)) == 1
    assert pins.pinned(root) == {memory.snapshot.name}
    writing.communicate(timeout=10)
    sys.stdout.write(json.dumps(usages) + "\n")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what a process holds")
@pytest.mark.parametrize("count", [400, pytest.param(1_000, marks=pytest.mark.soak)])
def test_many_generations_leave_a_reader_as_small_as_it_was(root: Path, child: Start, count: int) -> None:
    """Reader and writer have a process each: what other tests left in this one is not the reader's."""
    before, after = (
        Usage(**entry) for entry in json.loads(line(child("-m", "tests.crash.test_readers", "read", root, count)))
    )
    assert after.descriptors <= before.descriptors, (before, after)
    # Bounds of what a segment or two and 600 items more take; a generation that is kept takes 1 descriptor and 90 kB.
    assert after.private <= before.private + (4 << 20), (before, after)
    assert after.mappings <= before.mappings + 200, (before, after)


# ---------------------------------------------------------------- what an open reader keeps


def move_on(root: Path) -> None:
    """A generation that shares no file with those before it, and none of those is wanted any more."""
    grow(root, ["the parsley is in the blue bowl"], "p")
    delete(root, 0, [1, 2])
    compact(root, SETTINGS, full=True)


def collect_all(root: Path) -> None:
    collect(root, keep=1, grace=0.0, wait=5.0)


def test_what_a_reader_has_open_stays_until_it_takes_the_next(root: Path) -> None:
    grow(root, ["the walnuts are in the jar"])
    delete(root, 0, [3])
    memory = Memory(root)
    name, before = str(memory.snapshot.name), found(memory.snapshot)
    answer = memory.recall("walnut jar", now=NOW).items
    held = files_of(root, name)
    move_on(root)
    collect_all(root)
    assert {path.name for path in (root / "manifests").iterdir()} == {name, manifests.current_name(root)}
    assert all(path.exists() for path in held)
    assert found(Snapshot.open(root, name)) == before  # a second reader of it, opened now
    assert memory.recall("walnut jar", now=NOW).items == answer
    assert verify.verify(root).problems == ()
    assert memory.refresh()
    collect_all(root)
    assert not any(path.exists() for path in held)
    assert {path.name for path in (root / "manifests").iterdir()} == {memory.snapshot.name}
    assert "the parsley is in the blue bowl" in found(memory.snapshot)
    report = verify.verify(root)
    assert (report.problems, report.orphans) == ((), ())


def test_what_a_reader_has_open_goes_when_nobody_refers_to_it_any_more(root: Path) -> None:
    memory = Memory(root)
    held = files_of(root, str(memory.snapshot.name))
    move_on(root)
    snapshot = memory.snapshot
    del memory
    gc.collect()
    collect_all(root)
    assert all(path.exists() for path in held)  # the snapshot alone keeps it
    del snapshot
    gc.collect()
    assert pinned_files(root) == []
    collect_all(root)
    assert not any(path.exists() for path in held)


HOLD = """
import sys
from pathlib import Path
from helix.sdk.memory import Memory
memory = Memory(Path(sys.argv[1]))
for line in sys.stdin:
    print(memory.recall("walnut bread").items[0].id, memory.snapshot.generation, flush=True)
"""


def test_what_a_reader_had_open_goes_when_its_process_is_killed(root: Path, child: Start) -> None:
    reading = child("-c", HOLD, root)
    said = line(reading)
    assert said.endswith(" 1")
    held = files_of(root, str(manifests.current_name(root)))
    move_on(root)
    collect_all(root)
    assert all(path.exists() for path in held)
    assert line(reading) == said
    assert len(pinned_files(root)) == 1
    reading.send_signal(signal.SIGKILL)
    reading.wait(10)
    assert len(pinned_files(root)) == 1  # it could not tidy up
    collect_all(root)
    assert pinned_files(root) == []
    assert not any(path.exists() for path in held)


def test_a_reader_that_ends_leaves_no_pin(root: Path, child: Start) -> None:
    reading = child("-c", HOLD, root)
    line(reading)
    assert len(pinned_files(root)) == 1
    reading.communicate(timeout=20)
    assert pinned_files(root) == []


@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_fork_shares_a_claim_and_the_last_one_to_let_go_ends_it(root: Path, first: str) -> None:
    """A server that opens the store and then forks its workers."""
    snapshot = Snapshot.open(root)
    held = files_of(root, str(snapshot.name))
    let_go, told = os.pipe()
    child = os.fork()
    if child == 0:  # no assertion here: it would run on as the test
        if first == "parent":
            os.read(let_go, 1)
        del snapshot
        gc.collect()
        os._exit(0)
    if first == "child":
        assert os.waitpid(child, 0)[1] == 0
    else:
        del snapshot
        gc.collect()
    move_on(root)
    collect_all(root)
    assert all(path.exists() for path in held)
    if first == "child":
        assert len(found(snapshot)) == len(TEXTS)
        del snapshot
        gc.collect()
    else:
        os.write(told, b"x")
        assert os.waitpid(child, 0)[1] == 0
    os.close(let_go)
    os.close(told)
    assert pinned_files(root) == []
    collect_all(root)
    assert not any(path.exists() for path in held)


def test_a_generation_that_cannot_be_opened_is_not_claimed(root: Path) -> None:
    memory = Memory(root)
    before = usage()
    grow(root, ["the parsley is in the blue bowl"], "p")
    broken = root / current(root).segments[-1].files[0].path
    data = broken.read_bytes()
    broken.unlink()
    kept: list[StoreError] = []  # an error has frames, and they what was opened
    for _ in range(20):
        with pytest.raises(StoreError) as error:
            memory.refresh()
        kept.append(error.value)
        assert len(pinned_files(root)) == 1
    after = usage()
    assert after.descriptors <= before.descriptors
    assert pins.pinned(root) == {memory.snapshot.name}
    kept.clear()
    del error
    paths.write_file(broken, data)
    assert memory.refresh()
    gc.collect()
    assert pins.pinned(root) == {memory.snapshot.name}


def test_a_current_that_is_gone_does_not_empty_an_open_memory(root: Path) -> None:
    memory = Memory(root)
    name = (root / "CURRENT").read_text()
    (root / "CURRENT").unlink()
    with pytest.raises(StoreError, match="CURRENT is missing") as error:
        memory.refresh()
    assert "helix rollback" in error.value.remedy
    assert memory.recall("walnut bread").items
    (root / "CURRENT").write_text(name)
    assert not memory.refresh()


# ---------------------------------------------------------------- between two looks


def test_a_generation_removed_before_it_was_pinned_is_given_up_for_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CURRENT is read; a commit and a gc come; then the pin is set, on what is gone."""
    real = pins.pin
    wanted: list[str] = []

    def late(where: Path, name: str) -> Any:
        wanted.append(name)
        if len(wanted) == 1:
            move_on(root)
            collect_all(root)
            assert not (root / "manifests" / name).exists()
        return real(where, name)

    monkeypatch.setattr(reader, "pin", late)
    snapshot = Snapshot.open(root)
    assert snapshot.name == manifests.current_name(root) == wanted[-1] != wanted[0]
    assert "the parsley is in the blue bowl" in found(snapshot)
    assert pins.pinned(root) == {snapshot.name}
    assert len(pinned_files(root)) == 1


def test_a_reader_that_loads_what_a_gc_is_about_to_remove_keeps_its_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gc has looked at the pins; then the reader pins and opens; then the manifest goes."""
    old = str(manifests.current_name(root))
    held = files_of(root, old)
    move_on(root)
    real = pins.pinned
    opened: list[Snapshot] = []

    def early(where: Path) -> set[str]:
        names = real(where)
        if not opened:
            opened.append(Snapshot.open(root, old))
        return names

    monkeypatch.setattr(collector, "pinned", early)
    collect_all(root)
    assert not held[0].exists()  # the manifest, which it has in memory
    assert all(path.exists() for path in held[1:])
    assert found(opened[0]) == TEXTS
    assert verify.verify(root).problems == ()
    monkeypatch.undo()
    opened.clear()
    gc.collect()
    collect_all(root)
    assert not any(path.exists() for path in held)


def test_without_a_pin_files_that_go_while_they_are_opened_are_no_damage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a read-only volume nothing can be claimed: what is published by then is taken instead."""
    real = segment.open_segment
    tries: list[str] = []

    def late(*arguments: Any, **given: Any) -> Any:
        tries.append(str(manifests.current_name(root)))
        if len(tries) == 1:
            move_on(root)
            collect_all(root)
        return real(*arguments, **given)

    monkeypatch.setattr(reader, "pin", lambda *_: None)
    monkeypatch.setattr(reader, "open_segment", late)
    snapshot = Snapshot.open(root)
    assert snapshot.name == manifests.current_name(root)
    assert "the parsley is in the blue bowl" in found(snapshot)


def test_generations_that_change_faster_than_they_open_end_in_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pins.pin

    def late(where: Path, name: str) -> Any:
        publish(root, watermarks={"events": {name: 1}})
        collect_all(root)
        return real(where, name)

    monkeypatch.setattr(reader, "pin", late)
    with pytest.raises(StoreError, match="change faster") as error:
        Snapshot.open(root)
    assert error.value.remedy == "try again"
    assert pinned_files(root) == []


def test_a_generation_asked_for_by_name_that_is_gone_is_an_error(root: Path) -> None:
    name = str(manifests.current_name(root))
    move_on(root)
    collect_all(root)
    with pytest.raises(StoreError, match="does not exist"):
        Snapshot.open(root, name)
    assert pinned_files(root) == []


# ---------------------------------------------------------------- where nothing may be written


@pytest.fixture
def without_pins(root: Path) -> Path:
    """Nobody can make a file in a file, root included."""
    (root / "pins").rmdir()
    (root / "pins").write_text("")
    return root


def test_a_reader_that_cannot_pin_opens_answers_and_refreshes(without_pins: Path) -> None:
    root = without_pins
    memory = Memory(root)
    assert found(memory.snapshot) == TEXTS
    answer = memory.recall("walnut bread").items
    assert len(answer) == 10
    assert pins.pinned(root) == set()
    move_on(root)
    collect_all(root)  # nobody can know of the reader: what is mapped is still there for it
    assert [item.id for item in memory.recall("walnut bread").items] == [item.id for item in answer]
    assert memory.refresh()
    assert "the parsley is in the blue bowl" in found(memory.snapshot)


def test_the_grace_period_is_for_readers_that_cannot_pin(without_pins: Path) -> None:
    root = without_pins
    held = files_of(root, str(manifests.current_name(root)))
    move_on(root)
    collect(root, keep=1, grace=60.0, wait=5.0)
    assert all(path.exists() for path in held)
    assert found(Snapshot.open(root, held[0].name)) == TEXTS


# ---------------------------------------------------------------- pins themselves


def test_pins_of_the_dead_go_and_those_of_the_living_and_the_coming_stay(root: Path) -> None:
    snapshot = Snapshot.open(root)
    folder = root / "pins"
    for name in ("0123456789abcdef", ".tmp-0123456789abcdef", ".tmp-fedcba9876543210"):
        (folder / name).write_text('{"manifest": "00000001-gone.json", "pid": 1, "host": "h"}')
    os.utime(folder / ".tmp-0123456789abcdef", (0, 0))
    assert pins.pinned(root) == {snapshot.name}
    left = pinned_files(root)
    assert len(left) == 2
    assert left[0] == ".tmp-fedcba9876543210"  # a reader may be about to hold it


def test_a_pin_says_whose_it_is(root: Path) -> None:
    import json

    snapshot = Snapshot.open(root)
    (path,) = (root / "pins").iterdir()
    said = json.loads(path.read_text())
    assert (said["manifest"], said["pid"]) == (snapshot.name, os.getpid())
    assert path.stat().st_mode & 0o077 == 0


def test_no_pin_is_left_in_a_store_to_which_nothing_was_published(tmp_path: Path) -> None:
    paths.create(tmp_path / "s")
    assert Memory(tmp_path / "s").snapshot.generation == 0
    assert pinned_files(tmp_path / "s") == []
    with writer.lock(tmp_path / "s", 1.0):
        pass


if __name__ == "__main__":
    {"write": write_generations, "read": read_generations}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
