"""Committing: all parts that wait become one segment and one new generation. One writer a pointer at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.encoders import seq2seq
from helix.encoders.onnx import Encoder
from helix.errors import EncoderError
from helix.failpoints import failpoint
from helix.settings import Settings
from helix.snapshot import ledger, paths, writer
from helix.snapshot import manifest as manifests
from helix.snapshot.arrays import flat_index, hexes, lookup, owners, unhexes
from helix.snapshot.build import session_keys, write_segment
from helix.snapshot.dense import FLOAT, fitting
from helix.snapshot.manifest import Deletes, Index, Lineage, Manifest, Segment
from helix.snapshot.paths import is_held
from helix.snapshot.queries import KIND, open_queries
from helix.snapshot.rows import ITEMS, Rows, concat
from helix.snapshot.segment import Opened, alive_of, fact_scales, map_npy, open_segment, read_table
from helix.snapshot.sql import connect
from helix.types import I64, U64
from pipelines.classifier import router
from pipelines.enrich import Part, describe, part_folder, pipeline_fingerprint, read_part
from pipelines.near import mark

_OTHER_SALIENCE = 0.04  # what its session made more or less of is published again; one reference is 0.05


@dataclass(frozen=True, slots=True)
class Committed:
    """What one commit published. `generation` is unchanged where there was nothing to do."""

    generation: int
    documents: tuple[str, ...]
    added: int
    replaced: int
    duplicates: int  # items that were there already


def ready(root: Path, fingerprint: str, done: set[str]) -> list[str]:
    """Documents that are not published and whose part is there, in the order they were accepted.

    One that goes on from another, or takes its place, waits for it, unless that one was given up.
    """
    waiting = ledger.waiting(root, done)
    waits, found = set(waiting), []
    for document in waiting:
        folder = part_folder(root, document, fingerprint)
        if not folder.is_dir():
            continue
        part = describe(folder)
        if part.leans_on and ledger.is_dead(root, part.leans_on):  # made when that one was not given up yet
            paths.remove(folder)
        elif not {part.after, part.leans_on} & waits:
            waits.discard(document)
            found.append(document)
    return found


def commit(root: Path, encoder: Encoder, settings: Settings, pointer: str = "CURRENT") -> Committed:
    """Publish every part that waits. Reads and writes in proportion to what is new, not to what is there.

    Args:
        pointer: CURRENT, or NEXT for the lineage a reindex builds.

    Raises:
        EncoderError: the parts were made with another encoder than the lineage's.
        StoreError: another writer is at work, or the store cannot be written.
    """
    with writer.lock(root, settings.lock_wait, pointer) as held:
        base = open_base(root, pointer)
        lineage = lineage_of(encoder, base.manifest, settings)
        done = ledger.done(root, base.manifest)
        made_by = pipeline_fingerprint(lineage.encoder, settings)
        _sweep(root, done, made_by, pointer)
        documents = ready(root, made_by, done)
        if not documents:
            return Committed(base.generation, (), 0, 0, 0)
        folders = [part_folder(root, document, made_by) for document in documents]
        parts = [read_part(folder) for folder in folders]
        failpoint("commit.begin")
        rows = concat([part_rows for _, part_rows in parts])
        chosen = choose(base, rows, _order_of(parts), _vanished(parts))
        segment = _segment(root, base, known_since(rows.take(chosen.add), chosen.since), chosen, lineage)
        failpoint("commit.segment")
        deletes = _deletes(root, base.manifest, chosen.replaced)
        failpoint("commit.deletes")
        file = writer.write_documents(root, _documents(documents, parts, rows, chosen.add))
        failpoint("commit.documents")
        new = _generation(held, base, encoder, lineage, settings)
        counts = {
            "items": new.counts["items"] + len(chosen.add) - sum(map(len, chosen.replaced.values())),
            "sessions": new.counts["sessions"] + _more_sessions(base, rows, chosen),
            "documents": new.counts["documents"] + file.rows,
        }
        new = replace(
            new,
            segments=(*new.segments, *([segment] if segment else [])),
            deletes=deletes,
            documents=(*new.documents, file),
            coverage={**new.coverage, **covered(counts["items"]), "types": _types(parts, counts["items"])},
            counts=counts,
        )
        new = replace(new, coverage={**new.coverage, **counted(root, new, settings)})
        writer.publish(held, new)
        for folder in folders:  # published: the parts are no longer needed
            shutil.rmtree(folder, ignore_errors=True)
        failpoint("commit.cleaned")
        again = int(np.count_nonzero(chosen.since))  # said before, and worth more or less since
        return Committed(
            new.generation,
            tuple(documents),
            len(chosen.add) - again,
            sum(len(gone) for gone in chosen.replaced.values()) - again,
            len(rows) - len(chosen.add) + again,
        )


def bulk(root: Path, batches: Iterable[Rows], encoder: Encoder, settings: Settings) -> int:
    """Publish batches of items that came through no ledger, one segment a batch; for generated stores.

    Nothing is compared with what is there: the ids must be new. Returns the generation.
    """
    paths.create(root)
    with writer.lock(root, settings.lock_wait) as held:
        base = open_base(root, "CURRENT")
        lineage = lineage_of(encoder, base.manifest, settings)
        segments = [write_segment(root, rows, exact=lineage.vectors.endswith(FLOAT)) for rows in batches]
        new = _generation(held, base, encoder, lineage, settings)
        opened = [open_segment(root, segment, ["sessions.key"]) for segment in segments]
        sessions = np.unique(np.concatenate([segment["sessions.key"] for segment in opened]))
        items = new.counts["items"] + sum(segment.rows for segment in segments)
        counts = {**new.counts, "items": items, "sessions": new.counts["sessions"] + len(sessions)}
        new = replace(new, segments=(*new.segments, *segments), counts=counts)
        told = {"types": {"off": "these items came with their types"}, **counted(root, new, settings)}
        new = replace(new, coverage={**new.coverage, **covered(items), **told})
        writer.publish(held, new)
        return new.generation


def covered(items: int) -> dict[str, Any]:
    """What every item has, by the time it is published."""
    return {name: {"items": items} for name in ("embedding", "entities", "facts", "minhash", "near", "salience")}


def recounted(coverage: Mapping[str, Any], items: int) -> dict[str, Any]:
    """The coverage of a generation that has lost items; what a model wrote for them is counted apart."""
    types = coverage.get("types", {})
    return {**coverage, **covered(items), **({"types": {"items": items}} if "items" in types else {})}


def _types(parts: Sequence[tuple[Part, Rows]], items: int) -> dict[str, Any]:
    """Whether the classifier had a say in the types of what was committed last; the cues always have."""
    off = next((part.types for part, _ in parts if part.types), "")
    return {"off": off} if off else {"items": items}


def counted(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """What not every item or fact has: looked up in the segments, which are no more than a few dozen."""
    return {KIND: expanded(root, manifest, settings), FACT_INDEX: facts_indexed(root, manifest)}


FACT_INDEX = "fact_index"


def facts_indexed(root: Path, manifest: Manifest) -> dict[str, Any]:
    """How many facts of live items a search can find, and of how many."""
    found = total = 0
    for segment in manifest.segments:
        rows, scale = fact_scales(root, segment)
        alive = alive_of(root, manifest, segment)[rows]
        found, total = found + int(np.count_nonzero(scale[alive])), total + int(np.count_nonzero(alive))
    return {"facts": found, "of": total}


def expanded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """How many live items the expansion model was asked about, or why it is not at work."""
    mine = [index for index in manifest.indexes if index.kind == KIND]
    covered_by_mine = {segment for index in mine for segment in index.covers}
    alive = {s.id: alive_of(root, manifest, s) for s in manifest.segments if s.id in covered_by_mine}
    looked = sum(int(alive[index.covers[0]][open_queries(root, index).rows].sum()) for index in mine)
    if mine:
        return {"items": looked, "model": mine[-1].params["model"]}
    found = seq2seq.find(settings.doc2query, settings)
    return {"off": found} if isinstance(found, str) else {"items": 0, "model": found.name}


def _generation(held: writer.Lock, base: Base, encoder: Encoder, lineage: Lineage, settings: Settings) -> Manifest:
    """The next generation, before anything is added to it."""
    root, manifest = held.root, base.manifest
    encoder_files = manifest.encoder if manifest else writer.adopt_encoder(root, encoder.folder, lineage.encoder)
    failpoint("commit.encoder")
    indexes, trained = _router(root, manifest, encoder, settings)
    failpoint("commit.router")
    if manifest:
        return writer.following(held, base.name, manifest)
    return Manifest(
        generation=1,
        parent=None,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        lineage=lineage,
        segments=(),
        deletes=(),
        indexes=indexes,
        documents=(),
        encoder=encoder_files,
        coverage={"router": trained},
        counts={"items": 0, "sessions": 0, "documents": 0},
        token=held.token,
    )


def _segment(root: Path, base: Base, rows: Rows, chosen: Choice, lineage: Lineage) -> Segment | None:
    """The new items as a segment, near-duplicates marked."""
    if not len(rows):
        return None
    alive = [live.copy() for live in base.alive]
    ids = [segment.id for segment in base.opened]
    for segment, gone in chosen.replaced.items():
        alive[ids.index(segment)][gone] = False
    near = mark(unhexes(rows.items["id"]), rows.minhash, base.opened, alive)
    names = pc.if_else(pa.array(near == 0), pa.scalar(None, pa.string()), hexes(near))
    items = rows.items.set_column(rows.items.schema.get_field_index("near"), ITEMS.field("near"), names)
    return write_segment(root, replace(rows, items=items), exact=lineage.vectors.endswith(FLOAT))


_STALE = 3600.0  # seconds: unfinished work nobody has touched for so long belongs to a process that is gone


def _sweep(root: Path, done: set[str], fingerprint: str, pointer: str) -> None:
    """Remove the parts of published documents, which a kill may have left, and unfinished work of the dead.

    Parts of another pipeline belong to a reindex, or to nobody once there is none.
    """
    alone = pointer == "CURRENT" and not (root / "NEXT").exists() and not is_held(root / "reindex.lock")
    for path in [*(root / "parts").iterdir(), *(root / "inbox").glob(f"{paths.TEMPORARY}*")]:
        stale = paths.age(path) > _STALE
        document, _, made_by = path.name.partition("-")
        if path.name.startswith(paths.TEMPORARY):
            finished = stale
        elif made_by == fingerprint:
            finished = document in done
        else:
            finished = stale and alone
        if finished:
            paths.remove(path)


def lineage_of(encoder: Encoder, manifest: Manifest | None, settings: Settings) -> Lineage:
    spec = encoder.spec
    if manifest and manifest.lineage.encoder != spec.fingerprint:
        raise EncoderError(
            f"the store was built with {manifest.lineage.name} ({manifest.lineage.encoder}), "
            f"these items with {spec.name} ({spec.fingerprint})",
            "two encoders never meet in one lineage: unset HELIX_ENCODER, or start another store",
        )
    if manifest:
        return manifest.lineage  # as it was begun: settings that differ by now are what a reindex is for
    fitting(settings.vectors.removesuffix(FLOAT), spec.dim)  # now, not when the first index is built
    pipeline = pipeline_fingerprint(spec.fingerprint, settings)
    return Lineage(spec.fingerprint, spec.name, spec.dim, pipeline, settings.vectors)


# ---------------------------------------------------------------- what is there already


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
    opened = tuple(open_segment(root, segment, (*_LOOKED_AT, *_NEAR)) for segment in manifest.segments)
    alive = tuple(alive_of(root, manifest, segment) for segment in opened)
    forgotten = forgotten_by(root, manifest)
    if pointer != "CURRENT":  # what is forgotten while a lineage is built must not come into it
        _, current = ledger.current(root)
        forgotten = np.union1d(forgotten, forgotten_by(root, current)) if current else forgotten
    documents = tuple(root / file.path for file in manifest.documents)
    return Base(name, manifest, opened, alive, forgotten, documents)


def forgotten_by(root: Path, manifest: Manifest) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Keys of the items a generation never takes in again: uint64[n], sorted."""
    return map_npy(root / manifest.forgotten.path) if manifest.forgotten else np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which incoming rows go in, and which published rows they replace."""

    add: I64
    replaced: dict[str, list[int]]  # segment id → rows
    since: I64  # of each added: microseconds, where it says what was known before; else 0


_CHOOSE = """
WITH newest AS (  -- a turn may come in several versions at once: the last accepted one counts
    SELECT *, first_value(content) OVER last AS said, first_value(accepted) OVER last AS at FROM incoming
    WINDOW last AS (PARTITION BY id ORDER BY accepted DESC, n DESC)
), best AS (      -- of equal copies (a resumed log) the earliest stays
    SELECT * FROM newest WHERE content = said
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY accepted, n) = 1
)
SELECT best.n, published.segment, published.row, best.id, best.at, published.t_ingested,
       published.content = best.content AS same
FROM best LEFT JOIN published USING (id)
WHERE published.id IS NULL OR best.content <> published.content
      OR best.session = published.session AND best.ord = published.ord
         AND abs(best.salience - published.salience) > $other
ORDER BY best.n
"""


def choose(
    base: Base, rows: Rows, accepted: np.ndarray[Any, Any], vanished: Mapping[int, int] = MappingProxyType({})
) -> Choice:
    """New items and changed ones go in; an item that is there already, unchanged or newer, or forgotten, stays out.

    An item is changed where it says something else, and where what came after it in its session made it matter more
    or less; then it was known since it was first taken in. A log that was resumed repeats turns in another session,
    and one that is no continuation has them elsewhere: these change nothing.

    Args:
        accepted: int64[n] microseconds: when the document of each row was accepted.
        vanished: key of an item → when a document was accepted that no longer has it.
    """
    ids, content = unhexes(rows.items["id"]), unhexes(rows.items["content"])
    gone = np.array(sorted(vanished), np.uint64)
    since = np.array([vanished[int(key)] for key in gone], np.int64)
    wanted = np.unique(np.concatenate([ids, gone]))
    found = [_published(i, base, wanted) for i in range(len(base.opened))]
    new = ~np.isin(ids, base.forgotten)
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
                    "salience": pa.array(rows.items["salience"].to_numpy()[new]),
                }
            ),
        )
        db.register("published", pa.concat_tables([_NOTHING, *found]))
        chosen = db.execute(_CHOOSE, {"other": _OTHER_SALIENCE}).fetchnumpy()
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
    since = np.where(same, np.ma.filled(chosen["t_ingested"], 0), 0)
    return Choice(np.asarray(chosen["n"], np.int64)[~late], replaced, np.asarray(since, np.int64)[~late])


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


def known_since(rows: Rows, since: np.ndarray[Any, np.dtype[np.int64]]) -> Rows:
    """The rows, and their facts, with an earlier time of being taken in where `since` gives one."""

    def earlier(table: pa.Table, at: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
        column = table["t_ingested"]
        when = np.where(at > 0, at, column.cast(pa.int64()).to_numpy())
        return table.set_column(
            table.schema.get_field_index("t_ingested"), "t_ingested", pa.array(when).cast(column.type)
        )

    if not since.any():
        return rows
    return replace(rows, items=earlier(rows.items, since), facts=earlier(rows.facts, since[owners(rows.fact_indptr)]))


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
        "t_ingested": pa.array([], pa.int64()),
        "session": pa.array([], pa.uint64()),
        "ord": pa.array([], pa.uint32()),
        "salience": pa.array([], pa.float32()),
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
            "t_ingested": pa.array(segment.column("accepted")[row]),
            "session": pa.array(segment.column("session")[row]),
            "ord": pa.array(segment.column("ord")[row]),
            "salience": pa.array(segment.column("salience")[row]),
            "segment": pa.array(np.full(len(row), i, np.int32)),
            "row": pa.array(row),
        }
    )


def _more_sessions(base: Base, rows: Rows, chosen: Choice) -> int:
    """How many more live sessions there are after the commit; an item that replaces another may move between two."""
    added = np.unique(session_keys(rows.items.take(pa.array(chosen.add))))
    after = [live.copy() for live in base.alive]
    left = [np.empty(0, np.uint64)]
    for i, segment in enumerate(base.opened):
        gone = chosen.replaced.get(segment.id, [])
        after[i][gone] = False
        left.append(segment.column("session")[gone])
    touched = np.union1d(added, np.concatenate(left))
    before = live_sessions(base.opened, base.alive, touched)
    return int((live_sessions(base.opened, after, touched) | np.isin(touched, added)).sum()) - int(before.sum())


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


def _deletes(root: Path, manifest: Manifest | None, replaced: dict[str, list[int]]) -> tuple[Deletes, ...]:
    """The deletes of the new generation: the old ones and the replaced rows."""
    before = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    for segment, rows in replaced.items():
        gone = np.array(rows, np.uint32)
        if segment in before:
            gone = np.union1d(map_npy(root / before[segment].file.path), gone)
        before[segment] = writer.write_deletes(root, segment, gone)
    return tuple(before.values())


# ---------------------------------------------------------------- the documents taken in


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _order_of(parts: Sequence[tuple[Part, Rows]]) -> np.ndarray[Any, Any]:
    """int64[rows]: when the document of each row was accepted, in microseconds."""
    accepted = [(part.accepted - _EPOCH) // _MICROSECOND for part, _ in parts]
    return np.repeat(np.array(accepted, np.int64), [len(rows) for _, rows in parts])


def _vanished(parts: Sequence[tuple[Part, Rows]]) -> dict[int, int]:
    """Key of an item → microseconds: when the last document was accepted that no longer has it."""
    out: dict[int, int] = {}
    for part, _ in parts:
        for item in part.vanished:
            out[int(item, 16)] = max(out.get(int(item, 16), 0), (part.accepted - _EPOCH) // _MICROSECOND)
    return out


DOCUMENTS = pa.schema(
    [
        ("document", pa.string()),
        ("path", pa.string()),
        ("format", pa.string()),
        ("accepted", pa.timestamp("us", tz="UTC")),
        ("sessions", pa.int64()),
        ("turns", pa.int64()),
        ("items", pa.int64()),
        ("redacted", pa.string()),
        ("problems", pa.int64()),
        ("keys", pa.list_(pa.uint64())),
    ]
)


def _documents(
    documents: Sequence[str],
    parts: Sequence[tuple[Part, Rows]],
    rows: Rows,
    add: np.ndarray[Any, np.dtype[np.int64]],
) -> pa.Table:
    added = np.zeros(len(rows), bool)
    added[add] = True
    ends = np.cumsum([0, *(len(part_rows) for _, part_rows in parts)])
    keys = unhexes(rows.items["id"])
    records = []
    for i, (document, (part, _)) in enumerate(zip(documents, parts, strict=True)):
        records.append(
            {
                "document": document,
                "path": part.path,
                "format": part.format,
                "accepted": part.accepted,
                "sessions": part.sessions,
                "turns": part.turns,
                "items": int(added[ends[i] : ends[i + 1]].sum()),
                "redacted": orjson.dumps(part.redacted).decode(),
                "problems": len(part.problems),
                # Every item the document holds, chosen or not: what forgetting has to know.
                "keys": keys[ends[i] : ends[i + 1]] if part.keys is None else unhexes(pa.array(part.keys, pa.string())),
            }
        )
    return pa.Table.from_pylist(records, schema=DOCUMENTS)


def _router(
    root: Path, manifest: Manifest | None, encoder: Encoder, settings: Settings
) -> tuple[tuple[Index, ...], dict[str, Any]]:
    """The router depends on the encoder alone: taken in once a lineage, then handed on."""
    if manifest:
        return manifest.indexes, dict(manifest.coverage["router"])
    trained = router(encoder, settings)
    if isinstance(trained, str):
        return (), {"off": trained}
    index = writer.write_index(root, "router", {"router.npz": trained}, {"model": "logistic regression"})
    return (index,), {"trained": True}
