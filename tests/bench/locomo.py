"""LoCoMo conversations → generic JSON lines, and recall@10 of dense, BM25 and the profiles over its questions.

python -m tests.bench.locomo path/to/locomo_dev5.json [--store DIR]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from helix.memory import Memory
from helix.metrics import any_at, recall_at, reciprocal_rank
from helix.question import make_query
from helix.settings import load
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.stages.route import route

_EVIDENCE = re.compile(r"D\d+:\d+")


def convert(conversations: list[dict[str, Any]], folder: Path) -> list[Path]:
    """One file a conversation; a turn's picture is described by its caption, as the benchmark's authors do."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(conversation, folder) for conversation in conversations]


def _write(conversation: dict[str, Any], folder: Path) -> Path:
    name, talk = conversation["sample_id"], conversation["conversation"]
    path = folder / f"{name}.jsonl"
    with path.open("w") as file:
        for number in range(1, 100):
            for i, turn in enumerate(talk.get(f"session_{number}") or ()):
                time = when(talk[f"session_{number}_date_time"]).replace(second=min(i, 59))
                text = turn["text"] + (f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else "")
                line = {
                    "session": f"{name}/{number}",
                    "id": turn["dia_id"],
                    "speaker": turn["speaker"],
                    "text": text,
                    "ts": time.isoformat(),
                    "project": name,
                }
                file.write(json.dumps(line) + "\n")
    return path


def when(text: str) -> datetime:
    """`1:56 pm on 8 May, 2023` → UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def questions(conversations: list[dict[str, Any]]) -> Iterator[tuple[str, str, set[str]]]:
    """(project, question, gold turn ids)."""
    for conversation in conversations:
        for entry in conversation["qa"]:
            gold = set(_EVIDENCE.findall(" ".join(entry.get("evidence") or ())))
            if gold:
                yield conversation["sample_id"], entry["question"], gold


def evaluate(memory: Memory, asked: list[tuple[str, str, set[str]]], k: int = 10) -> dict[str, dict[str, float]]:
    """any@k, recall@k and MRR of each way to ask, and how many questions were skipped."""
    snap, settings = memory.snapshot, load()

    def leg(name: str) -> Callable[[str, str], list[str]]:
        def ask(project: str, text: str) -> list[str]:
            query = make_query(text, snap, settings, project=project)
            plan = route(query, None, snap)
            if name == "dense":
                found = search_dense(snap.encoder.query(text), snap, plan, 3 * k)
            else:
                found = search_lexical(query, snap, plan, 3 * k, 0.9, 0.6)
            return [turn for entry in snap.text(found.rows) for turn in entry["turns"]]

        return ask

    def profile(name: str) -> Callable[[str, str], list[str]]:
        def ask(project: str, text: str) -> list[str]:
            found = memory.recall(text, project=project, profile=name, k=k, budget=0)
            return [turn for item in found.items for turn in item.turns]

        return ask

    ways = {
        "dense": leg("dense"),
        "bm25": leg("bm25"),
        "helix": profile("helix"),
        "helix-paper": profile("helix-paper"),
    }
    rows = {}
    for name, ask in ways.items():
        answers = [list(dict.fromkeys(ask(project, text))) for project, text, _ in asked]
        gold = [entry[2] for entry in asked]
        rows[name] = {
            f"any@{k}": float(np.mean([any_at(a, g, k) for a, g in zip(answers, gold, strict=True)])),
            f"rec@{k}": float(np.mean([recall_at(a, g, k) for a, g in zip(answers, gold, strict=True)])),
            "mrr": float(np.mean([reciprocal_rank(a, g) for a, g in zip(answers, gold, strict=True)])),
        }
    return rows


def main() -> int:
    """Convert, ingest, ask, print a table."""
    from pipelines.ingest import ingest

    options = argparse.ArgumentParser(prog="tests.bench.locomo")
    options.add_argument("path", type=Path)
    options.add_argument("--store", type=Path)
    given = options.parse_args()
    conversations = json.loads(given.path.read_text())
    with tempfile.TemporaryDirectory() as work:
        store = given.store or Path(work) / "store"
        report = ingest(store, convert(conversations, Path(work) / "logs"), load())
        print(f"{report.turns} turns, {report.items} new items, {len(report.refused)} refused", file=sys.stderr)
        asked = list(questions(conversations))
        rows = evaluate(Memory(store), asked)
    print(f"{len(asked)} questions")
    for name, row in rows.items():
        print(f"{name:12} " + "  ".join(f"{key} {value:.3f}" for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
