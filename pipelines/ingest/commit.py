"""Committing: all ready parts become one segment and one new generation. Each pointer has one writer at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helix.encoders.dense import Encoder
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index.dense import FLOAT
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Deletes, File, Index, Lineage, Manifest, Segment
from helix.snapshot.paths import is_held
from helix.snapshot.segment.arrays import format_hex, parse_hex
from helix.snapshot.segment.batch import ITEMS, RowBatch, concat_rows, load_rows
from helix.snapshot.segment.open import map_deleted_rows, map_forgotten_keys, open_segment
from helix.snapshot.segment.write import hash_sessions, write_segment
from helix.snapshot.verify import require_whole
from helix.types import I64, U64, Bool
from helix.util.failpoints import failpoint
from pipelines.ingest.changes import index_changes
from pipelines.ingest.commit_base import CommitBase, count_optional, cover_all, find_live_sessions, open_base
from pipelines.ingest.dedupe import Choice, add_revalued, choose_rows, mark_near_duplicates, take_chosen
from pipelines.ingest.forgotten import build_table, read_purged_keys
from pipelines.ingest.lineage import resolve_lineage
from pipelines.ingest.part import EnrichedPart, find_ready, limit_parts, pipeline_fingerprint
from pipelines.training.router import load_router

Parts = Sequence[tuple[EnrichedPart, RowBatch]]


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a commit. `generation` is unchanged where no part was ready."""

    generation: int
    documents: tuple[str, ...]
    added: int
    replaced: int
    duplicates: int  # items the store held already
    left: int = 0  # ready documents left for the next commit
    forgotten: int = 0  # forgotten items that stay out


def commit(
    root: Path, encoder: Encoder, settings: Settings, pointer: str = "CURRENT", limit: int | None = None
) -> Committed:
    """Publish the ready parts. Reads and writes grow with the new rows, not with the store.

    Args:
        pointer: CURRENT, or NEXT for the lineage a reindex builds.
        limit: most items of one commit; no limit by default.

    Raises:
        EncoderError: the parts were made with another encoder than the lineage's.
        StoreError: another writer holds the lock, or the store cannot be written.
    """
    with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
        base = open_base(root, pointer)
        lineage = resolve_lineage(encoder, base.manifest, settings)
        done = inbox.list_done(root, base.manifest)
        made_by = pipeline_fingerprint(lineage.encoder, settings)
        _sweep_parts(root, done, made_by, pointer)
        # A reindex holds published documents only: pending ones come with a later commit and hold up none.
        pending = frozenset(() if pointer == "CURRENT" else inbox.list_pending(root))
        ready = find_ready(root, made_by, done, pending)
        if not ready:
            return Committed(base.generation, (), 0, 0, 0)
        taken = ready if limit is None else limit_parts(ready, limit)
        documents = list(taken)
        parts = [(part, load_rows(part.folder)) for part in taken.values()]
        failpoint("commit.begin")
        rows = concat_rows([part_rows for _, part_rows in parts])
        accepted, again = _read_accepted(parts), _mark_again(parts)
        remembered = _find_remembered(root, parts, pointer)
        base = replace(base, forgotten=np.setdiff1d(base.forgotten, remembered))
        first = choose_rows(base, rows, accepted, _map_vanished(parts), again)
        chosen = add_revalued(root, base, rows, accepted, first, again)
        segment = _write_segment(root, base, take_chosen(rows, chosen), chosen, lineage)
        failpoint("commit.segment", root.name)
        deletes = _write_deletes(root, base.manifest, chosen.replaced)
        failpoint("commit.deletes")
        file = writer.write_documents(root, build_table(documents, parts, rows, first.add))
        failpoint("commit.documents")
        new = _begin_generation(held, base, encoder, lineage, settings)
        new = replace(
            new,
            segments=(*new.segments, *([segment] if segment else [])),
            indexes=(*new.indexes, *_index_changes(root, base, segment, chosen, lineage)),
            deletes=deletes,
            documents=(*new.documents, file),
            counts=_count(new.counts, base, rows, chosen, file),
            forgotten=_write_forgotten(root, base.manifest, remembered) if len(remembered) else new.forgotten,
        )
        coverage = {**new.coverage, **_cover(parts, new.counts["items"]), **count_optional(root, new, settings)}
        new = replace(new, coverage=coverage)
        writer.publish_generation(held, new)
        _remove_parts(root, taken)
        failpoint("commit.cleaned")
        known = int(np.count_nonzero(first.known))  # new salience or confidence, no new content
        added, replaced = len(first.add) - known, sum(map(len, first.replaced.values())) - known
        duplicates, left = int(np.count_nonzero(~again)) - added, len(ready) - len(documents)
        stay_out = len(np.intersect1d(parse_hex(rows.items["id"]), base.forgotten))
        return Committed(new.generation, tuple(documents), added, replaced, duplicates, left, stay_out)


def _remove_parts(root: Path, parts: Mapping[str, EnrichedPart]) -> None:
    """Remove published parts, and the records of attempts that a kill right after enriching leaves."""
    for part in parts.values():
        shutil.rmtree(part.folder, ignore_errors=True)
    for document in parts:
        (root / "tries" / document).unlink(missing_ok=True)


def commit_rows(root: Path, batches: Iterable[RowBatch], encoder: Encoder, settings: Settings) -> int:
    """Publish generated rows that have no envelopes, one segment a batch; return the generation.

    Rows are not compared with the store: their ids must be new.
    """
    paths.create_folders(root)
    with writer.acquire_lock(root, settings.lock_wait) as held:
        base = open_base(root, "CURRENT")
        lineage = resolve_lineage(encoder, base.manifest, settings)
        segments = [write_segment(root, rows, exact=lineage.vectors.endswith(FLOAT)) for rows in batches]
        new = _begin_generation(held, base, encoder, lineage, settings)
        opened = [open_segment(root, segment, ["sessions.key"]) for segment in segments]
        sessions = np.unique(np.concatenate([segment["sessions.key"] for segment in opened]))
        items = new.counts["items"] + sum(segment.rows for segment in segments)
        counts = {**new.counts, "items": items, "sessions": new.counts["sessions"] + len(sessions)}
        new = replace(new, segments=(*new.segments, *segments), counts=counts)
        optional = {"types": {"off": "these items came with their types"}, **count_optional(root, new, settings)}
        new = replace(new, coverage={**new.coverage, **cover_all(items), **optional})
        writer.publish_generation(held, new)
        return new.generation


def _begin_generation(
    held: writer.WriterLock, base: CommitBase, encoder: Encoder, lineage: Lineage, settings: Settings
) -> Manifest:
    """Return the next generation before anything is added to it."""
    root, manifest = held.root, base.manifest
    encoder_files = (
        manifest.encoder if manifest else writer.copy_encoder(root, encoder.folder, lineage.encoder, settings.stores)
    )
    failpoint("commit.encoder")
    indexes, trained = (manifest.indexes, {}) if manifest else _write_router(root, encoder, settings)
    failpoint("commit.router")
    if manifest:
        return writer.build_next(held, base.name, manifest)
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


def _write_router(root: Path, encoder: Encoder, settings: Settings) -> tuple[tuple[Index, ...], dict[str, Any]]:
    """Write the router's index, once a lineage: it depends on the encoder alone."""
    trained = load_router(encoder, settings)
    if isinstance(trained, str):
        return (), {"off": trained}
    index = writer.write_index(root, "router", {"router.npz": trained}, {"model": "logistic regression"})
    return (index,), {"trained": True}


def _write_segment(root: Path, base: CommitBase, rows: RowBatch, chosen: Choice, lineage: Lineage) -> Segment | None:
    """Write the chosen rows as a segment, near-duplicates marked; None without rows."""
    if not len(rows):
        return None
    near = mark_near_duplicates(
        parse_hex(rows.items["id"]), rows.minhash, base.opened, _leave_replaced(base, chosen.replaced)
    )
    near = np.where(chosen.known, chosen.near, near)  # a later item may repeat this one
    names = pc.if_else(pa.array(near == 0), pa.scalar(None, pa.string()), format_hex(near))
    items = rows.items.set_column(rows.items.schema.get_field_index("near"), ITEMS.field("near"), names)
    return write_segment(root, replace(rows, items=items), exact=lineage.vectors.endswith(FLOAT))


def _index_changes(
    root: Path, base: CommitBase, segment: Segment | None, chosen: Choice, lineage: Lineage
) -> tuple[Index, ...]:
    """Write the index of the changes that the new rows bring; none without rows."""
    if segment is None:
        return ()
    segments = (*(base.manifest.segments if base.manifest else ()), segment)
    alive = [*_leave_replaced(base, chosen.replaced), np.ones(segment.rows, bool)]
    rows, generation = np.arange(segment.rows), base.generation + 1
    return (index_changes(root, segments, alive, len(segments) - 1, rows, lineage.dim, generation),)


def _leave_replaced(base: CommitBase, replaced: dict[str, list[int]]) -> list[Bool]:
    """Return the live rows of each segment after the commit."""
    alive = [live.copy() for live in base.alive]
    for segment, live in zip(base.opened, alive, strict=True):
        live[replaced.get(segment.id, [])] = False
    return alive


def _count(old: Mapping[str, int], base: CommitBase, rows: RowBatch, chosen: Choice, documents: File) -> dict[str, int]:
    return {
        "items": old["items"] + len(chosen.add) - sum(map(len, chosen.replaced.values())),
        "sessions": old["sessions"] + _count_new_sessions(base, rows, chosen),
        "documents": old["documents"] + documents.rows,
    }


def _count_new_sessions(base: CommitBase, rows: RowBatch, chosen: Choice) -> int:
    """Return how many more live sessions the commit leaves; an item may move between two."""
    added = np.unique(hash_sessions(rows.items.take(pa.array(chosen.add))))
    left = [segment.column("session")[chosen.replaced.get(segment.id, [])] for segment in base.opened]
    touched = np.union1d(added, np.concatenate([np.empty(0, np.uint64), *left]))
    before = find_live_sessions(base.opened, base.alive, touched)
    after = find_live_sessions(base.opened, _leave_replaced(base, chosen.replaced), touched)
    return int((after | np.isin(touched, added)).sum()) - int(before.sum())


def _write_deletes(root: Path, manifest: Manifest | None, replaced: dict[str, list[int]]) -> tuple[Deletes, ...]:
    """Return the deletes of the new generation: the former ones and the replaced rows."""
    before = {entry.segment: entry for entry in manifest.deletes} if manifest else {}
    sizes = {segment.id: segment.rows for segment in manifest.segments} if manifest else {}
    for segment, rows in replaced.items():
        gone = np.array(rows, np.uint32)
        if segment in before:
            require_whole(root, [before[segment].file])
            gone = np.union1d(map_deleted_rows(root, before[segment], sizes[segment]), gone)
        before[segment] = writer.write_deletes(root, segment, gone)
    return tuple(before.values())


def _write_forgotten(root: Path, manifest: Manifest | None, remembered: U64) -> File | None:
    """Write the list of forgotten keys without the remembered ones."""
    require_whole(root, [manifest.forgotten] if manifest and manifest.forgotten else [])
    left = np.setdiff1d(map_forgotten_keys(root, manifest), remembered)
    return writer.write_array(root, "forgotten", left) if len(left) else None


_STALE: Final = 3600.0  # seconds without a write after which unfinished work has lost its process


def _sweep_parts(root: Path, done: set[str], fingerprint: str, pointer: str) -> None:
    """Remove parts of published documents, which a kill leaves, and stale unfinished work.

    Parts of another pipeline belong to a reindex; without one they are stale.
    """
    alone = pointer == "CURRENT" and not (root / "NEXT").exists() and not is_held(root / "reindex.lock")
    for path in [*(root / "parts").iterdir(), *(root / "inbox").glob(f"{paths.TEMPORARY}*")]:
        stale = paths.measure_age(path) > _STALE
        document, _, made_by = path.name.partition("-")
        if path.name.startswith(paths.TEMPORARY):
            finished = stale
        elif made_by == fingerprint:
            finished = document in done
        else:
            finished = stale and alone
        if finished:
            paths.remove_path(path)


# ---------------------------------------------------------------- properties of the parts


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def _read_accepted(parts: Parts) -> I64:
    """Return the time of acceptance of each row's document: int64[rows], microseconds."""
    accepted = [(part.accepted - _EPOCH) // _MICROSECOND for part, _ in parts]
    return np.repeat(np.array(accepted, np.int64), [len(rows) for _, rows in parts])


def _mark_again(parts: Parts) -> Bool:
    """Return which rows only update an earlier item's salience or confidence: bool[rows]."""
    again = [np.isin(parse_hex(rows.items["id"]), parse_hex(pa.array(part.again, pa.string()))) for part, rows in parts]
    return np.concatenate([*again, np.empty(0, bool)])


def _map_vanished(parts: Parts) -> dict[int, int]:
    """Return item key → time of acceptance, in microseconds, of the last document that no longer holds it."""
    out: dict[int, int] = {}
    for part, _ in parts:
        for item in part.vanished:
            out[int(item, 16)] = max(out.get(int(item, 16), 0), (part.accepted - _EPOCH) // _MICROSECOND)
    return out


def _cover(parts: Parts, items: int) -> dict[str, Any]:
    """Return the coverage of all items; `types` tells whether the last commit used the type classifier."""
    off = next((part.types for part, _ in parts if part.types), "")
    return {**cover_all(items), "types": {"off": off} if off else {"items": items}}


def _find_remembered(root: Path, parts: Parts, pointer: str) -> U64:
    """Return the keys of items that a remembered document brings back.

    Items of an unfinished deletion stay forgotten; in a lineage being built, so do all that CURRENT has forgotten.
    """
    offered = [parse_hex(rows.items["id"]) for part, rows in parts if part.remember]
    if not offered:
        return np.empty(0, np.uint64)
    keys = np.setdiff1d(np.concatenate(offered), read_purged_keys(root))
    return keys if pointer == "CURRENT" else np.setdiff1d(keys, map_forgotten_keys(root, inbox.load_current(root)[1]))
