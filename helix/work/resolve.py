"""The way from a failed step to the step that showed that the failure was gone, within one session.

The step that shows it runs the same program on the same things. What changed in between is the fix: edits, and commands
that do something; and the step itself, where its command is another one. The fix held if the step passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.errors import StoreError
from helix.snapshot.checked_arrays import REMEDY
from helix.snapshot.reader.steps import EDIT, FAILED, PASSED, RESULT, RUN
from helix.snapshot.segment.batch import hash_parts
from helix.text.shell import changes_nothing, find_main, spell_command
from helix.text.step_keys import list_command_keys, list_path_ends, split_targets
from helix.types import I64, U64, AnyArray

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST_STEPS: Final = 400
"""Steps of a session that are read after a failure."""

MOST_CHANGES: Final = 6
"""Changes of a fix: the last ones."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a failure. Steps are numbers of the snapshot's steps."""

    failed: int  # the result that tells the failure
    call: int  # its call; −1: unknown
    changes: tuple[int, ...] = ()  # calls that changed something, in order
    shown: int = -1  # the call whose result shows that the failure is gone; −1: none
    held: bool = False  # that result passed
    steps: int = 0  # of the session between the failure and the proof
    other_command: bool = False  # the call is another command than the one that failed

    @property
    def is_instead(self) -> bool:
        """True where another command ended the failure by itself."""
        return self.shown >= 0 and self.other_command and not self.changes


def hash_keys(keys: list[tuple[str, ...]]) -> U64:
    """Return the numbers of keys: uint64[n]."""
    return np.array([int(hash_parts(*key), 16) for key in keys], np.uint64)


def resolve(snap: Snapshot, failed: int, same: AnyArray | None = None) -> Resolution:
    """Return what came of the failure that a result tells.

    Args:
        failed: number of the step.
        same: steps with the same failure, which show that it was not gone yet.

    Raises:
        StoreError: the store is damaged.
    """
    steps, columns = snap.steps, snap.steps.columns
    call = int(steps.find_partners(np.array([failed], np.int64))[0])
    session = steps.list_of_session(int(snap.columns.session[columns.row[failed]]))
    (place,) = np.nonzero(session == failed)
    if not len(place):
        raise StoreError("the index of sessions is damaged: it lacks a step of its session", REMEDY)
    after = session[int(place[0]) + 1 :][:MOST_STEPS]
    if call < 0 or not len(after):
        return Resolution(failed, call)
    calls = after[columns.action[after] != RESULT]
    results = steps.find_partners(calls)
    (origin,) = steps.read([call])
    again = _find_again(snap, origin, calls)
    still = set() if same is None else set(np.asarray(same).tolist())
    for place in again.tolist():
        result = int(results[place])
        if result < 0 or result in still or columns.outcome[result] not in (PASSED, FAILED):
            continue
        held = bool(columns.outcome[result] == PASSED)
        if not held and not still:
            continue  # without the same failure's steps only a pass tells
        shown = int(calls[place])
        entry = steps.read([shown])[0]
        differs = origin["action"] == "run" and spell_command(entry["target"]) != spell_command(origin["target"])
        changes = _list_changes(snap, calls[:place])
        steps_between = int(np.flatnonzero(after == shown)[0])
        return Resolution(failed, call, changes, shown, held, steps_between, differs)
    return Resolution(failed, call)


def _find_again(snap: Snapshot, origin: dict[str, Any], calls: I64) -> I64:
    """Return the places in `calls` of those that try again what the origin tried."""
    if origin["action"] == "run":
        keys = hash_keys([key for key in list_command_keys(origin["target"]) if key[0] in ("command", "program")])
    else:
        ends = [end for path in split_targets(origin["target"]) for end in list_path_ends(path)[:2]]
        keys = hash_keys([("edit", end) for end in ends])
    _, found = snap.steps.find(keys)
    places = np.flatnonzero(np.isin(calls, found))
    if origin["action"] != "run":
        return places
    texts = snap.steps.read(calls[places])
    return places[[is_same_try(origin["target"], entry["target"]) for entry in texts]] if len(places) else places


def is_same_try(first: str, second: str) -> bool:
    """Return whether a command line runs the same program as another, on all or some of the same things."""
    others = {program.name: program for program in find_main(second)}
    for program in find_main(first):
        other = others.get(program.name)
        if other is None or not _ASKS_PROGRAM.isdisjoint(other.words):
            continue
        one, two = (_list_things(each.words) for each in (program, other))
        if not one or not two or one & two:
            return True
    return False


_ASKS_PROGRAM: Final = frozenset({"--version", "--help", "-h", "-V", "version", "help"})
"""Words with which a command only asks the program about itself."""


def _list_things(words: tuple[str, ...]) -> set[str]:
    return {word.rstrip("/").rpartition("/")[2] or word for word in words if not word.startswith("-")}


def _list_changes(snap: Snapshot, calls: I64) -> tuple[int, ...]:
    """Return the calls that changed something: edits, and commands that neither only read nor failed."""
    steps, columns = snap.steps, snap.steps.columns
    kinds = columns.action[calls]
    chosen = calls[(kinds == EDIT) | (kinds == RUN)]
    if not len(chosen):
        return ()
    results = steps.find_partners(chosen)
    ok = (results < 0) | (columns.outcome[np.maximum(results, 0)] != FAILED)
    chosen = chosen[ok][-4 * MOST_CHANGES :]
    out = []
    for entry in steps.read(chosen):
        if entry["action"] == "run" and changes_nothing(entry["target"]):
            continue
        out.append(entry["step"])
    return tuple(out[-MOST_CHANGES:])
