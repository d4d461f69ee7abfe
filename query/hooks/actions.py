"""The context that a hook adds at a tool call: before it, what is known of the command or the file; after it, the fix.

Silence is the default. Before a command, it speaks where the user forbade it, or where that command line failed each
time and another one worked; before an edit, where the user laid something down about the file. After a failure, it
speaks where the same failure was met before, something changed, and a later run showed that it was gone. No question is
embedded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from helix.sources.common.steps import judge_result, read_call
from helix.stages.pack import CLOSE, OPEN
from helix.text.shell import share_program
from helix.text.step_keys import split_targets
from helix.types import I64, Bool, Fault, Step
from helix.work.commands import read_history
from helix.work.fixes import Fix, find_fixes
from helix.work.lines import Told, tell_fix, tell_rule
from helix.work.rules import find_rules_about, find_rules_against

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

ACTION_BUDGET: Final = 400
"""Tokens of the context of one tool call."""

MOST: Final = 2
"""Fixes or rules of one context."""

LOOSEST: Final = 2
"""Loosest level of an earlier failure (`helix.work.fixes.LEVELS`) that a hook speaks of."""

_WORD: Final = re.compile(r"[a-z]{3,}")
_VERDICTS: Final = frozenset(
    [
        *("actual", "and", "assert", "assertion", "but", "code", "command", "equal", "error", "errors", "exit"),
        *(
            "expected",
            "fail",
            "failed",
            "false",
            "got",
            "none",
            "not",
            "status",
            "test",
            "tests",
            "the",
            "true",
            "want",
            "was",
        ),
    ]
)
_TELLING: Final = 3  # words of a message that name a failure; with fewer its place has to be the same


class Action(NamedTuple):
    """A tool call of an agent, before or after it."""

    tool: str
    arguments: object
    output: str = ""
    failed: bool | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Action:
        """Read the fields from JSON; a value of a wrong type counts as absent."""
        tool, output, failed = raw.get("tool"), raw.get("output"), raw.get("failed")
        return cls(
            tool if isinstance(tool, str) else "",
            raw.get("input"),
            output if isinstance(output, str) else "",
            failed if isinstance(failed, bool) else None,
        )


class ActionContext(NamedTuple):
    """A context, a note on it for the log, and the ids of its items."""

    text: str
    note: str
    items: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()  # that change something or show that a failure was gone


def answer_before(snap: Snapshot, action: Action, project: str | None, seen: frozenset[str]) -> ActionContext:
    """Return what is known of a command or a file, as a context; empty where nothing concerns it.

    Args:
        project: only what was said there; None: everywhere.
        seen: ids of items that the session was given.
    """
    kind, target = read_call(action.tool, action.arguments)
    rows = _select_rows(snap, project)
    now = int(time.time())
    if kind == "run" and target:
        forbidden = find_rules_against(snap, target, now, rows, MOST)
        if len(forbidden):
            return _make_context(snap, "What the user said about this command:", _tell_rules(snap, forbidden), seen)
        history = read_history(snap, target, rows)
        if not history.is_wrong or history.instead is None:
            return ActionContext("", "the command is not known to fail")
        told = tell_fix(snap, history.instead)
        times = "" if history.failed == 1 else f" {history.failed} times"
        return _make_context(snap, f"This command failed here{times}, and never passed:", [told], seen)
    if kind == "edit" and target:
        paths = split_targets(target)[:MOST]
        found = [row for path in paths for row in find_rules_about(snap, path, now, rows, MOST).tolist()]
        rules = _tell_rules(snap, np.array(found[:MOST], np.int64))
        return _make_context(snap, "What the user said about this file:", rules, seen)
    return ActionContext("", "neither a command nor an edit")


def _tell_rules(snap: Snapshot, rows: I64) -> list[Told]:
    return [tell_rule(entry) for entry in snap.text(rows)]


def answer_after(snap: Snapshot, action: Action, project: str | None, seen: frozenset[str]) -> ActionContext:
    """Return the fix of a failure that was met before, as a context; empty without one. Arguments as above."""
    kind, target = read_call(action.tool, action.arguments)
    result = judge_result(Step("", kind, action.tool, target), action.output, action.failed)
    if result.outcome != "failed" or not result.faults:
        return ActionContext("", "no failure")
    fixes = find_fixes(snap, result.faults, _select_rows(snap, project), MOST, LOOSEST)
    known = [fix for fix in fixes if fix.resolution.held and is_telling(fix) and _is_for(snap, fix, target)]
    told = [tell_fix(snap, fix.resolution) for fix in known]
    return _make_context(snap, "This failure was met before, and was fixed:", told, seen)


def is_telling(fix: Fix) -> bool:
    """Return whether the failure names more than a verdict, or was met in the same place."""
    return fix.level == 0 or len(_list_words(fix.fault)) >= _TELLING


def _is_for(snap: Snapshot, fix: Fix, line: str) -> bool:
    """Return whether a fix is known and may help: another command only where the same one failed."""
    if not fix.is_known or not fix.resolution.is_instead:
        return fix.is_known
    (call,) = snap.steps.read([fix.resolution.call])
    return share_program(call["target"], line)


def _list_words(fault: Fault) -> set[str]:
    return {word for word in _WORD.findall(f"{fault.kind} {fault.message}") if word not in _VERDICTS}


def _select_rows(snap: Snapshot, project: str | None) -> Bool | None:
    return None if project is None else snap.columns.project == snap.projects.index(project)


def _make_context(snap: Snapshot, heading: str, told: list[Told], seen: frozenset[str]) -> ActionContext:
    """Return a context of what is new to the session, within the budget."""
    lines, items, steps = [heading], dict[str, None](), list[int]()
    for one in told:
        if seen.issuperset(one.items):
            continue
        text = "\n".join([OPEN, *lines, *one.lines, CLOSE])
        if sum(snap.counter([text])) > ACTION_BUDGET and len(lines) > 1:
            break
        lines += one.lines
        items |= dict.fromkeys(one.items)
        steps += one.steps
    if not items:
        return ActionContext("", "given before" if told else "nothing known")
    text = "\n".join([OPEN, *lines, CLOSE])
    return ActionContext(text, f"{len(text)} characters", tuple(items), tuple(steps))
