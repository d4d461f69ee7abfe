"""What a deletion means: the items, the documents that hold them, and what goes of items that live on elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.errors import UsageError
from helix.redact.paths import redact_name
from helix.settings import Settings
from helix.snapshot.checked_arrays import map_npy
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.segment.arrays import lookup
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.open import read_table
from helix.types import U64
from pipelines.ingest.dedupe import open_base
from pipelines.ingest.enrich import FAULTS, item_records
from pipelines.ingest.items import NO_PROJECT


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be forgotten: exactly one of the three."""

    items: tuple[str, ...] = ()
    session: str | None = None
    project: str | None = None

    @property
    def value(self) -> str:
        """In words, for messages."""
        if self.items:
            return f"item {', '.join(self.items)}"
        return f"session {self.session}" if self.session is not None else f"project {self.project}"


@dataclass(frozen=True, slots=True)
class Found:
    """Ids of the items, and the documents that hold any of them.

    An item may live on because its newest version is of another session or project. Then only its older versions go:
    those of documents that are not published (document → ids), and those in segments where they are deleted rows.
    """

    keys: U64
    documents: frozenset[str]
    versions: dict[str, list[str]]
    segments: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to be forgotten."""
        return not len(self.keys) and not self.documents


@dataclass(frozen=True, slots=True)
class Preview:
    """The extent of a deletion: how much, and a few of the items, the newest first."""

    items: int
    sessions: int
    documents: int
    shown: tuple[dict[str, Any], ...]  # id, session, project, time, text of each


SHOWN = 5
"""Items of a preview that are shown."""


def preview(root: Path, selection: Selection, settings: Settings) -> Preview:
    """Look up what the selection means, and change nothing.

    Raises:
        UsageError: nothing in the store is of that name.
    """
    found = select(root, selection, settings)
    if found.is_empty:
        raise nothing_of(selection)
    wanted = pa.array([f"{key:016x}" for key in found.keys.tolist()], pa.string())
    columns = ["id", "session", "project", "time", "text"]
    sessions, newest = set[str](), dict[str, dict[str, Any]]()
    for folder in segments_of(root):
        table = read_table(folder / "items.parquet", columns=columns)
        table = table.filter(pc.is_in(table["id"], wanted))
        sessions.update(table["session"].to_pylist())
        last = pc.select_k_unstable(table, SHOWN, [("time", "descending")])
        newest |= {row["id"]: row for row in table.take(last).to_pylist()}
    known = {f"{key:016x}" for key in found.keys.tolist()}
    for records in _unfinished(root, settings).values():
        sessions.update(record.session for record in records or () if record.id in known)
    shown = sorted(newest.values(), key=lambda row: (row["time"] is not None, row["time"]), reverse=True)
    return Preview(len(found.keys), len(sessions), len(found.documents), tuple(shown[:SHOWN]))


def nothing_of(selection: Selection) -> UsageError:
    """Say that nothing in the store is of that name."""
    return UsageError(
        f"the store holds no {selection.value}", "see 'helix sql \"SELECT id, session, project FROM items\"'"
    )


def as_stored(root: Path, selection: Selection, settings: Settings) -> Selection:
    """The selection by the names that the store has, where one is given that holds a secret: it is kept without."""
    session, project = (name and redact_name(name) for name in (selection.session, selection.project))
    clean = replace(selection, session=session, project=project)
    if clean == selection:
        return selection
    found = select(root, selection, settings)
    return selection if len(found.keys) or found.documents else clean


def select(root: Path, selection: Selection, settings: Settings) -> Found:
    """What the selection means: in the current generation, in older ones, and in documents that never got through."""
    base = open_base(root, "CURRENT")
    unfinished = _unfinished(root, settings)
    matched = [ids_of(selection.items)]
    rows = {}
    for folder in segments_of(root):
        table = read_table(folder / "items.parquet", columns=["id", "session", "project", "document"])
        rows[folder.name] = table = table.filter(pa.array(_matches(selection, table)))
        matched.append(ids_of(table["id"].to_pylist()))
    waiting = [record for records in unfinished.values() for record in records or ()]
    matched.append(ids_of(record.id for record in waiting if record.named(selection)))
    keys = np.unique(np.concatenate(matched))
    if not selection.items:
        keys = keys[~_lives_elsewhere(root, keys, selection, base.opened, base.alive)]
    else:
        keys = keys[_known(root, keys) | np.isin(keys, ids_of(record.id for record in waiting))]
    wanted = {f"{key:016x}" for key in keys.tolist()}
    documents = _documents_of(root, keys)
    versions: dict[str, list[str]] = {}
    segments = set()
    for name, table in rows.items():
        older = table.filter(pa.array(~np.isin(ids_of(table["id"].to_pylist()), keys)))
        if len(older):
            segments.add(name)
            documents.update(older["document"].to_pylist())
    if not selection.items:
        documents |= _published_versions(root, selection, documents | unfinished.keys(), settings)
    for document, records in unfinished.items():
        older_ids = [record.id for record in records or () if record.named(selection) and record.id not in wanted]
        if older_ids:
            versions[document] = older_ids
        if records is None:  # nobody can read it: what its bytes say has to do
            hit = _names(root, document, selection)
        else:
            hit = any(record.id in wanted or record.named(selection) for record in records)
        if hit:
            documents.add(document)
    return Found(keys, frozenset(documents), versions, frozenset(segments))


def ids_of(items: Iterable[str]) -> U64:
    """Item ids as numbers: uint64[n].

    Raises:
        UsageError: one is no id.
    """
    try:
        return np.array([int(item, 16) for item in items], np.uint64)
    except (ValueError, OverflowError):
        raise UsageError("an item id is 16 hex digits", "take it from 'helix recall --json'") from None


def segments_of(root: Path) -> list[Path]:
    """Every segment on disk, of whatever generation, or of none."""
    return [path for path in sorted((root / "segments").glob("[0-9]*")) if (path / "ids.key.npy").exists()]


def _matches(selection: Selection, table: pa.Table) -> npt.NDArray[np.bool_]:
    if selection.items:
        return np.zeros(table.num_rows, bool)
    column, value = ("session", selection.session) if selection.session is not None else ("project", selection.project)
    return np.asarray(pc.fill_null(pc.equal(table[column], value), False).to_numpy(), bool)


def _lives_elsewhere(root: Path, keys: U64, selection: Selection, opened: Sequence[Any], alive: Sequence[Any]) -> Any:
    """bool[n]: the item's live version is of another session or project: a resumed log took it along."""
    out = np.zeros(len(keys), bool)
    for segment, live in zip(opened, alive, strict=True):
        row = lookup(segment["ids.key"], segment["ids.row"], keys)
        here = np.flatnonzero(row >= 0)
        here = here[live[row[here]]]
        if len(here):
            table = read_table(root / "segments" / segment.id / "items.parquet", columns=["session", "project"])
            out[here] = ~_matches(selection, table.take(pa.array(row[here])))
    return out


def _known(root: Path, keys: U64) -> Any:
    out = np.zeros(len(keys), bool)
    for folder in segments_of(root):
        out |= np.isin(keys, map_npy(folder / "ids.key.npy", ARRAYS["ids.key"]))
    for path in (root / "documents").glob("[0-9]*.parquet"):  # left out by a commit, but in the document's envelope
        out |= np.isin(keys, pc.list_flatten(read_table(path, columns=["keys"])["keys"]).to_numpy())
    return out


def _documents_of(root: Path, keys: U64) -> set[str]:
    """Documents of any generation that hold one of the items, chosen from it or not."""
    found: set[str] = set()
    for path in (root / "documents").glob("[0-9]*.parquet"):
        table = read_table(path, columns=["document", "keys"])
        flat = pc.list_flatten(table["keys"]).to_numpy()
        hit = pc.list_parent_indices(table["keys"]).to_numpy()[np.isin(flat, keys)]
        found.update(table["document"].take(pa.array(np.unique(hit))).to_pylist())
    return found


class _Record(NamedTuple):
    """One item of a document, as its envelope has it."""

    id: str
    session: str
    project: str

    def named(self, selection: Selection) -> bool:
        """Whether it is of the session or the project that is meant."""
        return selection.session == self.session or selection.project == self.project


def _unfinished(root: Path, settings: Settings) -> dict[str, list[_Record] | None]:
    """Accepted documents that were never published, or were rolled back: what they hold, None where nobody can tell."""
    _, manifest = ledger.current(root)
    unfinished = set(ledger.accepted(root)) - ledger.done(root, manifest)
    return {document: _records(root, document, settings) for document in unfinished}


def _published_versions(root: Path, selection: Selection, others: Set[str], settings: Settings) -> set[str]:
    """Published documents besides the others that hold a turn as it was in the session or project that is meant.

    It lives on as another document has it, or was replaced; no row may be left that says so.
    """
    found = set()
    for document in ledger.accepted(root):
        if document in others or not _names(root, document, selection):
            continue
        records = _records(root, document, settings)
        if records is None or any(record.named(selection) for record in records):
            found.add(document)
    return found


def _records(root: Path, document: str, settings: Settings) -> list[_Record] | None:
    """What an accepted document holds; None where nobody can tell."""
    try:
        records = item_records(root, ledger.read(root, document), settings)
    except FAULTS:
        return None
    return [_Record(record["id"], record["session"], record["project"]) for record in records]


def _names(root: Path, document: str, selection: Selection) -> bool:
    """Whether the session or project that is meant may be in an envelope, be it damaged or not: its name is there."""
    if selection.items:
        return False
    if selection.project == NO_PROJECT:  # the one that is never named
        return True
    # A branch of a session is named after it.
    name = selection.project if selection.project is not None else (selection.session or "").partition("~")[0]
    data = (root / "inbox" / document).read_bytes()
    return any(each.encode() in data for each in (name, json.dumps(name)[1:-1], orjson.dumps(name).decode()[1:-1]))
