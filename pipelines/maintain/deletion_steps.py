"""The steps of a deletion: drop rows, find the files that hold anything of the items, read what stays of documents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helix.errors import Damaged, StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.checked_arrays import map_npy
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.access_events import read_access
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.arrays import look_up
from helix.snapshot.segment.batch import ITEMS
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.open import load_alive, map_forgotten_keys, read_table
from helix.snapshot.verify import require_whole
from helix.types import U64
from helix.util.hashing import hash_file
from pipelines.ingest.commit_base import count_optional, find_live_sessions, open_base, recount
from pipelines.ingest.enrich import FAULTS, read_item_records
from pipelines.maintain.compact import Conflict, DamagedSegment, merge_segments
from pipelines.maintain.deletion_plan import list_segments


def delete_rows(root: Path, keys: U64, settings: Settings, pointer: str) -> None:
    """Publish a generation that shows none of the items, and never accepts them again."""
    with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
        base = open_base(root, pointer)
        if base.manifest is None or base.name is None:
            return
        lists = [entry.file for entry in base.manifest.deletes]
        require_whole(root, [*lists, base.manifest.forgotten] if base.manifest.forgotten else lists)
        forgotten = np.union1d(base.forgotten, keys)
        deletes = {entry.segment: entry for entry in base.manifest.deletes}
        after, gone, touched = [], 0, [np.empty(0, np.uint64)]
        for i, (segment, live) in enumerate(zip(base.opened, base.alive, strict=True)):
            row = base.live_rows(i, keys)
            left = live.copy()
            left[row] = False
            after.append(left)
            if len(row):
                deletes[segment.id] = writer.write_deletes(root, segment.id, np.flatnonzero(~left).astype(np.uint32))
                touched.append(segment.column("session")[row])
                gone += len(row)
        if not gone and len(forgotten) == len(map_forgotten_keys(root, base.manifest)):
            return
        sessions = np.unique(np.concatenate(touched))
        fewer = len(sessions) - int(find_live_sessions(base.opened, after, sessions).sum())
        counts = {**base.manifest.counts, "items": base.manifest.counts["items"] - gone}
        counts["sessions"] -= fewer
        new = writer.build_next(
            held,
            base.name,
            base.manifest,
            coverage=recount(base.manifest.coverage, counts["items"]),
            deletes=tuple(deletes.values()),
            forgotten=writer.write_array(root, "forgotten", forgotten),
            counts=counts,
        )
        coverage = {**new.coverage, **count_optional(root, new, settings)}
        writer.publish_generation(held, replace(new, coverage=coverage))


def drop_rows(
    root: Path,
    keys: U64,
    settings: Settings,
    pointer: str,
    say: Callable[[str], None] | None = None,
    segments: Sequence[str] = (),
) -> None:
    """Rewrite every segment of the generation that holds one of the items, without its deleted rows.

    Args:
        segments: other segments to rewrite.

    Raises:
        Damaged: such a segment is damaged; all others were rewritten.
    """
    damaged: dict[str, DamagedSegment] = {}
    while True:
        delete_rows(root, keys, settings, pointer)  # again: a reindex may have begun meanwhile
        name = manifests.read_current(root, pointer)
        manifest = manifests.load(root, name, write=True) if name else None
        held = [
            segment
            for segment in (manifest.segments if manifest else ())
            if segment.id not in damaged and (segment.id in segments or has_rows(root / "segments" / segment.id, keys))
        ]
        if not held:
            break
        if say:
            say(f"rewriting a segment of {held[0].rows:,} items")
        try:
            merge_segments(root, [held[0].id], settings, pointer)
        except Conflict:  # another merge was faster: look again
            continue
        except DamagedSegment as error:
            damaged[error.segment] = error
    for found in damaged.values():
        raise Damaged(
            f"{found.what}; it still holds forgotten items, which no recall finds",
            "restore it from a backup or another copy of the store ('helix pull'), or rebuild all segments ('helix "
            "reindex'); the next 'helix ingest' or 'helix compact' then finishes the deletion",
        )


def has_rows(folder: Path, keys: U64) -> bool:
    """Return whether a segment holds one of the items, live or deleted."""
    ids = map_npy(folder / "ids.key.npy", ARRAYS["ids.key"])
    return bool((look_up(ids, np.arange(len(ids), dtype=np.uint32), keys) >= 0).any())


def find_affected(root: Path, keys: U64, purge: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (path, hash_file) of every file that holds anything of the deletion now."""
    documents = set(purge["documents"])
    known = load_manifests(root)
    found = [
        *_find_segment_files(root, _find_segments(root, keys, purge), known),
        *_find_document_files(root, keys, purge, documents),
    ]
    recorded = {file.path: file.sha256 for manifest in known.values() for file in manifest.files()}
    files = {str(path.relative_to(root)): path for path in found if path.is_file()}
    return [(name, recorded.get(name) or hash_file(path)) for name, path in files.items()]


def _find_segments(root: Path, keys: U64, purge: dict[str, Any]) -> set[str]:
    """Return the segments with anything of the items.

    Another pipeline cuts a turn into other items: an older lineage loses all segments of the documents.
    """
    names = [name for pointer in writer.LOCKS if (name := manifests.read_current(root, pointer))]
    current = {segment.id for name in names for segment in manifests.load(root, name).segments}
    return {
        folder.name
        for folder in list_segments(root)
        if folder.name in purge["segments"]
        or has_rows(folder, keys)
        or (folder.name not in current and _has_documents(folder, purge["documents"]))
    }


def _find_segment_files(root: Path, segments: Collection[str], known: dict[str, Manifest]) -> Iterator[Path]:
    """Yield the files of segments, of their indexes and of their deletes."""
    for name in segments:
        yield from _list_files(root / "segments" / name)
    named = set()
    for manifest in known.values():
        for index in manifest.indexes:
            named.add(index.id)
            if not set(index.covers).isdisjoint(segments):
                yield from (root / file.path for file in index.files)
        yield from (root / entry.file.path for entry in manifest.deletes if entry.segment in segments)
    for folder in (root / "indexes").glob("[0-9]*"):
        if folder.name not in named:  # left by a kill: it may hold vectors of the items
            yield from _list_files(folder)


def _find_document_files(root: Path, keys: U64, purge: dict[str, Any], documents: set[str]) -> Iterator[Path]:
    """Yield the tables, access counts, envelopes, parts and events about the documents or items."""
    for path in (root / "documents").glob("[0-9]*.parquet"):
        if pc.any(match_paths(read_table(path, columns=["document", "path"]), documents)).as_py():
            yield path
    for path in (root / "access").glob("[0-9]*.npz"):
        if np.isin(read_access(path).key, keys).any():
            yield path
    for document in documents:
        if _has_items(root, document, list_lost_items(purge, document)):
            yield root / "inbox" / document
        yield root / "dead" / f"{document}.json"
        for part in (root / "parts").glob(f"{document}-*"):
            yield from _list_files(part)
    items = {f"{key:016x}".encode() for key in keys.tolist()}
    for path in (root / "events").glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError):  # its process removes an empty one at any time
            data = path.read_bytes()
            if any(item in data for item in items):
                yield path


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def match_paths(table: pa.Table, documents: Collection[str]) -> Any:
    """Return the rows of a document table about the documents that still name a source path: bool[n]."""
    hit = pc.is_in(table["document"], pa.array(sorted(documents), pa.string()))
    return pc.and_(hit, pc.not_equal(table["path"], ""))


def list_lost_items(purge: dict[str, Any], document: str) -> set[str]:
    """Return the ids of the items that an unpublished document loses."""
    return {*purge["items"], *purge["versions"].get(document, ())}


def _has_items(root: Path, document: str, ids: set[str]) -> bool:
    """Return whether a document's envelope holds any of the items."""
    try:
        envelope = inbox.read_envelope(root, document)
    except StoreError:  # missing, or damaged: it is replaced in any case
        return True
    return not envelope.forgotten or any(f'"{item}"' in envelope.text for item in ids)


def _has_documents(folder: Path, documents: Collection[str]) -> bool:
    table = read_table(folder / "items.parquet", columns=["document"])
    return bool(pc.any(pc.is_in(table["document"], pa.array(sorted(documents), pa.string()))).as_py())


def load_manifests(root: Path) -> dict[str, Manifest]:
    """Load every readable manifest on disk, by name."""
    found: dict[str, Manifest] = {}
    for path in (root / "manifests").glob("[0-9]*.json"):
        with contextlib.suppress(StoreError):
            found[path.name] = manifests.parse(path.name, path.read_bytes())
    return found


Record = dict[str, Any]

_DERIVED = ("document", "t_ingested", "tokens", "near")  # from the envelope, or made by enriching it


def dump_records(records: Sequence[Record]) -> str:
    """Return records of ITEMS as JSON lines, times in seconds."""
    table = pa.Table.from_pylist(list(records), schema=ITEMS).drop_columns(list(_DERIVED))
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
    return "".join(orjson.dumps(record).decode() + "\n" for record in table.to_pylist())


def read_residue(
    root: Path, documents: Collection[str], left_out: Mapping[str, Collection[str]], settings: Settings
) -> dict[str, list[Record]]:
    """Return the remaining records of each document.

    A published document keeps its live rows. An unpublished one keeps the items of its text, without any turn that
    lost one of its items: the turn may be cut differently now.

    Args:
        left_out: document → ids of the forgotten items.
    """
    _, manifest = inbox.load_current(root)
    published = inbox.list_done(root, manifest) & set(documents)
    residue: dict[str, list[Record]] = {document: [] for document in documents}
    if manifest and published:
        for record in _read_live(root, manifest, published):
            residue[record["document"]].append(record)
    for document in set(documents) - published:
        residue[document] = _read_unpublished(root, document, set(left_out[document]), settings)
    return residue


def _read_live(root: Path, manifest: Manifest, documents: Collection[str]) -> Iterator[Record]:
    """Yield the live rows of some documents, a batch at a time to bound memory."""
    wanted = pa.array(sorted(documents), pa.string())
    for segment in manifest.segments:
        path = root / "segments" / segment.id / "items.parquet"
        require_whole(root, [file for file in segment.files if file.path.endswith("/items.parquet")])
        hit = np.asarray(pc.is_in(read_table(path, columns=["document"])["document"], wanted).to_numpy(), bool)
        hit &= load_alive(root, manifest, segment)
        if not hit.any():
            continue
        start = 0
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.filter(pa.array(hit[start : start + len(batch)])).to_pylist()
            start += len(batch)


def _read_unpublished(root: Path, document: str, left_out: set[str], settings: Settings) -> list[Record]:
    """Return the records of an envelope without the forgotten turns."""
    try:
        envelope = inbox.read_envelope(root, document)
        records = read_item_records(root, envelope, settings)
    except FAULTS:  # unreadable: no part of it is known to be safe
        return []
    if envelope.forgotten:
        return [record for record in records if record["id"] not in left_out]
    turns = {_get_turn(record) for record in records if record["id"] in left_out}
    return [record for record in records if _get_turn(record) not in turns]


def _get_turn(record: Record) -> tuple[str, ...]:
    return (record["source"], record["session"], *record["turns"])
