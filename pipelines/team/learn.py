"""Learning: what a team knows becomes items of a store, and what it no longer knows is forgotten there.

The items of an entry have ids that follow from the entry's. So whether a store has learned it is read off its items,
and a killed pull continues where it was. The new entries of a pull are one document, so that each costs little more
than its vector. An entry that replaces others corrects their items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from helix.errors import UsageError
from helix.redact.redact import redact
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger.inbox import (
    Envelope,
    accept_envelope,
    list_pending,
    load_current,
    name_document,
    revive_document,
)
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.open import map_forgotten_keys
from helix.switches.project_line import find_line
from helix.switches.scope import make_scope, matches
from helix.switches.state import is_open, read_switches
from helix.util.failpoints import failpoint
from helix.util.note_names import TEAM
from pipelines.team.entry import TeamEntry
from pipelines.team.fold import TeamState
from pipelines.team.place import TeamPlace

Say = Callable[[str], None]

MOST: Final = 500
"""Entries of one document."""


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
    _resume(root, settings, say)
    report = LearnReport()
    if list_pending(root):
        _publish(root, settings, report, say)
    snap = _open(root)
    learned = {key for key in state.entries if snap is not None and _has_item(snap, make_item(key))}
    new = _choose_new(root, snap, state, learned, report)
    for start in range(0, len(new), MOST):
        _accept(root, place, new[start : start + MOST], commit, state, report)
    failpoint("team.accepted")
    if new:
        _publish(root, settings, report, say)
    failpoint("team.learned")
    gone = sorted(key for key in learned if key not in state.known_entries)
    if gone and snap is not None:
        from pipelines.maintain.deletion_plan import Selection
        from pipelines.maintain.forget import forget

        items = tuple(item for key in gone for item in _list_items(snap, key))
        report.receipt = forget(root, Selection(items), settings, say)
        report.dropped, report.snapshot = gone, int(report.receipt.get("snapshot", 0))
    return report


def make_item(entry: str, piece: int = 0) -> str:
    """Return the id of the item of an entry, or of a piece of a long one."""
    return hash_parts(TEAM, entry, str(piece))


def _resume(root: Path, settings: Settings, say: Say | None) -> None:
    """Finish the deletion of an earlier pull that was killed."""
    if any((root / "purges").glob("*.json")):
        from pipelines.maintain.forget import resume

        resume(root, settings, say)


def _publish(root: Path, settings: Settings, report: LearnReport, say: Say | None) -> None:
    """Enrich and publish the accepted documents. Its imports take longer than a pull that finds nothing new."""
    from pipelines.embedded.ingest import finish
    from pipelines.ingest.accept_all import IngestReport

    ingest = IngestReport()
    finish(root, settings, ingest, say=say)
    report.refused += ingest.refused
    report.snapshot = ingest.snapshot


def _choose_new(
    root: Path, snap: Snapshot | None, state: TeamState, learned: Set[str], report: LearnReport
) -> list[str]:
    """Return the entries to learn, the oldest first: not those of this store's own items, nor what it forgot."""
    manifest = load_current(root)[1]
    forgotten = {f"{key:016x}" for key in map_forgotten_keys(root, manifest).tolist()}
    new: list[str] = []
    for key, entry in state.known_entries.items():
        if key in learned or make_item(key) in forgotten:
            continue
        if entry.item in forgotten or (snap is not None and _has_item(snap, entry.item)):
            report.own += 1
        else:
            new.append(key)
    return sorted(new, key=lambda key: (state.entries[key].said, key))


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


def _name_place(entry: TeamEntry, place: TeamPlace) -> dict[str, str]:
    """Return the repository, which names the project as its logs do; its folder where it has no address."""
    if place.address:
        return {"remote": place.address}
    return {"folder": place.folder} if place.folder else {"project": entry.project}


def _list_replaced_items(entry: TeamEntry, state: TeamState) -> Iterator[str]:
    """Yield the items of the entries that an entry replaces: in stores that learned them, and in their publisher's."""
    for old in entry.replaces:
        yield make_item(old)
        if old in state.entries and state.entries[old].item:
            yield state.entries[old].item


def _accept(
    root: Path, place: TeamPlace, keys: Sequence[str], commit: str, state: TeamState, report: LearnReport
) -> None:
    """Accept some entries as one document, durably."""
    redacted: Counter[str] = Counter()
    body = orjson.dumps({"entries": [_describe(key, state, place, redacted) for key in keys]}).decode()
    document, now = name_document(body, TEAM, None, ()), datetime.now(UTC)
    where = f"team/{state.entries[state.root].name}/{commit[:12]}"
    accept_envelope(root, Envelope(document, where, body, TEAM, None, (), now, now, dict(redacted), ()))
    revive_document(root, document)  # given up, or set aside by a rollback
    failpoint("team.envelope")
    report.learned += keys
    report.redacted = dict(Counter(report.redacted) + redacted)


def _describe(key: str, state: TeamState, place: TeamPlace, redacted: Counter[str]) -> dict[str, Any]:
    """Return an entry as a record of a document; count redactions in `redacted`."""
    entry = state.entries[key]
    text, found = redact(entry.text)
    redacted.update(found)
    about = f": {entry.topic}" if entry.topic else ""
    return {
        "id": key,
        "kind": entry.kind,
        "text": text,
        "ts": entry.said,
        "author": state.name_signer(entry),
        "title": f"{entry.kind} of the team {state.entries[state.root].name}{about}",
        "replaces": list(_list_replaced_items(entry, state)),
        **_name_place(entry, place),
    }


def _list_items(snap: Snapshot, entry: str) -> list[str]:
    """Return the ids of an entry's live items: the pieces of its text."""
    found: list[str] = []
    while _has_item(snap, item := make_item(entry, len(found))):
        found.append(item)
    return found
