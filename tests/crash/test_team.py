"""Team memory under kills, several publishers at once, and clocks that are off: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from helix.sdk.open import open as open_store
from helix.snapshot.verify import verify_store
from pipelines.team.entry import TeamEntry, sign_entry
from pipelines.team.fold import fold_entries
from pipelines.team.git import Repository
from pipelines.team.keys import read_key, write_key
from pipelines.team.log import LOCAL, add_entries, fetch_log, read_log
from tests.support.marks import kill_in_turn
from tests.support.teams import Team, clone_hub, git_text, key_of, make_hub

Run = Callable[..., subprocess.CompletedProcess[str]]
PULL = ("team.fetched", "team.envelope", "commit.manifest", "team.accepted", "team.learned")
FORGET = ("forget.rewritten",)
PUBLISH = ("team.committed", "team.pushed")


@pytest.fixture(autouse=True)
def quick_encoder(tiny_encoders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_ENCODER", tiny_encoders[0])


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return make_hub(tmp_path)


def push_entries(hub: Path, clone: Path, team: Team) -> str:
    """Push all entries of a team."""
    return add_entries(Repository(clone), list(team.entries.values()), "ana", "origin", "helix-team")


def texts(store: Path) -> list[str]:
    """Return the texts of the live items, sorted; fail on a damaged store."""
    assert verify_store(store).problems == ()
    snapshot = open_store(store).snapshot
    rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
    return sorted(entry["text"] for entry in snapshot.text(rows))


def kill_then_run(run: Run, points: Sequence[str], words: Sequence[object], **environ: str) -> Any:
    for point in points:
        done = run(*words, HELIX_FAILPOINT=point, **environ)
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), (point, done.stdout, done.stderr)
    done = run(*words, "--json", **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("points", kill_in_turn(PULL))
def test_a_pull_killed_at_any_step_learns_each_entry_once(
    points: Sequence[str], hub: Path, tmp_path: Path, run_helix: Run
) -> None:
    team = Team.begin()
    for number in range(3):
        team.say("ana", f"We bake loaf number {number} with walnut and salt.")
    ana, ben = (clone_hub(hub, tmp_path / name) for name in ("ana", "ben"))
    push_entries(hub, ana, team)
    words = ("team", "pull", "--repo", ben, "--store", tmp_path / "store")
    kill_then_run(run_helix, points, words)
    assert texts(tmp_path / "store") == [f"We bake loaf number {number} with walnut and salt." for number in range(3)]


@pytest.mark.parametrize("points", kill_in_turn(FORGET))
def test_a_pull_killed_while_it_forgets_forgets_all_of_it(
    points: Sequence[str], hub: Path, tmp_path: Path, run_helix: Run
) -> None:
    team = Team.begin()
    first, second = team.say("ana", "We bake with walnut."), team.say("ana", "We bake with olive oil.")
    ana, ben = (clone_hub(hub, tmp_path / name) for name in ("ana", "ben"))
    push_entries(hub, ana, team)
    words = ("team", "pull", "--repo", ben, "--store", tmp_path / "store")
    kill_then_run(run_helix, (), words)
    team.add(TeamEntry("withdrawal", withdraws=first), "ana")
    push_entries(hub, ana, team)
    kill_then_run(run_helix, points, words)
    assert texts(tmp_path / "store") == ["We bake with olive oil."]
    assert second in read_log(Repository(ben), Repository(ben).find_commit(LOCAL)).entries


@pytest.mark.parametrize("points", kill_in_turn(PUBLISH[:1], PUBLISH[1:]))
def test_a_publication_that_was_killed_is_pushed_by_the_next_one(
    points: Sequence[str], hub: Path, tmp_path: Path, run_helix: Run
) -> None:
    ana, key = clone_hub(hub, tmp_path / "ana"), tmp_path / "keys" / "team.pem"
    environ = {"HELIX_STORE": str(tmp_path / "store"), "HELIX_TEAM_KEY": str(key)}
    for words in (
        ("team", "init", "--as", "ana", "--repo", ana),
        ("remember", "Never bake on a Friday.", "--pin", "--project", "ledgerline", "--by", "user"),
    ):
        assert run_helix(*words, **environ).returncode == 0
    kill_then_run(run_helix, points, ("team", "publish", "--yes", "--repo", ana), **environ)
    assert run_helix("team", "pull", "--repo", ana, **environ).returncode == 0
    files = git_text("ls-tree", "-r", "--name-only", "helix-team", at=hub).splitlines()
    assert len([path for path in files if path.startswith("rules/")]) == 1


def test_publishers_at_once_lose_nothing(hub: Path, tmp_path: Path) -> None:
    """Each of several processes publishes several times; all entries arrive, and all clones have one state."""
    team = Team.begin()
    names = ("ben", "cleo", "dora")
    for name in names:
        team.join(name)
    clones = {name: clone_hub(hub, tmp_path / name) for name in ("ana", *names)}
    push_entries(hub, clones["ana"], team)
    script = Path(__file__).parent.parent / "support" / "publish_entries.py"
    for name in names:
        write_key(key_of(name), tmp_path / name / "key.pem")

    def publish(name: str) -> subprocess.CompletedProcess[bytes]:
        words = [clones[name], tmp_path / name / "key.pem", team.root, team.members[name], name, "3"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, script, *words], capture_output=True, env=environ, timeout=200, check=False
        )

    with ThreadPoolExecutor(len(names)) as pool:
        for done in pool.map(publish, names):
            assert done.returncode == 0, done.stderr.decode()
    states = []
    for clone in clones.values():
        repository = Repository(clone)
        log = read_log(repository, fetch_log(repository, "origin", "helix-team"))
        states.append(fold_entries(log.entries, team.root))
    said = sorted(one.text for one in states[0].known_entries.values())
    assert said == sorted(f"{name} says {number}" for name in names for number in range(3))
    assert len({state.summarise() for state in states}) == 1


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_off_by_a_day_changes_what_is_known_by_nothing(
    days: int, hub: Path, tmp_path: Path, run_helix: Run
) -> None:
    """Ben's clock is off; his entry replaces Ana's all the same, at once and in every store."""
    from datetime import UTC, datetime, timedelta

    from pipelines.team.drafts import EntryDraft, replace_entries
    from pipelines.team.entry import format_said

    team = Team.begin()
    team.join("ben")
    now = datetime.now(UTC)
    draft = TeamEntry("decision", project="ledgerline", said=format_said(now), text="We bake with walnut.", topic="oil")
    old = team.add(draft, "ana")
    state = fold_entries(team.entries, team.root)
    off = TeamEntry(
        "decision", project="ledgerline", said=format_said(now + timedelta(days=days)), text="We bake with oil."
    )
    team.add(replace_entries(EntryDraft(off, "user", ()), [old], state).entry, "ben")
    ana, cleo = (clone_hub(hub, tmp_path / name) for name in ("ana", "cleo"))
    push_entries(hub, ana, team)
    store = tmp_path / "store"
    done = run_helix("team", "pull", "--repo", cleo, "--store", store)
    assert done.returncode == 0, done.stderr
    memory = open_store(store)
    row = {entry["text"]: entry["id"] for entry in memory.snapshot.text([0, 1])}
    item = memory.item(row["We bake with walnut."])
    assert item is not None
    assert item["replaced_by"]["text"] == "We bake with oil."
    ids = [one.id for one in memory.recall("we bake with", k=2).items]
    assert ids.index(row["We bake with oil."]) < ids.index(row["We bake with walnut."])


def test_a_member_who_left_cannot_write_into_the_past(hub: Path, tmp_path: Path, run_helix: Run) -> None:
    """Their key signs an entry dated before they left and pushes it; stores keep the old ones and learn no new one."""
    team = Team.begin()
    team.join("ben")
    team.say("ben", "We bake with walnut.")
    ana, ben, cleo = (clone_hub(hub, tmp_path / name) for name in ("ana", "ben", "cleo"))
    push_entries(hub, ana, team)
    words = ("team", "pull", "--repo", cleo, "--store", tmp_path / "store", "--json")
    assert run_helix(*words).returncode == 0
    team.remove("ben")
    push_entries(hub, ana, team)
    key_file = tmp_path / "ben.pem"
    write_key(key_of("ben"), key_file)
    late = TeamEntry(
        "decision", project="ledgerline", said="2026-05-01T09:00:00Z", text="We bake with olive oil.",
        team=team.root, signer=team.members["ben"],
    )  # fmt: skip
    add_entries(Repository(ben), [sign_entry(late, read_key(key_file))], "ben", "origin", "helix-team")
    done = run_helix(*words)
    assert done.returncode == 3
    assert "signed by ben, who left" in done.stderr
    assert texts(tmp_path / "store") == ["We bake with walnut."]
