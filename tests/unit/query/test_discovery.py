"""The announced address of a query process, and when it counts."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from query.discovery_read import FILE, read_address
from query.discovery_write import AddressFile, Announcer
from tests.support.processes import wait_until


def test_a_claimed_address_is_found_until_its_release(tmp_path: Path) -> None:
    place = AddressFile(tmp_path)
    assert read_address(str(tmp_path)) is None
    assert place.claim("127.0.0.1", 8765)
    assert read_address(str(tmp_path)) == ("127.0.0.1", 8765, "")
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert place.claim("127.0.0.1", 8765)  # again
    place.release()
    assert not (tmp_path / FILE).exists()
    place.release()


def test_an_unlocked_file_does_not_count(tmp_path: Path) -> None:
    place = AddressFile(tmp_path)
    place.claim("127.0.0.1", 8765)
    os.close(place._handle)  # as by a kill
    assert (tmp_path / FILE).exists()
    assert read_address(str(tmp_path)) is None
    assert AddressFile(tmp_path).claim("127.0.0.1", 1)


def test_one_process_holds_the_file_at_a_time(tmp_path: Path) -> None:
    first, second = AddressFile(tmp_path), AddressFile(tmp_path)
    assert first.claim("127.0.0.1", 1)
    assert not second.claim("127.0.0.1", 2)
    second.release()  # does not affect the first
    assert read_address(str(tmp_path)) == ("127.0.0.1", 1, "")
    first.release()
    assert second.claim("127.0.0.1", 2)
    assert read_address(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.release()


def test_a_file_removed_between_open_and_lock_is_not_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def lock_late(handle: int, how: int) -> None:
        (tmp_path / FILE).unlink()  # its holder ends at this moment
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    place = AddressFile(tmp_path)
    assert not place.claim("127.0.0.1", 1)  # readers would not find it
    monkeypatch.undo()
    assert place.claim("127.0.0.1", 1)
    place.release()


def test_the_file_of_a_later_process_stays(tmp_path: Path) -> None:
    first, second = AddressFile(tmp_path), AddressFile(tmp_path)
    first.claim("127.0.0.1", 1)
    (tmp_path / FILE).rename(tmp_path / "moved")
    second.claim("127.0.0.1", 2)
    first.release()
    assert read_address(str(tmp_path)) == ("127.0.0.1", 2, "")
    second.release()


def test_a_longer_older_content_is_cut_and_an_unreadable_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("x" * 500)
    place = AddressFile(tmp_path)
    assert place.claim("::1", 8765)
    assert read_address(str(tmp_path)) == ("::1", 8765, "")
    for content in (b"", b"{", b"[]", b'{"host": "x"}'):
        os.ftruncate(place._handle, 0)
        os.pwrite(place._handle, content, 0)
        with pytest.raises((ValueError, LookupError, TypeError)):
            read_address(str(tmp_path))
    place.release()


def test_a_new_store_gets_the_address(tmp_path: Path) -> None:
    root = tmp_path / "later"
    Announcer(root).stop()  # without a start
    announcer = Announcer(root)
    announcer.start("127.0.0.1", 8765)
    assert read_address(str(root)) is None
    for i in range(2):
        root.mkdir()
        wait_until(60, lambda: read_address(str(root)) == ("127.0.0.1", 8765, ""))
        root.rename(tmp_path / f"moved-{i}")
    announcer.stop()
