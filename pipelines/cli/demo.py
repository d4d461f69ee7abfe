"""`make demo`: ingest the bundled sample, or the user's own logs, and ask three questions."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

from helix.cli.main import main as helix
from helix.errors import HelixError
from helix.sdk.open import open as open_store
from helix.text.entities import find_entities
from helix.types import Entity

SAMPLE = (
    "What did I tell Priya about vacation?",
    "sqlite3.OperationalError: database is locked",
    "why did we choose a visibility timeout of 3600 seconds",
)
KINDS = ("error", "identifier", "path", "name")
STARTS = ("what went wrong with", "what was decided about", "what happened to")
PLAIN = ("what was decided and why", "what went wrong and how was it solved", "what comes next")


def main() -> int:
    """Run the demonstration; return the exit status."""
    options = argparse.ArgumentParser(prog="make demo")
    options.add_argument("--store", type=Path, required=True)
    options.add_argument("logs", nargs="*", type=Path)
    given = options.parse_args()
    sample = [Path(str(files("helix") / "sample"))]
    status = helix(["ingest", "--store", str(given.store), *map(str, given.logs or sample)])
    if status not in (0, 3):
        return status
    try:
        for question in make_questions(given.store) if given.logs else SAMPLE:
            print(f'\n$ helix recall "{question}" --store {given.store}\n', flush=True)
            if status := helix(["recall", question, "--store", str(given.store), "--budget", "600"]):
                return status
    except HelixError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def make_questions(store: Path) -> list[str]:
    """Return three questions about unknown logs, built on names that several turns share."""
    snapshot = open_store(store).snapshot
    texts = [entry["text"] for entry in snapshot.text(snapshot.columns.key.argsort()[:2000])]
    found = [entity for text in texts for entity in set(find_entities(text)) if entity.kind in KINDS]
    turns = Counter(entity.name for entity in found)
    names = [next((name for name, n in turns.most_common() if name in _names_of(found, kind)), None) for kind in KINDS]
    names += [name for name, _ in turns.most_common(len(KINDS))]
    chosen = list(dict.fromkeys(name for name in names if name))
    return [*(f"{start} {name}" for start, name in zip(STARTS, chosen, strict=False)), *PLAIN][:3]


def _names_of(found: list[Entity], kind: str) -> set[str]:
    return {entity.name for entity in found if entity.kind == kind}


if __name__ == "__main__":
    sys.exit(main())
