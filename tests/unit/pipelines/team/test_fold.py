"""Rights of members, and what a team knows: read off the set of entries, never off a clock."""

from __future__ import annotations

import pytest

from pipelines.team.entry import TeamEntry, sign_entry
from pipelines.team.fold import TeamState, fold_entries
from tests.support.teams import Team, key_of


def fold(team: Team) -> TeamState:
    return fold_entries(team.entries, team.root)


def reason(team: Team, key: str) -> str:
    return fold(team).refused[key].reason


def test_members_write_and_strangers_do_not() -> None:
    team = Team.begin()
    team.join("ben")
    known = team.say("ben", "We deploy on Mondays.")
    strange = team.say("mallory", "We deploy on Fridays.")
    assert set(fold(team).known_entries) == {known}
    assert "does not match" in reason(team, strange)


def test_an_entry_that_another_key_signed_is_refused() -> None:
    team = Team.begin()
    team.join("ben")
    draft = TeamEntry("decision", project="p", said="2026-05-01T10:00:00Z", text="x", signer=team.members["ana"])
    forged = team.add(draft, "ben")
    assert "does not match" in reason(team, forged)


def test_only_the_team_key_makes_owners_and_only_owners_make_members() -> None:
    team = Team.begin()
    team.join("ben")
    for name, role, by in (("eve", "owner", "ana"), ("eve", "owner", "ben"), ("eve", "member", "ben")):
        assert "may not add" in reason(team, team.join(name, role, by)), (name, by)
    team.join("cleo", "owner", "team")
    team.join("dora", "member", "cleo")
    assert {one.name for one in fold(team).members.values()} == {"ana", "ben", "cleo", "dora"}


def test_only_the_team_key_removes_owners() -> None:
    team = Team.begin()
    team.join("ben")
    team.join("cleo", "owner", "team")
    for name, by in (("cleo", "ana"), ("ana", "cleo"), ("ana", "ben"), ("cleo", "cleo"), ("ben", "ben")):
        assert "may not remove" in reason(team, team.remove(name, by)), (name, by)
    team.remove("cleo", "team")
    team.remove("ben", "ana")
    assert {one.name for one in fold(team).members.values()} == {"ana"}


def test_a_member_leaves_and_the_team_keeps_what_they_gave() -> None:
    team = Team.begin()
    team.join("ben")
    before = team.say("ben", "We deploy on Mondays.")
    team.remove("ben")
    after = team.say("ben", "We deploy on Fridays.", day=9)
    backdated = team.say("ben", "We never deploy.", day=1)
    state = fold(team)
    assert set(state.known_entries) == {before}
    assert state.name_signer(state.entries[before]) == "ben"
    for key in (after, backdated):
        assert "left" in reason(team, key)


def test_an_entry_that_a_removal_did_not_know_is_accepted_by_another_that_does() -> None:
    team = Team.begin()
    team.join("ben")
    team.join("cleo", "owner", "team")
    late = team.say("ben", "We deploy on Mondays.")
    team.remove("ben", accepts=())
    assert late in fold(team).refused
    team.remove("ben", "cleo", accepts=(late,))
    assert late in fold(team).known_entries


def test_a_removed_owner_removes_and_adds_no_more() -> None:
    team = Team.begin()
    team.join("cleo", "owner", "team")
    team.join("ben", "member", "cleo")
    team.remove("cleo", "team")
    team.join("dora", "member", "cleo")
    removal = team.remove("ben", "cleo")
    names = {one.name for one in fold(team).members.values()}
    assert names == {"ana", "ben"}
    assert "left" in reason(team, removal)


def test_a_withdrawal_is_of_the_author_or_an_owner_and_a_replacement_of_any_member() -> None:
    team = Team.begin()
    team.join("ben")
    team.join("cleo")
    one, two = team.say("ben", "We deploy on Mondays."), team.say("ben", "We bake on Fridays.")
    refused = team.add(TeamEntry("withdrawal", withdraws=one), "cleo")
    assert "may not withdraw" in reason(team, refused)
    team.add(TeamEntry("withdrawal", withdraws=one), "ben")
    team.add(TeamEntry("withdrawal", withdraws=two), "ana")
    three = team.say("ben", "Tabs.")
    four = team.say("cleo", "Spaces.", replaces=(three,))
    state = fold(team)
    assert set(state.known_entries) == {three, four}
    assert set(state.holding) == {four}
    team.add(TeamEntry("withdrawal", withdraws=four), "cleo")
    assert set(fold(team).holding) == {three}  # what it replaced holds again


def test_an_entry_that_replaces_a_missing_one_waits_for_it() -> None:
    team = Team.begin()
    old = team.say("ana", "Tabs.")
    new = team.say("ana", "Spaces.", replaces=(old,))
    without = {key: one for key, one in team.entries.items() if key != old}
    assert "missing" in fold_entries(without, team.root).refused[new].reason
    assert set(fold(team).holding) == {new}


@pytest.mark.parametrize("days", [(9, 1), (1, 9), (1, 1)])
def test_a_clock_that_is_off_changes_nothing(days: tuple[int, int]) -> None:
    team = Team.begin()
    team.join("ben")
    old = team.say("ben", "Tabs.", day=days[0], topic="indent")
    new = team.say("ana", "Spaces.", day=days[1], topic="indent", replaces=(old,))
    team.remove("ben")
    assert set(fold(team).holding) == {new}
    assert set(fold(team).known_entries) == {old, new}


def test_another_team_and_a_false_root_are_refused() -> None:
    team = Team.begin()
    other = sign_entry(TeamEntry("team", name="core", key=key_of("mallory").public), key_of("mallory"))
    team.entries[other.id] = other
    assert "another team" in reason(team, other.id)
    taken = fold_entries(team.entries, other.id)
    assert set(taken.accepted) == {other.id}
    false = sign_entry(TeamEntry("team", name="core", key=key_of("team").public), key_of("mallory"))
    assert fold_entries({false.id: false}, false.id).root == ""
    assert fold_entries({}, team.root).root == ""


def test_the_order_of_entries_counts_for_nothing() -> None:
    team = Team.begin()
    team.join("ben")
    team.join("cleo")
    text = team.say("ben", "We deploy on Mondays.")
    for by in ("ben", "ana"):
        team.add(TeamEntry("withdrawal", withdraws=text), by)
    for accepts in ((), (text,)):
        team.remove("cleo", accepts=accepts)
    whole = fold(team).summarise()
    for keys in (reversed(team.entries), sorted(team.entries), sorted(team.entries, reverse=True)):
        assert fold_entries({key: team.entries[key] for key in keys}, team.root).summarise() == whole
