"""Haystacks for questions of relevance: benchmark sets and the packaged histories, ingested once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import orjson

from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from pipelines.embedded.ingest import ingest
from pipelines.eval.changes.history import PACKAGED, TURNS, list_histories, parse_history
from pipelines.eval.evaluate import find_last_moment
from pipelines.eval.sets.benchmark import Benchmark, Question, turn_key, write_lines
from pipelines.eval.sets.registry import read_set

HISTORIES = "histories"
"""Label of the packaged histories, which need no path."""


@dataclass(frozen=True, slots=True)
class Haystacks:
    """An ingested set: its haystacks are projects of one store."""

    label: str
    kind: str  # of the set; sets of one kind lend each other their haystacks
    memory: Memory
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...]
    rows: dict[str, list[int]]  # turn, after its session and a tab → rows of its pieces
    moments: dict[str, datetime | None]  # a day after the last item, by project

    @property
    def snap(self) -> Snapshot:
        """The generation."""
        return self.memory.snapshot

    @property
    def projects(self) -> list[str]:
        """Names of the haystacks, ascending."""
        return sorted(self.moments)

    def find_rows(self, turns: frozenset[str]) -> frozenset[int]:
        """Return the rows of turns."""
        return frozenset(row for turn in turns for row in self.rows.get(turn, ()))

    def select(self, project: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return the live rows of a haystack: bool[rows]."""
        snap = self.snap
        return np.asarray(snap.alive & (snap.columns.project == snap.projects.index(project)))


def open_haystacks(label: str, name: str, path: Path | None, settings: Settings, work: Path) -> Haystacks:
    """Ingest a set below `work`, once, and read what questions about it need.

    Args:
        name: of the set in the registry, or HISTORIES.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    folder = work / label
    documents = folder / "documents"
    documents.mkdir(parents=True, exist_ok=True)
    benchmark = read_histories(documents) if path is None else read_set(name, path, documents)
    ingest(folder / "store", list(benchmark.documents), settings, format="jsonl")
    memory = Memory(folder / "store", replace(settings, answers=0), warm=False)
    snap = memory.snapshot
    rows: dict[str, list[int]] = {}
    live = np.flatnonzero(snap.alive)
    for part in np.array_split(live, len(live) // 10_000 + 1):
        for row, entry in zip(part.tolist(), snap.text(part), strict=True):
            for turn in entry["turns"]:
                rows.setdefault(turn_key(entry["session"], turn), []).append(row)
    moments = {project: find_last_moment(snap, project) for project in snap.catalog.live_projects}

    def choose(questions: Sequence[Question]) -> tuple[Question, ...]:
        usable = (one for one in questions if one.project in moments and len(one.text) <= settings.max_query_chars)
        return tuple(one._replace(at=one.at or moments[str(one.project)]) for one in usable)

    return Haystacks(
        label,
        name,
        memory,
        tuple(one for one in choose(benchmark.questions) if any(turn in rows for turn in one.gold)),
        choose(benchmark.unanswerable),
        rows,
        moments,
    )


def read_histories(folder: Path) -> Benchmark:
    """Write the packaged histories for the ingest, each a project; questions are those about now, then and why."""
    found = [*list_histories(PACKAGED), *list_histories(PACKAGED / "train")]
    documents: list[Path] = []
    questions: list[Question] = []
    for source, half in found:
        history = parse_history(source, half)
        lines = [orjson.loads(line) for line in (source / TURNS).read_bytes().splitlines() if line.strip()]
        for line in lines:
            line["session"], line["project"] = f"{history.name}/{line['session']}", history.name
        documents.append(write_lines(folder / f"{history.name}.jsonl", lines))
        place = {line["id"]: turn_key(line["session"], line["id"]) for line in lines}
        for pair in history.pairs:
            related = frozenset(place[turn] for turn in (*pair.stale, *pair.current) if turn in place)
            asked = [(text, pair.current, "now") for text in pair.now]
            asked += [(one.text, one.gold, "then") for one in pair.then] + [
                (one.text, one.gold, "why") for one in pair.why
            ]
            for text, turns, kind in asked:
                gold = frozenset(place[turn] for turn in turns if turn in place)
                questions.append(
                    Question(history.name, text, gold, f"{half or 'train'} {kind}", at=history.now, related=related)
                )
    return Benchmark(tuple(documents), tuple(questions))
