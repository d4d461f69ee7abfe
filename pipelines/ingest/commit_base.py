"""The generation a commit or a deletion starts from, opened for looking up items by key, and its coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.encoders import seq2seq, sparse
from helix.encoders.rerank import TokenModel, find_token_model
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.index import changes, tokens
from helix.snapshot.index import sparse as impacts
from helix.snapshot.index.doc2query import KIND, open_queries
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Index, Manifest
from helix.snapshot.segment.arrays import expand_rows, flatten_rows, look_up
from helix.snapshot.segment.open import OpenSegment, load_alive, map_fact_scales, map_forgotten_keys, open_segment
from helix.types import I64, U32, U64, Bool

_ARRAYS: Final = (
    *("ids.key", "ids.row", "sessions.key", "sessions.indptr", "sessions.rows"),
    *("bands.key", "bands.row", "minhash"),  # for near-duplicates
)

_FIELDS: Final = {
    "id": ("key", pa.uint64()),
    "content": ("content", pa.uint64()),
    "near": ("near", pa.uint64()),
    "t_ingested": ("accepted", pa.int64()),
    "session": ("session", pa.uint64()),
    "ord": ("ord", pa.uint32()),
    "salience": ("salience", pa.float32()),
    "confidence": ("confidence", pa.float32()),
}
"""Field of a published row → column of an opened segment, type."""

NO_ROWS: Final = pa.schema(
    [*((name, kind) for name, (_, kind) in _FIELDS.items()), ("segment", pa.int32()), ("row", pa.int64())]
).empty_table()


@dataclass(frozen=True, slots=True)
class CommitBase:
    """A generation, its segments and their live rows."""

    name: str | None
    manifest: Manifest | None
    opened: tuple[OpenSegment, ...] = ()
    alive: tuple[Bool, ...] = ()
    forgotten: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    documents: tuple[Path, ...] = ()

    @property
    def generation(self) -> int:
        """The generation's number; 0 before the first."""
        return self.manifest.generation if self.manifest else 0

    def live_rows(self, i: int, keys: U64) -> I64:
        """Return the live rows of segment `i` with one of the keys."""
        segment = self.opened[i]
        row = look_up(segment["ids.key"], segment["ids.row"], keys)
        row = row[row >= 0]
        return row[self.alive[i][row]]

    def read_rows(self, i: int, keys: U64) -> pa.Table:
        """Return the live rows of segment `i` with one of the keys, in the columns of `NO_ROWS`."""
        segment, row = self.opened[i], self.live_rows(i, keys)
        columns = {name: pa.array(segment.column(column)[row]) for name, (column, _) in _FIELDS.items()}
        return pa.table({**columns, "segment": pa.array(np.full(len(row), i, np.int32)), "row": pa.array(row)})


def open_base(root: Path, pointer: str) -> CommitBase:
    """Open the current generation of a pointer.

    Raises:
        StoreError: the store only accepts and enriches, or is damaged.
    """
    name = manifests.read_current(root, pointer)
    if name is None:
        return CommitBase(None, None)
    manifest = manifests.load(root, name, write=True)
    if manifest.is_ledger:
        raise StoreError(
            f"{root} only accepts and enriches: the primary of its share commits its items",
            "run this on the primary; 'helix pull' makes a whole copy of its store here",
        )
    opened = tuple(open_segment(root, segment, _ARRAYS) for segment in manifest.segments)
    alive = tuple(load_alive(root, manifest, segment) for segment in opened)
    forgotten = map_forgotten_keys(root, manifest)
    if pointer != "CURRENT":  # items that are forgotten during a reindex must not enter its lineage
        _, current = inbox.load_current(root)
        forgotten = np.union1d(forgotten, map_forgotten_keys(root, current)) if current else forgotten
    documents = tuple(root / file.path for file in manifest.documents)
    return CommitBase(name, manifest, opened, alive, forgotten, documents)


def find_live_sessions(opened: Sequence[OpenSegment], alive: Sequence[Bool], keys: U64) -> Bool:
    """Return which sessions have a live row: bool[len(keys)]."""
    out = np.zeros(len(keys), bool)
    for segment, live in zip(opened, alive, strict=True):
        known = segment["sessions.key"]
        at = look_up(known, np.arange(len(known), dtype=np.uint32), keys)
        here = np.flatnonzero(at >= 0)
        indptr, flat = flatten_rows(segment["sessions.indptr"], at[here])
        out[here] |= np.bincount(expand_rows(indptr), live[segment["sessions.rows"][flat]], minlength=len(here)) > 0
    return out


FACT_INDEX: Final = "fact_index"


def cover_all(items: int) -> dict[str, Any]:
    """Return the coverage of the fields that every published item has."""
    return {name: {"items": items} for name in ("embedding", "entities", "facts", "minhash", "near", "salience")}


def recount(coverage: Mapping[str, Any], items: int) -> dict[str, Any]:
    """Return the coverage of a generation that lost items, without the fields of `count_optional`."""
    types = coverage.get("types", {})
    return {**coverage, **cover_all(items), **({"types": {"items": items}} if "items" in types else {})}


def count_optional(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the fields that not every item or fact has, from the segments' arrays."""
    return {
        KIND: count_expanded(root, manifest, settings),
        impacts.KIND: count_encoded(root, manifest, settings),
        tokens.KIND: count_kept(root, manifest, settings),
        changes.KIND: count_compared(root, manifest, settings),
        FACT_INDEX: _count_facts(root, manifest),
    }


def _count_facts(root: Path, manifest: Manifest) -> dict[str, Any]:
    """Count the facts of live items, and those of them that a search finds."""
    indexed = total = 0
    for segment in manifest.segments:
        rows, scale = map_fact_scales(root, segment)
        alive = load_alive(root, manifest, segment)[rows]
        indexed, total = indexed + int(np.count_nonzero(scale[alive])), total + int(np.count_nonzero(alive))
    return {"facts": indexed, "of": total}


def count_expanded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items that a model expanded, or tell why none does."""
    mine = [(index, open_queries(root, index).rows) for index in manifest.indexes if index.kind == KIND]
    return _describe(root, manifest, mine, seq2seq.find_seq2seq(settings.doc2query, settings) if not mine else "")


def count_encoded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items with learned-sparse weights, or tell why none has them."""
    mine = [(index, impacts.open_sparse(root, index).rows) for index in impacts.select_usable(manifest.indexes)]
    return _describe(root, manifest, mine, sparse.find_configured(settings) if not mine else "")


def count_kept(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items with token vectors, or tell why none has them."""
    mine = [(index, tokens.open_tokens(root, index).rows) for index in tokens.select_usable(manifest.indexes)]
    own = TokenModel(manifest.lineage.name, manifest.lineage.encoder)
    return _describe(root, manifest, mine, find_token_model(settings, own) if not mine else "")


def count_compared(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items that were compared with earlier ones for changes."""
    mine = [(index, changes.open_changes(root, index).rows) for index in changes.select_usable(manifest.indexes)]
    return _describe(root, manifest, mine, "no item was compared: run 'helix reindex'")


def _describe(root: Path, manifest: Manifest, mine: Sequence[tuple[Index, U32]], model: Any) -> dict[str, Any]:
    """Return the coverage of some indexes, each of one segment; without any, that of a model or its absence."""
    if not mine:
        return {"off": model} if isinstance(model, str) else {"items": 0, "model": model.name}
    ids = {index.covers[0] for index, _ in mine}
    alive = {segment.id: load_alive(root, manifest, segment) for segment in manifest.segments if segment.id in ids}
    items = sum(int(alive[index.covers[0]][rows].sum()) for index, rows in mine)
    return {"items": items, "model": mine[-1][0].params["model"]}
