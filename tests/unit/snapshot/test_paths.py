"""Removal of unfinished files, except those of living processes."""

from __future__ import annotations

import os
import time
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
    folders = (root, root / "segments", root / "manifests")
    old = [write_unfinished(folder / ".tmp-1", paths.STALE + 5) for folder in folders]
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
    left.mkdir()
    (left / "lock").touch()
    with paths.open_workplace(root) as folder, paths.open_workplace(root) as other:  # which removes it first
        assert [each.exists() for each in (left, folder, other)] == [False, True, True]


def test_a_file_that_another_process_removes_meanwhile_is_no_error(root: Path, monkeypatch) -> None:
    glob = Path.glob
    old = write_unfinished(root / "segments" / ".tmp-1", paths.STALE + 5)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [self / ".tmp-gone", *glob(self, pattern)])
    paths.remove_leftovers(root)
    assert not old.exists()
