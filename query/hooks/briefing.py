"""The briefing of a starting session: rules, decisions that hold, open ends, commands and the last sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from helix.sdk.notes import select_everywhere
from helix.snapshot.segment.batch import NO_TIME
from helix.stages.pack import CLOSE, OPEN, cite_turns
from helix.stages.supersede import find_superseded
from helix.types import I64, ROLES, Bool
from helix.util.note_names import NOTES, PINNED
from helix.util.sanitise import sanitise_name
from helix.work.commands import list_commands
from helix.work.open_ends import list_open
from helix.work.rules import find_note_session, list_rules
from helix.work.sessions import SessionEnd, list_last_sessions

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

BRIEFING_BUDGET: Final = 1_200
"""Tokens of a briefing."""

SHARES: Final = {"rules": 0.3, "decisions": 0.35, "notes": 0.15, "open": 0.25, "commands": 0.12}
"""Part of the budget that a section may take; the last sessions have the rest."""

SESSIONS: Final = 3
"""Newest sessions that a briefing covers."""

_RULES: Final = 10
_HELD: Final = 12  # decisions
_REJECTED: Final = 4
_COMMANDS: Final = 6
_NOTES: Final = 8  # of agents
_TEXT: Final = 240  # characters of a rule or an open end
_TITLE: Final = 120  # characters
_USER: Final = ROLES.index("user")

_OPEN: Final = {"failed": "still failed", "asked": "not answered", "left": "left"}

Count = Callable[[Sequence[str]], list[int]]


class Line(NamedTuple):
    """A line of a briefing, and the item it quotes."""

    text: str
    item: str = ""


class Briefing(NamedTuple):
    """A briefing as a context, and the ids of the items that it quotes."""

    text: str
    items: tuple[str, ...]


def brief_project(snap: Snapshot, project: str | None, budget: int, at: int | None = None) -> Briefing:
    """Return the briefing of a project within a budget of tokens; empty where nothing is known.

    Args:
        snap: the caller's view.
        project: the only project; None: all.
        at: seconds; None: now.
    """
    moment = int(time.time()) if at is None else at
    rows = snap.alive if project is None else snap.alive & (snap.columns.project == snap.projects.index(project))
    notes = np.isin(snap.columns.session, [find_note_session(snap, name) for name in (NOTES, PINNED)])
    ends = list_last_sessions(snap, rows & ~notes, SESSIONS)
    one = len(np.unique(snap.columns.project[rows & ~notes])) == 1  # lines of decisions and commands name no project
    wider = rows | select_everywhere(snap)
    sections = (
        ("Standing rules and preferences, as the user gave them:", SHARES["rules"], _list_rules(snap, wider, moment)),
        ("Decisions that hold:", SHARES["decisions"], _list_decisions(snap, project, moment) if one else iter(())),
        ("Rejected:", SHARES["decisions"], _list_rejected(snap, project, moment) if one else iter(())),
        ("Notes of agents, not confirmed by the user:", SHARES["notes"], _list_notes(snap, wider, moment)),
        ("Open ends of the last sessions:", SHARES["open"], _list_open(snap, ends)),
        ("Commands that passed here:", SHARES["commands"], _list_commands(snap, rows) if one else iter(())),
        ("Last sessions:", 1.0, _list_sessions(snap, ends)),
    )
    count = snap.counter
    left = budget - sum(count([f"{OPEN}\n", CLOSE]))
    lines, items = list[str](), dict[str, None]()
    for heading, share, found in sections:
        new = (line for line in found if line.item not in items)
        taken = _fit(heading, new, min(left, int(share * budget)), count)
        left -= sum(count([f"{line.text}\n" for line in taken])) if taken else 0
        lines += [line.text for line in taken]
        items |= dict.fromkeys(line.item for line in taken if line.item)
    return Briefing("\n".join([OPEN, *lines, CLOSE]), tuple(items)) if lines else Briefing("", ())


def _fit(heading: str, lines: Iterator[Line], room: int, count: Count) -> list[Line]:
    """Return a heading and the first lines that fit below it; nothing if none does."""
    found = [Line(heading)]
    room -= sum(count([f"{heading}\n"]))
    for line in lines:
        room -= sum(count([f"{line.text}\n"]))
        if room < 0:
            break
        found.append(line)
    return found if len(found) > 1 else []


def _list_rules(snap: Snapshot, rows: Bool, at: int) -> Iterator[Line]:
    """Yield what the user pinned, then standing instructions and preferences; see `list_rules`."""
    said: set[str] = set()
    for entry in snap.text(list_rules(snap, rows, at)[:_RULES]):
        text = sanitise_name(entry["text"], _TEXT)
        if text.lower() not in said:
            said.add(text.lower())
            yield Line(f"- {text} ({_join(_day(entry), entry['speaker'], cite_turns(entry))})", entry["id"])


def _list_notes(snap: Snapshot, rows: Bool, at: int) -> Iterator[Line]:
    """Yield the notes of agents that nothing replaced, pinned ones first, then the newest."""
    pinned, notes = (find_note_session(snap, name) for name in (PINNED, NOTES))
    columns = snap.columns
    own = np.flatnonzero(rows & (columns.role != _USER) & np.isin(columns.session, (pinned, notes)))
    own = own[np.lexsort((-own, -columns.place[own], columns.session[own] != pinned))][:_NOTES]
    replaced = _find_replaced(snap, own, at)
    for row, entry in zip(own.tolist(), snap.text(own), strict=True):
        if row not in replaced:
            yield Line(f"- {sanitise_name(entry['text'], _TEXT)} ({_cite(entry)})", entry["id"])


def _find_replaced(snap: Snapshot, rows: I64, at: int) -> set[int]:
    found = find_superseded(rows.astype(np.uint32), snap, at) if len(rows) else None
    return set(found.rows.tolist()) if found else set()


def _list_decisions(snap: Snapshot, project: str | None, at: int) -> Iterator[Line]:
    from helix.sdk.decisions.lines import format_decision
    from helix.sdk.decisions.listing import list_decisions

    entries = list_decisions(snap, at, project=project, limit=_HELD)["decisions"]
    rows = np.array([snap.find(entry["item"]) for entry in entries], np.int64)
    for entry, said in zip(entries, snap.text(rows), strict=True):
        # The last change of a file is no day from which on something holds.
        undated = not _day(said) and said["time"] and (entry["since"] or "")[:10] == said["time"].date().isoformat()
        dated = {**entry, "since": None} if undated else entry
        yield Line(f"- {format_decision(dated, entry['item'])}", entry["item"])


def _list_rejected(snap: Snapshot, project: str | None, at: int) -> Iterator[Line]:
    from helix.sdk.decisions.lines import format_rejection
    from helix.sdk.decisions.listing import list_decisions

    for entry in list_decisions(snap, at, project=project, limit=_REJECTED)["rejected"]:
        yield Line(f"- {format_rejection(entry, entry['item'])}", entry["item"])


def _list_open(snap: Snapshot, ends: Sequence[SessionEnd]) -> Iterator[Line]:
    """Yield what the last sessions left; see `list_open`."""
    for kind, text, row in list_open(snap, ends):
        (entry,) = snap.text(np.array([row]))
        yield Line(f"- {_OPEN[kind]}: {sanitise_name(text, _TEXT)} ({_cite(entry)})", entry["id"])


def _list_commands(snap: Snapshot, rows: Bool) -> Iterator[Line]:
    """Yield the commands that passed most often, on one line each."""
    for known in list_commands(snap, rows, _COMMANDS):
        (entry,) = snap.text(np.array([known.row]))
        yield Line(f"- `{sanitise_name(known.line)}` ({known.times} times, {cite_turns(entry)})", entry["id"])


def _list_sessions(snap: Snapshot, ends: Sequence[SessionEnd]) -> Iterator[Line]:
    for end in ends:
        (entry,) = snap.text(np.array([end.first]))
        files = f"edited {', '.join(map(sanitise_name, end.files))}" if end.files else ""
        tests = f"tests {end.tests} at last" if end.tests else ""
        about = "; ".join(filter(None, (files, tests)))
        title = _title(entry)
        last = _day(entry) and _tell_day(int(snap.columns.time[end.last]))
        yield Line(f"- {_join(last, title)}{f': {about}' if about else ''} ({cite_turns(entry)})", entry["id"])


def _title(entry: dict[str, Any]) -> str:
    """Return the title of a session, else how its first item begins."""
    return sanitise_name(entry["title"] or "", _TITLE) or f"“{sanitise_name(entry['text'], _TITLE)}”"


def _tell_day(seconds: int) -> str:
    return "" if seconds == NO_TIME else str(np.datetime64(seconds, "s"))[:10]


def _day(entry: dict[str, Any]) -> str:
    return entry["time"].date().isoformat() if entry["time"] and entry["time_quality"] != "file" else ""


def _cite(entry: dict[str, Any]) -> str:
    return _join(_day(entry), cite_turns(entry))


def _join(*parts: str | None) -> str:
    return ", ".join(sanitise_name(part) for part in parts if part)
