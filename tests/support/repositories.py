"""Git repositories, and logs of sessions in their folders."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path


def git(*words: str | Path, at: Path) -> None:
    """Run git without the settings of the developer."""
    environ = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *map(str, words)], cwd=at, check=True, capture_output=True, env=environ)


def make_repository(top: Path, remote: str = "") -> Path:
    """Make a repository with a commit and a folder `src`."""
    (top / "src").mkdir(parents=True)
    git("init", "-q", at=top)
    if remote:
        git("remote", "add", "origin", remote, at=top)
    git("commit", "-q", "--allow-empty", "-m", "begin", at=top)
    return top


def add_worktree(top: Path, folder: Path) -> Path:
    """Add a worktree of a repository."""
    git("worktree", "add", "-q", folder, at=top)
    return folder


def write_claude_log(home: Path, folder: Path | str, session: str, *texts: str, branch: str = "") -> Path:
    """Append prompts of a session in a folder to its log, where Claude Code keeps it in a home folder."""
    path = home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(folder)) / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    first = len(path.read_text().splitlines()) if path.exists() else 0
    with path.open("a") as file:
        for number, text in enumerate(texts, first):
            record = {
                **{"type": "user", "sessionId": session, "uuid": f"{session}-{number}", "parentUuid": None},
                **{"cwd": str(folder), "gitBranch": branch, "timestamp": f"2026-05-04T10:{number:02}:00Z"},
                "message": {"role": "user", "content": text},
            }
            file.write(json.dumps(record) + "\n")
    os.utime(path, (1_770_000_000 + first + len(texts),) * 2)  # long ago: its last line is whole
    return path
