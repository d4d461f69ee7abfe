"""Why a line is as it is: from git's blame to the commit, and from the commit to the session that made it.

A log that shows `git commit` names the commit. Otherwise the last session counts that edited the file before the commit
was made, within a week. Of the session, the last edit of the file before the commit is shown, with the request that it
serves and what the agent said.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.errors import UsageError
from helix.snapshot.reader.steps import EDIT
from helix.snapshot.segment.batch import NO_TIME, hash_parts
from helix.types import I64, ROLES
from helix.work.files import find_edits
from helix.work.resolve import hash_keys

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

_UNCOMMITTED: Final = "0" * 40
_WEEK: Final = 7 * 86_400
_SLACK: Final = 120  # seconds by which a log's clock may be ahead of git's
_USER: Final = ROLES.index("user")
_ASSISTANT: Final = ROLES.index("assistant")


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line with the commit that last changed it."""

    path: str  # in the repository, as of that commit
    number: int
    text: str
    commit: str  # empty: not committed yet
    author: str
    time: int  # seconds
    summary: str


def blame(path: Path, number: int) -> BlamedLine:
    """Ask git which commit last changed a line.

    Raises:
        UsageError: git is missing, the file is in no repository, or it has no such line.
    """
    command = ["git", "-C", str(path.parent), "blame", "--porcelain", "-L", f"{number},{number}", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except FileNotFoundError:
        raise UsageError("git is not installed", "install git") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["git blame failed"])[-1].removeprefix("fatal: ")
        raise UsageError(f"{path}:{number}: {reason}", "give a file of a git repository and a line that it has")
    head, *lines = done.stdout.splitlines()
    fields: Mapping[str, str] = dict(line.partition(" ")[::2] for line in lines if not line.startswith("\t"))
    text = next((line[1:] for line in lines if line.startswith("\t")), "")
    commit, original = head.split()[:2]
    return BlamedLine(
        fields.get("filename", path.name),
        int(original),
        text,
        "" if commit == _UNCOMMITTED else commit,
        fields.get("author", ""),
        int(fields.get("author-time", "0")),
        fields.get("summary", ""),
    )


def explain_line(snap: Snapshot, line: BlamedLine, path: Path) -> dict[str, Any] | None:
    """Return the edit, the request and the words of the session that made a line; None if no session is known.

    Returns:
        `how` (commit: a log names the commit; edit: the last edit of the file before it), `session`, `title`, and the
        ids and texts of `request`, `edit` and `words`, each None where it is missing.
    """
    edits = find_edits(snap, str(path))
    session, how, moment = _find_session(snap, line, edits)
    if session < 0:
        return None
    columns = snap.columns
    own = edits[columns.session[snap.steps.columns.row[edits]] == session]
    own = own[snap.steps.columns.action[own] == EDIT]
    rows = snap.steps.columns.row[own]
    before = rows[(columns.time[rows] <= moment + _SLACK) | (columns.time[rows] == NO_TIME)]
    at = int(before[np.argmax(columns.ord[before])]) if len(before) else _find_last(snap, session, moment)
    (entry,) = snap.text(np.array([at]))
    return {
        "how": how,
        "session": entry["session"],
        "title": entry["title"],
        "edit": _show(snap, at),
        "request": _show(snap, _find_spoken(snap, at, _USER)),
        "words": _show(snap, _find_words(snap, at)),
    }


def _find_session(snap: Snapshot, line: BlamedLine, edits: I64) -> tuple[int, str, int]:
    """Return (session code, how it was found, seconds of the commit); −1 for no session."""
    moment = line.time if line.commit else int(np.iinfo(np.int64).max) - _SLACK
    columns = snap.columns
    if line.commit:
        _, steps = snap.steps.find(hash_keys([("commit", line.commit[:7])]))
        if len(steps):
            row = int(snap.steps.columns.row[steps[0]])
            return int(columns.session[row]), "commit", moment
        _, rows = snap.graph.rows_of(np.array([int(hash_parts("commit", line.commit[:7]), 16)], np.uint64))
        if len(rows):
            first = int(rows[np.argmin(columns.time[rows])])
            return int(columns.session[first]), "commit", moment
    edited = snap.steps.columns.row[edits]
    times = columns.time[edited]
    known = (times != NO_TIME) & (times <= moment + _SLACK)
    if line.commit:
        known &= times >= moment - _WEEK
    edited = edited[known]
    if not len(edited):
        return -1, "", moment
    return int(columns.session[edited[np.argmax(columns.time[edited])]]), "edit", moment


def _find_last(snap: Snapshot, session: int, moment: int) -> int:
    """Return the last row of a session by a moment; its first row where none is that early."""
    columns = snap.columns
    rows = np.flatnonzero(snap.alive & (columns.session == session))
    rows = rows[np.argsort(columns.ord[rows], kind="stable")]
    early = rows[columns.time[rows] <= moment + _SLACK]
    return int(early[-1] if len(early) else rows[0])


_CALL: Final = re.compile(r"(?m)^\[[^\]\n]{1,80}\] .*$")


def _find_words(snap: Snapshot, row: int) -> int:
    """Return the last row up to a row in which the agent says something, not only calls a tool; −1 for none."""
    at = row
    while at >= 0:
        if snap.columns.role[at] == _USER:
            return -1
        if snap.columns.role[at] == _ASSISTANT and _CALL.sub("", snap.text(np.array([at]))[0]["text"]).strip():
            return at
        at = int(snap.columns.previous[at])
    return -1


def _find_spoken(snap: Snapshot, row: int, role: int) -> int:
    """Return the last row of a role before a row in its session; −1 for none."""
    at = int(snap.columns.previous[row])
    while at >= 0 and snap.columns.role[at] != role:
        at = int(snap.columns.previous[at])
    return at


def _show(snap: Snapshot, row: int) -> dict[str, Any] | None:
    if row < 0:
        return None
    (entry,) = snap.text(np.array([row]))
    time = entry["time"].isoformat().replace("+00:00", "Z") if entry["time"] else None
    return {"id": entry["id"], "turns": list(entry["turns"]), "time": time, "text": entry["text"]}
