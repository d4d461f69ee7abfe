"""`make demo`: ingest the bundled sample, or the user's own logs, and ask three questions."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

from helix.cli import main as helix
from helix.enrich.entities import entities
from helix.errors import HelixError
from helix.memory import open as open_store

SAMPLE = (
    "What did I tell Priya about vacation?",
    "sqlite3.OperationalError: database is locked",
    "why did we choose a visibility timeout of 3600 seconds",
)


def main() -> int:
    """Run the demonstration; returns the exit status."""
    options = argparse.ArgumentParser(prog="make demo")
    options.add_argument("--store", type=Path, required=True)
    options.add_argument("logs", nargs="*", type=Path)
    given = options.parse_args()
    sample = [Path(str(files("helix") / "sample"))]
    status = helix(["ingest", "--store", str(given.store), *map(str, given.logs or sample)])
    if status not in (0, 3):
        return status
    try:
        for question in questions(given.store) if given.logs else SAMPLE:
            print(f'\n$ helix recall "{question}" --store {given.store}\n', flush=True)
            if status := helix(["recall", question, "--store", str(given.store), "--k", "5", "--budget", "400"]):
                return status
    except HelixError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def questions(store: Path) -> list[str]:
    """Three questions about logs nobody has seen yet: a decision, and the names that come up most."""
    snapshot = open_store(store).snapshot
    texts = [entry["text"] for entry in snapshot.text(snapshot.columns.key.argsort()[:2000])]
    named = Counter(
        entity.name
        for text in texts
        for entity in entities(text)
        if entity.kind in ("path", "identifier", "error", "name")
    )
    common = [name for name, _ in named.most_common(2)]
    return ["what did we decide and why", *(f"what happened with {name}" for name in common)]


if __name__ == "__main__":
    sys.exit(main())
