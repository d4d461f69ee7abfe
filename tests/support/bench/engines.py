"""Top tens of recalls through an engine next to those without one: `python -m tests.support.bench.engines --help`.

For each question the ten items of either are compared: the share of common items, and whether all ten and their order
are the same. Times are of whole recalls and of the dense leg, each question once without and once through the engine.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from helix.engines.open import WRITING, open_engine
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.types import Bundle
from pipelines.export.engine import describe, export_store

NOW = "2026-01-01"


def compare(store: Path, place: str, questions: Sequence[str]) -> dict[str, Any]:
    """Ask every question of the store alone and through the engine; return shares and milliseconds."""
    settings = replace(load(), answers=0)
    alone, other = Memory(store, settings), Memory(store, replace(settings, candidates=place))
    for memory in (alone, other):
        memory.recall("a question that opens everything", now=NOW)
    pairs = [tuple(memory.recall(one, k=10, now=NOW) for memory in (alone, other)) for one in questions]
    pairs = [pair for pair in pairs if pair[0].items]
    degraded = sum(bool(pair[1].degraded) for pair in pairs)
    ids = [[[item.id for item in bundle.items] for bundle in pair] for pair in pairs]
    return {
        "questions": len(pairs),
        "degraded": degraded,
        "overlap": round(statistics.mean(len(set(one) & set(two)) / len(one) for one, two in ids), 5),
        "same_ten": round(statistics.mean(set(one) == set(two) for one, two in ids), 5),
        "same_order": round(statistics.mean(one == two for one, two in ids), 5),
        "same_context": round(statistics.mean(one.context == two.context for one, two in pairs), 5),
        "ms": {name: _percentiles([pair[at] for pair in pairs]) for at, name in enumerate(("alone", "engine"))},
    }


def _percentiles(bundles: Sequence[Bundle]) -> dict[str, list[float]]:
    found = {}
    for stage in ("total", "dense"):
        times = [bundle.ms[stage] for bundle in bundles if stage in bundle.ms]
        found[stage] = [round(one, 2) for one in np.percentile(times, [50, 95]).tolist()]
    return found


def main() -> None:
    """Export the store, ask, and print the report as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True, help="a JSON list of texts")
    parser.add_argument("--places", nargs="+", required=True, help="as HELIX_CANDIDATES")
    options = parser.parse_args()
    questions = json.loads(options.questions.read_text("utf-8"))
    for place in options.places:
        with closing(open_engine(place, seconds=WRITING)) as engine:
            report = export_store(
                Snapshot.open(options.store), engine, text=True, force=False, observe=lambda sent: None
            )
        print(json.dumps({**describe(report), **compare(options.store, place, questions)}), flush=True)


if __name__ == "__main__":
    main()
