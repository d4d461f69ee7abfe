"""Material for the models of changes: changing histories, and questions of sets in which nothing changes.

Only a history tells which turn changes which. The other sets tell how often a pair looks like a change and is none,
and which order of items a question wants when no change concerns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from helix.enrich.changes import TurnRows
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.text.claims import CLAIMS, ClaimsModel, count_cues, read_claims
from helix.types import F32, I64, ROLES, U8
from pipelines.embedded.ingest import ingest
from pipelines.eval.changes.history import TURNS, Change, ChangingHistory
from pipelines.eval.evaluate import drop_unanswerable, read_haystacks
from pipelines.eval.sets.benchmark import Question, turn_key
from pipelines.eval.sets.registry import read_set
from pipelines.ingest.changes import read_scopes

FOLDS: Final = 5
SETS: Final = CLAIMS.index("sets")

Folds = Sequence[tuple[list[int], list[int]]]
"""(training, left out) of each fold, as positions."""

# Controls whose turns set something, though nothing of the pair's topic.
_SETTING: Final = ("restated", "detail", "two_holders", "other_project")
_OTHER_SETTING: Final = ("two_holders", "other_project", "restated")


@dataclass(slots=True)
class Material:
    """One history, ingested: its rows, pairs and questions, with what each stage predicted for it."""

    history: ChangingHistory
    memory: Memory
    rows: dict[str, int]  # turn → row
    texts: list[str]
    roles: list[str]
    claims: U8  # uint8[rows, CLAIMS]
    alters: U8  # uint8[rows], of 255
    setting: I64  # int64[rows]: 1 sets something, 0 does not, −1 unknown
    altering: I64  # int64[rows]: 1 sets another value of what was set before, else 0
    scopes: list[tuple[TurnRows, I64]]  # turns of a project, and the snapshot's row of each
    pairs: list[tuple[I64, I64, F32, I64]] = field(default_factory=list)  # (i, j, features, label) by scope
    links: list[F32] = field(default_factory=list)  # certainty of each pair, by scope


@dataclass(slots=True)
class Ordinary:
    """One set in which nothing changes, ingested: its pairs are no changes, its questions have gold rows."""

    name: str
    memory: Memory
    questions: Sequence[Question]
    rows: dict[str, list[int]]  # turn, after its session and a tab → rows of its pieces
    scopes: list[tuple[TurnRows, I64]]  # of one haystack each
    claims: U8  # uint8[rows, CLAIMS]
    pairs: list[tuple[I64, I64, F32, I64]] = field(default_factory=list)
    links: list[F32] = field(default_factory=list)

    @property
    def haystacks(self) -> list[str]:
        """Names of the haystacks, in order."""
        return sorted(self.memory.snapshot.projects)


def make_folds(n: int) -> Folds:
    """Return (training, left out) of each fold."""
    parts = [list(range(fold, n, FOLDS)) for fold in range(min(FOLDS, n))]
    return [([i for i in range(n) if i not in part], part) for part in parts]


def read_ordinary(name: str, path: Path, settings: Settings, work: Path) -> Ordinary:
    """Ingest a set by its name in the registry, and read what the stages need of it.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    benchmark = read_set(name, path, work / "documents")
    ingest(work / "store", list(benchmark.documents), settings)
    memory = Memory(work / "store", replace(settings, answers=0))
    snap = memory.snapshot
    usable = drop_unanswerable(benchmark, snap, read_haystacks(snap), settings)
    live = np.flatnonzero(snap.alive)
    rows: dict[str, list[int]] = {}
    for row, entry in zip(live.tolist(), snap.text(live), strict=True):
        for turn in entry["turns"]:
            rows.setdefault(turn_key(entry["session"], turn), []).append(row)
    return Ordinary(name, memory, usable.questions, rows, _read_scopes(memory), np.zeros((0, len(CLAIMS)), np.uint8))


def claim_again(one: Ordinary, model: ClaimsModel) -> None:
    """Give the rows of a set the claims of a new model, in place of those that its store was ingested with."""
    snap = one.memory.snapshot
    live = np.flatnonzero(snap.alive)
    one.claims, alters = np.zeros((snap.rows, len(CLAIMS)), np.uint8), np.zeros(snap.rows, np.uint8)
    texts = [entry["text"] for entry in snap.text(live)]
    one.claims[live], alters[live] = read_claims(texts, [ROLES[code] for code in snap.columns.role[live]], model)
    one.scopes = [(scope._replace(claims=one.claims[rows], alters=alters[rows]), rows) for scope, rows in one.scopes]


def read_material(history: ChangingHistory, settings: Settings, work: Path) -> Material:
    """Ingest a history and read what the stages need of it."""
    root = work / history.folder.parent.name / history.name
    ingest(root, [history.folder / TURNS], settings, format="jsonl")
    memory = Memory(root, settings)
    snap = memory.snapshot
    live = np.flatnonzero(snap.alive)
    entries = snap.text(live)
    rows: dict[str, int] = {}
    for row, entry in zip(live.tolist(), entries, strict=True):
        for turn in entry["turns"]:
            rows.setdefault(turn, row)
    texts = [""] * snap.rows
    for row, entry in zip(live.tolist(), entries, strict=True):
        texts[row] = entry["text"]
    roles = [ROLES[code] for code in snap.columns.role.tolist()]
    counts = np.array([count_cues(text) for text in texts], np.uint8)
    claims = np.column_stack([counts, np.zeros(snap.rows, np.uint8)])
    return Material(
        history,
        memory,
        rows,
        texts,
        roles,
        claims,
        alters=np.zeros(snap.rows, np.uint8),
        setting=_label_setting(history, rows, snap.rows),
        altering=_label_altering(history, rows, snap.changes.said_at),
        scopes=_read_scopes(memory),
    )


def _read_scopes(memory: Memory) -> list[tuple[TurnRows, I64]]:
    snap = memory.snapshot
    alive = [snap.alive[start : start + segment.rows] for start, segment in snap.row_map.by_segment()]
    return [(turns, snap.row_map.by_key(key)) for turns, key in read_scopes(snap.row_map.segments, alive)]


def _label_setting(history: ChangingHistory, rows: dict[str, int], n: int) -> I64:
    """Label the rows that set something, by the history's pairs and controls."""
    out = np.zeros(n, np.int64)
    for pair in history.pairs:
        for turn in (*pair.stale, *pair.current):
            if turn in rows:
                out[rows[turn]] = 1
    for control in history.controls:
        for turn in control.keep:
            if turn in rows and not out[rows[turn]]:
                out[rows[turn]] = 1 if control.kind in _SETTING else -1
        for turn in control.looks_like:
            if turn in rows and not out[rows[turn]] and control.kind in _OTHER_SETTING:
                out[rows[turn]] = 1
    return out


def _label_altering(history: ChangingHistory, rows: dict[str, int], said_at: I64) -> I64:
    """Label the rows that set another value of what was set before, by the history's pairs."""
    out = np.zeros(len(said_at), np.int64)
    for pair in history.pairs:
        for _, new in list_steps(pair, rows, said_at):
            out[new] = 1
    return out


def list_steps(pair: Change, rows: dict[str, int], said_at: I64) -> list[tuple[int, int]]:
    """Return the steps of a pair: (earlier row, the row that changes it)."""
    chain = list_chain(pair, rows, said_at)
    return list(pairwise(chain[: sum(turn in rows for turn in pair.stale) + 1]))


def list_chain(pair: Change, rows: dict[str, int], said_at: I64) -> list[int]:
    """Return the rows of a pair's values in the order of time."""
    current = [rows[turn] for turn in pair.current if turn in rows]
    return [*(rows[turn] for turn in pair.stale if turn in rows), *sorted(current, key=lambda row: (said_at[row], row))]
