"""Running a second pass: a model adds an index to items that are recallable already.

A pass works through the rows no index covers, newest segments first, and publishes twice a minute. The published
indexes are its progress: a kill loses half a minute. Two runs at once repeat some work and harm nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from helix.errors import Damaged
from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index import changes, tokens
from helix.snapshot.index import doc2query as queries
from helix.snapshot.index import sparse as impacts
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Index, Lineage, Manifest, Segment, describe_tree, make_id
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.open import OpenSegment, load_alive, open_segment
from helix.snapshot.verify import is_whole, require_whole
from helix.types import I64, U32
from helix.util.failpoints import failpoint
from pipelines.ingest.commit_base import count_compared, count_encoded, count_expanded, count_kept
from pipelines.ingest.items import index_text

Indexes = Sequence[Index]
Ids = Callable[[U32], list[str]]
"""Returns the item ids of rows."""


class PassKind(NamedTuple):
    """The indexes of one second pass."""

    name: str
    open: Callable[[Path, Index], Any]  # its `rows`: uint32[q], of its segment, ascending
    own: Callable[[Indexes], list[Index]]  # the valid ones of a generation
    merge: Callable[[Path, Sequence[tuple[Any, I64]], Ids], U32]  # several into one, given the new row of each row
    coverage: Callable[[Path, Manifest, Settings], dict[str, Any]]
    required: Callable[[Indexes], list[Index]]  # other indexes that have to accompany the own ones
    outlives: Callable[[Index, Lineage, Lineage], bool] = lambda *_: True  # whether a reindex of a lineage copies it
    foldable: int = 1 << 32  # rows from which on an index of a segment is not merged with later ones of it


def _merge_queries(folder: Path, parts: Sequence[tuple[queries.QueryIndex, I64]], ids: Ids) -> U32:
    rows, questions = queries.join_queries(parts)
    queries.write_queries(folder, rows, ids(rows), questions)
    return rows


def _merge_impacts(folder: Path, parts: Sequence[tuple[impacts.SparseIndex, I64]], ids: Ids) -> U32:
    return impacts.merge_sparse(folder, parts)


DOC2QUERY: Final = PassKind(
    queries.KIND,
    queries.open_queries,
    lambda indexes: [index for index in indexes if index.kind == queries.KIND],
    _merge_queries,
    count_expanded,
    lambda indexes: [],
)

SPARSE: Final = PassKind(
    impacts.KIND,
    impacts.open_sparse,
    impacts.select_usable,
    _merge_impacts,
    count_encoded,
    lambda indexes: [index for index in indexes if index.kind == impacts.ENCODER],
)


def _merge_tokens(folder: Path, parts: Sequence[tuple[tokens.TokenIndex, I64]], ids: Ids) -> U32:
    return tokens.merge_tokens(folder, parts)


def _outlives_encoder(index: Index, old: Lineage, new: Lineage) -> bool:
    """Return whether token vectors stay valid: not those of the lineage's own encoder, where that changes."""
    return index.params["fingerprint"] != old.encoder or old.encoder == new.encoder


TOKENS: Final = PassKind(
    tokens.KIND,
    tokens.open_tokens,
    tokens.select_usable,
    _merge_tokens,
    count_kept,
    lambda indexes: [],
    _outlives_encoder,
    1 << 16,  # about a gigabyte, which is copied under the writer's lock
)


def _merge_changes(folder: Path, parts: Sequence[tuple[changes.ChangeIndex, I64]], ids: Ids) -> U32:
    return changes.merge_changes(folder, parts)


CHANGES: Final = PassKind(
    changes.KIND,
    changes.open_changes,
    changes.select_usable,
    _merge_changes,
    count_compared,
    lambda indexes: [],
    lambda *_: False,  # another lineage compares its own vectors
)

KINDS: Final = (DOC2QUERY, SPARSE, TOKENS, CHANGES)


def find_missing(root: Path, manifest: Manifest, segment: Segment, kind: PassKind) -> I64:
    """Return the live rows of a segment that no index of this kind covers: int64[m]."""
    left = load_alive(root, manifest, segment)
    for index in kind.own(manifest.indexes):
        if segment.id in index.covers:
            left[kind.open(root, index).rows] = False
    return np.flatnonzero(left)


def ids_of(opened: OpenSegment) -> Ids:
    """Return the function that gives the item ids of a segment's rows."""
    return lambda rows: list(format_hex(opened.column("key")[rows]).to_pylist())


def write_index(
    root: Path, segment: Segment, kind: PassKind, write: Callable[[Path], Any], params: Mapping[str, Any]
) -> Index:
    """Write an index over rows of a segment, durably."""
    identity = make_id()
    target = root / "indexes" / identity
    with paths.build_folder(target) as folder:
        write(folder / kind.name)
    return Index(identity, kind.name, (segment.id,), describe_tree(root, target), params)


def publish_index(
    held: writer.WriterLock,
    name: str,
    manifest: Manifest,
    others: Indexes,
    index: Index,
    kind: PassKind,
    settings: Settings,
) -> None:
    """Publish a generation with the index and the others."""
    new = writer.build_next(held, name, manifest, indexes=(*others, index))
    coverage = kind.coverage(held.root, new, settings)
    writer.publish_generation(held, replace(new, coverage={**new.coverage, kind.name: coverage}))


PUBLISH: Final = 30.0  # seconds of work between two generations
MERGED: Final = 8  # indexes of a segment that are merged into one
CHARS: Final = 2_000  # of an item that a model reads

_READ: Final = ("/text.arrow", "/columns.arrow", "/vectors.i8.npy", "/vectors.scale.npy")
"""Files of a segment that a model's input comes from."""

Say = Callable[[int, int], None]
"""Called with (items done, total)."""


class PassOutput(NamedTuple):
    """A model's output for some rows."""

    rows: U32  # uint32[q], ascending
    write: Callable[[Path, I64, list[str]], None]  # (folder, positions in `rows`, their ids): writes an index
    count: Callable[[I64], int] = len  # of positions: units to report


class PassResult(NamedTuple):
    """The outcome of a run."""

    generation: int
    items: int
    made: int
    waiting: int


def run_pass(
    root: Path,
    kind: PassKind,
    make: Callable[[Manifest, Segment, I64], PassOutput],
    params: Mapping[str, Any],
    settings: Settings,
    *,
    base: Callable[[Indexes], Sequence[Index]] = lambda indexes: indexes,
    limit: int | None = None,
    say: Say | None = None,
) -> PassResult:
    """Index items that no index of this kind covers, at most `limit` of them.

    Args:
        make: handles as many of a segment's rows as fit half a minute, in order, at least one.
        params: of the indexes.
        base: the generation's other indexes to keep, with those the new ones require.

    Raises:
        Damaged: a segment is damaged; all others were worked through.
        StoreError: the store cannot be read or written.
    """
    done = units = 0
    damaged: dict[str, Damaged] = {}
    checked: set[str] = set()
    begun = count_waiting(root, kind)
    wanted = begun if limit is None else min(limit, begun)
    while done < wanted:
        _, manifest = inbox.load_current(root)
        if manifest is None or not (chosen := _find_work(root, manifest, kind, damaged)):
            break
        segment, rows = chosen
        if segment.id not in checked:
            try:
                require_whole(root, [file for file in segment.files if file.path.endswith(_READ)])
                checked.add(segment.id)
            except Damaged as error:
                damaged[segment.id] = error
                continue
        made = make(manifest, segment, rows[: wanted - done])
        failpoint("expand.asked")
        if not _publish(root, segment, made, kind, params, base, settings):
            continue  # a merge replaced the segment: look for its rows again
        failpoint("expand.published")
        _merge_small(root, segment, kind, settings)
        done += len(made.rows)
        units += made.count(np.arange(len(made.rows)))
        if say:
            say(done, wanted)
    for found in damaged.values():  # after all other segments
        raise found
    _, manifest = inbox.load_current(root)
    return PassResult(manifest.generation if manifest else 0, done, units, count_waiting(root, kind))


def count_waiting(root: Path, kind: PassKind) -> int:
    """Count the live items of the current generation that no index of this kind covers."""
    _, manifest = inbox.load_current(root)
    segments = manifest.segments if manifest else ()
    return sum(len(find_missing(root, manifest, segment, kind)) for segment in segments if manifest)


def read_text(entry: Mapping[str, Any]) -> str:
    """Return an item's text for a model, with its speaker or heading as it is indexed."""
    return index_text("", entry["speaker"] or entry["title"], None, entry["text"])[:CHARS]


def _find_work(root: Path, manifest: Manifest, kind: PassKind, damaged: Container[str]) -> tuple[Segment, I64] | None:
    """Return the newest undamaged segment with rows to index, and those rows."""
    for segment in reversed(manifest.segments):
        if segment.id not in damaged and len(rows := find_missing(root, manifest, segment, kind)):
            return segment, rows
    return None


def _publish(
    root: Path,
    segment: Segment,
    made: PassOutput,
    kind: PassKind,
    params: Mapping[str, Any],
    base: Callable[[Indexes], Sequence[Index]],
    settings: Settings,
) -> bool:
    """Publish a generation with the output; return False where the segment is gone."""
    with writer.acquire_lock(root, settings.lock_wait) as held:
        name, manifest = inbox.load_current(root)
        if manifest is None or name is None or segment.id not in {other.id for other in manifest.segments}:
            return False
        # Another run may have indexed some rows, and items forgotten meanwhile must not come back.
        new = np.flatnonzero(np.isin(made.rows, find_missing(root, manifest, segment, kind)))
        if len(new):
            ids = ids_of(open_segment(root, segment, ()))(made.rows[new])
            index = write_index(root, segment, kind, lambda folder: made.write(folder, new, ids), params)
            publish_index(held, name, manifest, base(manifest.indexes), index, kind, settings)
    return True


def _merge_small(root: Path, segment: Segment, kind: PassKind, settings: Settings) -> None:
    """Merge the small indexes of a segment into one."""
    with writer.acquire_lock(root, settings.lock_wait) as held:
        name, manifest = inbox.load_current(root)
        if manifest is None or name is None:
            return
        mine = [index for index in kind.own(manifest.indexes) if segment.id in index.covers]
        opened = {index.id: kind.open(root, index) for index in mine}
        mine = [index for index in mine if len(opened[index.id].rows) < kind.foldable]
        whole = [index for index in mine if is_whole(root, index.files)]  # rows of damaged ones are indexed again
        if len(mine) < MERGED or not whole:
            return
        parts = [(opened[index.id], opened[index.id].rows.astype(np.int64)) for index in whole]
        ids = ids_of(open_segment(root, segment, ()))
        index = write_index(root, segment, kind, lambda folder: kind.merge(folder, parts, ids), mine[-1].params)
        gone = {entry.id for entry in mine}
        others = [entry for entry in manifest.indexes if entry.id not in gone]
        publish_index(held, name, manifest, others, index, kind, settings)
