"""Open ends of sessions: a failure that was not seen to pass, a question to the user, what they say is left to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.snapshot.reader.steps import PASSED
from helix.work.resolve import hash_keys
from helix.work.sessions import SessionEnd, find_left, list_checked

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


class OpenEnd(NamedTuple):
    """An open end of a session, as its item says it."""

    kind: str  # failed | asked | left
    text: str
    row: int


def list_open(snap: Snapshot, ends: Sequence[SessionEnd]) -> Iterator[OpenEnd]:
    """Yield what sessions left: of each the last failure, and its last question, else what it says is to do.

    A failure is over once one of its programs passed in a later session of the project.
    """
    for end in ends:
        for entry in snap.steps.read(end.failures):
            if entry["error"] and not _passed_later(snap, entry):
                yield OpenEnd("failed", entry["error"], entry["row"])
                break
        if end.asked >= 0:
            (text,) = snap.text(np.array([end.asked]))
            yield OpenEnd("asked", _find_last_question(text["text"]), end.asked)
        elif left := find_left(snap, end):
            yield OpenEnd("left", left[1], left[0])


def _passed_later(snap: Snapshot, failed: Mapping[str, Any]) -> bool:
    """Return whether a program that checks, and that failed, passed afterwards in the project."""
    (call,) = snap.steps.read(snap.steps.find_partners(np.array([failed["step"]])))
    names = list_checked(call["target"], only_checks=True)
    _, calls = snap.steps.find(hash_keys([("program", name) for name in names]))
    rows, columns = snap.steps.columns.row[calls], snap.columns
    later = (columns.place[rows] > columns.place[failed["row"]]) & (
        columns.project[rows] == columns.project[failed["row"]]
    )
    results = snap.steps.find_partners(calls[later])
    return bool((snap.steps.columns.outcome[results[results >= 0]] == PASSED).any())


def _find_last_question(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if "?" in line]
    return lines[-1] if lines else text
