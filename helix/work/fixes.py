"""Fixes of a failure: the earlier occasions on which it was met, the closest first, with what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from helix.snapshot.reader.steps import FAILED
from helix.snapshot.segment.batch import NO_TIME
from helix.text.step_keys import iterate_levels
from helix.types import Bool, Fault
from helix.work.resolve import Resolution, hash_keys, resolve

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

LEVELS: Final = ("same place", "same", "same message", "similar", "same class")
"""How close an earlier failure is to the one that is asked; a level is a position here."""

_SOON: Final = (8, 30)
"""Steps from a failure to its proof: with more between, other work is among the changes."""

MOST_READ: Final = 24
"""Earlier failures whose sessions are read."""


@dataclass(frozen=True, slots=True)
class Fix:
    """An earlier failure of the same kind, and what came of it."""

    resolution: Resolution
    level: int  # position in LEVELS
    time: int  # seconds; NO_TIME if unknown
    fault: Fault  # the asked failure that it answers

    @property
    def is_known(self) -> bool:
        """True if something changed, or another command worked, and the failure was gone."""
        return self.resolution.shown >= 0 and bool(self.resolution.changes or self.resolution.other_command)


def find_fixes(
    snap: Snapshot, faults: Sequence[Fault], rows: Bool | None = None, limit: int = 3, loosest: int = 3
) -> list[Fix]:
    """Return the earlier failures that meet some failures, best first: the closest, those whose fix held, the newest.

    Args:
        rows: which rows may answer, bool[rows]; None: all live ones.
        limit: of fixes; a session gives one.
        loosest: the loosest level.
    """
    levels = [(level, key) for level, key in iterate_levels(tuple(faults)) if level <= loosest]
    if not levels or not len(snap.steps):
        return []
    columns, items = snap.steps.columns, snap.columns
    position, step = snap.steps.find(hash_keys([key for _, key in levels]))
    keep = columns.outcome[step] == FAILED
    if rows is not None:
        keep &= rows[columns.row[step]]
    position, step = position[keep], step[keep]
    if not len(step):
        return []
    level = np.array([level for level, _ in levels])[position]
    order = np.lexsort((-items.place[columns.row[step]], level))
    found: list[Fix] = []
    seen: set[int] = set()
    for at in order.tolist():
        number, row = int(step[at]), int(columns.row[step[at]])
        if number in seen or len(seen) >= MOST_READ:
            continue
        seen.add(number)
        same = step[level <= max(1, int(level[at]))]
        known = resolve(snap, number, same)
        found.append(Fix(known, int(level[at]), int(items.time[row]), _find_fault(faults, levels, int(position[at]))))
    best = sorted(found, key=_rank)
    return _take_one_a_session(snap, best)[:limit]


def _find_fault(faults: Sequence[Fault], levels: Sequence[tuple[int, tuple[str, ...]]], position: int) -> Fault:
    """Return the failure that a key is of."""
    key = levels[position]
    return next((fault for fault in faults if key in list(iterate_levels((fault,)))), faults[0])


def _rank(fix: Fix) -> tuple[int, ...]:
    """Return the key by which fixes are sorted: how close, known, held, how soon after the failure, how new."""
    found = fix.resolution
    soon = next((n for n, most in enumerate(_SOON) if found.steps <= most), len(_SOON))
    return max(fix.level, 1), not fix.is_known, not found.held, soon, -(fix.time if fix.time != NO_TIME else 0)


def _take_one_a_session(snap: Snapshot, fixes: Sequence[Fix]) -> list[Fix]:
    taken: set[int] = set()
    out = []
    for fix in fixes:
        session = int(snap.columns.session[snap.steps.columns.row[fix.resolution.failed]])
        if session not in taken:
            taken.add(session)
            out.append(fix)
    return out
