"""A store in a vector engine: items, vectors and metadata, in batches; a later export sends what changed.

Each item has a digest of all that an engine holds of it. An export lists the digests there, sends items whose digest
differs, and removes those that are gone. So it may be killed at any time, and the next one completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.engines.base import Engine, EngineState
from helix.errors import StoreError, UsageError
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import format_hex, parse_hex
from helix.types import I64, U64, Bool
from pipelines.export.engine_rows import make_batch, make_digests

BATCH: Final = 4_096
"""Items sent at once: some 10 MB with their texts."""

_DIGESTED: Final = 65_536  # rows digested at a time


@dataclass(frozen=True, slots=True)
class EngineReport:
    """Counts of an export: items that were sent, removed, or left as they were."""

    place: str
    snapshot: int
    items: int
    sent: int
    removed: int
    unchanged: int


def export_store(
    snap: Snapshot, engine: Engine, *, text: bool, force: bool, observe: Callable[[int], None]
) -> EngineReport:
    """Bring a collection to the content of a generation, whatever it held before.

    Args:
        snap: the whole generation.
        text: with the texts of items.
        force: replace the export of another store, or of another encoder.
        observe: takes the number of items sent so far.

    Raises:
        StoreError: the store is empty.
        UsageError: the collection is of another store or encoder, and `force` is not given.
        EngineError: the engine cannot be used.
    """
    if snap.name is None or snap.manifest is None:
        raise StoreError(f"{snap.root} is empty", "ingest something first")
    lineage, state = snap.manifest.lineage, engine.read_state()
    if state and (state.encoder, state.dim) != (lineage.encoder, lineage.dim):
        if not force:
            fault = f"{engine.place} holds vectors of another encoder"
            raise UsageError(fault, "--force removes them; recalls through it lack the dense leg meanwhile")
        engine.clear()
    engine.prepare(lineage.dim)
    held = _read_held(engine)
    known = snap.row_map.by_key(held.keys) >= 0
    if state and not force and 2 * int(known.sum()) < len(held.keys):
        fault = f"{engine.place} holds {len(held.keys):,} items, of which {int(known.sum()):,} are in this store"
        raise UsageError(fault, "name another collection with #NAME, or replace them with --force")
    sent = _send(snap, engine, held, text, observe)
    gone = format_hex(held.keys[~known]).to_pylist()
    for start in range(0, len(gone), BATCH):
        engine.delete(gone[start : start + BATCH])
    engine.finish()
    engine.write_state(EngineState(snap.name, snap.generation, lineage.encoder, lineage.dim, snap.live, text))
    return EngineReport(engine.place, snap.generation, snap.live, sent, len(gone), snap.live - sent)


@dataclass(frozen=True, slots=True)
class _HeldItems:
    """The items of a collection, by key in ascending order: keys and digests, uint64[n] each."""

    keys: U64
    digests: U64

    def select_changed(self, keys: U64, digests: U64) -> Bool:
        """Return which items are missing there or differ: bool[len(keys)]."""
        if not len(self.keys):
            return np.ones(len(keys), bool)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray((self.keys[at] != keys) | (self.digests[at] != digests))


def _read_held(engine: Engine) -> _HeldItems:
    keys, digests = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for batch in engine.list_digests():
        keys.append(parse_hex(pa.chunked_array([batch.column("id")])))
        digests.append(parse_hex(pa.chunked_array([batch.column("digest")])))
    every = np.concatenate(keys)
    order = np.argsort(every, kind="stable")
    return _HeldItems(every[order], np.concatenate(digests)[order])


def _send(snap: Snapshot, engine: Engine, held: _HeldItems, text: bool, observe: Callable[[int], None]) -> int:
    sent = 0
    for rows in _list_changed(snap, held, text):
        engine.write(make_batch(snap, rows, text))
        sent += len(rows)
        observe(sent)
    return sent


def _list_changed(snap: Snapshot, held: _HeldItems, text: bool) -> Iterator[I64]:
    """Yield the live rows whose items are to be sent, at most BATCH at a time."""
    alive = np.flatnonzero(snap.alive)
    waiting = np.empty(0, np.int64)
    for start in range(0, len(alive), _DIGESTED):
        rows = alive[start : start + _DIGESTED]
        changed = held.select_changed(snap.columns.key[rows], make_digests(snap, rows, text))
        waiting = np.concatenate([waiting, rows[changed]])
        while len(waiting) >= BATCH:
            yield waiting[:BATCH]
            waiting = waiting[BATCH:]
    if len(waiting):
        yield waiting


def describe(report: EngineReport) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    return {name: getattr(report, name) for name in report.__slots__}
