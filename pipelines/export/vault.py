"""A store as a folder of Markdown notes, as Obsidian reads it: sessions, decisions, entities and an index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.sdk.decisions.listing import answer_decisions
from helix.settings import Settings
from helix.snapshot.segment.batch import hash_parts
from helix.types import I64
from pipelines.export.mentions import Mentions, find_mentions
from pipelines.export.note_names import NameBook, make_file_name
from pipelines.export.notes import (
    INDEX,
    NoteEntry,
    describe_session,
    find_title,
    write_decisions,
    write_entity,
    write_index,
    write_session,
)
from pipelines.export.notes_folder import check_folder, replace_notes
from pipelines.export.selection import ExportSelection
from pipelines.export.target import open_folder
from pipelines.export.turns import ExportCounts, ExportedSession, read_sessions

_DECISIONS: Final = 500
"""Entries of a project's decisions."""

_SESSIONS: Final = 200
"""Sessions that the note of an entity lists."""

_KEY_DIGITS: Final = 8


def write_vault(
    selection: ExportSelection, target: Path, settings: Settings, force: bool, observe: Callable[[int], None]
) -> dict[str, Any]:
    """Write the notes of the chosen items; in a folder of an earlier export, replace its notes and no others.

    Args:
        force: replace notes of the earlier export that were edited since.

    Raises:
        UsageError: the target is no folder of an export, and not empty; it cannot be written.
        StoreError: the store is damaged, or the disk is full.
    """
    check_folder(target)
    with open_folder(selection.root, target) as made:
        writer = _VaultWriter(selection, made)
        for found in read_sessions(selection, settings, str(made.with_name("spill"))):
            writer.add_session(found)
            observe(writer.counts.turns)
        notes = writer.finish()
        kept = replace_notes(made, target, force)
    return {"file": str(target), **writer.counts.describe(), "notes": notes, "kept": kept}


class _VaultWriter:
    """Writes notes into a new folder. It holds what lists need of a session, never its turns."""

    def __init__(self, selection: ExportSelection, folder: Path) -> None:
        self.selection, self.folder, self.counts = selection, folder, ExportCounts()
        self.names, self.entries = NameBook(), dict[int, NoteEntry]()
        self.mentions: Mentions = find_mentions(selection)
        self.entity_notes = {
            entity: self.names.take("", f"{make_file_name(name)} ({make_file_name(kind)})")
            for entity, (kind, name) in self.mentions.names.items()
        }
        self.answers = self._list_decisions()
        cited = (
            entry["item"] for answer in self.answers.values() for entries in _get_lists(answer) for entry in entries
        )
        self.cited = dict[str, NoteEntry | None].fromkeys(cited)
        self.decisions = {
            project: self.names.take("", f"Decisions of {make_file_name(project)}") for project in self.answers
        }
        self.written = 0

    def _list_decisions(self) -> dict[str, dict[str, Any]]:
        """Return the decisions of each project that has any among the chosen items."""
        snap, answers = self.selection.snap, dict[str, dict[str, Any]]()
        codes = np.unique(snap.columns.project[self.selection.chosen]).tolist()
        for project in sorted(snap.projects[code] for code in codes if code >= 0):
            answer = answer_decisions(snap, project, None, history=True, limit=_DECISIONS)
            for name in ("decisions", "rejected"):
                answer[name] = [entry for entry in answer[name] if self._is_chosen(entry["item"])]
            if any(_get_lists(answer)):
                answers[project] = answer
        return answers

    def _is_chosen(self, item: str) -> bool:
        row = self.selection.snap.row_map.find(item)
        return row is not None and bool(self.selection.chosen[row])

    def add_session(self, found: ExportedSession) -> None:
        """Write the note of a session."""
        row = self.selection.snap.row_map.find(found.turns[0].items[0])
        code = int(self.selection.snap.columns.session[row])
        key = hash_parts(found.session.source, found.session.id)[:_KEY_DIGITS]
        first = describe_session(found, "")
        title = make_file_name(find_title(found))
        folder = f"sessions/{make_file_name(first.project)}"
        name = self.names.take(folder, " ".join(filter(None, (first.day, title, key))))
        entry = describe_session(found, name)
        cited = {item: number for item, number in entry.anchors.items() if item in self.cited}
        entry = NoteEntry(name, entry.title, entry.day, entry.project, entry.turns, cited)
        self.entries[code] = entry
        self.cited.update(dict.fromkeys(cited, entry))
        named = [(self.entity_notes[one], self.mentions.names[one][1]) for one in self.mentions.list_of_session(code)]
        self._write(f"{folder}/{name}", write_session(found, entry, named, self.decisions.get(entry.project, "")))
        self.counts.add(found)

    def finish(self) -> int:
        """Write the notes that list sessions; return the number of all notes."""
        notes = {item: entry for item, entry in self.cited.items() if entry is not None}
        for project, answer in self.answers.items():
            self._write(f"decisions/{self.decisions[project]}", write_decisions(project, answer, notes))
        for entity, note in self.entity_notes.items():
            kind, name = self.mentions.names[entity]
            codes: I64 = self.mentions.list_sessions(entity)
            listed = [self.entries[code] for code in codes.tolist() if code in self.entries]
            listed.sort(key=lambda entry: (entry.day, entry.name), reverse=True)
            text = write_entity(name, kind, listed[:_SESSIONS], max(0, len(listed) - _SESSIONS))
            self._write(f"entities/{note}", text)
        self._write(INDEX, write_index([*self.entries.values()], self.decisions))
        return self.written

    def _write(self, name: str, text: str) -> None:
        path = self.folder / f"{name}.md"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "replace"))
        path.chmod(0o600)
        self.written += 1


def _get_lists(answer: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return answer["decisions"], answer["rejected"]
