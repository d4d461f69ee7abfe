"""The scope of something offered: its session and its project, which a switch may match."""

from __future__ import annotations

import os

from helix.util.repositories import find_repository

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypedDict

    from helix.switches.state import Switch

    class Scope(TypedDict):
        """Sessions, folders and repositories; `projects` are names that a caller or a log gives."""

        sessions: list[str]
        folders: list[str]  # with the top folders of their repositories
        remotes: list[str]  # host/owner/name
        projects: list[str]
        exists: bool  # one of the folders is on this machine


def make_scope(
    folders: Iterable[str] = (), sessions: Sequence[str] = (), projects: Sequence[str] = (), remotes: Sequence[str] = ()
) -> Scope:
    """Return the scope of some folders, with their repositories if they are on this machine.

    Args:
        remotes: what a log says of the repository, as host/owner/name.
    """
    known: dict[str, None] = {}
    found = dict.fromkeys(remote for remote in remotes if remote)
    exists = False
    for folder in folders:
        clean = folder.replace("\\", "/").rstrip("/")
        if not clean:
            continue
        known[clean] = None
        if os.path.isabs(clean) and "\0" not in clean and os.path.isdir(clean):  # noqa: PTH112, PTH117
            exists = True
            real = os.path.realpath(clean)
            top, remote = find_repository(real)
            known |= dict.fromkeys(filter(None, (real, top)))
            found |= dict.fromkeys(filter(None, [remote]))
    return {
        "sessions": [session for session in sessions if session],
        "folders": [*known],
        "remotes": [*found],
        "projects": [project for project in projects if project],
        "exists": exists,
    }


def matches(switch: Switch, scope: Scope) -> bool:
    """Return whether a switch is one of a scope's session or project.

    A project is matched by folder and by remote, then by name. Its name alone does not match a folder of this machine
    that is elsewhere.
    """
    if switch["session"]:
        return switch["session"] in scope["sessions"]
    name, top = switch["project"], switch["folder"]
    if top and any(f"{folder}/".startswith(f"{top}/") for folder in scope["folders"]):
        return True
    if any(_has_end(project, name) for project in scope["projects"]):
        return True
    if switch["remote"] and scope["remotes"]:
        return switch["remote"] in scope["remotes"]
    if top and scope["exists"]:
        return False
    return any(_has_end(path, name) for path in (*scope["remotes"], *scope["folders"]))


def _has_end(path: str, end: str) -> bool:
    return bool(end) and f"/{path}".endswith(f"/{end.strip('/')}")


def get_last_part(path: str) -> str:
    """Return the last component of a path or a remote."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
