"""Choosing: which of the incoming items go into the store, and which published ones they take the place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.checked_arrays import damaged
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.arrays import flat_index, lookup, owners, unhexes
from helix.snapshot.segment.batch import Rows
from helix.snapshot.segment.open import Opened, alive_of, forgotten_keys, open_segment, read_table
from helix.snapshot.segment.write import session_keys
from helix.snapshot.sql import connect
from helix.types import I64, U64, Bool
from pipelines.ingest.items import OTHER


@dataclass(frozen=True, slots=True)
class Base:
    """The generation a commit starts from; of its segments, the look-up arrays."""

    name: str | None
    manifest: Manifest | None
    opened: tuple[Opened, ...] = ()
    alive: tuple[np.ndarray[Any, np.dtype[np.bool_]], ...] = ()
    forgotten: np.ndarray[Any, np.dtype[np.uint64]] = field(default_factory=lambda: np.empty(0, np.uint64))
    documents: tuple[Path, ...] = ()

    @property
    def generation(self) -> int:
        """Its number; 0 before the first."""
        return self.manifest.generation if self.manifest else 0


_LOOKED_AT = ("ids.key", "ids.row", "sessions.key", "sessions.indptr", "sessions.rows")
_NEAR = ("bands.key", "bands.row", "minhash")


def open_base(root: Path, pointer: str) -> Base:
    """The current generation of a pointer, opened for a commit."""
    name = manifests.current_name(root, pointer)
    if name is None:
        return Base(None, None)
    manifest = manifests.load(root, name, write=True)
    if manifest.is_ledger:
        raise StoreError(
            f"{root} only accepts and enriches: its items are committed by the home of its share",
            "run this there; 'helix pull' makes a whole copy of it here",
        )
    opened = tuple(open_segment(root, segment, (*_LOOKED_AT, *_NEAR)) for segment in manifest.segments)
    alive = tuple(alive_of(root, manifest, segment) for segment in opened)
    forgotten = forgotten_keys(root, manifest)
    if pointer != "CURRENT":  # what is forgotten while a lineage is built must not come into it
        _, current = ledger.current(root)
        forgotten = np.union1d(forgotten, forgotten_keys(root, current)) if current else forgotten
    documents = tuple(root / file.path for file in manifest.documents)
    return Base(name, manifest, opened, alive, forgotten, documents)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which incoming rows go in, and which published rows they replace."""

    add: I64
    replaced: dict[str, list[int]]  # segment id → rows
    since: I64  # of each added: microseconds, where it says what was known before; else 0
    near: U64  # of each added that takes the place of a row that says the same: what that one nearly repeats
    known: Bool  # whether it does
    kept: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by n: what stays as it was


_CHOOSE = """
WITH newest AS (  -- a turn may come in several versions at once: the last accepted one counts
    SELECT *, first_value(content) OVER last AS said, first_value(accepted) OVER last AS at FROM incoming
    WINDOW last AS (PARTITION BY id ORDER BY accepted DESC, n DESC)
), best AS (      -- of equal copies (a resumed log) the earliest stays
    SELECT * FROM newest WHERE content = said
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY accepted, n) = 1
)
SELECT best.n, published.segment, published.row, best.id, best.at, published.t_ingested, published.near,
       published.content = best.content AS same
FROM best LEFT JOIN published USING (id)
WHERE published.id IS NULL OR best.content <> published.content
      OR best.session = published.session AND best.ord = published.ord
         AND greatest(abs(best.salience - published.salience), abs(best.confidence - published.confidence)) > $other
ORDER BY best.n
"""


def choose(
    base: Base,
    rows: Rows,
    accepted: I64,
    vanished: Mapping[int, int] = MappingProxyType({}),
    again: Bool | None = None,
) -> Choice:
    """New items and changed ones go in; an item that is there already, unchanged or newer, or forgotten, stays out.

    An item is changed where it says something else, and where what came after it in its session made it matter more
    or less; then it was known since it was first taken in. A log that was resumed repeats turns in another session,
    and one that is no continuation has them elsewhere: these change nothing.

    Args:
        accepted: int64[n] microseconds: when the document of each row was accepted.
        vanished: key of an item → when a document was accepted that no longer has it.
        again: bool[n]: rows that are no part of what their document says; see `revalued`.
    """
    ids, content = unhexes(rows.items["id"]), unhexes(rows.items["content"])
    gone = np.array(sorted(vanished), np.uint64)
    since = np.array([vanished[int(key)] for key in gone], np.int64)
    wanted = np.unique(np.concatenate([ids, gone]))
    found = [_published(i, base, wanted) for i in range(len(base.opened))]
    new = ~np.isin(ids, base.forgotten)
    if again is not None:
        new &= ~again
    if len(gone):
        at = np.minimum(np.searchsorted(gone, ids), len(gone) - 1)
        new &= (gone[at] != ids) | (accepted > since[at])
    with connect() as db:
        db.register(
            "incoming",
            pa.table(
                {
                    "n": pa.array(np.flatnonzero(new)),
                    "id": pa.array(ids[new]),
                    "content": pa.array(content[new]),
                    "accepted": pa.array(accepted[new]),
                    "session": pa.array(session_keys(rows.items)[new]),
                    "ord": pa.array(rows.items["ord"].to_numpy()[new]),
                    **{name: pa.array(rows.items[name].to_numpy()[new]) for name in ("salience", "confidence")},
                }
            ),
        )
        db.register("published", pa.concat_tables([_NOTHING, *found]))
        chosen = db.execute(_CHOOSE, {"other": OTHER}).fetchnumpy()
    replaced: dict[str, list[int]] = {}
    segment, row = np.ma.filled(chosen["segment"], -1), np.ma.filled(chosen["row"], -1)
    changed = np.flatnonzero(segment >= 0)
    said = np.ma.filled(chosen["t_ingested"], 0)
    said[changed] = np.maximum(said[changed], _last_said(base.documents, chosen["id"][changed]))
    late = (segment >= 0) & (chosen["at"] <= said)
    for i in np.unique(segment[(segment >= 0) & ~late]).tolist():
        replaced[base.opened[i].id] = row[(segment == i) & ~late].tolist()
    _remove(base, found, gone, since, set(unhexes(rows.items["id"])[chosen["n"]].tolist()), replaced)
    same = np.ma.filled(chosen["same"], False).astype(bool)
    since, near = (np.where(same, np.ma.filled(chosen[name], 0), 0) for name in ("t_ingested", "near"))
    return Choice(
        np.asarray(chosen["n"], np.int64)[~late],
        replaced,
        np.asarray(since, np.int64)[~late],
        np.asarray(near, np.uint64)[~late],
        same[~late],
    )


def revalued(root: Path, base: Base, rows: Rows, accepted: I64, chosen: Choice, again: Bool) -> Choice:
    """The choice, and with it the rows that what was said after them made matter more or less.

    Such a row is written anew where what is published, or about to be, still says the same at the same place of the
    same session. It is no newer for it: whatever else became of the item since stays as it is.

    Args:
        accepted: int64[n] microseconds: when the document of each row was accepted.
        again: bool[n]: rows of earlier items as their session has made them since; of several the last counts.
    """
    ids = unhexes(rows.items["id"])
    last = {int(ids[n]): n for n in np.flatnonzero(again).tolist()}
    if not last:
        return chosen
    content, session = unhexes(rows.items["content"]), session_keys(rows.items)
    place, salience, confidence = (rows.items[name].to_numpy() for name in ("ord", "salience", "confidence"))
    add, since, near, known = (column.tolist() for column in (chosen.add, chosen.since, chosen.near, chosen.known))
    replaced = {segment: list(gone) for segment, gone in chosen.replaced.items()}
    coming, kept = {int(ids[n]): at for at, n in enumerate(add)}, {}
    for key, n in last.items():
        if (at := coming.get(key)) is not None:
            m = add[at]
            if (content[n], session[n], place[n]) == (content[m], session[m], place[m]):
                add[at], since[at], kept[n] = n, since[at] or int(accepted[m]), _values(rows.items, m)
    wanted = np.array(sorted(last.keys() - coming.keys()), np.uint64)
    for i, opened in enumerate(base.opened):
        for row in _published(i, base, wanted).to_pylist():
            n, gone = last[row["id"]], replaced.get(opened.id, [])
            same = (content[n], session[n], place[n]) == (row["content"], row["session"], row["ord"])
            other = max(abs(salience[n] - row["salience"]), abs(confidence[n] - row["confidence"])) > OTHER
            if same and other and row["row"] not in gone:
                replaced.setdefault(opened.id, []).append(row["row"])
                add, since = [*add, n], [*since, row["t_ingested"]]
                near, known = [*near, row["near"]], [*known, True]
                kept[n] = published_values(root, opened.id, row["row"])
    columns = (np.array(since, np.int64), np.array(near, np.uint64), np.array(known, bool))
    return Choice(np.array(add, np.int64), replaced, *columns, kept)


_KEPT = ("document", "type", "type_confidence")
"""What stays of a row that is written anew: the document that holds its words, and what it was taken for."""


def _values(items: pa.Table, row: int) -> dict[str, Any]:
    return {name: items[name][row].as_py() for name in _KEPT}


def published_values(root: Path, segment: str, row: int) -> dict[str, Any]:
    """Read what stays of a row that is written anew.

    Raises:
        StoreError: what is read of the file is damaged.
    """
    path = root / "segments" / segment / "items.parquet"
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if row < size:
                    return _values(file.read_row_group(group, columns=list(_KEPT)), row)
                row -= size
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(error).splitlines()[0]) from None
    raise damaged(path, "it lacks rows")


def _remove(
    base: Base, found: Sequence[pa.Table], gone: U64, since: I64, kept: set[int], replaced: dict[str, list[int]]
) -> None:
    """Add to `replaced` the published rows of items that vanished from their source, and that no newer document has."""
    said = _last_said(base.documents, gone)
    old = {int(key) for key in gone[said < since]} - kept
    for table in found if old else ():
        for row in table.filter(pc.is_in(table["id"], pa.array(sorted(old), pa.uint64()))).to_pylist():
            rows = replaced.setdefault(base.opened[row["segment"]].id, [])
            rows.append(row["row"])


def as_known(rows: Rows, chosen: Choice) -> Rows:
    """The chosen rows. Those that say what was known before are known since then, and for what they were taken for."""

    def earlier(table: pa.Table, at: I64) -> pa.Table:
        column = table["t_ingested"]
        when = np.where(at > 0, at, column.cast(pa.int64()).to_numpy())
        return _with(table, "t_ingested", pa.array(when).cast(column.type))

    out = rows.take(chosen.add)
    if not chosen.since.any():
        return out
    items = earlier(out.items, chosen.since)
    for name in _KEPT if chosen.kept else ():
        own = zip(chosen.add.tolist(), items[name].to_pylist(), strict=True)
        values = [chosen.kept[n][name] if n in chosen.kept else value for n, value in own]
        items = _with(items, name, pa.array(values, items.schema.field(name).type))
    return replace(out, items=items, facts=earlier(out.facts, chosen.since[owners(out.fact_indptr)]))


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _last_said(
    documents: Sequence[Path], keys: np.ndarray[Any, np.dtype[np.uint64]]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[len(keys)]: when the newest published document with the item was accepted, in microseconds; 0 for none.

    What is published is what that one said, though its row may come from an earlier copy of the same words.
    """
    out = np.zeros(len(keys), np.int64)
    order = np.argsort(keys)
    for path in documents if len(keys) else ():
        table = read_table(path, columns=["accepted", "keys"])
        flat = pc.list_flatten(table["keys"]).to_numpy()
        document = pc.list_parent_indices(table["keys"]).to_numpy()
        hit = np.isin(flat, keys)
        at = order[np.searchsorted(keys, flat[hit], sorter=order)]
        np.maximum.at(out, at, table["accepted"].cast(pa.int64()).to_numpy()[document[hit]])
    return out


_NOTHING = pa.table(
    {
        "id": pa.array([], pa.uint64()),
        "content": pa.array([], pa.uint64()),
        "near": pa.array([], pa.uint64()),
        "t_ingested": pa.array([], pa.int64()),
        "session": pa.array([], pa.uint64()),
        "ord": pa.array([], pa.uint32()),
        "salience": pa.array([], pa.float32()),
        "confidence": pa.array([], pa.float32()),
        "segment": pa.array([], pa.int32()),
        "row": pa.array([], pa.int64()),
    }
)


def _published(i: int, base: Base, wanted: np.ndarray[Any, np.dtype[np.uint64]]) -> pa.Table:
    """The live rows of one segment that have one of the wanted ids."""
    segment = base.opened[i]
    row = lookup(segment["ids.key"], segment["ids.row"], wanted)
    row = row[row >= 0]
    row = row[base.alive[i][row]]
    return pa.table(
        {
            "id": pa.array(segment.column("key")[row]),
            "content": pa.array(segment.column("content")[row]),
            "near": pa.array(segment.column("near")[row]),
            "t_ingested": pa.array(segment.column("accepted")[row]),
            "session": pa.array(segment.column("session")[row]),
            "ord": pa.array(segment.column("ord")[row]),
            "salience": pa.array(segment.column("salience")[row]),
            "confidence": pa.array(segment.column("confidence")[row]),
            "segment": pa.array(np.full(len(row), i, np.int32)),
            "row": pa.array(row),
        }
    )


def live_sessions(
    opened: Sequence[Opened],
    alive: Sequence[np.ndarray[Any, np.dtype[np.bool_]]],
    keys: np.ndarray[Any, np.dtype[np.uint64]],
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """bool[len(keys)]: whether a live row belongs to the session."""
    out = np.zeros(len(keys), bool)
    for segment, live in zip(opened, alive, strict=True):
        known = segment["sessions.key"]
        at = lookup(known, np.arange(len(known), dtype=np.uint32), keys)
        here = np.flatnonzero(at >= 0)
        indptr, flat = flat_index(segment["sessions.indptr"], at[here])
        out[here] |= np.bincount(owners(indptr), live[segment["sessions.rows"][flat]], minlength=len(here)) > 0
    return out
