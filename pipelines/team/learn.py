"""Learning: what a team knows becomes items of a store, and what it no longer knows is forgotten there.

An entry is one document of the inbox, and its body follows from the entry alone. So whether a store has learned it is
read off the inbox, and a killed pull continues where it was. An entry that replaces others corrects their items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from helix.errors import UsageError
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger.inbox import (
    Envelope,
    accept_envelope,
    is_forgotten,
    list_accepted,
    list_pending,
    name_document,
    sync_inbox,
)
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.switches.project_line import find_line
from helix.switches.scope import make_scope, matches
from helix.switches.state import is_open, read_switches
from helix.util.failpoints import failpoint
from helix.util.note_names import TEAM, TEAM_SESSIONS
from pipelines.embedded.ingest import finish
from pipelines.ingest.accept_all import IngestReport
from pipelines.maintain.deletion_plan import Selection
from pipelines.maintain.forget import Say, forget, resume
from pipelines.team.entry import TeamEntry
from pipelines.team.fold import TeamState
from pipelines.team.place import TeamPlace


@dataclass(slots=True)
class LearnReport:
    """The outcome of a pull."""

    learned: list[str] = field(default_factory=list)  # entries, ascending
    own: int = 0  # entries whose item this store has already
    dropped: list[str] = field(default_factory=list)  # entries that the store forgot
    receipt: dict[str, Any] | None = None  # of that
    snapshot: int = 0
    refused: list[dict[str, str]] = field(default_factory=list)
    redacted: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # by step


@dataclass(frozen=True, slots=True)
class _Lesson:
    """An entry as a document of a store."""

    entry: str
    document: str
    body: str
    redacted: Mapping[str, int]


def learn_state(
    root: Path, place: TeamPlace, state: TeamState, commit: str, settings: Settings, say: Say | None = None
) -> LearnReport:
    """Add the entries that a team knows to a store, publish them, and forget those that it knows no longer.

    Args:
        commit: of the log, for the provenance of new items.

    Raises:
        UsageError: Helix is switched off for the project.
        StoreError: the store cannot be written or read.
    """
    refuse_switched_off(root, place)
    paths.create_folders(root)
    resume(root, settings, say)  # of an earlier pull that was killed
    report = LearnReport()
    accepted = set(list_accepted(root))
    lessons = [_make_lesson(key, state, place) for key, one in state.entries.items() if one.kind in TEAM_SESSIONS]
    snap = _open(root)
    gone = [one for one in lessons if one.entry not in state.known_entries and one.document in accepted]
    new = []
    for lesson in lessons:
        if lesson.entry not in state.known_entries or lesson.document in accepted:
            continue
        if snap is not None and _has_item(snap, state.entries[lesson.entry].item):
            report.own += 1
            continue
        new.append(lesson)
    _accept(root, new, commit, state, report)
    failpoint("team.accepted")
    if new or list_pending(root):
        ingest = IngestReport()
        finish(root, settings, ingest, say=say)
        report.refused = ingest.refused
        report.snapshot = ingest.snapshot
    failpoint("team.learned")
    _forget_gone(root, gone, settings, report, say)
    return report


def refuse_switched_off(root: Path, place: TeamPlace) -> None:
    """Refuse a project for which Helix is switched off.

    Raises:
        UsageError: it is.
        StoreError: the switches are damaged.
    """
    scope = make_scope([place.folder], projects=[place.project], remotes=[place.address])
    if any(is_open(switch) and matches(switch, scope) for switch in read_switches(root)):
        raise UsageError(f"Helix is off for {place.project}", "run 'helix on' in its folder")
    if place.folder and (line := find_line(place.folder)):
        raise UsageError(f"Helix is off for {place.project}: {line} says so", "remove the line 'helix: off'")


def _open(root: Path) -> Snapshot | None:
    """Open the store; None for one without a generation."""
    return Snapshot.open(root) if (root / "CURRENT").exists() else None


def _has_item(snap: Snapshot, item: str) -> bool:
    return bool(item) and snap.row_map.find(item) is not None


def _make_lesson(key: str, state: TeamState, place: TeamPlace) -> _Lesson:
    """Return an entry as a document; it follows from the entry, those it replaces, and the clone's repository."""
    entry = state.entries[key]
    text, redacted = redact(entry.text)
    about = f": {entry.topic}" if entry.topic else ""
    body = {
        "id": key,
        "kind": entry.kind,
        "text": text,
        "ts": entry.said,
        "author": state.name_signer(entry),
        "title": f"{entry.kind} of the team {state.entries[state.root].name}{about}",
        "replaces": list(_list_replaced_items(entry, state)),
        **_name_place(entry, place),
    }
    raw = orjson.dumps(body).decode()
    return _Lesson(key, name_document(raw, TEAM, None, ()), raw, dict(redacted))


def _name_place(entry: TeamEntry, place: TeamPlace) -> dict[str, str]:
    """Return the repository, which names the project as its logs do; its folder where it has no address."""
    if place.address:
        return {"remote": place.address}
    return {"folder": place.folder} if place.folder else {"project": entry.project}


def _list_replaced_items(entry: TeamEntry, state: TeamState) -> Iterator[str]:
    """Yield the items of the entries that an entry replaces: in stores that learned them, and in their publisher's."""
    for old in entry.replaces:
        yield hash_parts(TEAM, old, "0")
        if old in state.entries and state.entries[old].item:
            yield state.entries[old].item


def _accept(root: Path, lessons: Sequence[_Lesson], commit: str, state: TeamState, report: LearnReport) -> None:
    """Accept some entries, durably."""
    now = datetime.now(UTC)
    ordered = sorted(lessons, key=lambda lesson: (state.entries[lesson.entry].said, lesson.entry))
    for number, lesson in enumerate(ordered):
        where = f"team/{state.entries[state.root].name}/{commit[:12]}/{state.entries[lesson.entry].path}"
        latest = now - timedelta(seconds=len(ordered) - number)  # of the item, whatever time the entry claims
        envelope = Envelope(lesson.document, where, lesson.body, TEAM, None, (), latest, now, lesson.redacted, ())
        accept_envelope(root, envelope, settle=False)
        failpoint("team.envelope")
        report.learned.append(lesson.entry)
        for kind, count in lesson.redacted.items():
            report.redacted[kind] = report.redacted.get(kind, 0) + count
    sync_inbox(root)


def _forget_gone(root: Path, gone: Sequence[_Lesson], settings: Settings, report: LearnReport, say: Say | None) -> None:
    """Forget the items of entries that the team knows no longer; a document that was forgotten stays so."""
    left = [lesson for lesson in gone if not is_forgotten(root, lesson.document)]
    if not left:
        return
    snap = Snapshot.open(root)
    items = [item for lesson in left for item in _list_items(snap, lesson.entry)]
    if items:
        report.receipt = forget(root, Selection(tuple(items)), settings, say)
        report.snapshot = int(report.receipt.get("snapshot", 0))
    report.dropped = [lesson.entry for lesson in left]


def _list_items(snap: Snapshot, entry: str) -> list[str]:
    """Return the ids of an entry's live items: the pieces of its text."""
    found: list[str] = []
    while snap.row_map.find(item := hash_parts(TEAM, entry, str(len(found)))) is not None:
        found.append(item)
    return found
