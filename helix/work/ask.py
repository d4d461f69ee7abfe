"""Questions about work, answered from steps: "how did we fix ECONNRESET", "what broke queue.py", "how do tests run".

Only a question that names a failure, a file with a word of failing, or the running of tests is answered so; for all
others nothing is looked up. The rows are put before those that the legs found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from helix.snapshot.reader.steps import FAILED, PASSED, RUN
from helix.text.failures import find_failures
from helix.text.shell import spell_command
from helix.text.step_keys import is_class, to_faults
from helix.types import Bool, Fault
from helix.work.files import find_failures_in
from helix.work.fixes import Fix, find_fixes
from helix.work.resolve import hash_keys, resolve

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

MOST: Final = 3
"""Fixes of an answer."""

READ: Final = 8
"""Rows of the legs among which a failure is looked for."""

_CERTAIN: Final = (0.9, 0.9, 0.8, 0.6, 0.6)
"""Relevance of a fix that held, by its level; one that did not hold has half of it."""

_TESTS: Final = 0.8  # relevance of a command that runs the tests

_FIX: Final = re.compile(
    r"\b(?:how|what)\b.{0,40}\b(?:fix(?:ed)?|solved?|resolved?|(?:get|got) (?:rid|around)|worked around|cured?)\b",
    re.IGNORECASE,
)
_TEST_NAME: Final = re.compile(r"\b(?:Test[A-Z]\w+|test_\w+)\b")
_FAILING: Final = re.compile(
    r"\b(?:br[eo]ke?n?|breaks?|fail(?:s|ed|ing|ure)?|crash(?:e[sd]|ing)?|wrong|errors?|bug|red)\b", re.IGNORECASE
)
_CLASS: Final = re.compile(r"\b(?:[A-Z]\w*(?:Error|Exception|Failure)|E[A-Z]{4,}|[A-Z]{1,6}\d{3,5})\b")
_FILE: Final = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,5}\b(?!\()")
_RUN_TESTS: Final = re.compile(
    r"\b(?:which|what|how)\b.{0,60}\b(?:runs?|ran|command|start|execute|invoke)\b.{0,40}\b(?:\w+ )?tests?\b"
    r"|\btests?\b.{0,30}\b(?:command|run here|are run|get run)\b",
    re.IGNORECASE,
)


class FoundWork(NamedTuple):
    """A row that answers, and how likely it helps."""

    row: int
    relevance: float


def find_work(question: str, snap: Snapshot, rows: Bool | None, best: Sequence[int] = ()) -> list[FoundWork]:
    """Return the rows that answer a question about work, best first; empty for any other question.

    Args:
        best: rows that the legs found, best first: where the question asks for a fix, that of a failure among them.
        rows: which rows may answer, bool[rows]; None: all live ones.
    """
    if not len(snap.steps):
        return []
    found: dict[int, float] = {}
    for one in _find(question, snap, rows):
        found.setdefault(one.row, one.relevance)
    if not found and _FIX.search(question):
        for one in _follow_failures(snap, best[:READ]):
            found.setdefault(one.row, one.relevance)
    # The fix of a failure that may answer can lie outside.
    return [FoundWork(row, relevance) for row, relevance in found.items() if rows is None or rows[row]]


def _find(question: str, snap: Snapshot, rows: Bool | None) -> Iterator[FoundWork]:
    faults = read_asked(question)
    if faults:
        for fix in find_fixes(snap, faults, rows, MOST, loosest=4):
            yield from _list_rows(snap, fix)
    if _FAILING.search(question):
        for match in _FILE.finditer(question):
            for fix in find_failures_in(snap, match[0], rows, MOST):
                yield from _list_rows(snap, fix)
    if _RUN_TESTS.search(question):
        yield from _find_test_runs(snap, rows)


def _follow_failures(snap: Snapshot, best: Sequence[int]) -> Iterator[FoundWork]:
    """Yield the rows of the fix of the first failure among some rows whose fix is known."""
    columns = snap.steps.columns
    for row in best:
        failed = [step for step in snap.steps.list_of_row(row) if columns.outcome[step] == FAILED]
        for step in failed:
            fix = Fix(resolve(snap, step), 3, int(snap.columns.time[row]), Fault("", "", "", "", ""))
            if fix.is_known:
                yield from _list_rows(snap, fix)
                return


def read_asked(question: str) -> tuple[Fault, ...]:
    """Return the failures that a question quotes or names."""
    quoted = to_faults(find_failures(question))
    named = [name.lower() for name in _CLASS.findall(question)]
    known = {fault.kind for fault in quoted}
    classes = (Fault(name, name, "", "", "") for name in named if is_class(name) and name not in known)
    tests = _TEST_NAME.findall(question) if _FAILING.search(question) else []
    return (*quoted, *classes, *(Fault(name, "test", name.lower(), "", "") for name in tests))


def _list_rows(snap: Snapshot, fix: Fix) -> Iterator[FoundWork]:
    """Yield the rows of a fix: its last change, what showed that it held, the failure."""
    found, steps = fix.resolution, snap.steps.columns.row
    if not fix.is_known:
        yield FoundWork(int(steps[found.failed]), _CERTAIN[fix.level] / 4)
        return
    certain = _CERTAIN[fix.level] if found.held else _CERTAIN[fix.level] / 2
    best = [found.changes[-1]] if found.changes else []
    for step in (*best, found.shown, found.failed):
        yield FoundWork(int(steps[step]), certain)


def _find_test_runs(snap: Snapshot, rows: Bool | None) -> Iterator[FoundWork]:
    """Yield the newest row of the command that ran tests most often, and passed."""
    columns = snap.steps.columns
    _, calls = snap.steps.find(hash_keys([("tests",)]))
    calls = calls[columns.action[calls] == RUN]
    if rows is not None:
        calls = calls[rows[columns.row[calls]]]
    results = snap.steps.find_partners(calls)
    passed = calls[(results >= 0) & (columns.outcome[np.maximum(results, 0)] == PASSED)][-_READ:]
    spelled = {entry["step"]: spell_command(entry["target"]) for entry in snap.steps.read(passed)}
    if spelled:
        often = Counter(spelled.values()).most_common(1)[0][0]
        newest = max((step for step, name in spelled.items() if name == often), key=lambda step: _time(snap, step))
        yield FoundWork(int(columns.row[newest]), _TESTS)


_READ: Final = 200  # newest runs of tests that are counted


def _time(snap: Snapshot, step: int) -> int:
    return int(snap.columns.place[snap.steps.columns.row[step]])
