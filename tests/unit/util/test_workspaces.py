"""The names of projects: a repository has one name, and two repositories have two."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from helix.util.workspaces import (
    Workspace,
    decode_workspace,
    encode_workspace,
    extend_names,
    find_old_name,
    has_end,
    list_old_names,
    make_workspace,
    name_workspace,
    name_workspaces,
)

H = "/home/ana"
ORG1, ORG2 = "git@github.com:org1/api.git", "https://token@github.com/org2/api"

ALONE = [
    (f"{H}/api", "api"),
    (f"{H}/api/", "api"),
    ("C:\\Users\\ana\\shop", "shop"),
    ("~/notes/api", "api"),
    (f"{H}/api/.git", "api"),
    (f"{H}/api/.git/worktrees/fix", "api"),
    (f"{H}/api/.worktrees/fix/src", "api"),
    (f"{H}/api/.claude/worktrees/bold-fox", "api"),
    (f"{H}/api/.claude/worktrees/bold-fox/deep/src", "api"),
    ("C:\\Users\\ana\\api\\.claude\\worktrees\\bold-fox", "api"),
    (f"{H}/api-worktrees/fix", "api"),
    (f"{H}/api.worktrees/fix/src", "api"),
    (f"{H}/api__worktrees/fix", "api"),
    (f"{H}/api/.conductor/lima", "api"),
    (f"{H}/conductor/workspaces/api/lima", "api"),
    (f"{H}/.cursor/worktrees/api/x1y2/src", "api"),
    (f"{H}/.codex/worktrees/3f9a/api/src", "api"),
    ("/Users/ana/.claude-worktrees/api/bold-fox", "api"),
    # No repository: a home folder, and folders that only look so.
    (H, "ana"),
    (f"{H}/.claude/worktrees/fix", "fix"),
    (f"{H}/code/worktrees/fix", "fix"),
    (f"{H}/api/.github", ".github"),
    ("/", None),
    ("C:\\", None),
]


@pytest.mark.parametrize(("folder", "name"), ALONE)
def test_a_folder_names_its_repository(folder: str, name: str | None) -> None:
    workspace = make_workspace(folder)
    assert (name_workspace(workspace) if workspace else None) == name


def workspaces(*rows: Sequence[str]) -> list[Workspace]:
    """Return the workspaces of rows: folder, then `top=…`, `remote=…` or `tracked`."""
    found = []
    for folder, *more in rows:
        known = dict(word.split("=", 1) for word in more if "=" in word)
        workspace = make_workspace(folder or None, known.get("top"), known.get("remote"), tracked="tracked" in more)
        assert workspace
        found.append(workspace)
    return found


ROW = Sequence[str]
TOGETHER: dict[str, Sequence[tuple[ROW, str]]] = {
    "a subfolder below a known top folder": (((f"{H}/api", f"top={H}/api"), "api"), ((f"{H}/api/src/x",), "api")),
    "two folders of which the log says that they are in a repository": (
        ((f"{H}/api/src", "tracked"), "api"), ((f"{H}/api", "tracked"), "api"), ((f"{H}/api/notes",), "notes"),
    ),
    "a folder of projects is none": (((f"{H}/code",), "code"), ((f"{H}/code/api", "tracked"), "api")),
    "a home folder in a repository holds none": (((H, "tracked"), "ana"), ((f"{H}/api", "tracked"), "api")),
    "the nearest repository counts": (
        ((f"{H}/mono", f"top={H}/mono"), "mono"), ((f"{H}/mono/vendor/lib", f"top={H}/mono/vendor/lib"), "lib"),
        ((f"{H}/mono/vendor/lib/src",), "lib"), ((f"{H}/mono/vendor",), "mono"),
    ),
    "a worktree anywhere, once its repository is known": (
        ((f"{H}/fix", f"top={H}/api"), "api"), ((f"{H}/fix",), "api"), ((f"{H}/fix/src",), "api"),
        ((f"{H}/fix/src", f"top={H}/fix"), "api"),  # a log that takes the worktree for the top folder
    ),
    "a remote that another log knows": (
        ((f"{H}/ledger", f"top={H}/ledger", "remote=https://example.org/ana/ledgerline.git"), "ledgerline"),
        ((f"{H}/ledger",), "ledgerline"), ((f"{H}/ledger/docs",), "ledgerline"),
    ),
    "clones of one remote": (
        ((f"{H}/api", f"remote={ORG1}"), "api"), ((f"{H}/api-2", f"remote={ORG1}"), "api"),
        (("/Users/ben/work/api", "remote=ssh://git@github.com:22/org1/api/"), "api"),
    ),
    "a repository that was moved to another owner": (
        ((f"{H}/api", f"top={H}/api", f"remote={ORG1}"), "api"),
        ((f"{H}/api", f"top={H}/api", f"remote={ORG2}"), "api"),
    ),
    "one folder of a container, several repositories": (
        (("/workspace", "top=/workspace", "remote=https://h.org/a/one"), "one"),
        (("/workspace", "top=/workspace", "remote=https://h.org/a/two"), "two"), (("/workspace",), "workspace"),
    ),
    "two remotes of one name": (
        ((f"{H}/x/api", f"remote={ORG1}"), "org1/api"), (("/w/api", f"remote={ORG2}"), "org2/api"),
    ),
    "two folders of one home": (((f"{H}/a/api",), "a/api"), ((f"{H}/b/api",), "b/api")),
    "two folders of two homes may be one project": (((f"{H}/a/api",), "api"), (("/Users/ben/code/api",), "api")),
    "a third that may be either": (
        ((f"{H}/a/api",), "a/api"), ((f"{H}/b/api",), "b/api"), (("/Users/ben/code/api",), "code/api"),
        ((f"{H}/.cursor/worktrees/api/x1",), "api"),
    ),
    "longer names where two words are not enough": (
        (("/w/x", "remote=https://github.com/org/api"), "github.com/org/api"),
        (("/w/y", "remote=https://gitlab.com/org/api"), "gitlab.com/org/api"), (("/w/z", f"remote={ORG2}"), "org2/api"),
    ),
    "a remote and a folder of one machine": (
        ((f"{H}/a/api", f"top={H}/a/api", f"remote={ORG1}"), "org1/api"), ((f"{H}/b/api",), "b/api"),
    ),
    "a remote without a folder": ((("", f"remote={ORG1}"), "api"),),
}  # fmt: skip


@pytest.mark.parametrize("case", TOGETHER)
def test_workspaces_name_projects_together_in_any_order(case: str) -> None:
    rows = workspaces(*(row for row, _ in TOGETHER[case]))
    wanted = dict(zip(rows, (name for _, name in TOGETHER[case]), strict=True))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert name_workspaces(rows) == wanted


def test_another_project_of_the_same_name_changes_only_names_it_shares() -> None:
    first, other = workspaces((f"{H}/a/api",), (f"{H}/shop",))
    assert name_workspaces([first, other]) == {first: "api", other: "shop"}
    (second,) = workspaces((f"{H}/b/api",))
    assert name_workspaces([second, other, first]) == {first: "a/api", second: "b/api", other: "shop"}


def test_others_take_the_names_of_known_workspaces() -> None:
    (top, sub, twin, far) = workspaces(
        (f"{H}/a/api", f"top={H}/a/api"), (f"{H}/a/api/src",), (f"{H}/b/api",), ("/w/x",)
    )
    names = {top: "the shown name"}
    assert extend_names(names, [sub, twin, far, top]) == {
        **{sub: "the shown name", top: "the shown name"},
        **{twin: "b/api", far: "x"},
    }
    assert extend_names({}, [sub]) == {sub: "src"}


def test_an_old_name_is_that_of_the_folder() -> None:
    fix, sub, plain = workspaces((f"{H}/fix", f"top={H}/a/api"), (f"{H}/a/api/src",), (f"{H}/a/api",))
    assert [find_old_name(one, "a/api") for one in (fix, sub, plain)] == ["fix", "src", ""]
    assert list_old_names({sub: "a/api", fix: "a/api", plain: "a/api", Workspace("/x/src"): "b"}) == {
        **{"fix": ["a/api"], "src": ["a/api", "b"]}
    }


def test_a_repository_is_found_by_the_end_of_its_path() -> None:
    (api,) = workspaces((f"{H}/a/api/src", f"top={H}/a/api", f"remote={ORG1}"))
    for end in ("api", "a/api", f"{H}/a/api", "org1/api", "github.com/org1/api", "/org1/api/"):
        assert has_end(api, end), end
    assert not any(has_end(api, end) for end in ("pi", "src", "org2/api", "org1"))


def test_a_workspace_is_kept_as_text() -> None:
    for workspace in workspaces((f"{H}/Grüße", f"top={H}", f"remote={ORG1}", "tracked"), ('/a"b\nc',)):
        assert decode_workspace(encode_workspace(workspace)) == workspace
    for text in ("", "{}", "[]", '["a", "", "", 1]', '["a", "", ""]', '[["a"], "", "", true]'):
        with pytest.raises(ValueError, match=r"no workspace|Expecting value"):
            decode_workspace(text)
    assert make_workspace(None) is make_workspace("", None, "no remote") is None
