"""The publisher of notes: one process at a time, and one more for what came meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from query import publisher
from query.publisher import NotePublisher
from tests.support.processes import wait_until

FAKE = """
import pathlib, sys, time
root = pathlib.Path(sys.argv[1])
with (root / "runs").open("a") as file:
    file.write("run\\n")
while not (root / "gate").exists():
    time.sleep(0.01)
with (root / "ends").open("a") as file:
    file.write("end\\n")
"""


def count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(publisher, "_COMMAND", (sys.executable, "-c", FAKE))
    return tmp_path


@pytest.mark.usefixtures("processes")
def test_many_notes_start_two_processes(fake: Path) -> None:
    notes = NotePublisher(fake)
    for _ in range(20):
        notes.start()
    wait_until(60, lambda: count(fake / "runs") == 1)
    (fake / "gate").touch()
    wait_until(60, lambda: count(fake / "ends") == 2)
    wait_until(60, lambda: notes._process is None)
    assert count(fake / "runs") == 2
    notes.start()  # a later one starts at once
    wait_until(60, lambda: count(fake / "ends") == 3)


@pytest.mark.usefixtures("processes")
def test_a_stopped_publisher_leaves_the_rest_to_a_process(fake: Path) -> None:
    notes = NotePublisher(fake)
    notes.start()
    notes.start()
    wait_until(60, lambda: count(fake / "runs") == 1)
    notes.stop()
    wait_until(60, lambda: count(fake / "runs") == 2)
    (fake / "gate").touch()
    wait_until(60, lambda: count(fake / "ends") == 2)


def test_a_process_that_cannot_start_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("as good as a read-only volume")
    notes = NotePublisher(tmp_path)
    notes.start()
    assert notes._process is None
