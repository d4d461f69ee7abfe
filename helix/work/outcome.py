"""Outcomes of the failures among recalled items: a line for each, with what changed and whether it held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.snapshot.reader.steps import FAILED
from helix.types import AnyArray
from helix.work.lines import name_step
from helix.work.resolve import Resolution, resolve

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST: Final = 4
"""Failures of one answer whose sessions are read."""

_CHANGES: Final = 3  # named in a line


def add_outcomes(entries: Sequence[Mapping[str, Any]], rows: AnyArray, snap: Snapshot) -> list[Mapping[str, Any]]:
    """Return the entries; those of the first failures have `outcome`, what came of them.

    Args:
        entries: shown fields of items, best first.
        rows: integer[n], theirs.
    """
    out = list(entries)
    if not len(snap.steps):
        return out
    left = MOST
    for i, row in enumerate(np.asarray(rows).tolist()):
        failed = [step for step in snap.steps.list_of_row(row) if snap.steps.columns.outcome[step] == FAILED]
        if failed and left:
            left -= 1
            line = format_outcome(snap, resolve(snap, failed[0]))
            out[i] = {**entries[i], "outcome": line} if line else entries[i]
    return out


def format_outcome(snap: Snapshot, found: Resolution) -> str:
    """Format what came of a failure: "→ fixed: edited queue.py; `pytest` passed (s1#12)"; empty where nothing did."""
    from helix.stages.pack import cite_turns

    if found.shown < 0:
        return ""
    (shown,) = snap.steps.read([found.shown])
    (text,) = snap.text(np.array([shown["row"]]))
    names = dict.fromkeys(name_step(entry) for entry in snap.steps.read(found.changes[-_CHANGES:]))
    changed = f"changed {', '.join(names)}; " if names else ""
    verb = "passed" if found.held else "no longer failed so"
    return f"→ {'fixed' if found.held else 'gone'}: {changed}{name_step(shown)} {verb} ({cite_turns(text)})"
