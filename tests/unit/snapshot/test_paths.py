"""Removal of unfinished files, except those of living processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helix.snapshot import paths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paths.create_folders(tmp_path / "store")
    return tmp_path / "store"


def write_unfinished(path: Path, seconds: float) -> Path:
    path.write_text("half")
    os.utime(path, times=(time.time() - seconds,) * 2)
    return path


def test_files_untouched_for_a_minute_are_removed(root: Path) -> None:
    old = [
        write_unfinished(folder / ".tmp-1", paths.STALE + 5) for folder in (root, root / "segments", root / "manifests")
    ]
    others = write_unfinished(root / "inbox" / ".tmp-1", paths.STALE + 5)  # which a commit looks after
    young = write_unfinished(root / "segments" / ".tmp-2", paths.STALE - 5)
    paths.remove_leftovers(root)
    assert [path.exists() for path in (*old, others, young)] == [False, False, False, True, True]


def test_a_folder_being_built_stays_until_its_builder_is_gone(root: Path) -> None:
    with paths.open_workplace(root) as folder:
        paths.remove_leftovers(root)
        assert folder.is_dir()
        left = root / "building" / "0123"
        left.mkdir()
        (left / "lock").touch()
        paths.remove_leftovers(root)
        assert not left.exists()
    assert list((root / "building").iterdir()) == []


def test_a_builder_first_removes_leftovers_of_killed_ones(root: Path) -> None:
    left = root / "building" / "0123"
    left.mkdir()
    (left / "lock").touch()
    with paths.open_workplace(root) as folder, paths.open_workplace(root) as other:
        assert not left.exists()
        assert folder.is_dir()
        assert other.is_dir()


def test_files_of_other_processes_stay(root: Path, monkeypatch) -> None:
    """Every process that opens a store for writing makes and removes a file in it."""
    glob = Path.glob

    def with_one_gone(self: Path, pattern: str) -> Iterator[Path]:
        yield self / ".tmp-gone"
        yield from glob(self, pattern)

    old = write_unfinished(root / "segments" / ".tmp-1", paths.STALE + 5)
    monkeypatch.setattr(Path, "glob", with_one_gone)
    paths.remove_leftovers(root)
    assert not old.exists()
