"""Membership: the first entry of a team, and the entries that add and remove its members."""

from __future__ import annotations

from typing import NamedTuple

from helix.errors import UsageError
from helix.settings import Settings
from pipelines.team.entry import NAME, TeamEntry, sign_entry
from pipelines.team.fold import TeamState
from pipelines.team.keys import PUBLIC, SigningKey, make_key, read_key, write_key
from pipelines.team.place import find_member, locate_key, locate_root_key, read_own_key


class NewTeam(NamedTuple):
    """A team's first entries, and its own key."""

    root: TeamEntry
    owner: TeamEntry
    key: SigningKey


class Signer(NamedTuple):
    """A key that signs, its entry, and the name of the member."""

    key: SigningKey
    entry: str
    name: str


def make_team(name: str, member: str, settings: Settings) -> NewTeam:
    """Make a team with one owner; write the team's key to its file, next to the owner's.

    Raises:
        UsageError: a name is of another form, or a key cannot be read or written.
    """
    own = ensure_key(settings)
    key = make_key()
    root = sign_entry(TeamEntry("team", name=check_member_name(name), key=key.public), key)
    draft = TeamEntry(
        "member", name=check_member_name(member), role="owner", key=own.public, team=root.id, signer=root.id
    )
    write_key(key, locate_root_key(settings, root.id))
    return NewTeam(root, sign_entry(draft, key), key)


def ensure_key(settings: Settings) -> SigningKey:
    """Return the member's key; the first call makes it."""
    path = locate_key(settings)
    if path.exists():
        return read_key(path)
    key = make_key()
    write_key(key, path)
    return key


def add_member(state: TeamState, name: str, public: str, role: str, settings: Settings) -> TeamEntry:
    """Return the entry that adds a member.

    Raises:
        UsageError: the caller may not, the name or the key is taken, or of another form.
    """
    if not PUBLIC.fullmatch(public):
        raise UsageError(f"{public[:80]!r} is no public key", "give the key that 'helix team join' printed")
    for one in state.members.values():
        if one.key == public or one.name == check_member_name(name):
            raise UsageError(f"{one.name} is a member already", "remove that one first, or choose another name")
    signer = find_signer(state, settings, needs_team=role == "owner")
    draft = TeamEntry("member", name=name, role=role, key=public, team=state.root, signer=signer.entry)
    return sign_entry(draft, signer.key)


def remove_member(state: TeamState, name: str, settings: Settings) -> TeamEntry:
    """Return the entry that removes a member. What the team has of theirs stays.

    Raises:
        UsageError: there is no such member, several have the name, or the caller may not.
    """
    member = choose_member(state, name)
    signer = find_signer(state, settings, needs_team=state.members[member].role == "owner")
    stay = tuple(key for key, one in state.accepted.items() if one.signer == member)
    draft = TeamEntry("removal", removes=member, accepts=stay, team=state.root, signer=signer.entry)
    return sign_entry(draft, signer.key)


def withdraw_entry(state: TeamState, name: str, settings: Settings) -> TeamEntry:
    """Return the entry that withdraws another, by the first digits of its id.

    Raises:
        UsageError: there is no such entry, several begin so, or the caller may not.
    """
    found = [key for key in state.known_entries if key.startswith(name)] if len(name) >= 4 else []
    if len(found) != 1:
        problem = f"{len(found)} entries begin" if found else "no entry begins"
        raise UsageError(f"{problem} with {name[:40]!r}", "give 12 digits of an id of 'helix team show'")
    signer = find_signer(state, settings, needs_team=False)
    may = signer.entry == state.root or state.entries[signer.entry].role == "owner"
    if not may and state.entries[found[0]].signer != signer.entry:
        raise UsageError(f"{found[0][:12]} is of another member", "ask that member or an owner")
    return sign_entry(TeamEntry("withdrawal", withdraws=found[0], team=state.root, signer=signer.entry), signer.key)


def choose_member(state: TeamState, name: str) -> str:
    """Return the member of a name or of the first digits of an id.

    Raises:
        UsageError: no member has it, or several do.
    """
    found = [key for key, one in state.members.items() if one.name == name or (len(name) >= 8 and key.startswith(name))]
    if len(found) != 1:
        names = ", ".join(sorted(one.name for one in state.members.values()))
        remedy = f"the members are {names}" if not found else "give the id that 'helix team show' prints"
        raise UsageError(f"{len(found) or 'no'} members are called {name[:80]!r}", remedy)
    return found[0]


def find_signer(state: TeamState, settings: Settings, *, needs_team: bool) -> Signer:
    """Return the key that signs: the member's own, or the team's where only that may.

    Raises:
        UsageError: the key is not here, or is of another team.
    """
    if not needs_team:
        key = read_own_key(settings)
        member, entry = find_member(state, key)
        return Signer(key, member, entry.name)
    path = locate_root_key(settings, state.root)
    if not path.exists():
        raise UsageError(
            f"only the key of the team may do that, and {path} is not here",
            "run the command where 'helix team init' was run, or copy that file here for the moment",
        )
    key = read_key(path)
    if key.public != state.entries[state.root].key:
        raise UsageError(f"{path} is the key of another team", "put the right file there")
    return Signer(key, state.root, "team")


def check_member_name(name: str) -> str:
    """Return the name of a team or a member.

    Raises:
        UsageError: it is of another form.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no name", "use up to 40 letters, digits, '.', '_' and '-' of ASCII")
    return name


def describe_join(name: str, public: str) -> str:
    """Return the command with which an owner adds a member."""
    return f"helix team add {name} --key {public}"
