"""The home of a store: its newest sessions, what holds, what is open, the last week, and questions to try.

All of it is of a snapshot as the caller may see it. Texts are quoted data of the past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np

from helix.recipes.common import format_time, ids
from helix.sdk.answer_cache import AnswerCache
from helix.sdk.browse import describe_sessions, format_seconds, order_sessions, select_project
from helix.sdk.decisions.listing import list_decisions
from helix.sdk.notes import select_everywhere
from helix.sdk.questions import BEST, Suggestion, check_questions, list_suggestions
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.text.cues import STANDING
from helix.types import ROLES, Bool, Bundle, RecallOptions
from helix.util.note_names import NOTES, PINNED
from helix.util.sanitise import sanitise_name
from helix.work.open_ends import list_open
from helix.work.rules import find_note_session, list_rules
from helix.work.sessions import list_last_sessions

RECENT: Final = 12
"""Sessions."""

RULES: Final = 12
HELD: Final = 10
REJECTED: Final = 4
OPEN: Final = 8
DECIDED: Final = 3
"""Decisions of a session."""

OF_WEEK: Final = 10
"""Decisions of a week, and changes."""

LISTED: Final = 60
"""Newest decisions that are read."""

SECONDS: Final = 600
"""Time after which a home is made again, since its week ends now."""

WEEK: Final = timedelta(days=7)

_LOOKED: Final = 4  # times as many sessions are looked at, since branches of one are one
_TEXT: Final = 240  # characters of a quoted text
_ASSISTANT: Final = ROLES.index("assistant")


class Home(NamedTuple):
    """A home, and the questions that it may show."""

    parts: Mapping[str, Any]
    suggestions: Sequence[Suggestion]
    checked: MutableMapping[str, bool]  # by question; see `check_questions`


def answer_home(
    whole: Snapshot,
    asked: RecallOptions,
    homes: AnswerCache[Home],
    recall: Callable[[str, RecallOptions], Bundle],
) -> dict[str, Any]:
    """Return the home of a caller, as every surface shows it.

    Args:
        asked: principal, projects, project and as_of.
        homes: those that were made; this call may add one.
        recall: answers a question of the same options.
    """
    moment = asked.as_of if isinstance(asked.as_of, datetime) else None
    key = repr((whole.name, asked, time.time() // SECONDS))
    home = homes.get(key)
    if home is None:
        snap = whole.seen_by(asked.principal, asked.projects).known_at(moment, None)
        home = make_home(snap, asked.project, moment)
        homes.put(key, home)
    options = replace(asked, k=BEST, budget=0)
    questions = check_questions(home.suggestions, lambda text: recall(text, options), home.checked)
    return {**home.parts, "questions": questions}


def make_home(snap: Snapshot, project: str | None, as_of: datetime | None) -> Home:
    """Make a home.

    Args:
        snap: the caller's view, as of the moment.
        project: the only project; None: all.
        as_of: the moment; None: now.
    """
    moment = as_of or datetime.now(UTC)
    at = int(moment.timestamp())
    rows = select_project(snap, project)
    found = list_decisions(snap, at, project=project, limit=LISTED)
    decisions = [entry for entry in found["decisions"] if _is_decided(snap, entry)]
    recent, first = _list_recent(snap, project, decisions)
    times = snap.columns.time[rows & (snap.columns.time != NO_TIME)]
    parts = {
        "snapshot": snap.generation,
        **_count(snap, rows),
        "first": format_seconds(times.min()) if len(times) else None,
        "last": format_seconds(times.max()) if len(times) else None,
        "project": project,
        "as_of": format_time(as_of),
        "recent": recent,
        "holds": {
            "rules": _list_rules(snap, rows | select_everywhere(snap), at),
            "decisions": decisions[:HELD],
            "rejected": found["rejected"][:REJECTED],
            "more": found["more"] or len(decisions) > HELD or len(found["rejected"]) > REJECTED,
        },
        "open": _list_open_ends(snap, rows),
        "week": _describe_week(snap, rows, decisions, moment),
    }
    titles = [(session["title"] or "", item) for session, item in zip(recent, first, strict=True)]
    return Home(parts, list_suggestions(snap, rows, decisions, titles), {})


def _is_decided(snap: Snapshot, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is a decision, and no report of an agent on what is: "lookup is case-insensitive"."""
    row = snap.find(entry["item"])
    by_agent = row is not None and snap.columns.role[row] == _ASSISTANT
    return not by_agent or entry["type"] == "decision" or any(one["item"] for one in entry["replaced"])


def _count(snap: Snapshot, rows: Bool) -> dict[str, int]:
    """Return the number of items and of sessions of rows."""
    sizes = np.bincount(snap.columns.session[rows], minlength=1)
    return {"items": int(sizes.sum()), "sessions": int(np.count_nonzero(sizes))}


def _list_recent(
    snap: Snapshot, project: str | None, decisions: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the newest sessions, each with what was decided in it, and the id of the first item of each.

    A session and its branches come once.
    """
    notes = [find_note_session(snap, name) for name in (NOTES, PINNED)]
    codes, first = order_sessions(snap, project)
    codes = codes[~np.isin(codes, notes)][: _LOOKED * RECENT]
    sessions = describe_sessions(snap, codes, first[codes])
    chosen = _drop_branches([session["session"] for session in sessions])[:RECENT]
    recent = [
        {
            **{name: value for name, value in sessions[i].items() if name not in ("source", "types")},
            "decided": [
                {"text": entry["text"], "item": entry["item"]}
                for entry in decisions
                if entry["session"] == sessions[i]["session"]
            ][:DECIDED],
        }
        for i in chosen
    ]
    return recent, ids(first[codes[chosen]], snap)


def _drop_branches(names: Sequence[str]) -> list[int]:
    """Return the places of sessions that are no branch of an earlier one, nor the session of such a branch."""
    found: list[int] = []
    for i, name in enumerate(names):
        if not any(name.startswith(f"{names[j]}~") or names[j].startswith(f"{name}~") for j in found):
            found.append(i)
    return found


def _list_rules(snap: Snapshot, rows: Bool, at: int) -> list[dict[str, Any]]:
    pinned = find_note_session(snap, PINNED)
    chosen = list_rules(snap, rows, at)[: 2 * RULES]  # some may say the same
    cues = snap.lexical.cues(chosen)
    found: dict[str, dict[str, Any]] = {}
    for row, cue, entry in zip(chosen.tolist(), cues.tolist(), snap.text(chosen), strict=True):
        text = sanitise_name(entry["text"], _TEXT)
        kind = "pinned" if snap.columns.session[row] == pinned else "rule" if cue & STANDING else "preference"
        rule = {"text": text, **_cite(snap, row, entry), "since": format_seconds(snap.columns.time[row])}
        found.setdefault(text.lower(), {**rule, "by": entry["speaker"] or entry["role"], "kind": kind})
    return [*found.values()][:RULES]


def _list_open_ends(snap: Snapshot, rows: Bool) -> list[dict[str, Any]]:
    notes = np.isin(snap.columns.session, [find_note_session(snap, name) for name in (NOTES, PINNED)])
    found = []
    for kind, text, row in list_open(snap, list_last_sessions(snap, rows & ~notes, RECENT)):
        (entry,) = snap.text(np.array([row]))
        cited = {**_cite(snap, row, entry), "time": format_seconds(snap.columns.time[row])}
        found.append({"kind": kind, "text": sanitise_name(text, _TEXT), **cited})
        if len(found) == OPEN:
            break
    return found


def _cite(snap: Snapshot, row: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"item": entry["id"], "session": entry["session"], "project": entry["project"]}


def _describe_week(
    snap: Snapshot, rows: Bool, decisions: Sequence[Mapping[str, Any]], moment: datetime
) -> dict[str, Any]:
    """Return what happened in the seven days before a moment; if nothing did, in those up to the newest item."""
    times = snap.columns.time
    begin, end = (int(one.timestamp()) for one in (moment - WEEK, moment))
    within = rows & (times > begin) & (times <= end)
    if not within.any():
        known = times[rows & (times != NO_TIME) & (times <= end)]
        if len(known):
            end = int(known.max())
            begin = end - int(WEEK.total_seconds())
            within = rows & (times > begin) & (times <= end)
    since, until = format_seconds(begin), format_seconds(end)
    new = [entry for entry in decisions if entry["since"] and str(since) < entry["since"] <= str(until)]
    names = ("text", "topic", "value", "item", "session", "since")
    return {
        "since": since,
        "until": until,
        **_count(snap, within),
        "decided": [{name: entry[name] for name in names} for entry in new][:OF_WEEK],
        "replaced": [
            {
                "topic": entry["topic"],
                "was": entry["replaced"][0]["value"] or entry["replaced"][0]["text"],
                "now": entry["value"] or entry["text"],
                "item": entry["item"],
                "at": entry["since"],
            }
            for entry in new
            if entry["replaced"]
        ][:OF_WEEK],
    }
