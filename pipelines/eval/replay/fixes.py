"""Known failures of logs: how often the fix of an earlier session is found, by Helix and by simpler ways.

A pair is a failure of a session whose fingerprint an earlier session has, where something changed and a later run
showed that it was gone. It is found if one of the first answers is an item after that failure, up to the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from helix.question.build import build_query
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.steps import FAILED, RESULT
from helix.sources.common.steps import judge_result
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.text.step_keys import list_fault_keys
from helix.types import I64, Fault, RecallOptions, Step
from helix.work.fixes import find_fixes
from helix.work.resolve import Resolution, hash_keys, resolve
from pipelines.eval.replay.logs import Logs
from pipelines.eval.replay.sessions import LoggedSession, find_last_session

FIRST: Final = (1, 3)
"""Answers among which a fix counts as found."""


class Pair(NamedTuple):
    """A failure whose fix an earlier session has."""

    question: str  # the line that tells the failure
    faults: tuple[Fault, ...]
    fixes: tuple[frozenset[int], ...]  # rows of each earlier way


def list_faults(logs: Logs, session: LoggedSession) -> list[tuple[int, Step]]:
    """Return the failed results of a session with what their texts tell, as a hook would read them."""
    steps = logs.snap.steps
    own = steps.list_of_session(session.code)
    failed = own[(steps.columns.action[own] == RESULT) & (steps.columns.outcome[own] == FAILED)]
    calls = steps.find_partners(failed)
    out = []
    texts = logs.snap.text(steps.columns.row[failed])
    for step, call, entry in zip(failed.tolist(), calls.tolist(), texts, strict=True):
        origin = steps.read([call])[0] if call >= 0 else {"action": "other", "tool": "", "target": ""}
        asked = Step("", origin["action"], origin["tool"], origin["target"])
        judged = judge_result(asked, entry["text"].removeprefix("error: "), True)
        if judged.faults:
            out.append((step, judged))
    return out


def list_pairs(logs: Logs, session: LoggedSession) -> list[Pair]:
    """Return the known failures of a session, each once."""
    pairs: dict[str, Pair] = {}
    for _, judged in list_faults(logs, session):
        fixes = [rows for fault in judged.faults[:1] for rows in _find_ways(session.view, fault)]
        if fixes:
            question = judged.faults[0].line
            pairs.setdefault(question, Pair(question, judged.faults, tuple(fixes)))
    return list(pairs.values())


def _find_ways(view: Snapshot, fault: Fault) -> list[frozenset[int]]:
    """Return the rows of each earlier way from a failure with the same fingerprint to its proof."""
    keys = [key for key in list_fault_keys(fault) if key[0] == "failure"]
    _, same = view.steps.find(hash_keys(keys))
    same = same[view.steps.columns.outcome[same] == FAILED]
    found = [resolve(view, step, same) for step in same.tolist()]
    return [list_rows(view, one) for one in found if one.held and one.shown >= 0 and (one.changes or one.other_command)]


def list_rows(view: Snapshot, found: Resolution) -> frozenset[int]:
    """Return the live rows of a session after a failure, up to the run that showed that it was gone."""
    columns, steps = view.columns, view.steps.columns
    first, last = int(steps.row[found.failed]), int(steps.row[found.shown])
    own = np.flatnonzero(view.alive & (columns.session == columns.session[first]))
    within = (columns.ord[own] > columns.ord[first]) & (columns.ord[own] <= columns.ord[last])
    return frozenset(own[within].tolist())


Way = Callable[[Pair, LoggedSession], Sequence[int]]
"""Returns the rows that a way gives for a pair, best first."""


def make_ways(logs: Logs, settings: Settings) -> dict[str, Way]:
    """Return the ways to look for a fix, by name."""
    return {
        "helix, at the action": lambda pair, session: _look_up(session.view, pair),
        "helix, recall": lambda pair, session: _recall(logs, settings, session, pair),
        "bm25": lambda pair, session: _search(settings, session, pair, "bm25"),
        "dense": lambda pair, session: _search(settings, session, pair, "dense"),
        "last session": lambda pair, session: find_last_session(logs, session).tolist(),
        "nothing": lambda pair, session: (),
    }


def _look_up(view: Snapshot, pair: Pair) -> list[int]:
    """Return a row for each fix that is found by its fingerprint: its last change, or the run that passed."""
    rows = []
    for fix in find_fixes(view, pair.faults, loosest=2):
        found = fix.resolution
        if fix.is_known:
            step = found.changes[-1] if found.changes else found.shown
            rows.append(int(view.steps.columns.row[step]))
    return rows


def _recall(logs: Logs, settings: Settings, session: LoggedSession, pair: Pair) -> list[int]:
    from helix.encoders.rerank import Rerankers
    from helix.sdk.answer_question import answer_question
    from helix.stages.trace import Trace
    from pipelines.eval.replay.logs import tell_moment

    options = RecallOptions(k=FIRST[-1], now=tell_moment(session.at))
    bundle = answer_question(pair.question, session.view, options, settings, Trace(), Rerankers(settings))
    return [row for item in bundle.items if (row := session.view.find(item.id)) is not None]


def _search(settings: Settings, session: LoggedSession, pair: Pair, leg: str) -> list[int]:
    view = session.view
    query = build_query(pair.question, view, settings, RecallOptions())
    plan = route(query, None, view)
    if leg == "dense":
        found = search_dense(view.encoder.query(pair.question), view, plan, FIRST[-1])
    else:
        found = search_lexical(query, view.lexical, plan, FIRST[-1], 0.9, 0.6)
    return [int(row) for row in found.rows.tolist()]


def is_found(pair: Pair, rows: Sequence[int] | I64, first: int) -> bool:
    """Return whether one of the first rows is of a known way."""
    return any(int(row) in fix for row in rows[:first] for fix in pair.fixes)


def measure_fixes(logs: Logs, sessions: Sequence[LoggedSession], settings: Settings) -> dict[str, Any]:
    """Return the number of pairs, and by way the share that is found first and in the first three."""
    ways = make_ways(logs, settings)
    pairs = [(pair, session) for session in sessions for pair in list_pairs(logs, session)]
    found: dict[str, dict[str, float | None]] = {}
    for name, way in ways.items():
        answers = [(pair, way(pair, session)) for pair, session in pairs]
        found[name] = {
            f"in {first}": round(sum(is_found(pair, rows, first) for pair, rows in answers) / len(pairs), 4)
            if pairs
            else None
            for first in FIRST
        }
    return {"pairs": len(pairs), "ways": found}
