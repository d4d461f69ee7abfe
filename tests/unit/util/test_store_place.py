"""The store of a command without `--store`."""

from pathlib import Path

import pytest

from helix.settings import load
from helix.util.store_place import find_store


def test_the_nearest_store_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    person = str(tmp_path / "home" / ".helix" / "memory")
    assert find_store(environ={}) == load({}).store == person
    (tmp_path / "helix-store").mkdir()
    assert find_store(environ={}) == load({}).store == "helix-store"
    assert find_store(environ={"HELIX_STORE": "~/other"}) == str(tmp_path / "home" / "other")
    assert find_store("named", {"HELIX_STORE": "other"}) == "named"
