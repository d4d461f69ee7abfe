"""Knowledge about a file: its edits, and failures that were met in it, with their fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from helix.snapshot.reader.steps import EDIT, FAILED
from helix.text.step_keys import list_path_ends
from helix.types import I64, Bool, Fault
from helix.work.fixes import Fix
from helix.work.resolve import hash_keys, resolve

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST_READ: Final = 8
"""Failures whose sessions are read: the newest."""


def find_failures_in(snap: Snapshot, path: str, rows: Bool | None = None, limit: int = 2) -> list[Fix]:
    """Return the newest failures that were met in a file and whose fix is known; a session gives one."""
    found = _find_closest(snap, "fails in", path)
    columns = snap.steps.columns
    found = found[columns.outcome[found] == FAILED]
    if rows is not None:
        found = found[rows[columns.row[found]]]
    times = snap.columns.place[columns.row[found]]
    out: list[Fix] = []
    sessions: set[int] = set()
    for step in found[np.lexsort((-found, -times))][:MOST_READ].tolist():
        session = int(snap.columns.session[columns.row[step]])
        fix = Fix(resolve(snap, step), 0, int(snap.columns.time[columns.row[step]]), Fault("", "", "", "", path))
        if session not in sessions and fix.is_known:
            sessions.add(session)
            out.append(fix)
    return out[:limit]


def find_edits(snap: Snapshot, path: str) -> I64:
    """Return the calls that edited a file: int64[m], those that name the longest part of its path."""
    found = _find_closest(snap, "edit", path)
    return np.asarray(found[snap.steps.columns.action[found] == EDIT], np.int64)


def _find_closest(snap: Snapshot, kind: str, path: str) -> I64:
    """Return the steps with the longest end of a path that any has."""
    ends = list_path_ends(path)
    if not ends or not len(snap.steps):
        return np.empty(0, np.int64)
    position, step = snap.steps.find(hash_keys([(kind, end) for end in ends]))
    return step[position == position.min()] if len(step) else step
