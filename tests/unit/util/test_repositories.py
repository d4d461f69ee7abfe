"""The repository that holds a folder of this machine, against git itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix.util.repositories import find_repository, name_remote
from tests.support.repositories import add_worktree, git, make_repository

REMOTE = "https://ana:secret-token@example.org:8443/ana/api.git"
NAME = "example.org/ana/api"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository `api` with two remotes, in a home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    top = make_repository(tmp_path / "a" / "api", REMOTE)
    git("remote", "add", "upstream", "https://example.org/other/api.git", at=top)
    return top


def test_a_folder_is_in_the_repository_above_it(api: Path) -> None:
    for folder in (api, api / "src", f"{api}/"):
        assert find_repository(str(folder)) == (str(api), NAME)
    assert find_repository(str(api.parent)) == find_repository("src") == find_repository("") == ("", "")
    assert find_repository(str(api / "gone" / "folder")) == (str(api), NAME)


def test_a_worktree_belongs_to_its_repository(api: Path) -> None:
    fix = add_worktree(api, api.parents[1] / "elsewhere" / "fix")
    (fix / "src").mkdir()
    assert find_repository(str(fix / "src")) == find_repository(str(fix)) == (str(api), NAME)
    git("worktree", "remove", "--force", fix, at=api)
    fix.mkdir()
    assert find_repository(str(fix)) == ("", "")


def test_a_worktree_of_a_bare_repository_has_its_name(api: Path) -> None:
    bare = api.parent / "shop.git"
    git("clone", "-q", "--bare", api, bare, at=api.parent)
    fix = add_worktree(bare, api.parent / "fix")
    assert find_repository(str(fix)) == (str(api.parent / "shop"), "")  # its remote is a folder


def test_a_submodule_is_a_repository_of_its_own(api: Path, tmp_path: Path) -> None:
    lib = make_repository(tmp_path / "lib")
    git("submodule", "add", "-q", lib, "vendor/lib", at=api)
    assert find_repository(str(api / "vendor" / "lib"))[0] == str(api / "vendor" / "lib")


def test_a_file_that_no_repository_names_back_is_not_followed(api: Path, tmp_path: Path) -> None:
    fix, planted = add_worktree(api, tmp_path / "fix"), tmp_path / "planted"
    planted.mkdir()
    (planted / ".git").write_bytes((fix / ".git").read_bytes())
    assert find_repository(str(planted)) == (str(planted), "")
    for text in ("", "gitdir: /nowhere/.git/worktrees/x", "gitdir:", "\0", "/\0/worktrees/x", "gitdir: ../a/api"):
        (planted / ".git").write_text(text)
        assert find_repository(str(planted))[0] == str(planted)


def test_a_home_folder_is_no_project(api: Path, tmp_path: Path) -> None:
    git("init", "-q", at=tmp_path)
    (tmp_path / "notes").mkdir()
    assert find_repository(str(tmp_path / "notes")) == find_repository(str(tmp_path)) == ("", "")
    assert find_repository(str(api))[0] == str(api)


REMOTES = {
    "https://github.com/org/api.git": "github.com/org/api",
    "https://user:pass@GitHub.com:443/org/api/": "github.com/org/api",
    "git@github.com:org/api.git": "github.com/org/api",
    "ssh://git@host.example:2222/team/sub/api.git": "host.example/team/sub/api",
    "git@ssh.dev.azure.com:v3/org/team/api": "ssh.dev.azure.com/v3/org/team/api",
    "https://x-access-token:abc@github.com/org/api?q=1#f": "github.com/org/api",
    "/srv/git/api.git": "",
    "../api": "",
    "file:///srv/git/api.git": "",
    "C:\\git\\api": "",
    "host:": "",
    "": "",
}


def test_a_remote_is_named_without_its_secrets() -> None:
    assert {url: name_remote(url) for url in REMOTES} == REMOTES


def test_one_remote_of_several_is_the_origin(api: Path) -> None:
    git("remote", "remove", "origin", at=api)
    assert find_repository(str(api)) == (str(api), "example.org/other/api")
    git("remote", "add", "mine", "https://example.org/mine/api.git", at=api)
    assert find_repository(str(api)) == (str(api), "")
