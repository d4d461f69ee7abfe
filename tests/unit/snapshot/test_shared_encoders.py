"""Encoders of the stores of one folder: one copy of the files, and each store whole by itself."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from helix.encoders.dense import load_spec
from helix.snapshot import paths, writer
from helix.snapshot.manifest import File
from helix.snapshot.shared_encoders import ENCODER_FILES, FOLDER
from helix.snapshot.verify import find_damage
from helix.util.hashing import hash_file


@pytest.fixture
def encoder_folder(cache: Path) -> Path:
    return next(path for path in (cache / "encoders").iterdir() if (path / "encoder.json").is_file())


def place(stores: Path, name: str, encoder_folder: Path, shared: bool = True) -> tuple[Path, tuple[File, ...]]:
    root = stores / name
    paths.create_folders(root)
    fingerprint = load_spec(encoder_folder).fingerprint
    files = writer.copy_encoder(root, encoder_folder, fingerprint, str(stores) if shared else "")
    return root / "encoders" / fingerprint, files


def list_inodes(folder: Path) -> list[int]:
    return [(folder / name).stat().st_ino for name in ENCODER_FILES]


def test_stores_of_one_folder_link_the_same_files(tmp_path: Path, encoder_folder: Path) -> None:
    (one, files), (two, _) = (place(tmp_path / "stores", name, encoder_folder) for name in ("one", "two"))
    shared = tmp_path / "stores" / FOLDER / one.name
    assert list_inodes(one) == list_inodes(two) == list_inodes(shared) != list_inodes(encoder_folder)
    assert [find_damage(one.parents[1], file) for file in files] == [None] * 3
    load_spec(one, one.name)
    shutil.rmtree(one.parents[1])  # a deleted store takes nothing from another
    load_spec(two, two.name)


def test_a_store_elsewhere_has_a_copy(tmp_path: Path, encoder_folder: Path) -> None:
    folder, _ = place(tmp_path / "stores", "one", encoder_folder, shared=False)
    assert (folder / "model.onnx").stat().st_nlink == 1
    assert not (tmp_path / "stores" / FOLDER).exists()


def test_a_damaged_copy_is_not_linked_but_made_again(tmp_path: Path, encoder_folder: Path) -> None:
    one, _ = place(tmp_path / "stores", "one", encoder_folder)
    with (one / "model.onnx").open("r+b") as file:
        file.seek(1_000)
        file.write(b"damage")
    two, files = place(tmp_path / "stores", "two", encoder_folder)
    assert hash_file(two / "model.onnx") == hash_file(encoder_folder / "model.onnx") != hash_file(one / "model.onnx")
    assert [find_damage(two.parents[1], file) for file in files] == [None] * 3


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK, errno.EPERM])
def test_a_file_system_without_links_has_copies(
    number: int, tmp_path: Path, encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    folder, _ = place(tmp_path / "stores", "one", encoder_folder)
    assert (folder / "model.onnx").stat().st_nlink == 1
    load_spec(folder, folder.name)
