"""Hooks at the tool calls of logged sessions: what they would have said, and how much of it was right.

Every call and every failed result of a session is asked, in order, with the store as it was before the session began.
A warning about a command is right if the call then failed. A fix is right if the session later did the same: it edited
a file of that name, or ran a command of that fix, other than the one that failed. What a session did is what it did
without the hook.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.steps import EDIT, FAILED, RESULT, RUN
from helix.text.shell import find_main, spell_command
from helix.text.step_keys import split_targets
from pipelines.eval.replay.hook import load_hook
from pipelines.eval.replay.logs import Logs
from pipelines.eval.replay.sessions import LoggedSession


class Fire(NamedTuple):
    """The context that a hook gave at a tool call."""

    kind: str  # before or after
    text: str
    tokens: int
    is_right: bool


class SessionFires(NamedTuple):
    """The tool calls of a session, those where failures are asked, and what the hooks said."""

    calls: int
    asked: int
    fires: tuple[Fire, ...]


def replay_actions(logs: Logs, session: LoggedSession) -> SessionFires:
    """Return what the hooks would have said in a session."""
    snap, hook = logs.snap, load_hook()
    own = snap.steps.list_of_session(session.code)
    columns, seen = snap.steps.columns, list[str]()
    calls = own[columns.action[own] != RESULT]
    fires: list[Fire] = []
    asked = 0
    for place, step in enumerate(own.tolist()):
        kind, outcome = columns.action[step], columns.outcome[step]
        if kind in (RUN, EDIT):
            asked += 1
            (entry,) = snap.steps.read([step])
            answer = hook.answer_action(logs.memory, session.view, "before", entry, "", tuple(seen))
            right = answer["context"] and _fails(snap, step)
        elif kind == RESULT and outcome == FAILED:
            asked += 1
            answer, right = _ask_after(logs, session, step, own[place + 1 :], tuple(seen))
        else:
            continue
        if answer["context"]:
            seen += answer["items"]
            fires.append(
                Fire("after" if kind == RESULT else "before", answer["context"], answer["tokens"], bool(right))
            )
    return SessionFires(len(calls), asked, tuple(fires))


def _ask_after(
    logs: Logs, session: LoggedSession, step: int, later: Any, seen: tuple[str, ...]
) -> tuple[dict[str, Any], bool]:
    snap = logs.snap
    call = int(snap.steps.find_partners(np.array([step]))[0])
    entry = snap.steps.read([call])[0] if call >= 0 else {"action": "other", "tool": "", "target": ""}
    output = snap.text(snap.steps.columns.row[[step]])[0]["text"].removeprefix("error: ")
    answer = load_hook().answer_action(logs.memory, session.view, "after", entry, output, seen)
    if not answer["context"]:
        return answer, False
    # After a failure the same command is run again anyway: that is no use of the fix.
    given = _name_changes(snap, answer["steps"]) - _name_changes(snap, [call] if call >= 0 else [])
    done = _name_changes(snap, [int(one) for one in later.tolist()])
    return answer, not given.isdisjoint(done)


def _fails(snap: Snapshot, call: int) -> bool:
    result = int(snap.steps.find_partners(np.array([call]))[0])
    return result >= 0 and bool(snap.steps.columns.outcome[result] == FAILED)


def _name_changes(snap: Snapshot, steps: Sequence[int]) -> set[tuple[str, str]]:
    """Return the names of edited files, of programs that change something, and commands as they are written."""
    names: set[tuple[str, str]] = set()
    kinds = snap.steps.columns.action[np.asarray(steps, np.int64)] if len(steps) else ()
    chosen = [step for step, kind in zip(steps, kinds, strict=True) if kind in (RUN, EDIT)]
    for entry in snap.steps.read(chosen):
        if entry["action"] == "edit":
            names |= {("edit", path.rpartition("/")[2]) for path in split_targets(entry["target"])}
        else:
            main = [one for one in find_main(entry["target"]) if not one.is_reader]
            names |= {("program", one.name) for one in main if not one.is_check}
            names |= {("written", one.written) for one in main}
            names.add(("command", spell_command(entry["target"])))
    return names


def measure_fires(replayed: Sequence[SessionFires]) -> dict[str, Any]:
    """Return the figures of all sessions together."""
    fires = [fire for one in replayed for fire in one.fires]
    calls = sum(one.calls for one in replayed)
    right = sum(fire.is_right for fire in fires)
    kinds = Counter(fire.kind for fire in fires)
    return {
        "sessions": len(replayed),
        "calls": calls,
        "asked": sum(one.asked for one in replayed),
        "fires": len(fires),
        "before": kinds["before"],
        "after": kinds["after"],
        "right": right,
        "precision": round(right / len(fires), 4) if fires else None,
        "false_fires": round((len(fires) - right) / calls, 5) if calls else None,
        "tokens_a_session": round(sum(fire.tokens for fire in fires) / len(replayed), 1) if replayed else None,
    }
