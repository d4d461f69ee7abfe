"""The kinds of indexes that second passes add, and how an index is written and published.

Each index covers some rows of exactly one segment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from helix.settings import Settings
from helix.snapshot import paths, writer
from helix.snapshot.index import doc2query as queries
from helix.snapshot.index import sparse as impacts
from helix.snapshot.manifest import Index, Manifest, Segment, describe_tree, make_id
from helix.snapshot.segment.arrays import format_hex
from helix.snapshot.segment.open import OpenSegment, load_alive
from helix.types import I64, U32
from pipelines.ingest.coverage import count_encoded, count_expanded


class OpenedIndex(Protocol):
    """An opened index of a second pass."""

    @property
    def rows(self) -> U32:
        """Rows of its segment: uint32[q], ascending."""


Indexes = Sequence[Index]
Ids = Callable[[U32], list[str]]
"""Returns the item ids of rows."""


class PassKind(NamedTuple):
    """The indexes of one second pass."""

    name: str
    open: Callable[[Path, Index], Any]  # → OpenedIndex
    own: Callable[[Indexes], list[Index]]  # the valid ones of a generation
    merge: Callable[[Path, Sequence[tuple[Any, I64]], Ids], U32]  # several into one, given the new row of each row
    coverage: Callable[[Path, Manifest, Settings], dict[str, Any]]
    required: Callable[[Indexes], list[Index]]  # other indexes that have to accompany the own ones


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

KINDS: Final = (DOC2QUERY, SPARSE)


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
