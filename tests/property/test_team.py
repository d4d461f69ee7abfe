"""Logs of a team merge in any order to the same state: as sets, by `git merge`, and by Helix's own merge."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pipelines.team.entry import TeamEntry
from pipelines.team.fold import fold_entries
from pipelines.team.git import Repository
from pipelines.team.log import merge_logs, read_log
from tests.support.draws import draw_share
from tests.support.repositories import git
from tests.support.teams import Team, commit_entries, git_text

NAMES = ("ana", "ben", "cleo", "dora", "mallory")
ACTS = ("say", "say", "replace", "withdraw", "join", "owner", "remove", "remove some", "forge")


@st.composite
def teams(draw: st.DrawFn, most: int = 14) -> Team:
    """A team after some acts of members and of others, allowed or not; clocks say anything."""
    team = Team.begin()
    for number in range(draw(st.integers(2, most))):
        act, by, other = draw(st.sampled_from(ACTS)), draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES[:4]))
        said = [key for key, one in team.entries.items() if one.kind in ("decision", "rule")]
        day = draw(st.integers(1, 9))
        if act == "say" or (act in ("replace", "withdraw") and not said):
            team.say(by, f"{by} says {number}", day, kind=draw(st.sampled_from(("decision", "rule"))))
        elif act == "replace":
            old = draw(st.lists(st.sampled_from(said), min_size=1, max_size=3, unique=True))
            team.say(by, f"{by} says {number}", day, replaces=tuple(sorted(old)))
        elif act == "withdraw":
            team.add(TeamEntry("withdrawal", withdraws=draw(st.sampled_from(said))), by)
        elif act in ("join", "owner"):
            role = "owner" if act == "owner" else "member"
            team.join(other, role, draw(st.sampled_from(("team", by))))
        elif act == "forge":
            team.say("mallory", f"forged {number}", day, signer=team.members["ana"])
        elif other in team.members:
            some = said and act == "remove some"
            accepts = draw(st.lists(st.sampled_from(said), max_size=3, unique=True)) if some else None
            team.remove(other, draw(st.sampled_from(("team", by))), accepts)
    return team


@draw_share(0.4)
@given(teams(24), st.data())
def test_any_order_and_grouping_of_merges_gives_one_state(team: Team, data: st.DataObject) -> None:
    keys = sorted(team.entries)
    parts = [
        {key: team.entries[key] for key in data.draw(st.lists(st.sampled_from(keys), unique=True))} for _ in range(4)
    ]
    parts.append(dict(team.entries))
    whole = fold_entries(team.entries, team.root).summarise()
    order = data.draw(st.permutations(parts))
    merged = reduce(lambda one, other: {**one, **other}, order)
    assert fold_entries(merged, team.root).summarise() == whole
    again = reduce(lambda one, other: {**other, **one}, [*reversed(order), *order])
    assert fold_entries(again, team.root).summarise() == whole


@draw_share(0.2)
@given(teams(24), st.data())
def test_a_part_of_a_log_never_accepts_what_the_right_removal_refuses(team: Team, data: st.DataObject) -> None:
    """More entries may refuse one that was accepted, by a removal; a stranger's is accepted in no part."""
    keys = sorted(team.entries)
    part = {key: team.entries[key] for key in data.draw(st.lists(st.sampled_from(keys), unique=True))}
    state = fold_entries({**part, team.root: team.entries[team.root]}, team.root)
    for key, one in state.accepted.items():
        signer = team.entries.get(one.signer)
        assert key == team.root or (signer is not None and signer.name != "mallory")


def merge_by_git(clone: Path, branches: list[str], base: str) -> str:
    """Merge branches one after the other, as `git merge` does; return the commit. A conflict raises."""
    for branch in branches:
        tree = git_text("merge-tree", "--write-tree", base, branch, at=clone)
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        base = git_text(*who, "commit-tree", tree, "-p", base, "-p", branch, "-m", "merge", at=clone)
    return base


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merge")
    git("init", "-q", "-b", "main", folder / "clone", at=folder)
    return folder / "clone"


@draw_share(0.04, HealthCheck.function_scoped_fixture)
@given(teams(), st.data())
def test_git_merges_branches_in_any_order_without_a_conflict(clone: Path, team: Team, data: st.DataObject) -> None:
    files = {one.path: one.dump() for one in team.entries.values()}
    paths = sorted(files)
    base = commit_entries(clone, "base", {paths[0]: files[paths[0]]})
    branches = []
    for number in range(3):
        chosen = data.draw(st.lists(st.sampled_from(paths), unique=True, min_size=1))
        commit_entries(clone, f"part-{number}", {path: files[path] for path in chosen}, base)
        branches.append(f"part-{number}")
    repository = Repository(clone)
    order = data.draw(st.permutations(branches))
    commits = [merge_by_git(clone, branches, base), merge_by_git(clone, list(order), base)]
    tips = [repository.find_commit(branch) for branch in order]
    own = reduce(lambda one, other: merge_logs(repository, one, other), tips)
    commits.append(str(own))
    logs = [read_log(repository, commit) for commit in commits]
    assert len({tuple(sorted(log.entries)) for log in logs}) == 1
    assert len({fold_entries(log.entries, team.root).summarise() for log in logs}) == 1
    assert not any(log.problems for log in logs)
