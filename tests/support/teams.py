"""Teams for tests: keys and entries without a repository, and clones of one bare repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipelines.team.entry import TeamEntry, sign_entry
from pipelines.team.keys import SigningKey
from tests.support.repositories import git

DAY = "2026-05-0{}T10:00:00Z"


@cache
def key_of(name: str) -> SigningKey:
    """The key of a name, the same each time."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b".")[:32]))


@dataclass
class Team:
    """The entries of a team, by id, and who signs what."""

    entries: dict[str, TeamEntry] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)  # name → entry
    root: str = ""

    @classmethod
    def begin(cls, owner: str = "ana") -> Team:
        team = cls()
        team.root = team.add(TeamEntry("team", name="core", key=key_of("team").public), "team")
        team.join(owner, "owner", "team")
        return team

    def add(self, entry: TeamEntry, by: str) -> str:
        """Sign an entry by the key of a name, and add it; return its id."""
        signed = self.sign(entry, by)
        self.entries[signed.id] = signed
        return signed.id

    def sign(self, entry: TeamEntry, by: str) -> TeamEntry:
        values = {name: getattr(entry, name) for name in TeamEntry.__slots__}
        if self.root:
            values |= {"team": self.root, "signer": entry.signer or self.members.get(by, self.root)}
        return sign_entry(TeamEntry(**values), key_of(by))

    def join(self, name: str, role: str = "member", by: str = "ana") -> str:
        self.members[name] = self.add(TeamEntry("member", name=name, role=role, key=key_of(name).public), by)
        return self.members[name]

    def say(self, by: str, text: str, day: int = 1, **given: Any) -> str:
        """Add a decision of a member; return its id."""
        kind = given.pop("kind", "decision")
        return self.add(TeamEntry(kind, project="ledgerline", said=DAY.format(day), text=text, **given), by)

    def remove(self, name: str, by: str = "ana", accepts: Sequence[str] | None = None) -> str:
        """Remove a member, with all of their entries accepted or some."""
        member = self.members[name]
        own = [key for key, one in self.entries.items() if one.signer == member]
        stay = tuple(sorted(own if accepts is None else accepts))
        return self.add(TeamEntry("removal", removes=member, accepts=stay), by)


# ---------------------------------------------------------------- repositories


def git_text(*words: str | Path, at: Path) -> str:
    """Run git without the settings of the developer, and return what it prints."""
    environ = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
    done = subprocess.run(["git", *map(str, words)], cwd=at, check=True, capture_output=True, env=environ)
    return done.stdout.decode().strip()


def make_hub(folder: Path) -> Path:
    """Make a bare repository with one commit on `main`."""
    hub, seed = folder / "hub.git", folder / "seed"
    git("init", "-q", "--bare", "-b", "main", hub, at=folder)
    git("init", "-q", "-b", "main", seed, at=folder)
    (seed / "app.py").write_text("print('ledger')\n")
    git("add", "app.py", at=seed)
    git("commit", "-qm", "begin", at=seed)
    git("push", "-q", hub, "main", at=seed)
    return hub


def clone_hub(hub: Path, folder: Path) -> Path:
    """Clone it into a folder `ledgerline` of a member's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    git("clone", "-q", hub, folder / "ledgerline", at=folder)
    return folder / "ledgerline"


def commit_entries(clone: Path, branch: str, files: Mapping[str, bytes], base: str | None = None) -> str:
    """Commit files on a branch of a clone as a program of a stranger would; return the commit."""
    from pipelines.team.git import Repository

    repository = Repository(clone)
    digests = repository.write_blobs(list(files.values()))
    named = dict(zip(files, digests, strict=True))
    commit = repository.commit_files(base, named, "files", "stranger", [base] if base else [])
    git("update-ref", f"refs/heads/{branch}", commit, at=clone)
    return commit
