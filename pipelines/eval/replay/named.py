"""Files and commands that a context names before a session works with them.

At its first prompt a session is given a briefing and the memories for the prompt. Counted is the share of the files
that it then edits, and of the commands that it then runs, which that context names: a file by its name, a command by
its first program as it is written. Others get as many tokens: the best items of one leg, or the last session's newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helix.question.build import build_query
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.reader.steps import EDIT, RUN
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.text.shell import changes_nothing, find_main
from helix.text.step_keys import split_targets
from helix.types import RecallOptions
from pipelines.eval.replay.hook import load_hook
from pipelines.eval.replay.logs import Logs, list_prompts
from pipelines.eval.replay.sessions import LoggedSession, find_last_session

_LEG = 60  # items of a leg: more than fit


def measure_named(logs: Logs, sessions: Sequence[LoggedSession], settings: Settings) -> dict[str, Any]:
    """Return the shares of files and commands that each way names, means over the sessions that have some."""
    ways: dict[str, list[tuple[float | None, float | None]]] = {}
    tokens: list[int] = []
    for session in sessions:
        files, commands = list_worked_with(logs.snap, session)
        prompt = next(iter(list_prompts(session.items)), None)
        if prompt is None or not (files or commands):
            continue
        given = load_hook().answer_start(logs.memory, session.view, prompt.text, settings.hook_answered, session.at)
        tokens.append(given["tokens"])
        texts = {"helix": given["context"]}
        for name, rows in _list_others(session.view, logs, session, prompt.text, settings).items():
            texts[name] = _fill(session.view, rows, given["tokens"])
        for name, text in texts.items():
            ways.setdefault(name, []).append((_count(files, text), _count(commands, text)))
    return {
        "sessions": len(tokens),
        "tokens": round(float(np.mean(tokens)), 1) if tokens else None,
        "ways": {
            name: {"files": _mean([one[0] for one in shares]), "commands": _mean([one[1] for one in shares])}
            for name, shares in ways.items()
        },
    }


def list_worked_with(snap: Snapshot, session: LoggedSession) -> tuple[set[str], set[str]]:
    """Return the names of the files that a session edits, and the programs that it runs, without readers."""
    files, commands = set[str](), set[str]()
    own = snap.steps.list_of_session(session.code)
    kinds = snap.steps.columns.action[own]
    for entry in snap.steps.read(own[(kinds == EDIT) | (kinds == RUN)]):
        if entry["action"] == "edit":
            files |= {name for path in split_targets(entry["target"]) if (name := path.rpartition("/")[2])}
        else:
            main = [one for one in find_main(entry["target"]) if not one.is_reader]
            commands |= {one.name for one in main if " " in one.name or not changes_nothing(one.written)}
    return files, commands


def _list_others(
    view: Snapshot, logs: Logs, session: LoggedSession, prompt: str, settings: Settings
) -> dict[str, Sequence[int]]:
    query = build_query(prompt, view, settings, RecallOptions())
    plan = route(query, None, view)
    return {
        "bm25": search_lexical(query, view.lexical, plan, _LEG, 0.9, 0.6).rows.tolist(),
        "dense": search_dense(view.encoder.query(prompt), view, plan, _LEG).rows.tolist(),
        "last session": find_last_session(logs, session).tolist(),
        "nothing": (),
    }


def _fill(view: Snapshot, rows: Sequence[int], budget: int) -> str:
    """Return the texts of the first rows that fit a budget of tokens."""
    chosen, left = [], budget
    for row in rows:
        left -= int(view.columns.tokens[row])
        if left < 0:
            break
        chosen.append(row)
    return "\n".join(entry["text"] for entry in view.text(np.array(chosen, np.int64))) if chosen else ""


def _count(names: set[str], text: str) -> float | None:
    return sum(name in text for name in names) / len(names) if names else None


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return round(float(np.mean(known)), 4) if known else None
