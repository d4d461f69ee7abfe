"""Measures a team's memory: the time of `helix team pull` as a command, from its start to its end.

    python -m tests.support.bench.team [--pulls N] [--entries N] [--store STORE]

One member publishes entries, and the other pulls them into a store of their own. At the end of a pull, recall finds
them. That store is a copy of STORE, or a new one. The shared repository is a folder of this machine: no time of a
network is in the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from helix.sdk.notes import write_note
from tests.support.teams import clone_hub, make_hub


def main() -> None:
    """Print the seconds of each pull, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pulls", type=int, default=5)
    parser.add_argument("--entries", type=int, default=1)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hub = make_hub(folder)
        for member in ("ana", "ben"):
            clone_hub(hub, folder / member)
        if options.store:
            shutil.copytree(options.store, folder / "ben" / "store")
        call(folder / "ana", "team", "init", "--name", "core", "--as", "ana")
        call(folder / "ana", "team", "add", "ben", "--key", call(folder / "ben", "team", "join", "ben")["key"])
        new, nothing = [], []
        for number in range(options.pulls + 1):
            publish(folder / "ana", number, options.entries)
            new.append(pull(folder / "ben", options.entries))
            nothing.append(pull(folder / "ben", 0))
    del new[0], nothing[0]  # the first pull creates the store
    print(
        f"{options.entries} new: median {statistics.median(new):.2f} s; nothing new: {statistics.median(nothing):.2f} s"
    )


def publish(member: Path, number: int, entries: int) -> None:
    """Remember and publish some decisions."""
    for entry in range(entries):
        text = f"We decided that service {number}-{entry} keeps its state in Postgres {10 + number} behind a pool."
        if entry + 1 < entries:
            write_note(member / "store", text, by="user", project="ledgerline", pinned=True)
        else:  # the command publishes the others too
            call(member, "remember", text, "--project", "ledgerline", "--by", "user", "--pin")
    call(member, "team", "publish", "--yes")


def pull(member: Path, expected: int) -> float:
    """Pull, and return the seconds; print those of each step.

    Raises:
        AssertionError: another number of entries is new.
    """
    began = time.perf_counter()
    done = call(member, "team", "pull")
    seconds = time.perf_counter() - began
    assert len(done["learned"]) == expected, done
    print(f"{seconds:.2f} s, of these {done['seconds']}", flush=True)
    return seconds


def call(member: Path, *words: str) -> Any:
    """Run a command as a member, and return what it prints."""
    environ = {"HELIX_STORE": str(member / "store"), "HELIX_TEAM_KEY": str(member / "keys" / "team.pem")}
    where = ("--repo", str(member / "ledgerline")) if words[0] == "team" else ()
    command = [str(Path(sys.executable).parent / "helix"), *words, *where, "--json"]
    done = subprocess.run(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
