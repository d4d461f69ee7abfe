"""Steps of items: tool calls and results as records of STEPS, with the keys by which they are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helix.redact.redact import redact
from helix.snapshot.segment.batch import hash_parts
from helix.text.step_keys import list_step_keys
from helix.types import Session, Step, Turn

Record = dict[str, Any]


def make_steps(session: Session, turn: Turn, pieces: Sequence[str]) -> list[list[Record]]:
    """Return the steps of each piece of a turn: a call where its line is, a result where its failure is."""
    out: list[list[Record]] = [[] for _ in pieces]
    if not pieces:
        return out
    for number, step in enumerate(turn.steps):
        mark = step.faults[0].line if step.faults else f"[{step.tool or 'tool'}]"
        place = next((at for at, piece in enumerate(pieces) if mark in piece), 0)
        out[place].append(_make_step(session, turn, step, number))
    return out


def _make_step(session: Session, turn: Turn, step: Step, number: int) -> Record:
    passed, failed = step.tests or (None, None)
    return {
        "place": number,
        "call": step.call[:200],
        "pair": int(hash_parts("call", session.source, session.id, step.call), 16),
        "action": step.action,
        "tool": redact(step.tool[:100])[0],
        "target": redact(step.target)[0],
        "outcome": step.outcome,
        "exit_code": step.exit_code,
        "tests_passed": passed,
        "tests_failed": failed,
        "error": redact(step.faults[0].line)[0] if step.faults else "",
        "commits": list(step.commits),
        "keys": [int(hash_parts(*key), 16) for key in list_step_keys(step)],
    }


def hash_silent(turn: Turn) -> tuple[str, ...]:
    """Return what a log adds later to the turn of a call: results without a text of their own."""
    if turn.role == "tool":
        return ()
    return tuple(f"{step.call}={step.outcome}" for step in turn.steps if step.action == "result")
