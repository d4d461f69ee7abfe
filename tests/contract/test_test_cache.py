"""The cache of slow fixtures (tests/support/caching.py)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support import caching


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were made, in a checkout of one source file."""
    monkeypatch.setattr(caching, "ROOT", tmp_path)
    monkeypatch.setattr(caching, "CACHE", tmp_path / ".cache" / "tests")
    (tmp_path / "source.py").write_text("first")
    return []


def find(folders: list[Path]) -> Path:
    def make(folder: Path) -> None:
        folder.mkdir()
        folders.append(folder)

    return caching.cache_folder("model", make, ("pytest",), ("*.py",))


def test_a_change_makes_a_folder_again(folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find(folders)
    assert (find(folders), len(folders)) == (first, 1)
    (tmp_path / "source.py").write_text("second")
    second = find(folders)
    monkeypatch.setattr(caching, "version", lambda _: "0")
    assert len({first, second, find(folders)}) == len(folders) == 3


def test_a_failed_make_leaves_nothing(folders: list[Path]) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caching.cache_folder("model", fail, ("pytest",), ("*.py",))
    assert [path.name for path in caching.CACHE.iterdir()] == ["model.lock"]
    assert find(folders).is_dir()


def test_an_unused_folder_is_removed(folders: list[Path], tmp_path: Path) -> None:
    old, used = find(folders), caching.CACHE / "other-0"
    used.mkdir()
    past = time.time() - caching.UNUSED_FOR - 1
    for path in (old, used):
        os.utime(path, (past, past))
    (tmp_path / "source.py").write_text("second")
    find(folders)
    assert (old.exists(), used.exists()) == (False, True)


def test_a_rejuvenated_folder_retains_the_order_of_its_times(tmp_path: Path) -> None:
    for name, seconds in (("a", 1_000), ("b", 2_000)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    os.utime(tmp_path, (500, 500))
    caching.rejuvenate(tmp_path)
    a, b = ((tmp_path / name).stat().st_mtime for name in "ab")
    assert b - a == pytest.approx(1_000)
    assert b == pytest.approx(time.time(), abs=60)
