"""Steps of the live rows: tool calls and their results, found by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np

from helix.snapshot.reader.row_map import RowMap, concatenate, owners_of
from helix.snapshot.segment.layout import NO_NUMBER
from helix.types import ACTIONS, I64, OUTCOMES, U8, U64, AnyArray

RESULT: Final = ACTIONS.index("result")
RUN: Final = ACTIONS.index("run")
CORRECT: Final = ACTIONS.index("correct")
EDIT: Final = ACTIONS.index("edit")
PASSED: Final = OUTCOMES.index("passed")
FAILED: Final = OUTCOMES.index("failed")


@dataclass(frozen=True, slots=True)
class StepColumns:
    """One entry a step, in the order of the rows of each segment."""

    row: I64  # row in the snapshot
    pair: U64  # that a call and its result share
    action: U8  # position in ACTIONS
    outcome: U8  # position in OUTCOMES


class Steps:
    """The steps of the live rows, numbered over the segments."""

    def __init__(self, rows: RowMap, base: Steps | None = None) -> None:
        self._rows, self._base = rows, base

    def replace_rows(self, rows: RowMap) -> Steps:
        """Return the same steps with other live rows."""
        return Steps(rows, self._base or self)

    @cached_property
    def _starts(self) -> list[int]:
        """Number of the first step of each segment."""
        return [0, *accumulate(len(segment.steps) for segment in self._rows.segments)]

    @cached_property
    def columns(self) -> StepColumns:
        """The columns of all steps, live or not."""
        if self._base:
            return self._base.columns
        parts: dict[str, list[AnyArray]] = {"row": [], "pair": [], "action": [], "outcome": []}
        for start, segment in self._rows.by_segment():
            for name, found in parts.items():
                values = segment.steps[name].to_numpy()
                found.append(values.astype(np.int64) + start if name == "row" else values)
        kinds = {"row": np.int64, "pair": np.uint64, "action": np.uint8, "outcome": np.uint8}
        return StepColumns(**{name: concatenate(found, kinds[name]) for name, found in parts.items()})

    def __len__(self) -> int:
        return self._starts[-1]

    def find(self, keys: U64) -> tuple[I64, I64]:
        """Find the live steps that have keys: (position in `keys` int64[m], step int64[m])."""
        positions: list[I64] = []
        steps: list[I64] = []
        for first, segment in zip(self._starts, self._rows.segments, strict=False):
            known = segment["steps.key"]
            if not len(known):
                continue
            owner, flat = owners_of(known.searchsorted(keys), known.searchsorted(keys, "right"))
            positions.append(owner)
            steps.append(first + segment["steps.step"][flat].astype(np.int64))
        position, step = concatenate(positions, np.int64), concatenate(steps, np.int64)
        alive = self._rows.alive[self.columns.row[step]]
        return position[alive], step[alive]

    def find_partners(self, steps: I64) -> I64:
        """Return the result of each call and the call of each result: int64[len(steps)], −1 for none."""
        out = np.full(len(steps), -1, np.int64)
        columns = self.columns
        position, found = self.find(columns.pair[steps])
        is_result = columns.action == RESULT
        fits = is_result[found] != is_result[steps[position]]
        # Of several, such as those of an increment that repeats a call, the last one.
        out[position[fits]] = found[fits]
        return out

    def list_of_session(self, session: int) -> I64:
        """Return the live steps of a session, by its code, in reading order: int64[m]."""
        key, columns = self._rows.sessions[session], self._rows.columns
        found = [np.empty(0, np.int64)]
        for (start, segment), first in zip(self._rows.by_segment(), self._starts, strict=False):
            keys = segment["sessions.key"]
            at = int(keys.searchsorted(key))
            if at == len(keys) or keys[at] != key or not len(segment.steps):
                continue
            rows = segment["sessions.rows"][segment["sessions.indptr"][at] : segment["sessions.indptr"][at + 1]]
            rows = rows[self._rows.alive[start + rows.astype(np.int64)]]
            owners = segment.steps["row"].to_numpy()
            _, flat = owners_of(owners.searchsorted(rows), owners.searchsorted(rows, "right"))
            found.append(first + flat)
        steps = np.concatenate(found)
        return steps[np.lexsort((steps, columns.ord[self.columns.row[steps]]))]

    def list_of_row(self, row: int) -> list[int]:
        """Return the steps of a row."""
        for (start, segment), first in zip(self._rows.by_segment(), self._starts, strict=False):
            if start <= row < start + segment.rows:
                owners = segment.steps["row"].to_numpy()
                low, high = owners.searchsorted(row - start), owners.searchsorted(row - start, "right")
                return [*range(first + int(low), first + int(high))]
        return []

    def read(self, steps: Sequence[int] | I64) -> list[dict[str, Any]]:
        """Read steps in words: action, tool, target, outcome, exit_code, tests, error, commits; with row and step."""
        out: list[dict[str, Any]] = []
        for step in np.asarray(steps, np.int64).tolist():
            at = int(np.searchsorted(self._starts, step, "right")) - 1
            table, local = self._rows.segments[at].steps, step - self._starts[at]
            entry = {name: table[name][local].as_py() for name in table.column_names}
            tests = (entry.pop("tests_passed"), entry.pop("tests_failed"))
            code = entry["exit_code"]
            out.append(
                {
                    **entry,
                    "step": step,
                    "row": int(self.columns.row[step]),
                    "action": ACTIONS[entry["action"]],
                    "outcome": OUTCOMES[entry["outcome"]],
                    "exit_code": None if code == NO_NUMBER else code,
                    "tests": None if NO_NUMBER in tests else tests,
                }
            )
        return out
