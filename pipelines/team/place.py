"""The team of a clone: its remote and branch, its trusted first entry, and what its owner allows to leave.

All of it is in `helix/` in the folder `.git` of the clone, which git never sends: `team.toml` for its owner to edit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import ParseError

from helix.errors import UsageError
from helix.settings import Settings
from helix.snapshot import paths
from helix.util.repositories import find_repository
from helix.util.workspaces import Workspace, name_workspace
from pipelines.team.entry import ID, TeamEntry
from pipelines.team.fold import TeamState, fold_entries
from pipelines.team.git import Repository, check_name
from pipelines.team.keys import SigningKey, format_fingerprint, read_key
from pipelines.team.log import BRANCH, LogReading

KINDS: Final = ("decision", "rule")
"""Kinds that a publication offers of itself; notes are named one by one."""

_ITEM: Final = re.compile(r"[0-9a-f]{16}")
_MAX_CONFIG: Final = 1 << 20
_HEAD: Final = """\
# What may leave this clone for the team's memory. Only you read this file: git never sends it.
# project  the project of your store whose decisions and rules 'helix team publish' offers
# kinds    of what it offers by itself: "decision", "rule", or none
# items    ids of further items that it offers: notes, and what others said
# me       names of speakers in your logs that are you
# never    ids of items that it does not offer again
"""


@dataclass(frozen=True, slots=True)
class TeamPlace:
    """A clone, and the settings of its team."""

    repository: Repository
    folder: str  # top folder of the work tree; empty: a bare repository
    address: str  # host/owner/name of the remote `origin`; empty: a path
    remote: str | None  # None: the repository has no remote
    branch: str
    root: str  # id of the trusted first entry; empty: none is trusted so far
    project: str
    kinds: tuple[str, ...]
    items: tuple[str, ...]
    me: tuple[str, ...]
    never: tuple[str, ...]

    @property
    def config(self) -> Path:
        """The file of the settings."""
        return self.repository.common / "helix" / "team.toml"


def open_place(
    folder: Path, *, remote: str | None = None, branch: str | None = None, root: str | None = None
) -> TeamPlace:
    """Return the team of the repository that holds a folder.

    Args:
        remote, branch, root: instead of those of the settings; an empty remote names none.

    Raises:
        UsageError: there is no repository, or a setting or an argument is wrong.
    """
    repository = Repository(folder)
    top, address = find_repository(str(folder.resolve()))
    given = _read_config(repository.common / "helix" / "team.toml")
    known = repository.list_remotes()
    chosen = given["remote"] if remote is None else remote
    if chosen is None:
        chosen = "origin" if "origin" in known else known[0] if len(known) == 1 else ""
    if chosen and chosen not in known:
        raise UsageError(f"the repository has no remote {chosen!r}", f"name one of {', '.join(known) or 'none'}")
    trusted = given["root"] if root is None else root
    if trusted and not ID.fullmatch(trusted):
        raise UsageError(f"{trusted[:80]!r} is no id of a team", "give the 32 digits that 'helix team show' prints")
    project = given["project"] or name_workspace(Workspace(top or str(folder.resolve()), top, address)) or folder.name
    return TeamPlace(
        repository, top, address, chosen or None, check_name(branch or given["branch"] or BRANCH, "branch"), trusted,
        project, given["kinds"], given["items"], given["me"], given["never"],
    )  # fmt: skip


def _read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a file, all of them of the right form."""
    raw = _parse_config(path).unwrap()
    remedy = f"mend {path}, or remove it"
    texts = {name: raw.pop(name, None) for name in ("remote", "branch", "root", "project")}
    lists = {name: raw.pop(name, None) for name in ("kinds", "items", "me", "never")}
    if raw:
        raise UsageError(f"{path} has an unknown setting {next(iter(raw))!r}", remedy)
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{path}: {name} is no text", remedy)
    for name, value in lists.items():
        if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise UsageError(f"{path}: {name} is no list of texts", remedy)
    if wrong := [one for one in lists["kinds"] or () if one not in KINDS]:
        raise UsageError(f"{path}: kinds has {wrong[0]!r}", f"use some of {', '.join(KINDS)}; notes are named in items")
    if wrong := [one for name in ("items", "never") for one in lists[name] or () if not _ITEM.fullmatch(one)]:
        raise UsageError(f"{path}: {wrong[0]!r} is no id of an item", remedy)
    kinds = KINDS if lists["kinds"] is None else tuple(lists["kinds"])
    given = {name: tuple(lists[name] or ()) for name in ("items", "me", "never")}
    return {**texts, "root": texts["root"] or "", "kinds": kinds, **given}


def _parse_config(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(paths.read_regular(path, _MAX_CONFIG).decode("utf-8"))
    except FileNotFoundError:
        return tomlkit.parse(_HEAD)
    except (OSError, UnicodeDecodeError, ParseError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "mend it, or remove it") from None


def update_config(place: TeamPlace, given: Mapping[str, str | Sequence[str]]) -> None:
    """Write some settings; the others and the comments stay."""
    document = _parse_config(place.config)
    for name, value in given.items():
        document[name] = value if isinstance(value, str) else list(value)
    place.config.parent.mkdir(mode=0o700, exist_ok=True)
    paths.write_file(place.config, tomlkit.dumps(document).encode())


def extend_config(place: TeamPlace, name: str, values: Iterable[str]) -> None:
    """Add values to a list of the settings."""
    update_config(place, {name: list(dict.fromkeys([*getattr(place, name), *values]))})


# ---------------------------------------------------------------- trust


def fold_log(place: TeamPlace, log: LogReading) -> TeamState:
    """Return the state of a log under the trusted first entry.

    Raises:
        UsageError: none is trusted, or the log has not the trusted one.
    """
    if not place.root:
        raise UsageError("this clone trusts no team so far", "run 'helix team pull', or name one with --root")
    state = fold_entries(log.entries, place.root)
    if not state.root:
        raise UsageError(
            f"the branch {place.branch} has no valid entry of the team {place.root[:12]}",
            "somebody replaced its history: ask the team, and compare 'helix team show' of another member",
        )
    return state


def find_roots(log: LogReading) -> list[TeamEntry]:
    """Return the first entries of teams in a log, by id."""
    return [entry for _, entry in sorted(log.entries.items()) if entry.kind == "team"]


def trust_team(place: TeamPlace, log: LogReading) -> TeamPlace:
    """Trust the one team of a log from now on, and return the place; a trusted one stays.

    Raises:
        UsageError: the log has no team, or several.
    """
    if place.root:
        return place
    roots = find_roots(log)
    if not roots:
        raise UsageError(
            f"the branch {place.branch} of {place.remote or 'this repository'} holds no team",
            "run 'helix team init' to begin one",
        )
    if len(roots) > 1:
        raise UsageError(f"the branch {place.branch} holds {len(roots)} teams", "name yours with --root ID")
    update_config(place, {"root": roots[0].id})
    return replace(place, root=roots[0].id)


# ---------------------------------------------------------------- keys


def locate_key(settings: Settings) -> Path:
    """Return the path of the member's key: HELIX_TEAM_KEY, else in the home folder."""
    return Path(settings.team_key).expanduser() if settings.team_key else Path.home() / ".helix" / "keys" / "team.pem"


def locate_root_key(settings: Settings, root: str) -> Path:
    """Return the path of a team's own key, next to the member's."""
    return locate_key(settings).parent / f"team-{root[:12]}.pem"


def find_member(state: TeamState, key: SigningKey) -> tuple[str, TeamEntry]:
    """Return the member whose key it is: id and entry.

    Raises:
        UsageError: it is no member's, or that member left.
    """
    for member, entry in state.members.items():
        if entry.key == key.public:
            return member, entry
    left = any(entry.key == key.public for entry in state.accepted.values() if entry.kind == "member")
    shown = format_fingerprint(key.public)
    if left:
        raise UsageError(f"your key {shown} was removed from the team", "'helix team join' with a new key")
    raise UsageError(f"your key {shown} is no member's", "run 'helix team join', and ask an owner to add you")


def read_own_key(settings: Settings) -> SigningKey:
    """Read the member's key.

    Raises:
        UsageError: it is missing or unusable.
    """
    return read_key(locate_key(settings))


def default_name() -> str:
    """Return a name for a member: that of the login, in the letters of a name."""
    login = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", login).strip("-._")[:40] or "member"
