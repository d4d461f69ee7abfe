"""Where the query process says that it listens, and when that counts."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from pathlib import Path

import pytest

from query.discovery_read import FILE, read_address
from query.discovery_write import AddressFile, Announcer


def test_said_found_and_said_no_longer(tmp_path: Path) -> None:
    place = AddressFile(tmp_path)
    assert read_address(str(tmp_path)) is None
    assert place.claim("127.0.0.1", 8765)
    assert read_address(str(tmp_path)) == ("127.0.0.1", 8765, "")
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert place.claim("127.0.0.1", 8765)  # still
    place.release()
    assert not (tmp_path / FILE).exists()
    place.release()


def test_what_nobody_holds_does_not_count(tmp_path: Path) -> None:
    place = AddressFile(tmp_path)
    place.claim("127.0.0.1", 8765)
    os.close(place._handle)  # as by a kill
    assert (tmp_path / FILE).exists()
    assert read_address(str(tmp_path)) is None
    assert AddressFile(tmp_path).claim("127.0.0.1", 1)


def test_one_says_it_at_a_time(tmp_path: Path) -> None:
    first, second = AddressFile(tmp_path), AddressFile(tmp_path)
    assert first.claim("127.0.0.1", 1)
    assert not second.claim("127.0.0.1", 2)
    second.release()  # takes nothing away from the first
    assert read_address(str(tmp_path)) == ("127.0.0.1", 1, "")
    first.release()
    assert second.claim("127.0.0.1", 2)
    assert read_address(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.release()


def test_a_file_that_goes_between_opening_and_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def late(handle: int, how: int) -> None:
        (tmp_path / FILE).unlink()  # whoever had it ends this very moment
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    place = AddressFile(tmp_path)
    assert not place.claim("127.0.0.1", 1)  # where nobody would find it
    monkeypatch.undo()
    assert place.claim("127.0.0.1", 1)
    place.release()


def test_what_another_one_says_by_now_stays(tmp_path: Path) -> None:
    first, second = AddressFile(tmp_path), AddressFile(tmp_path)
    first.claim("127.0.0.1", 1)
    (tmp_path / FILE).rename(tmp_path / "moved")
    second.claim("127.0.0.1", 2)
    first.release()
    assert read_address(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.release()


def test_a_longer_line_before_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("x" * 500)
    place = AddressFile(tmp_path)
    assert place.claim("::1", 8765)
    assert read_address(str(tmp_path)) == ("::1", 8765, "")
    place.release()


@pytest.mark.parametrize("said", [b"", b"{", b"[]", b'{"host": "x"}'])
def test_what_cannot_be_read_is_an_error_of_its_reader(tmp_path: Path, said: bytes) -> None:
    place = AddressFile(tmp_path)
    place.claim("127.0.0.1", 1)
    os.ftruncate(place._handle, 0)
    os.pwrite(place._handle, said, 0)
    with pytest.raises((ValueError, LookupError, TypeError)):
        read_address(str(tmp_path))
    place.release()


def test_a_store_that_comes_later_or_anew(tmp_path: Path) -> None:
    root = tmp_path / "later"
    announcer = Announcer(root)
    announcer.start("127.0.0.1", 8765)
    assert read_address(str(root)) is None
    for _ in range(2):
        root.mkdir()
        until = time.monotonic() + 10
        while read_address(str(root)) is None and time.monotonic() < until:
            time.sleep(0.05)
        assert read_address(str(root)) == ("127.0.0.1", 8765, "")
        root.rename(tmp_path / f"moved-{time.monotonic()}")
    announcer.stop()


def test_who_never_began_can_end(tmp_path: Path) -> None:
    Announcer(tmp_path).stop()
