"""The file of the switches: what it keeps, what it refuses, and two that change it at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helix.errors import StoreError
from helix.switches.scope import make_scope, matches
from helix.switches.state import FILE, is_open, list_off, make_target, read_switches, switch_off, switch_on
from tests.support.repositories import add_worktree, make_repository


def test_a_switch_opens_and_closes_an_interval_and_keeps_it(tmp_path: Path) -> None:
    root = tmp_path / "store"  # which nothing made yet
    acme = make_target(project="acme", folder="/src/acme")
    assert switch_off(root, acme)
    assert not switch_off(root, acme)  # off already
    (off,) = list_off(root)
    assert (off["project"], off["folder"]) == ("acme", "/src/acme")
    assert (root / FILE).stat().st_mode & 0o777 == 0o600
    assert [switch["project"] for switch in switch_on(root, lambda _: True)] == ["acme"]
    assert switch_on(root, lambda _: True) == []
    assert list_off(root) == []
    assert switch_off(root, acme)
    (switch,) = read_switches(root)
    assert [bool(interval["until"]) for interval in switch["off"]] == [True, False]
    assert is_open(switch)


def test_switches_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from helix.switches.state import make_target, switch_off\n"
        "for i in range(20): switch_off(sys.argv[1], make_target(session=f'{sys.argv[2]}-{i}'))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert {off["session"] for off in list_off(tmp_path)} == {f"{name}-{i}" for name in "abc" for i in range(20)}
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, f"{FILE}.lock"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"format": 2, "switches": []}', '{"format": 1}', "[" * 100_000),
        '{"format": 1, "switches": [{"session": "", "project": "", "folder": "", "remote": "", "off": []}]}',
        '{"format": 1, "switches": [{"session": "s", "project": "", "folder": "", "remote": "", "off": '
        '[{"since": "soon", "until": null}]}]}',
    ],
)
def test_a_damaged_file_is_one_error_with_its_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    for use in (read_switches, list_off, lambda root: switch_off(root, make_target(session="s"))):
        with pytest.raises(StoreError, match=r"switches\.json is damaged: .*restore it from a backup"):
            use(tmp_path)
    assert (tmp_path / FILE).read_text() == text


def test_a_project_is_matched_by_its_folder_its_remote_or_its_name(tmp_path: Path) -> None:
    remote = "git@github.com:ana/acme.git"
    top = make_repository(tmp_path / "acme", remote)
    other = make_repository(tmp_path / "other" / "acme", "git@github.com:ben/acme.git")
    bare = tmp_path / "elsewhere" / "acme"
    bare.mkdir(parents=True)
    worktree = add_worktree(top, tmp_path / "fix")
    by_folder = make_target(project="acme", folder=str(top), remote="github.com/ana/acme")
    for folder in (top, top / "src", worktree, Path("/gone/acme")):
        assert matches(by_folder, make_scope([str(folder)])), folder
    for folder in (other, bare, tmp_path, tmp_path / "acme-two", Path("/gone/else")):
        assert not matches(by_folder, make_scope([str(folder)])), folder
    assert matches(by_folder, make_scope(remotes=["github.com/ana/acme"]))
    clone = make_repository(tmp_path / "clone", remote)
    assert matches(by_folder, make_scope([str(clone)]))
    assert not matches(by_folder, make_scope(["/gone/acme"], remotes=["github.com/ben/acme"]))
    assert matches(by_folder, make_scope([str(other)], projects=["acme"]))  # the caller says so
    by_name = make_target(project="acme")
    assert all(matches(by_name, make_scope([str(folder)])) for folder in (top, top / "src", other, bare))
    assert not matches(by_name, make_scope([str(tmp_path)]))
    assert matches(make_target(project="ben/acme"), make_scope([str(other)]))
    assert not matches(make_target(project="ben/acme"), make_scope([str(top)]))
    assert not matches(make_target(session="acme"), make_scope([str(top)], projects=["acme"]))
    assert matches(make_target(session="s"), make_scope([str(top)], ["s"]))
