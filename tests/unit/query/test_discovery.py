"""Where the query process says that it listens, and when that counts."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

import pytest

from query.discovery_read import FILE, listening
from query.discovery_write import Announced, Place


def test_said_found_and_said_no_longer(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert listening(str(tmp_path)) is None
    assert place.take("127.0.0.1", 8765)
    assert listening(str(tmp_path)) == ("127.0.0.1", 8765, "")
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert place.take("127.0.0.1", 8765)  # still
    place.leave()
    assert not (tmp_path / FILE).exists()
    place.leave()


def test_what_nobody_holds_does_not_count(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.take("127.0.0.1", 8765)
    os.close(place._handle)  # as by a kill
    assert (tmp_path / FILE).exists()
    assert listening(str(tmp_path)) is None
    assert Place(tmp_path).take("127.0.0.1", 1)


def test_one_says_it_at_a_time(tmp_path: Path) -> None:
    first, second = Place(tmp_path), Place(tmp_path)
    assert first.take("127.0.0.1", 1)
    assert not second.take("127.0.0.1", 2)
    second.leave()  # takes nothing away from the first
    assert listening(str(tmp_path)) == ("127.0.0.1", 1, "")
    first.leave()
    assert second.take("127.0.0.1", 2)
    assert listening(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.leave()


def test_a_file_that_goes_between_opening_and_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def late(handle: int, how: int) -> None:
        (tmp_path / FILE).unlink()  # whoever had it ends this very moment
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    place = Place(tmp_path)
    assert not place.take("127.0.0.1", 1)  # where nobody would find it
    monkeypatch.undo()
    assert place.take("127.0.0.1", 1)
    place.leave()


def test_what_another_one_says_by_now_stays(tmp_path: Path) -> None:
    first, second = Place(tmp_path), Place(tmp_path)
    first.take("127.0.0.1", 1)
    (tmp_path / FILE).rename(tmp_path / "moved")
    second.take("127.0.0.1", 2)
    first.leave()
    assert listening(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.leave()


def test_a_longer_line_before_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("x" * 500)
    place = Place(tmp_path)
    assert place.take("::1", 8765)
    assert listening(str(tmp_path)) == ("::1", 8765, "")
    place.leave()


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b'{"host": "x"}'])
def test_what_cannot_be_read_is_an_error_of_its_reader(tmp_path: Path, said: bytes) -> None:
    place = Place(tmp_path)
    place.take("127.0.0.1", 1)
    os.ftruncate(place._handle, 0)
    os.pwrite(place._handle, said, 0)
    with pytest.raises((ValueError, LookupError, TypeError)):
        listening(str(tmp_path))
    place.leave()


def test_a_store_that_comes_later_or_anew(tmp_path: Path) -> None:
    root = tmp_path / "later"
    announced = Announced(root)
    announced.begin("127.0.0.1", 8765)
    assert listening(str(root)) is None
    for _ in range(2):
        root.mkdir()
        until = time.monotonic() + 10
        while listening(str(root)) is None and time.monotonic() < until:
            time.sleep(0.05)
        assert listening(str(root)) == ("127.0.0.1", 8765, "")
        root.rename(tmp_path / f"moved-{time.monotonic()}")
    announced.end()


def test_who_never_began_can_end(tmp_path: Path) -> None:
    Announced(tmp_path).end()
