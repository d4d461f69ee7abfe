"""Facts of logs and the items they mark as superseded: how many there are, and samples for a person to judge."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.recipes.common import format_time, ids
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.sql import run_statement
from helix.types import I64, ROLES
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import Say, describe_environment, find_last_moment
from pipelines.eval.marks import find_marked_rows, find_replacements

PER: Final = 1_000
"""Turns of the rates."""

_ROLES: Final = ("user", "assistant")

_FACTS: Final = """
SELECT facts.subject, facts.relation, facts.object, facts.qualifier, facts.said AS sentence, items.id AS item,
       items.role, items.session, items.turns, facts.t_valid, facts.t_invalid
FROM facts JOIN items ON items.id = facts.item WHERE items.role IN ('user', 'assistant') ORDER BY facts.id
"""


def measure_facts(
    paths: Sequence[Path], settings: Settings, *, store: Path | None = None, sample: int = 0, seed: int = 0, say: Say
) -> dict[str, Any]:
    """Ingest logs and return the report of their facts.

    Args:
        store: retains the ingested logs, and may exist; a temporary one by default.
        sample: facts and superseded items to draw.
        seed: of the draw.

    Returns:
        Of the turns of users and assistants: `turns`, `facts` but for mere ends of others, `slots` (each a subject,
        relation and qualifier), and both per 1,000 turns, None without a turn. Of all: `items`, `stating` items with
        facts, `marked` ones, `share` of the marked. With a sample `sampled` facts and `replaced` items. Also the
        `refused` inputs, and `made`.

    Raises:
        StoreError: the store cannot be written or read.
        EncoderError: no encoder is available.
    """
    with tempfile.TemporaryDirectory() as work:
        done = ingest(store or Path(work) / "store", paths, settings)
        say(f"{done.turns} turns, {done.items} new items")
        memory = Memory(store or Path(work) / "store", settings)
        snap = memory.snapshot
        at = find_last_moment(snap, None) or datetime.now(UTC)
        marked = find_marked_rows(memory, at)
        report = {"set": "facts", **_count_facts(snap), **_count_marked(snap, marked)}
        if sample:
            draw = random.Random(seed)
            report["sampled"] = _draw_facts(memory.root, sample, draw)
            report["replaced"] = _draw_replaced(memory, marked, at, sample, draw)
        return {**report, "refused": done.refused, "made": {**describe_environment(snap), "seed": seed}}


def _count_facts(snap: Snapshot) -> dict[str, Any]:
    """Count the turns, facts and slots of users and assistants."""
    roles = [ROLES.index(role) for role in _ROLES]
    said = snap.alive & np.isin(snap.columns.role, roles)
    turns = {(entry["session"], turn) for entry in _read_texts(snap, np.flatnonzero(said)) for turn in entry["turns"]}
    known = snap.facts.columns
    own = said[known.row] & ~known.closes
    counts = {"facts": int(own.sum()), "slots": len(np.unique(known.group[own]))}
    rates = {f"{name}_per_{PER}": round(PER * n / len(turns), 2) if turns else None for name, n in counts.items()}
    return {"turns": len(turns), **counts, **rates}


def _read_texts(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    parts = np.array_split(rows, len(rows) // 10_000 + 1)  # the texts come with them
    return [{"session": entry["session"], "turns": entry["turns"]} for part in parts for entry in snap.text(part)]


def _count_marked(snap: Snapshot, marked: I64) -> dict[str, Any]:
    stating = len(np.unique(snap.facts.columns.row))
    share = round(len(marked) / snap.live, 5) if snap.live else None
    return {"items": snap.live, "stating": stating, "marked": len(marked), "share": share}


def _draw_facts(root: Path, n: int, draw: random.Random) -> list[dict[str, Any]]:
    with run_statement(root, _FACTS) as answer:
        facts = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return draw.sample(facts, min(n, len(facts)))


def _draw_replaced(memory: Memory, marked: I64, at: datetime, n: int, draw: random.Random) -> list[dict[str, Any]]:
    """Return superseded items, each with the items that replace it."""
    chosen = np.array(sorted(draw.sample(marked.tolist(), min(n, len(marked)))), np.int64)
    replacements = find_replacements(memory, chosen, at)
    return [
        {**old, "replaced_by": _quote(memory.snapshot, new)}
        for old, new in zip(_quote(memory.snapshot, chosen), replacements, strict=True)
    ]


def _quote(snap: Snapshot, rows: I64) -> list[dict[str, Any]]:
    found = zip(ids(rows, snap), snap.text(rows), strict=True)
    return [{"item": item, "time": format_time(entry["time"]), "text": entry["text"]} for item, entry in found]
