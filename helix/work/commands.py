"""Outcomes of a command in earlier sessions: whether it failed as it is written, and what worked instead."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.snapshot.reader.steps import EDIT, FAILED, PASSED, RESULT, RUN
from helix.text.shell import find_main
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
        """True if the command line failed each time, and another one worked."""
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


MOST_READ: Final = 400
"""Newest runs of commands that are counted."""


class KnownCommand(NamedTuple):
    """A command that passed, as it was written last."""

    line: str
    times: int
    row: int  # of its newest run


def list_commands(snap: Snapshot, rows: Bool, limit: int) -> list[KnownCommand]:
    """Return the commands that passed most often among the newest runs, each program once.

    Args:
        rows: bool[rows]; those of a project.
    """
    columns = snap.steps.columns
    calls = np.flatnonzero((columns.action == RUN) & rows[columns.row] & snap.alive[columns.row])
    calls = _order_by_time(snap, calls)[-MOST_READ:]
    results = snap.steps.find_partners(calls)
    passed = calls[(results >= 0) & (columns.outcome[np.maximum(results, 0)] == PASSED)]
    found: dict[str, list[tuple[str, int]]] = {}
    for entry in snap.steps.read(passed):
        main = [program for program in find_main(entry["target"]) if not program.is_reader]
        if len(main) == 1 and (main[0].is_check or " " in main[0].name) and len(main[0].written) <= _LINE:
            found.setdefault(main[0].name, []).append((main[0].written, entry["row"]))
    often = sorted(found.values(), key=len, reverse=True)[:limit]
    return [KnownCommand(*_choose_line(runs)) for runs in often if len(runs) > 1]


_LINE: Final = 100  # characters of a command that is listed


def _choose_line(runs: list[tuple[str, int]]) -> tuple[str, int, int]:
    """Return (the way of writing a command that was used most often, runs, row of its newest)."""
    line = Counter(written for written, _ in runs).most_common(1)[0][0]
    return line, len(runs), next(row for written, row in reversed(runs) if written == line)


def _order_by_time(snap: Snapshot, steps: I64) -> I64:
    rows = snap.steps.columns.row[steps]
    return steps[np.lexsort((steps, snap.columns.place[rows]))]


def _worked_instead(snap: Snapshot, found: Resolution) -> bool:
    """Return whether another command line ended a failure, without an edit."""
    edits = [step for step in found.changes if snap.steps.columns.action[step] == EDIT]
    return found.held and found.other_command and not edits
