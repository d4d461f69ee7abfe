"""Notes of an export: a session, the decisions of a project, an entity, and the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from helix.sdk.decisions.lines import format_decision, format_past, format_rejection
from helix.sources.common.quoted_text import has_unsafe, quote_text
from helix.sources.vault import DATA
from helix.types import Turn
from helix.util.sanitise import sanitise_name
from pipelines.export.front_matter import write_front_matter
from pipelines.export.note_names import write_link, write_words
from pipelines.export.turns import ExportedSession, ExportedTurn

INDEX: Final = "Helix index"

_CALLOUTS: Final = {
    "user": "[!quote]",
    "assistant": "[!note]",
    "tool": "[!example]-",
    "system": "[!info]-",
    "document": "[!abstract]",
}
"""Callout of each role; a dash folds it."""

_MOST_PARTICIPANTS: Final = 20


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """A note of a session, as lists name it."""

    name: str  # of the file, without folder and suffix
    title: str
    day: str  # ISO 8601; empty: undated
    project: str
    turns: int
    anchors: Mapping[str, int]  # number of the turn by item id, of its decisions


def describe_session(found: ExportedSession, name: str) -> NoteEntry:
    """Return what lists say of a session."""
    days = [entry.turn.time.date().isoformat() for entry in found.turns if _is_dated(entry.turn) and entry.turn.time]
    numbers = {item: number for number, entry in enumerate(found.turns, 1) for item in entry.items}
    return NoteEntry(name, find_title(found), min(days, default=""), found.turns[0].project, len(found.turns), numbers)


def find_title(found: ExportedSession) -> str:
    """Return the title of a session, else its first words."""
    return sanitise_name(found.session.title or found.turns[0].turn.text[:300], 80) or found.session.id


def write_session(found: ExportedSession, entry: NoteEntry, mentions: Sequence[tuple[str, str]], decisions: str) -> str:
    """Return the note of a session.

    Args:
        mentions: note and name of each entity that has a note.
        decisions: note of its project's decisions; empty for none.
    """
    speakers = dict.fromkeys(sanitise_name(each.turn.speaker) for each in found.turns if each.turn.speaker)
    front = write_front_matter(
        {
            "helix": "session",
            "id": found.session.id,
            "title": entry.title,
            "project": entry.project,
            "date": entry.day or None,
            "source": found.session.source,
            "participants": [*speakers][:_MOST_PARTICIPANTS],
            "tags": ["helix", *(["helix/decision"] if any("decision" in each.types for each in found.turns) else [])],
        }
    )
    links = " · ".join([write_link(INDEX, "index"), *([write_link(decisions, "decisions")] if decisions else [])])
    parts = [front, f"# {write_words(entry.title)}", "", links, ""]
    for number, each in enumerate(found.turns, 1):
        parts += [f"> {_CALLOUTS[each.turn.role]} {write_words(_write_head(each))}", quote_text(each.turn.text), ""]
        parts += [f"^t{number}", ""]
    if mentions:
        parts += ["## Mentions", "", " · ".join(write_link(note, name) for note, name in mentions), ""]
    return "\n".join([*parts, *_write_data(found), ""])


def _write_head(entry: ExportedTurn) -> str:
    """Return who spoke and when, and what kind of memory it is."""
    turn = entry.turn
    kinds = [kind for kind in dict.fromkeys(entry.types) if kind not in ("episodic", "code")]
    who = turn.title if turn.role == "document" and turn.title else turn.speaker or turn.role
    return " · ".join([sanitise_name(who), write_time(turn), *kinds])


def write_time(turn: Turn) -> str:
    """Return when a turn was said, or that nothing tells."""
    if turn.time and _is_dated(turn):
        return f"{turn.time:%Y-%m-%d %H:%M}"
    return f"undated, in a file of {turn.time:%Y-%m-%d}" if turn.time else "undated"


def _is_dated(turn: Turn) -> bool:
    return turn.time_quality in ("exact", "derived")


def _write_data(found: ExportedSession) -> list[str]:
    """Return the folded block that `helix ingest` reads: the turns without their texts."""
    lines = ["> [!info]- Data for helix ingest", DATA]
    for record in found.write_records():
        kept = record if has_unsafe(record["text"]) else {**record, "text": None}
        lines.append("> " + orjson.dumps({name: one for name, one in kept.items() if one is not None}).decode())
    return [*lines, "> ```"]


def write_decisions(project: str, answer: Mapping[str, Any], notes: Mapping[str, NoteEntry]) -> str:
    """Return the note of a project's decisions.

    Args:
        answer: of `helix.sdk.decisions.listing.answer_decisions`.
        notes: of sessions, by item id.
    """
    front = write_front_matter(
        {
            "helix": "decisions",
            "project": project,
            "tags": ["helix", "helix/decisions"],
            "title": f"Decisions: {project}",
        }
    )
    parts = [front, f"# Decisions: {write_words(project)}", "", write_link(INDEX, "index"), ""]
    for entry in answer["decisions"]:
        parts.append(f"- {write_words(format_decision(entry, is_whole=True))}{_cite(entry, notes)}")
        parts += [f"  - before: {write_words(format_past(one))}" for one in entry["replaced"]]
    if answer["rejected"]:
        parts += ["", "## Rejected", ""]
        parts += [f"- {write_words(format_rejection(entry))}{_cite(entry, notes)}" for entry in answer["rejected"]]
    return "\n".join([*parts, ""])


def _cite(entry: Mapping[str, Any], notes: Mapping[str, NoteEntry]) -> str:
    note = notes.get(entry["item"])
    if note is None:
        return ""
    number = note.anchors[entry["item"]]
    return f" {write_link(f'{note.name}#^t{number}', note.title)}"


def write_entity(name: str, kind: str, entries: Iterable[NoteEntry], more: int) -> str:
    """Return the note of an entity: the sessions that name it.

    Args:
        more: sessions that are left out.
    """
    front = write_front_matter({"helix": "entity", "title": name, "kind": kind, "tags": ["helix", "helix/entity"]})
    parts = [front, f"# {write_words(name)}", "", f"{write_words(kind)} · {write_link(INDEX, 'index')}", ""]
    parts += [_list_session(entry) for entry in entries]
    return "\n".join([*parts, *([f"- and {more:,} more sessions"] if more else []), ""])


def write_index(entries: Sequence[NoteEntry], decisions: Mapping[str, str]) -> str:
    """Return the index: the sessions of each project, the newest first, undated ones last.

    Args:
        decisions: note of the decisions of each project that has one.
    """
    parts = [write_front_matter({"helix": "index", "title": INDEX, "tags": ["helix"]}), f"# {INDEX}", ""]
    by_project = dict[str, list[NoteEntry]]()
    for entry in entries:
        by_project.setdefault(entry.project, []).append(entry)
    for project in sorted(by_project):
        parts += [f"## {write_words(project)}", ""]
        if project in decisions:
            parts += [write_link(decisions[project], f"Decisions: {project}"), ""]
        parts += [_list_session(entry) for entry in sorted(by_project[project], key=_sort_key, reverse=True)]
        parts.append("")
    return "\n".join(parts)


def _sort_key(entry: NoteEntry) -> tuple[str, str]:
    return entry.day, entry.name


def _list_session(entry: NoteEntry) -> str:
    return f"- {entry.day or 'undated'} {write_link(entry.name, entry.title)}"
