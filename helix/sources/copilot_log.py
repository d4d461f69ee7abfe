"""Logs of operations on a chat of GitHub Copilot, replayed into the document that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from helix.sources.common.fields import name_type
from helix.sources.common.json_text import read_records
from helix.types import Problem

SNAPSHOT, _SET, _PUSH, _DELETE = range(4)
_MAX_DEPTH: Final = 32  # of the path of an operation; real ones have 4 steps
_ROOTS: Final = frozenset(
    {"requests", "inputState", "customTitle", "responderUsername", "pendingRequests", "hasPendingEdits", "repoData"}
)


def is_snapshot(record: Mapping[str, Any]) -> bool:
    """Return whether a record sets the whole document."""
    return record.get("kind") == SNAPSHOT and not isinstance(record.get("kind"), bool)


def is_change(record: Mapping[str, Any]) -> bool:
    """Return whether a record sets, extends, cuts or deletes a known part of a chat."""
    path = record.get("k")
    is_known = isinstance(path, list) and bool(path) and isinstance(path[0], str) and path[0] in _ROOTS
    return is_known and record.get("kind") in (_SET, _PUSH, _DELETE)


def replay(text: str, problems: list[Problem]) -> object:
    """Return the document that the operations of a log make. An operation that fails is left out and reported."""
    state: object = {}
    has_begun = False
    for line, record in read_records(text, problems):
        if is_snapshot(record):
            state, has_begun = record.get("v"), True
            continue
        if not has_begun:
            problems.append(Problem(line, "no snapshot before it: the log was cut, what was there before is missing"))
            has_begun = True
        reason = _apply(state, record)
        if reason:
            problems.append(Problem(line, f"{reason}; the change is left out"))
    return state


def _apply(state: object, record: Mapping[str, Any]) -> str:
    """Carry out one operation. Return why it fails; an empty text for success."""
    kind, path = record.get("kind"), record.get("k")
    if kind not in (_SET, _PUSH, _DELETE) or isinstance(kind, bool):
        return f"no operation of a known kind ({name_type(kind)})"
    if not isinstance(path, list) or not 0 < len(path) <= _MAX_DEPTH:
        return "an operation without a path"
    at = state
    for step in path[:-1]:
        at = _get_inner(at, step)
    last = path[-1]
    if not _can_hold(at, last):
        return "an operation on what is not there"
    if kind == _PUSH:
        return _push(at, last, record.get("v"), record.get("i"))
    if kind == _DELETE and isinstance(at, dict):
        at.pop(last, None)
    elif isinstance(at, list) and last == len(at):
        at.append(record.get("v"))
    elif isinstance(at, dict | list):
        at[last] = record.get("v")
    return ""


def _get_inner(holder: object, step: object) -> object:
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.get(step)
    if isinstance(holder, list) and type(step) is int and 0 <= step < len(holder):
        return holder[step]
    return None


def _can_hold(holder: object, step: object) -> bool:
    """Return whether a value can be set there: a field, or an element of a list that leaves no gap."""
    if isinstance(holder, dict):
        return isinstance(step, str)
    return isinstance(holder, list) and type(step) is int and 0 <= step <= len(holder)


def _push(holder: object, step: object, values: object, start: object) -> str:
    """Cut a list at `start`, if given, and extend it."""
    target = _get_inner(holder, step)
    if target is None:
        target = []
        if isinstance(holder, dict) and isinstance(step, str):
            holder[step] = target
        elif isinstance(holder, list) and type(step) is int:
            holder[step : step + 1] = [target]
    if not isinstance(target, list):
        return "an addition to what is no list"
    if type(start) is int and start >= 0:
        del target[start:]
    if isinstance(values, list):
        target += values
    return ""
