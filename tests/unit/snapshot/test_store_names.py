"""Names of stores never lead out of the folder of all stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix.errors import UsageError
from helix.snapshot.store_names import list_stores, locate_store


@pytest.mark.parametrize("name", ["a", "ana", "team-atlas", "payments.api_2", "0", "x" * 63])
def test_a_name_is_one_folder(name: str) -> None:
    assert locate_store(Path("stores"), name) == Path("stores") / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a..b", ".hidden", "a/b", "../a", "A", "a\n", "a b", "x" * 64, "a.", "-a", "é", "a\0"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a store"):
        locate_store(Path("stores"), name)


def test_only_folders_with_names_are_listed(tmp_path: Path) -> None:
    for name in ("team", "ana", ".trash", "Capital"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert list_stores(tmp_path) == ["ana", "team"]
    assert list_stores(tmp_path / "none") == []
