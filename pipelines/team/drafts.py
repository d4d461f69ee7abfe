"""Drafts: items of a store that its owner may publish, and the entries that they would be.

Of itself a publication offers what the owner said in one project: decisions that hold, and rules. Anything else needs
the owner's word: the id of the item. That are notes, items with an ACL, and what others said.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.errors import UsageError
from helix.redact.redact import redact
from helix.sdk.notes import cut_note
from helix.text.cues import STANDING
from helix.types import I64, ROLES, TYPES
from helix.util.note_names import NOTES, PINNED, TEAM_SESSIONS
from helix.util.sanitise import sanitise_name, sanitise_text
from helix.work.rules import find_note_session, list_rules
from pipelines.team.entry import LEARNED, TeamEntry, format_said, parse_said, sign_entry
from pipelines.team.fold import TeamState
from pipelines.team.keys import SigningKey
from pipelines.team.place import TeamPlace

if TYPE_CHECKING:
    from helix.sdk.memory import Memory
    from helix.snapshot.reader.snapshot import Snapshot

MOST: Final = 500
"""Decisions of a store that are read, the newest."""

SURE: Final = 0.8
"""Least certainty of a decision that is offered of itself."""

_LABEL: Final = 120  # characters of a topic
_HOME: Final = re.compile(r"(?<![\w/])(?:[A-Za-z]:)?/(?:home|Users|export/home)/[^/\s:*?\"'<>|]+(?=[/\s]|\Z)")


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """An entry that may be published; it is signed when it is."""

    entry: TeamEntry
    by: str  # speaker or role
    warnings: tuple[str, ...]  # what the owner should look at
    changed: tuple[str, ...] = ()  # items that it replaces in the store


def list_drafts(memory: Memory, place: TeamPlace, state: TeamState, chosen: Sequence[str] = ()) -> list[EntryDraft]:
    """List what may be published and is not yet, the oldest first.

    Args:
        chosen: ids of items: only these.

    Raises:
        UsageError: an item of `chosen` is missing.
    """
    wanted = [*(chosen or place.items)]
    found: dict[str, EntryDraft] = {}
    for one in wanted:
        draft = _draft_named(memory, one, place, required=bool(chosen))
        if draft:
            found[draft.entry.item] = draft
    for draft in () if chosen else _draft_own(memory, place):
        if draft.entry.item not in place.never:
            found.setdefault(draft.entry.item, draft)
    known = _Known(state)
    drafts = [known.link(draft) for draft in found.values() if not known.has(draft.entry)]
    return sorted(drafts, key=lambda draft: (draft.entry.said, draft.entry.item))


def sign_draft(draft: EntryDraft, root: str, signer: str, key: SigningKey) -> TeamEntry:
    """Return the signed entry of a draft."""
    return sign_entry(replace(draft.entry, team=root, signer=signer), key)


# ---------------------------------------------------------------- the store


def _draft_own(memory: Memory, place: TeamPlace) -> Iterator[EntryDraft]:
    """Yield the owner's decisions that hold and rules of the project, without those that an ACL hides."""
    snap = memory.snapshot.seen_by(None)
    project = _find_project(snap, place)
    if project is None:
        return
    rows = snap.alive & (snap.columns.project == snap.projects.index(project))
    rules = list_rules(snap, rows, int(time.time()))
    orders = rules[(snap.lexical.cues(rules) & STANDING) > 0]
    pinned = rules[~np.isin(rules, orders)]
    seen: set[str] = set()
    for draft in chain(
        _draft_rules(snap, orders, place), _draft_decisions(memory, project, place), _draft_rules(snap, pinned, place)
    ):
        if draft.entry.item not in seen and draft.entry.kind in place.kinds:
            yield draft
        seen.add(draft.entry.item)


def _draft_rules(snap: Snapshot, rows: I64, place: TeamPlace) -> Iterator[EntryDraft]:
    for row, item in _read_rows(snap, rows.tolist()):
        if _is_offered(snap, row, place):
            yield _make_draft("rule", item["text"], item, place)


def _draft_decisions(memory: Memory, project: str, place: TeamPlace) -> Iterator[EntryDraft]:
    snap = memory.snapshot.seen_by(None)
    for entry in memory.decisions(project, limit=MOST)["decisions"]:
        row = snap.find(entry["item"])
        answered = entry["answers"]["by"] if entry["answers"] else "user"
        if row is None or answered not in ("user", "assistant", *place.me):
            continue
        if entry["certainty"] >= SURE and _is_offered(snap, row, place):
            yield _make_decision(entry, place)


def _is_offered(snap: Snapshot, row: int, place: TeamPlace) -> bool:
    """Return whether an item may be offered without its owner's word: not a note, unless it is pinned."""
    return _is_own(snap, row, place) and int(snap.columns.session[row]) != find_note_session(snap, NOTES)


def _draft_named(memory: Memory, name: str, place: TeamPlace, required: bool) -> EntryDraft | None:
    """Return the draft of an item that the owner named; of a list, a forgotten one is left out."""
    snap = memory.snapshot  # its owner sees every item
    row = snap.find(name)
    if row is None or _is_of_team(snap, row):
        if required and row is None:
            raise UsageError(
                f"no live item is {name[:80]!r}", "take an id from 'helix recall', or a place such as s1#t2"
            )
        if required:
            raise UsageError(f"{name[:80]} is an entry of a team already", "name an item of your own")
        return None
    ((_, item),) = _read_rows(snap, [row])
    warnings = []
    if item["acl"]:
        warnings.append(f"an ACL shows it only to {', '.join(map(sanitise_name, item['acl']))}")
    if not _is_own(snap, row, place):
        warnings.append(f"said by {item['by']}, not by you")
    return _make_draft(_choose_kind(snap, row, item), item["text"], item, place, warnings)


def _choose_kind(snap: Snapshot, row: int, item: dict[str, Any]) -> str:
    """Return the kind of an item that the owner named."""
    rules = set(list_rules(snap, snap.alive, int(time.time())).tolist())
    is_order = row in rules and bool(snap.lexical.cues(np.array([row], np.int64))[0] & STANDING)
    if is_order or item["type"] != "decision":
        return "rule" if row in rules else "note"
    return "decision"


def _is_of_team(snap: Snapshot, row: int) -> bool:
    codes = [find_note_session(snap, name) for name in TEAM_SESSIONS.values()]
    return int(snap.columns.session[row]) in codes


def _is_own(snap: Snapshot, row: int, place: TeamPlace) -> bool:
    """Return whether the store's owner said an item: in a log, under a name of the owner's, or in a note."""
    columns = snap.columns
    if ROLES[columns.role[row]] != "user" or _is_of_team(snap, row):
        return False
    if int(columns.session[row]) in [find_note_session(snap, name) for name in (NOTES, PINNED)]:
        return True
    speaker = int(columns.speaker[row])
    return speaker < 0 or snap.speakers[speaker] in place.me


def _read_rows(snap: Snapshot, rows: Sequence[int]) -> list[tuple[int, dict[str, Any]]]:
    """Return rows with their items as they are stored."""
    out = []
    for row, entry in zip(rows, snap.text(np.array(rows, np.int64)) if rows else [], strict=True):
        given = {"by": entry["speaker"] or entry["role"], "type": TYPES[snap.columns.type[row]]}
        out.append((row, {**entry, **given, "acl": snap.catalog.list_readers(row)}))
    return out


def _find_project(snap: Snapshot, place: TeamPlace) -> str | None:
    """Return the project of the clone as the store names it; None if the store has no item of it."""
    from helix.util.workspaces import Workspace

    if place.project in snap.projects:
        return place.project
    return snap.catalog.locate_project([Workspace(place.folder, place.folder, place.address)])


# ---------------------------------------------------------------- entries


def _make_decision(entry: dict[str, Any], place: TeamPlace) -> EntryDraft:
    """Return the draft of an entry of `helix decisions`."""
    text = entry["text"]
    if entry["answers"]:
        text = f"{entry['answers']['text']}\n\n{text}"
    time_said = datetime.fromisoformat(entry["since"]) if entry["since"] else None
    item = {"id": entry["item"], "time": time_said, "by": entry["by"]}
    warnings = [f"quotes what {entry['answers']['by']} said"] if entry["answers"] else []
    draft = _make_draft("decision", text, item, place, warnings, entry["topic"] or "")
    return replace(draft, changed=tuple(one["item"] for one in entry["replaced"] if one["item"]))


def _make_draft(
    kind: str, text: str, item: dict[str, Any], place: TeamPlace, warnings: Sequence[str] = (), topic: str = ""
) -> EntryDraft:
    clean, counts = redact(cut_note(text))
    shown = _HOME.sub("~", clean)
    found = [*warnings, *(f"{n} {name} redacted" for name, n in counts.items())]
    found += ["the path of a home folder is shortened"] if shown != clean else []
    found += ["a secret was here when it was said"] if "[REDACTED:" in text and not counts else []
    found += ["only its beginning"] if len(text.strip()) > len(cut_note(text)) else []
    said = item["time"] or datetime.now(UTC)
    entry = TeamEntry(
        kind,
        project=sanitise_name(place.project, _LABEL),
        topic=sanitise_name(redact(topic)[0], _LABEL),
        said=format_said(said),
        item=item["id"],
        text=sanitise_text(shown).strip(),
    )
    return EntryDraft(entry, item["by"], tuple(found))


class _Known:
    """The entries of a team, by what they say."""

    def __init__(self, state: TeamState) -> None:
        self._state = state
        content = [one for one in state.accepted.values() if one.kind in LEARNED]
        self._items = {(one.kind, one.item) for one in content if one.item}
        self._texts = {_get_content(one) for key, one in state.known_entries.items() if one.kind in LEARNED}
        self._by_item = {one.item: key for key, one in state.holding.items() if one.item}
        self._by_topic: dict[tuple[str, ...], list[str]] = {}
        for key, one in state.holding.items():
            if one.topic:
                self._by_topic.setdefault(_get_topic(one), []).append(key)

    def has(self, entry: TeamEntry) -> bool:
        """Return whether the team knows an entry, or knew it until it was replaced or withdrawn."""
        return (entry.kind, entry.item) in self._items or _get_content(entry) in self._texts

    def link(self, draft: EntryDraft) -> EntryDraft:
        """Return a draft with the entries it replaces: those that hold of its topic, or of items it changed."""
        old = set(self._by_topic.get(_get_topic(draft.entry), ()) if draft.entry.topic else ())
        old |= {self._by_item[item] for item in draft.changed if item in self._by_item}
        return replace_entries(draft, sorted(old), self._state) if old else draft


def replace_entries(draft: EntryDraft, old: Sequence[str], state: TeamState) -> EntryDraft:
    """Return a draft that replaces some entries, dated after each of them whatever the clocks said."""
    times = [parse_said(draft.entry.said), *(parse_said(state.entries[one].said) + timedelta(seconds=1) for one in old)]
    names = tuple(sorted({*draft.entry.replaces, *old}))
    return replace(draft, entry=replace(draft.entry, said=format_said(max(times)), replaces=names))


def _get_content(entry: TeamEntry) -> tuple[str, ...]:
    return entry.kind, entry.project, " ".join(entry.topic.lower().split()), " ".join(entry.text.split())


def _get_topic(entry: TeamEntry) -> tuple[str, ...]:
    return entry.kind, entry.project, " ".join(entry.topic.lower().split())
