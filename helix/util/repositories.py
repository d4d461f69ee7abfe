"""Git repositories of this machine: the top folder and the remote of the one that holds a folder.

Only small files of `.git` are read, and no program is run. A hook imports this module while an agent waits, so it
imports next to nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress

_MAX_FILE = 1 << 16  # characters of a file in `.git` that are read
_SCHEMES = ("http", "https", "ssh", "git", "git+ssh", "git+https")


def find_repository(folder: str) -> tuple[str, str]:
    """Return (top folder, remote) of the repository that holds a folder of this machine; empty texts for none.

    The top folder is that of the main working tree, also for a folder in another worktree. A home folder is no
    project, even if it is a repository.

    Args:
        folder: an absolute path.
    """
    home, at = os.path.expanduser("~"), folder.rstrip("/")  # noqa: PTH111
    while os.path.isabs(at) and at not in (home, os.path.dirname(at)):  # noqa: PTH117, PTH120
        git = f"{at}/.git"
        if os.path.isdir(git):  # noqa: PTH112
            return at, _read_remote(git)
        if os.path.isfile(git):  # noqa: PTH113
            return _follow_link(at, git)
        at = os.path.dirname(at)  # noqa: PTH120
    return "", ""


def name_remote(url: str) -> str:
    """Return the repository that a remote's URL names, as host/owner/name; empty for a path of a machine.

    User, password, port and the suffix `.git` are no part of it.
    """
    scheme, mark, rest = url.strip().partition("://")
    if mark:
        if scheme.lower() not in _SCHEMES:
            return ""
        host, _, path = rest.partition("/")
    else:
        host, mark, path = url.strip().partition(":")  # git@host:owner/name
        if not mark or "/" in host or len(host) < 2 or "\\" in path:  # a path, or a drive of Windows
            return ""
    host = host.rpartition("@")[2].partition(":")[0].lower()
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(".git").strip("/")
    parts = [part for part in path.split("/") if part not in ("", ".", "..", "~")]
    return "/".join([host, *parts]) if host and parts else ""


def _follow_link(top: str, git: str) -> tuple[str, str]:
    """Return the main working tree of a worktree, if its repository names the worktree back.

    Any other folder with a file `.git` (a submodule, say) is a repository of its own.
    """
    target = os.path.normpath(os.path.join(top, _read_text(git).strip().removeprefix("gitdir:").strip()))  # noqa: PTH118
    common, kind = os.path.split(os.path.dirname(target))  # noqa: PTH120
    if kind != "worktrees":
        return top, _read_remote(target)
    if not _names_back(target, git):
        return top, ""
    if os.path.basename(common) in (".git", ".bare"):  # noqa: PTH119
        return os.path.dirname(common), _read_remote(common)  # noqa: PTH120
    return common.removesuffix(".git"), _read_remote(common)  # a bare repository


def _names_back(target: str, git: str) -> bool:
    """Return whether a repository's record of a worktree names the worktree's file `.git`."""
    back = _read_text(f"{target}/gitdir").strip()
    with suppress(OSError, ValueError):
        return bool(back) and os.path.samefile(os.path.join(target, back), git)  # noqa: PTH118, PTH121
    return False


def _read_remote(git: str) -> str:
    """Return the remote in a repository's `config`: `origin`, or the only one."""
    urls: dict[str, str] = {}
    section = ""
    for line in _read_text(f"{git}/config").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        name, equals, value = line.partition("=")
        if equals and name.strip().lower() == "url" and section.startswith("[remote "):
            urls.setdefault(section[len("[remote ") :].strip(' "]'), value.strip().strip('"'))
    return name_remote(urls.get("origin") or (next(iter(urls.values())) if len(urls) == 1 else ""))


def _read_text(path: str) -> str:
    """Return the beginning of a file; empty where it cannot be read."""
    with suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_FILE)
    return ""
