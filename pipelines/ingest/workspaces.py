"""The repositories of the folders that a log names, looked up where the log was made.

A log rarely names the top folder of its repository, and worktrees are removed soon after. So the folders are looked up
when a log of this machine is accepted, and its envelope keeps what was found. A log from elsewhere is not looked up:
a folder of the same path may hold another repository here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from helix.redact.paths import redact_path
from helix.snapshot.ledger.inbox import Envelope, Repository
from helix.sources.common.places import Place, list_places
from helix.types import Session
from helix.util.repositories import find_repository
from helix.util.workspaces import Workspace, encode_workspace, name_workspace

_HEAD: Final = 1 << 16  # characters of a text in which folders are looked for
_MOST: Final = 8  # folders of one text
_LONGEST: Final = 2_000  # characters of an encoded workspace; a longer one is left out
_FOLDER: Final = re.compile(
    r'"(?:cwd|directory|directories|folder|fsPath)"\s{0,4}:\s{0,4}\[?\s{0,4}"((?:[^"\\]|\\.){1,1000})"'
    r"|<cwd>([^<\n]{1,1000})</cwd>"
)
_VARIABLES: Final = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME")  # of `list_places`


def find_repositories(where: str, text: str, known: Mapping[str, Repository]) -> dict[str, Repository]:
    """Return the repository of each folder that a log of this machine names, by folder; empty for any other log.

    Args:
        where: path of the log, with the name of its part after `#`.
        text: its secrets are redacted; a folder whose name held one is not found.
        known: what an earlier part of the log found; a folder that is gone keeps it.
    """
    path = Path(where.partition("#")[0])
    if not _find_history_folder(path) and not _is_kept_here(path):
        return {}
    found = {folder: _look_up(folder) for folder in list_named_folders(where, text)}
    return {**known, **{folder: repository for folder, repository in found.items() if repository[0]}}


def list_named_folders(where: str, text: str) -> list[str]:
    """List the folders that the beginning of a log names, and the one that a history is kept in."""
    named = (_unescape(match[1]) if match[1] else match[2] for match in _FOLDER.finditer(text, 0, _HEAD))
    history = find_history_folder(where)
    folders = dict.fromkeys(filter(None, [history, *(folder.strip().rstrip("/") for folder in named)]))
    return [*folders][:_MOST]


def find_history_folder(where: str) -> str:
    """Return the folder of a history that is kept in its project; empty for other logs, and for one from elsewhere."""
    return _find_history_folder(Path(where.partition("#")[0]))


class SessionProject(NamedTuple):
    """The project of a session, and the encoded workspace that names it, if one does."""

    name: str | None
    workspace: str | None = None


def find_project(session: Session, envelope: Envelope) -> SessionProject:
    """Return the project of a session: the caller's, else that of the session's workspace, else the log's."""
    if envelope.project:
        return SessionProject(envelope.project)
    workspace = _complete_workspace(session, envelope)
    if workspace is None or not (name := name_workspace(workspace)):
        return SessionProject(session.project)
    return SessionProject(name, encode_workspace(workspace))


def _complete_workspace(session: Session, envelope: Envelope) -> Workspace | None:
    """Return where a session worked, by its log and by what its envelope knows; None where neither tells.

    An envelope of an earlier release knows nothing: then the folder of a log of this machine is looked up now.
    """
    workspace = session.workspace
    if workspace is None or len(encode_workspace(workspace)) > _LONGEST:
        return None
    path = Path(envelope.path.partition("#")[0])
    top, remote = envelope.repositories.get(workspace.folder, ("", ""))
    if not envelope.repositories and (_is_kept_here(path) or _find_history_folder(path)):
        top, remote = _look_up(workspace.folder)
    return workspace._replace(top=top or workspace.top, remote=workspace.remote or remote)


def _look_up(folder: str) -> Repository:
    top, remote = find_repository(folder)
    return redact_path(top), redact_path(remote)


def _is_kept_here(path: Path) -> bool:
    """Return whether an agent of this machine keeps a log."""
    variables = tuple((name, os.environ[name]) for name in _VARIABLES if name in os.environ)
    return any(place.holds(path) for place in _list_agent_folders(Path.home(), variables))


@lru_cache(maxsize=4)
def _list_agent_folders(home: Path, variables: tuple[tuple[str, str], ...]) -> tuple[Place, ...]:
    return tuple(list_places(home, dict(variables)))


def _find_history_folder(path: Path) -> str:
    """Return the folder of a history that is kept in its project; empty for other logs, and for one from elsewhere."""
    folder = path.parent
    if path.name != ".aider.chat.history.md":
        folder = next((above.parent for above in path.parents if above.name == ".specstory"), Path())
    return str(folder) if folder.is_absolute() and path.exists() else ""


def _unescape(text: str) -> str:
    """Return the text of a JSON string; empty for an invalid one."""
    with suppress(ValueError):
        return str(json.loads(f'"{text}"'))
    return ""
