"""Committing: all parts that wait become one segment and one new generation. One writer a pointer at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.encoders import seq2seq, sparse
from helix.encoders.dense import Encoder
from helix.errors import EncoderError
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index import sparse as impacts
from helix.snapshot.index.dense import FLOAT, fitting
from helix.snapshot.index.doc2query import KIND, open_queries
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Deletes, File, Index, Lineage, Manifest, Segment
from helix.snapshot.paths import is_held
from helix.snapshot.segment.arrays import hexes, unhexes
from helix.snapshot.segment.batch import ITEMS, Rows, concat, load
from helix.snapshot.segment.open import alive_of, deleted_rows, fact_scales, forgotten_keys, open_segment
from helix.snapshot.segment.write import session_keys, write_segment
from helix.snapshot.verify import require_whole
from helix.types import U32, U64, Bool
from helix.util.failpoints import failpoint
from pipelines.ingest.dedupe import Base, Choice, as_known, choose, live_sessions, open_base, revalued
from pipelines.ingest.enrich import Part, describe, part_folder, pipeline_fingerprint
from pipelines.ingest.forgotten import being_forgotten
from pipelines.ingest.neardup import mark
from pipelines.training.cache import router


@dataclass(frozen=True, slots=True)
class Committed:
    """What one commit published. `generation` is unchanged where there was nothing to do."""

    generation: int
    documents: tuple[str, ...]
    added: int
    replaced: int
    duplicates: int  # items that were there already
    left: int = 0  # documents that are ready, and wait for the next commit
    forgotten: int = 0  # items that stay out because they were


SMALL = 64  # items of a part that somebody may be waiting for


def ready(root: Path, fingerprint: str, done: set[str], unread: frozenset[str] = frozenset()) -> dict[str, Part]:
    """The parts of documents that are not published, by document, in the order they were accepted.

    One that goes on from another, or takes its place, waits for it, unless that one was given up.

    Args:
        unread: documents nobody waits for as long as they have no part.
    """
    waiting = ledger.waiting(root, done)
    left: dict[str, Part] = {}
    for document in waiting:
        folder = part_folder(root, document, fingerprint)
        if not folder.is_dir():
            continue
        part = describe(folder)
        if part.leans_on and ledger.is_dead(root, part.leans_on):  # made when that one was not given up yet
            paths.remove(folder)
        else:
            left[document] = part
    waits, found = set(waiting) - (unread - left.keys()), dict[str, Part]()
    while now := [name for name, part in left.items() if waits.isdisjoint((part.after, part.leans_on))]:
        for document in now:  # mostly one after the other, as they were accepted
            waits.discard(document)
            found[document] = left.pop(document)
    return found


OVERDUE = 30.0  # seconds for which small documents may go before a large one


def first_of(parts: Mapping[str, Part], limit: int) -> dict[str, Part]:
    """So many of the parts that are ready that their items stay below a limit, one at least: the small ones first.

    None goes before one it goes on from. An import so holds a fresh turn up for one commit, and a short one; and fresh
    turns hold a part that is larger than the limit up for so long, and no longer.
    """
    left, chosen, size, overdue = set(parts), set[str](), 0, False
    for small in (True, False):
        for document, part in parts.items():
            later = not left.isdisjoint((part.after, part.leans_on))
            if document in chosen or later or (small and part.items > SMALL):
                continue
            if chosen and size + part.items > limit:
                if small or overdue or paths.age(part.folder) < OVERDUE:
                    continue
                overdue = True
            size += part.items
            chosen.add(document)
            left.discard(document)
    return {document: part for document, part in parts.items() if document in chosen}


def commit(
    root: Path, encoder: Encoder, settings: Settings, pointer: str = "CURRENT", limit: int | None = None
) -> Committed:
    """Publish the parts that wait. Reads and writes in proportion to what is new, not to what is there.

    Args:
        pointer: CURRENT, or NEXT for the lineage a reindex builds.
        limit: of items at a time; all of them where not given.

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
        # A lineage that is built anew is made of what is published: what is not will come with the next commit.
        waiting = ready(root, made_by, done, frozenset() if pointer == "CURRENT" else frozenset(ledger.pending(root)))
        if not waiting:
            return Committed(base.generation, (), 0, 0, 0)
        taken = waiting if limit is None else first_of(waiting, limit)
        documents = list(taken)
        parts = [(part, load(part.folder)) for part in taken.values()]
        failpoint("commit.begin")
        rows = concat([part_rows for _, part_rows in parts])
        accepted, again = _order_of(parts), _again(parts)
        back = _asked_back(root, parts, pointer)
        base = replace(base, forgotten=np.setdiff1d(base.forgotten, back))
        said = choose(base, rows, accepted, _vanished(parts), again)
        chosen = revalued(root, base, rows, accepted, said, again)
        segment = _segment(root, base, as_known(rows, chosen), chosen, lineage)
        failpoint("commit.segment")
        deletes = _deletes(root, base.manifest, chosen.replaced)
        failpoint("commit.deletes")
        file = writer.write_documents(root, _documents(documents, parts, rows, said.add))
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
            forgotten=_without(root, base.manifest, back) if len(back) else new.forgotten,
        )
        new = replace(new, coverage={**new.coverage, **counted(root, new, settings)})
        writer.publish(held, new)
        for part in taken.values():  # published: they are no longer needed
            shutil.rmtree(part.folder, ignore_errors=True)
        for document in documents:  # nor is what a kill right after a part was made has left of its try
            (root / "tries" / document).unlink(missing_ok=True)
        failpoint("commit.cleaned")
        known = int(np.count_nonzero(said.known))  # worth more or less since, and no news
        return Committed(
            new.generation,
            tuple(documents),
            len(said.add) - known,
            sum(len(gone) for gone in said.replaced.values()) - known,
            int(np.count_nonzero(~again)) - len(said.add) + known,
            len(waiting) - len(documents),
            len(np.intersect1d(unhexes(rows.items["id"]), base.forgotten)),
        )


def _asked_back(root: Path, parts: Sequence[tuple[Part, Rows]], pointer: str) -> U64:
    """Keys of the items that are no longer forgotten, since a document that holds them was offered for that.

    Not of what is being forgotten this moment; nor, for a lineage that is being built, of what is by now.
    """
    asked = [unhexes(rows.items["id"]) for part, rows in parts if part.remember]
    if not asked:
        return np.empty(0, np.uint64)
    keys = np.setdiff1d(np.concatenate(asked), being_forgotten(root))
    return keys if pointer == "CURRENT" else np.setdiff1d(keys, forgotten_keys(root, ledger.current(root)[1]))


def _without(root: Path, manifest: Manifest | None, keys: U64) -> File | None:
    """The list of what is forgotten, without some of it."""
    require_whole(root, [manifest.forgotten] if manifest and manifest.forgotten else [])
    left = np.setdiff1d(forgotten_keys(root, manifest), keys)
    return writer.write_array(root, "forgotten", left) if len(left) else None


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
    return {
        KIND: expanded(root, manifest, settings),
        impacts.KIND: encoded(root, manifest, settings),
        FACT_INDEX: facts_indexed(root, manifest),
    }


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
    mine = [(index, open_queries(root, index).rows) for index in manifest.indexes if index.kind == KIND]
    if mine:
        return {"items": _alive(root, manifest, mine), "model": mine[-1][0].params["model"]}
    found = seq2seq.find(settings.doc2query, settings)
    return {"off": found} if isinstance(found, str) else {"items": 0, "model": found.name}


def encoded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """How many live items have the sparse encoder's weights, or why none does."""
    mine = [(index, impacts.open_impacts(root, index).rows) for index in impacts.usable(manifest.indexes)]
    if mine:
        return {"items": _alive(root, manifest, mine), "model": mine[-1][0].params["model"]}
    found = sparse.in_reach(settings)
    return {"off": found} if isinstance(found, str) else {"items": 0, "model": found.name}


def _alive(root: Path, manifest: Manifest, held: Sequence[tuple[Index, U32]]) -> int:
    """How many of the rows of some indexes, each of one segment, live."""
    covered_by = {index.covers[0] for index, _ in held}
    alive = {segment.id: alive_of(root, manifest, segment) for segment in manifest.segments if segment.id in covered_by}
    return sum(int(alive[index.covers[0]][rows].sum()) for index, rows in held)


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
    near = np.where(chosen.known, chosen.near, near)  # a later item may be near to this one by now
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


# ---------------------------------------------------------------- what changes beside the items


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


def _deletes(root: Path, manifest: Manifest | None, replaced: dict[str, list[int]]) -> tuple[Deletes, ...]:
    """The deletes of the new generation: the old ones and the replaced rows."""
    before = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    sizes = {segment.id: segment.rows for segment in manifest.segments} if manifest else {}
    for segment, rows in replaced.items():
        gone = np.array(rows, np.uint32)
        if segment in before:
            require_whole(root, [before[segment].file])
            gone = np.union1d(deleted_rows(root, before[segment], sizes[segment]), gone)
        before[segment] = writer.write_deletes(root, segment, gone)
    return tuple(before.values())


# ---------------------------------------------------------------- the documents taken in


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _order_of(parts: Sequence[tuple[Part, Rows]]) -> np.ndarray[Any, Any]:
    """int64[rows]: when the document of each row was accepted, in microseconds."""
    accepted = [(part.accepted - _EPOCH) // _MICROSECOND for part, _ in parts]
    return np.repeat(np.array(accepted, np.int64), [len(rows) for _, rows in parts])


def _again(parts: Sequence[tuple[Part, Rows]]) -> Bool:
    """bool[rows]: whether a row is an earlier item of its source, told again since it matters more or less."""
    told = [np.isin(unhexes(rows.items["id"]), unhexes(pa.array(part.again, pa.string()))) for part, rows in parts]
    return np.concatenate([*told, np.empty(0, bool)])


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
