"""The plan of a deletion: its items, the documents that hold them, and older versions of items that stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.errors import UsageError
from helix.redact.paths import redact_name
from helix.settings import Settings
from helix.snapshot.checked_arrays import map_npy
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.arrays import format_hex, look_up
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.open import read_items
from helix.snapshot.segment.projects import read_projects
from helix.snapshot.status import list_old_projects
from helix.types import U64, Bool
from helix.util.sanitise import sanitise_name
from helix.util.workspaces import Workspace, decode_workspace, extend_names, get_last_name
from pipelines.ingest.commit_base import CommitBase, open_base
from pipelines.ingest.enrich import FAULTS, read_item_records
from pipelines.ingest.forgotten import read_keys
from pipelines.ingest.items import NO_PROJECT


@dataclass(frozen=True, slots=True)
class Selection:
    """The items to forget: exactly one of the three fields is set."""

    items: tuple[str, ...] = ()
    session: str | None = None
    project: str | None = None

    @property
    def value(self) -> str:
        """The selection in words, for messages."""
        if self.items:
            return f"item {', '.join(self.items)}"
        return f"session {self.session}" if self.session is not None else f"project {self.project}"


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """The keys of the items, and the documents that hold any of them.

    An item stays if its newest version is of another session or project. Then only its older versions go: those in
    unpublished documents (document → ids), and the deleted rows of segments.
    """

    keys: U64
    documents: frozenset[str]
    versions: dict[str, list[str]]
    segments: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """True for a plan without items and documents."""
        return not len(self.keys) and not self.documents


@dataclass(frozen=True, slots=True)
class DeletionPreview:
    """The extent of a deletion, and a few of its items, newest first."""

    items: int
    sessions: int
    documents: int
    shown: tuple[dict[str, Any], ...]  # id, session, project, time, text of each


_COLUMNS = ("id", "session", "project", "workspace", "document")

SHOWN = 5
"""Items that a preview shows."""


def preview_deletion(root: Path, selection: Selection, settings: Settings) -> DeletionPreview:
    """Look up the extent of a deletion without changing the store.

    Raises:
        UsageError: the store holds nothing of that name.
    """
    found = plan_deletion(root, selection, settings)
    if found.is_empty:
        raise refuse_nothing(root, selection)
    wanted = format_hex(found.keys)
    columns = ["id", "session", "project", "workspace", "time", "text"]
    projects = _open_projects(root, {})
    sessions, newest = set[str](), dict[str, dict[str, Any]]()
    for folder in list_segments(root):
        table = read_items(root, folder.name, columns)
        table = projects.show(table.filter(pc.is_in(table["id"], wanted)))
        sessions.update(table["session"].to_pylist())
        last = pc.select_k_unstable(table, SHOWN, [("time", "descending")])
        newest |= {row["id"]: row for row in table.take(last).to_pylist()}
    known = set(wanted.to_pylist())
    for records in _read_unfinished(root, settings).values():
        sessions.update(record.session for record in records or () if record.id in known)
    shown = sorted(newest.values(), key=lambda row: (row["time"] is not None, row["time"]), reverse=True)
    return DeletionPreview(len(found.keys), len(sessions), len(found.documents), tuple(shown[:SHOWN]))


def refuse_nothing(root: Path, selection: Selection) -> UsageError:
    """Return the error for a selection that matches nothing. An old name deletes nothing."""
    now = list_old_projects(root).get(selection.project or "")
    remedy = "see 'helix sql \"SELECT id, session, project FROM items\"'"
    if now:
        remedy = f"it is an old name of {', '.join(map(sanitise_name, now))}; give that name to forget all of it"
    return UsageError(f"the store holds no {selection.value}", remedy)


def resolve_names(root: Path, selection: Selection, settings: Settings) -> Selection:
    """Return the selection by the store's names, which are redacted; names without secrets are unchanged."""
    session, project = (name and redact_name(name) for name in (selection.session, selection.project))
    clean = replace(selection, session=session, project=project)
    if clean == selection:
        return selection
    found = plan_deletion(root, selection, settings)
    return clean if found.is_empty else selection


def plan_deletion(root: Path, selection: Selection, settings: Settings) -> DeletionPlan:
    """Plan a deletion over the current generation, older ones, and documents that were never published."""
    base = open_base(root, "CURRENT")
    unfinished = _read_unfinished(root, settings)
    projects = _open_projects(root, unfinished)
    matched = [parse_ids(selection.items)]
    rows = {}
    for folder in list_segments(root):
        table = projects.show(read_items(root, folder.name, _COLUMNS))
        rows[folder.name] = table = table.filter(pa.array(_is_selected(selection, table)))
        matched.append(parse_ids(table["id"].to_pylist()))
    waiting = [record for records in unfinished.values() for record in records or ()]
    matched.append(parse_ids(record.id for record in waiting if projects.match(selection, record)))
    keys = np.unique(np.concatenate(matched))
    if not selection.items:
        keys = keys[~_find_moved(root, keys, selection, base, projects)]
    else:
        keys = keys[_find_known(root, keys) | np.isin(keys, parse_ids(record.id for record in waiting))]
    wanted = set(format_hex(keys).to_pylist())
    documents = _find_documents(root, keys)
    versions: dict[str, list[str]] = {}
    segments = set()
    for name, table in rows.items():
        older = table.filter(pa.array(~np.isin(parse_ids(table["id"].to_pylist()), keys)))
        if len(older):
            segments.add(name)
            documents.update(older["document"].to_pylist())
    if not selection.items:
        documents |= _find_published_versions(root, selection, documents | unfinished.keys(), settings, projects)
    for document, records in unfinished.items():
        older = [record for record in records or () if projects.match(selection, record) and record.id not in wanted]
        if older:
            versions[document] = [record.id for record in older]
        if records is None:  # unreadable: its bytes decide
            hit = _may_match(root, document, projects.list_words(selection))
        else:
            hit = any(record.id in wanted or projects.match(selection, record) for record in records)
        if hit:
            documents.add(document)
    return DeletionPlan(keys, frozenset(documents), versions, frozenset(segments))


def parse_ids(items: Iterable[str]) -> U64:
    """Return item ids as keys: uint64[n].

    Raises:
        UsageError: one is no item id.
    """
    try:
        return np.array([int(item, 16) for item in items], np.uint64)
    except (ValueError, OverflowError):
        raise UsageError("an item id is 16 hex digits", "take it from 'helix recall --json'") from None


def list_segments(root: Path) -> list[Path]:
    """List every segment on disk, of any generation or none."""
    return [path for path in sorted((root / "segments").glob("[0-9]*")) if (path / "ids.key.npy").exists()]


def _is_selected(selection: Selection, table: pa.Table) -> Bool:
    if selection.items:
        return np.zeros(table.num_rows, bool)
    column, value = ("session", selection.session) if selection.session is not None else ("project", selection.project)
    return np.asarray(pc.fill_null(pc.equal(table[column], value), False).to_numpy(), bool)


def _find_moved(root: Path, keys: U64, selection: Selection, base: CommitBase, projects: _Projects) -> Bool:
    """Return which items live on in another session or project, where a resumed log took them: bool[n]."""
    out = np.zeros(len(keys), bool)
    for segment, live in zip(base.opened, base.alive, strict=True):
        row = look_up(segment["ids.key"], segment["ids.row"], keys)
        here = np.flatnonzero(row >= 0)
        here = here[live[row[here]]]
        if len(here):
            table = read_items(root, segment.id, _COLUMNS).take(pa.array(row[here]))
            out[here] = ~_is_selected(selection, projects.show(table))
    return out


def _find_known(root: Path, keys: U64) -> Bool:
    """Return which items a segment or a document table of any generation holds: bool[n]."""
    out = np.zeros(len(keys), bool)
    for folder in list_segments(root):
        out |= np.isin(keys, map_npy(folder / "ids.key.npy", ARRAYS["ids.key"]))
    for path in (root / "documents").glob("[0-9]*.parquet"):  # a commit left them out, but an envelope holds them
        out |= np.isin(keys, read_keys(path)[1])
    return out


def _find_documents(root: Path, keys: U64) -> set[str]:
    """Return the documents of any generation that hold one of the items, published from it or not."""
    found: set[str] = set()
    for path in (root / "documents").glob("[0-9]*.parquet"):
        documents, flat, owners = read_keys(path)
        found.update(documents.take(pa.array(np.unique(owners[np.isin(flat, keys)]))).to_pylist())
    return found


class _EnvelopeItem(NamedTuple):
    """One item of an envelope. Its workspace is encoded."""

    id: str
    session: str
    project: str
    workspace: str | None


@dataclass(frozen=True, slots=True)
class _Projects:
    """The projects of workspaces: of live ones as they are shown, of others as they would be."""

    names: Mapping[Workspace, str]

    def _name(self, workspace: str) -> str:
        known = decode_workspace(workspace)
        return self.names.get(known) or extend_names(self.names, [known])[known]

    def show(self, items: pa.Table) -> pa.Table:
        """Return items with the names of their projects as they are shown."""
        workspaces = items["workspace"].combine_chunks().dictionary_encode()
        names = pa.array([self._name(text) for text in workspaces.dictionary.to_pylist()], pa.string())
        shown = pc.coalesce(names.take(workspaces.indices), items["project"])
        return items.set_column(items.schema.get_field_index("project"), "project", shown)

    def match(self, selection: Selection, item: _EnvelopeItem) -> bool:
        """Return whether an item is of the selected session or project."""
        if selection.session is not None:
            return selection.session == item.session
        project = self._name(item.workspace) if item.workspace else item.project
        return selection.project is not None and selection.project == project

    def list_words(self, selection: Selection) -> list[str] | None:
        """List words of which an envelope with such an item holds one; None where any envelope may have one."""
        if selection.items:
            return []
        if selection.project is None:  # a branch is named after its session
            return [(selection.session or "").partition("~")[0]]
        if selection.project == NO_PROJECT:  # no envelope names it
            return None
        places = [place for known, name in self.names.items() if name == selection.project for place in known[:3]]
        return sorted({selection.project, *filter(None, map(get_last_name, places))})


def _open_projects(root: Path, unfinished: Mapping[str, Sequence[_EnvelopeItem] | None]) -> _Projects:
    """Return the projects of the current generation's workspaces, of older ones', and of unpublished items'."""
    names = read_projects(root, inbox.load_current(root)[1])[1]
    encoded = {record.workspace for records in unfinished.values() for record in records or ()}
    for folder in list_segments(root):
        encoded.update(pc.unique(read_items(root, folder.name, ["workspace"])["workspace"]).to_pylist())
    others = [decode_workspace(text) for text in encoded if text]
    return _Projects({**extend_names(names, others), **names})


def _read_unfinished(root: Path, settings: Settings) -> dict[str, list[_EnvelopeItem] | None]:
    """Read the items of accepted documents that are not published; None for an unreadable document."""
    _, manifest = inbox.load_current(root)
    unfinished = set(inbox.list_accepted(root)) - inbox.list_done(root, manifest)
    return {document: _read_items(root, document, settings) for document in unfinished}


def _find_published_versions(
    root: Path, selection: Selection, others: Set[str], settings: Settings, projects: _Projects
) -> set[str]:
    """Return more published documents that hold a version of a turn from the selected session or project.

    The turn lives on in another document's version, or was replaced; no row need tell of it.
    """
    found, words = set(), projects.list_words(selection)
    for document in inbox.list_accepted(root):
        if document in others or not _may_match(root, document, words):
            continue
        records = _read_items(root, document, settings)
        if records is None or any(projects.match(selection, record) for record in records):
            found.add(document)
    return found


def _read_items(root: Path, document: str, settings: Settings) -> list[_EnvelopeItem] | None:
    """Read the items of an accepted document; None where it is unreadable."""
    try:
        records = read_item_records(root, inbox.read_envelope(root, document), settings)
    except FAULTS:
        return None
    return [
        _EnvelopeItem(record["id"], record["session"], record["project"], record.get("workspace")) for record in records
    ]


def _may_match(root: Path, document: str, words: Sequence[str] | None) -> bool:
    """Return whether an envelope, damaged or not, holds one of the words; see `_Projects.list_words`."""
    if words is None:
        return True
    data = (root / "inbox" / document).read_bytes() if words else b""
    spellings = {spelt for word in words for spelt in (word, json.dumps(word)[1:-1], orjson.dumps(word).decode()[1:-1])}
    return any(spelt.encode() in data for spelt in spellings)
