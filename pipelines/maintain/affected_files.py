"""The files of a store that hold anything of forgotten items, with their digests."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.ledger import inbox
from helix.snapshot.ledger.access_events import read_access
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import read_table
from helix.types import U64
from helix.util.hashing import hash_file
from pipelines.maintain.deletion_plan import list_segments
from pipelines.maintain.drop_rows import has_rows


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
        if _has_items(root, document, lost_items(purge, document)):
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


def lost_items(purge: dict[str, Any], document: str) -> set[str]:
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
