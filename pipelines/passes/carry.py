"""Carrying the indexes of second passes over: to a merged segment, and to the lineage that a reindex builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Index, Manifest, Segment
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.open import OpenSegment, load_alive, open_segment
from helix.snapshot.verify import is_whole
from helix.types import I64, U32, U64, Bool
from pipelines.passes.run import KINDS, Ids, PassKind, find_missing, ids_of, publish_index, write_index


class _CurrentIndex(NamedTuple):
    """An opened index of CURRENT, and the items of its rows."""

    entry: Index
    opened: Any
    key: U64  # uint64[q]
    content: U64
    alive: Bool


def carry_to_lineage(root: Path, settings: Settings, pointer: str = "NEXT") -> int:
    """Copy the indexes of CURRENT to equal items of another lineage; return the number of items.

    The indexes depend on the text alone, and took hours to make.
    """
    return sum(_carry(root, kind, settings, pointer) for kind in KINDS)


def _carry(root: Path, kind: PassKind, settings: Settings, pointer: str) -> int:
    _, now = inbox.load_current(root)
    own = [index for index in kind.own(now.indexes) if is_whole(root, index.files)] if now else []
    sources = [_open(root, now, index, kind) for index in own if now]
    carried = 0
    with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
        while sources and (name := manifests.read_current(root, pointer)):
            built = manifests.load(root, name, write=True)
            valid = [one for one in sources if now and kind.outlives(one.entry, now.lineage, built.lineage)]
            found = next(_find_equal(root, built, valid, kind), None)
            if found is None:
                break
            index = write_index(root, found[0], kind, _bind_merge(kind, *found[1:]), own[-1].params)
            present = {entry.id for entry in built.indexes}
            required = [entry for entry in kind.required(now.indexes) if entry.id not in present] if now else []
            publish_index(held, name, built, (*built.indexes, *required), index, kind, settings)
            rows = np.concatenate([new for _, new in found[1]])
            carried += len(np.unique(rows[rows >= 0]))
    return carried


def _bind_merge(kind: PassKind, parts: Sequence[tuple[Any, I64]], ids: Ids) -> Any:
    return lambda folder: kind.merge(folder, parts, ids)


def _open(root: Path, manifest: Manifest, index: Index, kind: PassKind) -> _CurrentIndex:
    segment = next(segment for segment in manifest.segments if segment.id == index.covers[0])
    rows, opened = kind.open(root, index), open_segment(root, segment, ())
    key, content = (opened.column(name)[rows.rows] for name in ("key", "content"))
    return _CurrentIndex(index, rows, key, content, load_alive(root, manifest, segment)[rows.rows])


def _find_equal(
    root: Path, built: Manifest, sources: Sequence[_CurrentIndex], kind: PassKind
) -> Iterator[tuple[Segment, list[tuple[Any, I64]], Ids]]:
    """Yield segments with uncovered items that CURRENT's indexes cover with equal content."""
    for segment in built.segments:
        opened, rows = open_segment(root, segment, ()), find_missing(root, built, segment, kind)
        if not len(rows):
            continue
        rows = rows[np.argsort(opened.column("key")[rows])]
        key, content = (opened.column(name)[rows] for name in ("key", "content"))
        parts = []
        for source in sources:
            at = np.minimum(np.searchsorted(key, source.key), len(key) - 1)
            same = source.alive & (key[at] == source.key) & (content[at] == source.content)
            parts.append((source.opened, np.where(same, rows[at], -1)))
        if any((new >= 0).any() for _, new in parts):
            yield segment, parts, ids_of(opened)


def place_rows(live: Sequence[Bool]) -> list[I64]:
    """Return, for each source of a merge, the row in the merged segment of each row; −1 for dropped rows."""
    starts = np.cumsum([0, *(int(keep.sum()) for keep in live)])
    return [np.where(keep, start - 1 + np.cumsum(keep), -1) for keep, start in zip(live, starts, strict=False)]


def merge_indexes(
    root: Path,
    manifest: Manifest,
    sources: Sequence[OpenSegment],
    live: Sequence[Bool],
    folder: Path,
    done: Mapping[str, U32],
) -> Iterator[tuple[PassKind, U32, Path, Mapping[str, Any]]]:
    """Merge the indexes of the live rows of some segments, one index a kind.

    A damaged index is left out: its rows are indexed again.

    Args:
        folder: gets a folder a kind.
        done: by kind, rows of the merged segment to leave out.

    Yields:
        (kind, rows, folder of the files, params); nothing for a kind without rows.
    """
    place = {source.id: rows for source, rows in zip(sources, place_rows(live), strict=True)}

    def ids(rows: U32) -> list[str]:
        keys = np.concatenate([source.column("key")[keep] for source, keep in zip(sources, live, strict=True)])
        return list(format_hex(keys[rows]).to_pylist())

    for kind in KINDS:
        mine = [index for index in kind.own(manifest.indexes) if index.covers[0] in place]
        chosen = [index for index in mine if is_whole(root, index.files)]
        opened = [(kind.open(root, index), place[index.covers[0]]) for index in chosen]
        parts = [(index, new[index.rows]) for index, new in opened]
        if kind.name in done:  # an index merged meanwhile covers the rows of its parts
            parts = [(index, np.where(np.isin(new, done[kind.name]), -1, new)) for index, new in parts]
        if any((new >= 0).any() for _, new in parts):
            target = folder / kind.name
            yield kind, kind.merge(target / kind.name, parts, ids), target, chosen[-1].params
