"""A publisher in a process of its own: `publish_entries.py CLONE KEY TEAM MEMBER NAME COUNT`."""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.team.entry import TeamEntry, sign_entry
from pipelines.team.git import Repository
from pipelines.team.keys import read_key
from pipelines.team.log import add_entries

if __name__ == "__main__":
    clone, key, team, member, name, count = sys.argv[1:]
    for number in range(int(count)):
        draft = TeamEntry(
            "decision", project="ledgerline", said="2026-05-01T10:00:00Z", text=f"{name} says {number}",
            team=team, signer=member,
        )  # fmt: skip
        signed = sign_entry(draft, read_key(Path(key)))
        add_entries(Repository(Path(clone)), [signed], name, "origin", "helix-team")
