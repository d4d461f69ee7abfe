"""Deduplication: which incoming rows a commit adds, which published rows they replace, and which are near-duplicates.

Candidates for near-duplicates share a band of their MinHash signatures (Broder 1997; banding as in Leskovec, Rajaraman
& Ullman, "Mining of Massive Datasets", ch. 3); near means an estimated Jaccard similarity of at least 0.8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.segment.arrays import BANDS, expand_rows, hash_bands, parse_hex, select_alive
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.segment.open import OpenSegment
from helix.snapshot.segment.write import hash_sessions
from helix.snapshot.sql import connect_duckdb
from helix.types import I64, U32, U64, Bool
from pipelines.ingest.commit_base import NO_ROWS, CommitBase
from pipelines.ingest.forgotten import read_keys
from pipelines.ingest.items import OTHER


@dataclass(frozen=True, slots=True)
class Choice:
    """The incoming rows to add, and the published rows they replace."""

    add: I64
    replaced: dict[str, list[int]]  # segment id → rows
    since: I64  # of each added row: microseconds, where its words were known before; else 0
    near: U64  # of each added row that replaces one of the same content: that row's near-duplicate
    known: Bool  # of each added row: it replaces one of the same content
    retained: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # incoming row → values it inherits


_CHOOSE: Final = """
WITH newest AS (  -- of several versions of a turn the last accepted one counts
    SELECT *, first_value(content) OVER last AS last_content, first_value(accepted) OVER last AS at FROM incoming
    WINDOW last AS (PARTITION BY id ORDER BY accepted DESC, n DESC)
), best AS (      -- of equal copies (a resumed log) the earliest stays
    SELECT * FROM newest WHERE content = last_content
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


def choose_rows(
    base: CommitBase,
    rows: RowBatch,
    accepted: I64,
    vanished: Mapping[int, int] = MappingProxyType({}),
    again: Bool | None = None,
) -> Choice:
    """Choose new and changed items; leave out those that are published unchanged or newer, and forgotten ones.

    An item changes with its content, or when later turns of its session change its salience or confidence. In the
    second case it keeps the time it was first ingested. A resumed log repeats turns in another session, and an
    unrelated log has them at other places: neither changes an item.

    Args:
        accepted: int64[n], microseconds: time of acceptance of each row's document.
        vanished: item key → time of acceptance of the last document whose source no longer holds it.
        again: bool[n]: rows that only update earlier items; see `add_revalued`.
    """
    ids = parse_hex(rows.items["id"])
    gone = np.array(sorted(vanished), np.uint64)
    since = np.array([vanished[int(key)] for key in gone], np.int64)
    wanted = np.unique(np.concatenate([ids, gone]))
    published = [base.read_rows(i, wanted) for i in range(len(base.opened))]
    new = ~np.isin(ids, base.forgotten)
    if again is not None:
        new &= ~again
    if len(gone):
        at = np.minimum(np.searchsorted(gone, ids), len(gone) - 1)
        new &= (gone[at] != ids) | (accepted > since[at])
    chosen = _join(rows, ids, accepted, new, published)
    segment, row = np.ma.filled(chosen["segment"], -1), np.ma.filled(chosen["row"], -1)
    changed = np.flatnonzero(segment >= 0)
    newest = np.ma.filled(chosen["t_ingested"], 0)
    newest[changed] = np.maximum(newest[changed], _find_last_accepted(base.documents, chosen["id"][changed]))
    late = (segment >= 0) & (chosen["at"] <= newest)
    replaced: dict[str, list[int]] = {}
    for i in np.unique(segment[(segment >= 0) & ~late]).tolist():
        replaced[base.opened[i].id] = row[(segment == i) & ~late].tolist()
    _remove_vanished(base, published, gone, since, set(ids[chosen["n"]].tolist()), replaced)
    same = np.ma.filled(chosen["same"], False).astype(bool)
    since, near = (np.where(same, np.ma.filled(chosen[name], 0), 0) for name in ("t_ingested", "near"))
    return Choice(
        np.asarray(chosen["n"], np.int64)[~late],
        replaced,
        np.asarray(since, np.int64)[~late],
        np.asarray(near, np.uint64)[~late],
        same[~late],
    )


def _join(rows: RowBatch, ids: U64, accepted: I64, new: Bool, published: Sequence[pa.Table]) -> dict[str, Any]:
    """Join incoming and published rows; return the columns of `_CHOOSE` as masked arrays."""
    incoming = {
        "id": ids,
        "content": parse_hex(rows.items["content"]),
        "accepted": accepted,
        "session": hash_sessions(rows.items),
        **{name: rows.items[name].to_numpy() for name in ("ord", "salience", "confidence")},
    }
    columns = {name: pa.array(column[new]) for name, column in incoming.items()}
    with connect_duckdb() as db:
        db.register("incoming", pa.table({"n": pa.array(np.flatnonzero(new)), **columns}))
        db.register("published", pa.concat_tables([NO_ROWS, *published]))
        return db.execute(_CHOOSE, {"other": OTHER}).fetchnumpy()


def add_revalued(root: Path, base: CommitBase, rows: RowBatch, accepted: I64, chosen: Choice, again: Bool) -> Choice:
    """Add to a choice the earlier items whose salience or confidence later turns changed.

    Such a row is added if the published row, or another incoming one, has the same content, session and place. It
    keeps that row's time and retained values.

    Args:
        accepted: int64[n], microseconds: time of acceptance of each row's document.
        again: bool[n]: rows of earlier items with their new values; of several the last counts.
    """
    ids = parse_hex(rows.items["id"])
    last = {int(ids[n]): n for n in np.flatnonzero(again).tolist()}
    if not last:
        return chosen
    content, session = parse_hex(rows.items["content"]), hash_sessions(rows.items)
    place, salience, confidence = (rows.items[name].to_numpy() for name in ("ord", "salience", "confidence"))
    add, since, near, known = (column.tolist() for column in (chosen.add, chosen.since, chosen.near, chosen.known))
    replaced = {segment: list(gone) for segment, gone in chosen.replaced.items()}
    coming, retained = {int(ids[n]): at for at, n in enumerate(add)}, {}
    for key, n in last.items():
        if (at := coming.get(key)) is not None:
            m = add[at]
            if (content[n], session[n], place[n]) == (content[m], session[m], place[m]):
                add[at], since[at], retained[n] = n, since[at] or int(accepted[m]), _read_values(rows.items, m)
    wanted = np.array(sorted(last.keys() - coming.keys()), np.uint64)
    for i, opened in enumerate(base.opened):
        for row in base.read_rows(i, wanted).to_pylist():
            n, gone = last[row["id"]], replaced.get(opened.id, [])
            same = (content[n], session[n], place[n]) == (row["content"], row["session"], row["ord"])
            other = max(abs(salience[n] - row["salience"]), abs(confidence[n] - row["confidence"])) > OTHER
            if same and other and row["row"] not in gone:
                replaced.setdefault(opened.id, []).append(row["row"])
                add, since = [*add, n], [*since, row["t_ingested"]]
                near, known = [*near, row["near"]], [*known, True]
                retained[n] = read_retained(root, opened.id, row["row"])
    columns = (np.array(since, np.int64), np.array(near, np.uint64), np.array(known, bool))
    return Choice(np.array(add, np.int64), replaced, *columns, retained)


_RETAINED: Final = ("document", "type", "type_confidence")
"""Fields that an updated row inherits: the document that holds its words, and its type."""


def _read_values(items: pa.Table, row: int) -> dict[str, Any]:
    return {name: items[name][row].as_py() for name in _RETAINED}


def read_retained(root: Path, segment: str, row: int) -> dict[str, Any]:
    """Read the fields that an updated row inherits from its published row.

    Raises:
        StoreError: the row's part of the file is damaged.
    """
    path = root / "segments" / segment / "items.parquet"
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if row < size:
                    return _read_values(file.read_row_group(group, columns=list(_RETAINED)), row)
                row -= size
    except (pa.ArrowException, OSError) as error:
        raise make_damage_error(path, str(error).splitlines()[0]) from None
    raise make_damage_error(path, "it lacks rows")


def _remove_vanished(
    base: CommitBase,
    published: Sequence[pa.Table],
    gone: U64,
    since: I64,
    added: set[int],
    replaced: dict[str, list[int]],
) -> None:
    """Add the published rows of vanished items to `replaced`, unless a newer document holds them."""
    last = _find_last_accepted(base.documents, gone)
    old = {int(key) for key in gone[last < since]} - added
    for table in published if old else ():
        for row in table.filter(pc.is_in(table["id"], pa.array(sorted(old), pa.uint64()))).to_pylist():
            replaced.setdefault(base.opened[row["segment"]].id, []).append(row["row"])


def take_chosen(rows: RowBatch, chosen: Choice) -> RowBatch:
    """Return the chosen rows; those of known content keep their first time and their retained values."""

    def set_time(table: pa.Table, since: I64) -> pa.Table:
        column = table["t_ingested"]
        when = np.where(since > 0, since, column.cast(pa.int64()).to_numpy())
        return _set_column(table, "t_ingested", pa.array(when).cast(column.type))

    out = rows.take(chosen.add)
    if not chosen.since.any():
        return out
    items = set_time(out.items, chosen.since)
    for name in _RETAINED if chosen.retained else ():
        own = zip(chosen.add.tolist(), items[name].to_pylist(), strict=True)
        values = [chosen.retained[n][name] if n in chosen.retained else value for n, value in own]
        items = _set_column(items, name, pa.array(values, items.schema.field(name).type))
    return replace(out, items=items, facts=set_time(out.facts, chosen.since[expand_rows(out.fact_indptr)]))


def _set_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _find_last_accepted(documents: Sequence[Path], keys: U64) -> I64:
    """Return when the newest published document with each item was accepted: int64[len(keys)], microseconds, or 0.

    An item has that document's content, even if its row comes from an earlier copy of the same words.
    """
    out = np.zeros(len(keys), np.int64)
    order = np.argsort(keys)
    for path in documents if len(keys) else ():
        accepted, flat, document = read_keys(path, "accepted")
        hit = np.isin(flat, keys)
        at = order[np.searchsorted(keys, flat[hit], sorter=order)]
        np.maximum.at(out, at, accepted.cast(pa.int64()).to_numpy()[document[hit]])
    return out


NEAR = 0.8
_FIRST = 8  # live entries of a band that are compared, earliest first: boilerplate repeats thousands of times
_DEAD = 4  # times as many entries are read at most: compaction rewrites segments with a quarter of dead rows


def mark_near_duplicates(keys: U64, signatures: U32, segments: Sequence[OpenSegment], alive: Sequence[Bool]) -> U64:
    """Return the key of each new item's earliest near-duplicate, 0 for none: uint64[n].

    Args:
        keys: uint64[n] ids of the new items.
        signatures: uint32[n, 64].
        segments: the published segments, oldest first.
        alive: the live rows of each segment, bool[rows].
    """
    n = len(keys)
    out = np.zeros(n, np.uint64)
    bands = hash_bands(signatures)
    for segment, live in zip(segments, alive, strict=True):
        todo = np.flatnonzero(out == 0)
        row, at = _find_shared(bands[:, todo], segment["bands.key"], segment["bands.row"], live)
        here = segment.column("key")[row] != keys[todo[at]]  # a changed item does not repeat itself
        _set_first(out, todo[at[here]], segment["minhash"], row[here], segment.column("key"), signatures)
    order = np.argsort(bands, axis=1, kind="stable")
    row, at = _find_shared(bands, np.take_along_axis(bands, order, axis=1), order.astype(np.uint32), np.ones(n, bool))
    earlier = (row < at) & (keys[row] != keys[at]) & (out[at] == 0)
    _set_first(out, at[earlier], signatures, row[earlier], keys, signatures)
    return out


def _find_shared(bands: U32, key: U32, rows: U32, live: Bool) -> tuple[I64, I64]:
    """Return (row, position in `bands`) of the first live entries that share a band with each new item."""
    found, at = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for band in range(BANDS):
        low = np.searchsorted(key[band], bands[band])
        seen = np.zeros(bands.shape[1], np.int64)
        for step in range(_DEAD * _FIRST):
            place = low + step
            inside = np.flatnonzero((place < key.shape[1]) & (seen < _FIRST))
            inside = inside[key[band][place[inside]] == bands[band][inside]]
            if not len(inside):
                break
            row = rows[band][place[inside]].astype(np.int64)
            here = select_alive(live, row)
            seen[inside] += here
            found.append(row[here])
            at.append(inside[here])
    pairs = np.unique(np.stack([np.concatenate(at), np.concatenate(found)]), axis=1)
    return pairs[1], pairs[0]


def _set_first(out: U64, at: I64, theirs: U32, row: I64, keys: U64, ours: U32) -> None:
    """Point each item at the first of its rows, ascending, that is near enough."""
    near = np.mean(ours[at] == theirs[row], axis=1) >= NEAR if len(at) else np.zeros(0, bool)
    items, first = np.unique(at[near], return_index=True)
    out[items] = keys[row[near][first]]
