"""The newest sessions of a project: what each worked on, how it ended, and what it left open."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from helix.snapshot.reader.steps import EDIT, FAILED, PASSED, RESULT, RUN
from helix.snapshot.segment.batch import NO_TIME
from helix.text.cues import ASKS
from helix.text.shell import find_main
from helix.text.step_keys import list_command_keys, split_targets
from helix.types import I64, ROLES, Bool
from helix.util.undated import is_undated
from helix.work.resolve import hash_keys

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

_LOOKED: Final = 8  # times as many sessions are looked at
_FILES: Final = 4  # names of edited files
_LAST_ITEMS: Final = 6  # of a session, in which it may say what is left
_OPEN_CHARS: Final = 220  # of a sentence that says what is left
_ASSISTANT: Final = ROLES.index("assistant")
_DOCUMENT: Final = ROLES.index("document")
_USER: Final = ROLES.index("user")

_LEFT: Final = re.compile(
    r"\b(?:next steps?|still (?:need|have|has|missing|open|to do)|not (?:yet|done)|remaining|left to do|to-?do\b|TODO"
    r"|(?:is|are|still|remains?|left) (?:unresolved|pending|outstanding)|blocked|waiting (?:for|on)|needs? to be"
    r"|should (?:still|also))\b|^(?:unresolved|pending|outstanding)\b"
    r"|\bfollow[- ]?ups?(?=[:.,;)]|$| (?:to|for|is|are|on|in|would|could)\b)",  # no adjective: "a follow-up sentence"
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(r"\b(?:0|no|none|nothing|zero|without)\b", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"(?:[^.!?\n]|[.!?](?=\S)){12,400}(?:[.!?](?=\s|\Z)|(?=\n|\Z))")
_CALL: Final = re.compile(r"(?m)^\[[^\]\n]{1,80}\] .*$|```.*?(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A session as it ended. Rows are rows of the snapshot; steps are numbers of its steps."""

    first: int  # row
    last: int  # row
    turns: int
    files: tuple[str, ...]  # names of files it edited, the most often edited first
    tests: str  # passed, failed, or empty where it ran none
    failures: tuple[int, ...]  # results of builds, tests and checks that failed and were not seen to pass later
    asked: int  # row of its last question to the user that was not answered; −1: none


def list_last_sessions(snap: Snapshot, rows: Bool, limit: int) -> list[SessionEnd]:
    """Return the newest sessions among some rows, the newest first; a session and its branches (`name_branch`) once.

    Args:
        rows: bool[rows]; those of a project.
    """
    columns = snap.columns
    live = np.flatnonzero(rows & snap.alive & (columns.role != _DOCUMENT))
    if not len(live):
        return []
    newest = np.full(len(snap.sessions), NO_TIME)
    np.maximum.at(newest, columns.session[live], columns.place[live])
    codes = np.flatnonzero(newest != NO_TIME)
    found, undated, named = list[SessionEnd](), list[SessionEnd](), list[str]()
    for code in codes[np.lexsort((codes, -newest[codes]))][: _LOOKED * limit].tolist():
        own = np.sort(live[columns.session[live] == code])
        (first,) = snap.text(own[:1])
        name = str(first["session"])
        if any(name.startswith(f"{one}~") or one.startswith(f"{name}~") for one in named):
            continue  # a branch of a session that is listed, or the session of such a branch
        named.append(name)
        chosen = undated if is_undated(int(columns.place[own[0]])) else found
        if len(chosen) < limit:
            chosen.append(_read_session(snap, code, own))
        if len(found) == limit:
            break
    return (found + undated)[:limit]


def _read_session(snap: Snapshot, code: int, rows: I64) -> SessionEnd:
    rows = rows[np.argsort(snap.columns.ord[rows], kind="stable")]
    steps = snap.steps.list_of_session(code)
    return SessionEnd(
        int(rows[0]),
        int(rows[-1]),
        len(rows),
        _list_files(snap, steps),
        _find_tests(snap, steps),
        tuple(_list_failures(snap, steps)),
        _find_open_question(snap, rows),
    )


def _list_files(snap: Snapshot, steps: I64) -> tuple[str, ...]:
    edits = steps[snap.steps.columns.action[steps] == EDIT]
    names = Counter(
        path.replace("\\", "/").rpartition("/")[2]
        for entry in snap.steps.read(edits)
        for path in split_targets(entry["target"])
    )
    return tuple(name for name, _ in names.most_common(_FILES) if name)


def _find_tests(snap: Snapshot, steps: I64) -> str:
    """Return how the last run of tests ended; empty without one."""
    _, tests = snap.steps.find(hash_keys([("tests",)]))
    calls = steps[np.isin(steps, tests) & (snap.steps.columns.action[steps] == RUN)]
    results = snap.steps.find_partners(calls)
    outcomes = snap.steps.columns.outcome[results[results >= 0]]
    decided = [one for one in outcomes.tolist() if one in (PASSED, FAILED)]
    return "" if not decided else "passed" if decided[-1] == PASSED else "failed"


def _list_failures(snap: Snapshot, steps: I64) -> list[int]:
    """Return the last failure of each program that builds or checks and did not pass afterwards, the last first.

    What another program failed to do was often only tried.
    """
    columns = snap.steps.columns
    results = steps[(columns.action[steps] == RESULT) & np.isin(columns.outcome[steps], (PASSED, FAILED))]
    calls = snap.steps.find_partners(results)
    last: dict[str, int] = {}
    for result, call in zip(results.tolist(), calls.tolist(), strict=True):
        if call < 0 or columns.action[call] != RUN:
            continue
        (entry,) = snap.steps.read([call])
        passed = columns.outcome[result] == PASSED
        for name in list_checked(entry["target"], only_checks=not passed):
            if passed:
                last.pop(name, None)
            else:
                last[name] = result
    return list(dict.fromkeys(reversed(last.values())))


def list_checked(line: str, *, only_checks: bool) -> list[str]:
    """Return the programs of a command line by which it is found again, or only those that build or check."""
    checks = {program.name for program in find_main(line) if program.is_check}
    names = [key[1] for key in list_command_keys(line) if key[0] == "program"]
    return [name for name in names if name in checks or not only_checks]


def _find_open_question(snap: Snapshot, rows: I64) -> int:
    """Return the last row if an agent asks the user there; −1 otherwise."""
    spoken = rows[np.isin(snap.columns.role[rows], (_ASSISTANT, _USER))]
    if not len(spoken) or snap.columns.role[spoken[-1]] != _ASSISTANT:
        return -1
    return int(spoken[-1]) if snap.lexical.cues(spoken[-1:])[0] & ASKS else -1


def find_left(snap: Snapshot, end: SessionEnd) -> tuple[int, str] | None:
    """Return (row, sentence) of what a session says is left to do, at its end; None where it does not say.

    The last sentence counts that an agent says, in prose, or a user whom no agent answers.
    """
    columns = snap.columns
    own = np.flatnonzero(snap.alive & (columns.session == columns.session[end.last]))
    own = own[np.isin(columns.role[own], (_ASSISTANT, _USER))]
    own = own[np.argsort(columns.ord[own], kind="stable")]
    answered = own[: np.flatnonzero(columns.role[own] == _ASSISTANT).max(initial=-1) + 1]
    own = own[(columns.role[own] == _ASSISTANT) | ~np.isin(own, answered)][-_LAST_ITEMS:]
    for row, entry in zip(own[::-1].tolist(), snap.text(own[::-1]), strict=True):
        prose = _CALL.sub(" ", entry["text"])
        sentences = [match[0].strip(" -*#>\t") for match in _SENTENCE.finditer(prose)]
        found = [one for one in sentences if _LEFT.search(one) and not _NOTHING.search(one)]
        if found:
            return row, " ".join(found[-1].split())[:_OPEN_CHARS]
    return None
