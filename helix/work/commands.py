"""What came of a command in earlier sessions: whether it failed as it is written, and what worked instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from helix.snapshot.reader.steps import EDIT, FAILED, PASSED, RESULT
from helix.text.step_keys import list_command_keys
from helix.types import I64, Bool
from helix.work.resolve import Resolution, hash_keys, resolve

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CommandHistory:
    """Earlier runs of a command line, the newest last. Steps are numbers of the snapshot's steps."""

    passed: int
    failed: int
    instead: Resolution | None  # the last failure that another command line ended, with no edit in between

    @property
    def is_wrong(self) -> bool:
        """Whether the command line failed each time, and another one worked."""
        return self.instead is not None and not self.passed


def read_history(snap: Snapshot, line: str, rows: Bool | None = None) -> CommandHistory:
    """Return what came of a command line.

    Args:
        rows: which rows may answer, bool[rows]; None: all live ones.
    """
    keys = [key for key in list_command_keys(line) if key[0] == "command"]
    if not keys or not len(snap.steps):
        return CommandHistory(0, 0, None)
    columns = snap.steps.columns
    _, calls = snap.steps.find(hash_keys(keys))
    calls = calls[columns.action[calls] != RESULT]
    if rows is not None:
        calls = calls[rows[columns.row[calls]]]
    results = snap.steps.find_partners(calls)
    results = results[results >= 0]
    outcome = columns.outcome[results]
    failed = _order_by_time(snap, results[outcome == FAILED])
    passed = int(np.count_nonzero(outcome == PASSED))
    instead = next(
        (found for step in failed[::-1].tolist() if _worked_instead(snap, found := resolve(snap, step))), None
    )
    return CommandHistory(passed, len(failed), instead)


def _order_by_time(snap: Snapshot, steps: I64) -> I64:
    rows = snap.steps.columns.row[steps]
    return steps[np.lexsort((steps, snap.columns.time[rows]))]


def _worked_instead(snap: Snapshot, found: Resolution) -> bool:
    """Return whether another command line ended a failure, without an edit."""
    edits = [step for step in found.changes if snap.steps.columns.action[step] == EDIT]
    return found.held and found.other_command and not edits
