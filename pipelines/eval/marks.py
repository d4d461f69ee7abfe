"""Items that a store marks as superseded."""

from __future__ import annotations

from datetime import datetime

from helix.sdk.memory import Memory
from helix.types import I64


def find_marked_rows(memory: Memory, at: datetime) -> I64:
    """Return the rows of the items that are superseded at a moment, ascending: int64[n]."""
    return memory.snapshot.changes.find_superseded(int(at.timestamp()))


def find_marked(memory: Memory, at: datetime) -> set[str]:
    """Return the turns whose items, or pieces of them, are superseded at a moment."""
    return {turn for entry in memory.snapshot.text(find_marked_rows(memory, at)) for turn in entry["turns"]}


def find_replacements(memory: Memory, rows: I64, at: datetime) -> list[I64]:
    """Return for each superseded row the row that replaces it; none if it is not superseded."""
    found = memory.snapshot.changes.successors(rows, int(at.timestamp()))
    return [found[i : i + 1][found[i : i + 1] >= 0] for i in range(len(rows))]
