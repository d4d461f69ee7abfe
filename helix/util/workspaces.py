"""Workspaces: where sessions worked, and the names of their projects.

A project is a repository. Its remote names it, else its top folder. A log tells only a part of that. So a workspace
keeps what is known of one session, and names follow from all workspaces of a store together:

- A folder without a known repository belongs to the nearest known one above it.
- A top folder without a known remote has the remote that other workspaces know of it.
- Workspaces of one repository have one name, however many clones and worktrees it has.
- Different repositories of one name get longer names (`ana/api`, `ben/api`): where their remotes differ, or their top
  folders in one home folder. Otherwise they are one: two machines may hold a project in different folders.

No name depends on the order of the workspaces.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from helix.util.repositories import name_remote


class Workspace(NamedTuple):
    """The folder of a session, and what is known of its repository. An unknown part is empty."""

    folder: str = ""  # where the session began
    top: str = ""  # top folder of the repository
    remote: str = ""  # host/owner/name
    tracked: bool = False  # the folder is in a repository, whose top folder may be unknown


def make_workspace(
    folder: str | None, top: str | None = None, remote: str | None = None, *, tracked: bool = False
) -> Workspace | None:
    """Return a workspace from the words of a log; None where they name nothing.

    Args:
        folder, top: paths, POSIX or Windows.
        remote: a URL, or host/owner/name.
    """
    url = remote or ""
    workspace = Workspace(_clean_path(folder), _clean_path(top), name_remote(url) or _clean_remote(url), tracked)
    return workspace if workspace.folder or workspace.remote else None


def encode_workspace(workspace: Workspace) -> str:
    """Return a workspace as text; see `decode_workspace`."""
    return json.dumps(workspace, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=1 << 14)
def decode_workspace(text: str) -> Workspace:
    """Return the workspace of a text.

    Raises:
        ValueError: it is none.
    """
    match json.loads(text):
        case [str(folder), str(top), str(remote), bool(tracked)]:
            return Workspace(folder, top, remote, tracked)
    raise ValueError(f"no workspace: {text[:80]}")


def get_last_name(path: str) -> str:
    """Return the last component of a path, POSIX or Windows; empty for a root."""
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    return "" if re.fullmatch(r"[A-Za-z]:", name) else name


def name_workspace(workspace: Workspace) -> str | None:
    """Return the name of a workspace that nothing else is known of; None for a workspace without one."""
    return name_workspaces((workspace,))[workspace] or None


def name_workspaces(workspaces: Collection[Workspace]) -> dict[Workspace, str]:
    """Return the name of each workspace's project; empty for a workspace that names nothing."""
    return _name_workspaces(frozenset(workspaces))


def extend_names(names: Mapping[Workspace, str], others: Collection[Workspace]) -> dict[Workspace, str]:
    """Return the projects of other workspaces: those of known ones that they share, else new names.

    Args:
        names: projects of the known workspaces, which keep them.
    """
    together = name_workspaces([*names, *others])
    known = {together[workspace]: name for workspace, name in names.items()}
    return {other: names.get(other) or known.get(together[other], together[other]) for other in others}


def find_old_name(workspace: Workspace, project: str) -> str:
    """Return the name that earlier releases gave a workspace's project: its folder's. Empty if it ends the new one."""
    old = get_last_name(workspace.folder)
    return "" if f"/{project}".endswith(f"/{old}") else old


def list_old_names(projects: Mapping[Workspace, str]) -> dict[str, list[str]]:
    """Return the projects of some workspaces by each old name that they have; both ascending."""
    found = defaultdict[str, set[str]](set)
    for workspace, project in projects.items():
        if old := find_old_name(workspace, project):
            found[old].add(project)
    return {old: sorted(found[old]) for old in sorted(found)}


def has_end(workspace: Workspace, end: str) -> bool:
    """Return whether the path of a workspace's remote or top folder ends with some components."""
    paths = (workspace.remote, workspace.top or workspace.folder)
    return any(f"/{path}".endswith(f"/{end.strip('/')}") for path in paths if path)


# ---------------------------------------------------------------- repositories


_HOME: Final = re.compile(r"(?:[A-Za-z]:)?/(?:home|Users|export/home)/[^/]+|(?:/var)?/root|~", re.IGNORECASE)
_WORKTREE: Final = re.compile(
    r"(?P<top>.*?[^/])"
    r"(?:/\.git(?:/.*)?"
    r"|/(?:\.worktrees?|\.wt|\.trees|\.conductor|\.(?:claude|codex|cursor|agents?)/worktrees?)/.*"
    r"|[-._]{1,2}worktrees/.*)"
)
"""Worktrees in their repository's folder, or in a folder next to it that has its name."""

_HELD: Final = re.compile(
    rf"(?:{_HOME.pattern})/(?:(?:\.cursor/worktrees|\.claude-worktrees|conductor/workspaces)/(?P<first>[^/]+)/[^/]+"
    r"|\.codex/worktrees/[^/]+/(?P<second>[^/]+))(?:/.*)?",
    re.IGNORECASE,
)
"""Worktrees in a home folder of their tool, which has the name of their repository: before or after an id."""


class _Repository(NamedTuple):
    """All that is known of one repository."""

    name: str
    remotes: tuple[str, ...]  # ascending
    tops: tuple[str, ...]  # ascending

    @property
    def homes(self) -> frozenset[str]:
        """The home folders that hold it; empty text: it is in none."""
        return frozenset(_find_home(top) for top in self.tops)

    @property
    def path(self) -> list[str]:
        """The components of its remote, else of its top folder."""
        return (self.remotes or self.tops or (self.name,))[0].strip("/").split("/")

    def is_apart(self, other: _Repository) -> bool:
        """Return whether the two are known to be different: by remotes, or by two folders of one machine."""
        return bool((self.remotes and other.remotes) or self.homes & other.homes)


@lru_cache(maxsize=64)
def _name_workspaces(workspaces: frozenset[Workspace]) -> dict[Workspace, str]:
    known = sorted(workspaces)
    tops = _find_tops(known)
    keys = _find_keys(known, tops)
    remotes, folders = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for workspace in known:
        remotes[keys[workspace]].update(filter(None, [workspace.remote]))
        folders[keys[workspace]].update(filter(None, [tops[workspace]]))
    alike = defaultdict[str, dict[str, _Repository]](dict)
    for workspace in known:
        key = keys[workspace]
        found = tuple(sorted(remotes[key])), tuple(sorted(folders[key]))
        name = get_last_name((found[0] or found[1] or (_find_held(workspace.folder),))[0])
        alike[name][key] = _Repository(name, *found)
    shown = {key: name for group in alike.values() for key, name in _tell_apart(group)}
    return {workspace: shown[keys[workspace]] for workspace in known}


def _find_tops(workspaces: Collection[Workspace]) -> dict[Workspace, str]:
    """Return the top folder of each workspace's repository, by its own words or by those of other workspaces."""
    known = _map_tops(workspaces)
    tracked = {
        workspace.folder for workspace in workspaces if workspace.tracked and not _HOME.fullmatch(workspace.folder)
    }
    out: dict[Workspace, str] = {}
    for workspace in workspaces:
        above = [workspace.folder, *list_parents(workspace.folder)]
        nearest = next((known[folder] for folder in above if folder in known), None)
        if workspace.top:
            out[workspace] = known.get(workspace.top, workspace.top)
        elif workspace.folder in known:
            out[workspace] = known[workspace.folder]
        elif _find_held(workspace.folder):
            out[workspace] = ""
        elif worktree := find_main_tree(workspace.folder):
            out[workspace] = worktree
        else:
            highest = [folder for folder in above if folder in tracked][-1:] if workspace.tracked else []
            out[workspace] = nearest or (highest or [workspace.folder])[0]
    return out


def _map_tops(workspaces: Collection[Workspace]) -> dict[str, str]:
    """Map each known top folder to that of the main working tree, and a worktree's folder to the same."""
    tops = {workspace.top for workspace in workspaces if workspace.top and not _HOME.fullmatch(workspace.top)}
    known = {top: find_main_tree(top) or top for top in tops}
    elsewhere = defaultdict[str, set[str]](set)
    for workspace in workspaces:
        if workspace.top in tops and workspace.top not in (workspace.folder, *list_parents(workspace.folder)):
            elsewhere[workspace.folder].add(known[workspace.top])
    return {**known, **{folder: min(found) for folder, found in elsewhere.items() if len(found) == 1}}


def _find_keys(workspaces: Collection[Workspace], tops: Mapping[Workspace, str]) -> dict[Workspace, str]:
    """Return a key of each workspace's repository: the least of its remotes, else its top folder, else its name.

    Remotes of one top folder with one last name are one repository: it was moved, or is a fork.
    """
    joined: dict[str, str] = {}
    by_top = defaultdict[str, set[str]](set)
    for workspace in workspaces:
        if workspace.remote and tops[workspace]:
            by_top[tops[workspace]].add(workspace.remote)
    for remotes in by_top.values():
        for remote in remotes:
            least = min(one for one in remotes if get_last_name(one) == get_last_name(remote))
            first, second = sorted((_follow(joined, least), _follow(joined, remote)))
            if first != second:
                joined[second] = first
    out: dict[Workspace, str] = {}
    for workspace in workspaces:
        told = {_follow(joined, remote) for remote in by_top[tops[workspace]]} if tops[workspace] else set()
        if workspace.remote:
            out[workspace] = f"remote {_follow(joined, workspace.remote)}"
        elif len(told) == 1:
            out[workspace] = f"remote {told.pop()}"
        else:
            out[workspace] = f"top {tops[workspace]}" if tops[workspace] else f"name {_find_held(workspace.folder)}"
    return out


def _follow(joined: Mapping[str, str], remote: str) -> str:
    while remote in joined:
        remote = joined[remote]
    return remote


def _tell_apart(group: Mapping[str, _Repository]) -> Iterator[tuple[str, str]]:
    """Yield (key, name) of the repositories of one name: longer names if two of them are known to be different."""
    members = [*group.values()]
    if not any(one.is_apart(other) for i, one in enumerate(members) for other in members[:i]):
        yield from ((key, one.name) for key, one in group.items())
        return
    holders = Counter(end for one in members for end in _list_ends(one.path))
    for key, one in group.items():
        ends = _list_ends(one.path)
        yield key, next((end for end in ends if holders[end] == 1), ends[-1] if ends else one.name)


def _list_ends(path: Sequence[str]) -> list[str]:
    """Return the ends of a path that have two components or more, the shortest first."""
    return ["/".join(path[-size:]) for size in range(2, len(path) + 1)]


# ---------------------------------------------------------------- paths


def _clean_path(path: str | None) -> str:
    return (path or "").replace("\\", "/").rstrip("/")


def _clean_remote(text: str) -> str:
    """Return host/owner/name as a log may give it; empty for anything else."""
    text = text.strip("/").removesuffix(".git")
    return text if re.fullmatch(r"[\w.-]+\.[\w.-]+(?:/[\w.~-]+){2,}", text) else ""


def list_parents(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        if path:
            yield path


def _find_home(path: str) -> str:
    found = _HOME.match(path)
    return found[0] if found and path[found.end() :][:1] in ("", "/") else ""


def find_main_tree(folder: str) -> str:
    """Return the main working tree that the path of a worktree names; empty for any other path."""
    found = _WORKTREE.fullmatch(folder)
    top = found["top"] if found else ""
    return "" if _HOME.fullmatch(top) or get_last_name(top).startswith(".") else top


def _find_held(folder: str) -> str:
    """Return the repository's name in the path of a worktree that its tool holds; empty for any other path."""
    found = _HELD.fullmatch(folder)
    return (found["first"] or found["second"]) if found else ""
