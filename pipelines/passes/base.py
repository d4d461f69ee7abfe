"""What the second passes of ingest have in common: something is added to items that are recallable already.

What a pass adds lies in indexes of one kind, each over some rows of exactly one segment. A pass works through what no
index of the generation has yet, newest segments first, and publishes what it has every half minute. That is the
progress: a run that is killed loses half a minute, and the next one goes on from there. Two runs at once do some work
twice and break nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from helix.errors import Damaged
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.index import doc2query as queries
from helix.snapshot.index import sparse as impacts
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.manifest import Index, Manifest, Segment, describe_tree, new_id
from helix.snapshot.segment.open import Opened, alive_of, open_segment
from helix.snapshot.verify import is_whole, require_whole
from helix.types import I64, U32, U64, Bool
from helix.util.failpoints import failpoint
from pipelines.ingest.commit import encoded, expanded
from pipelines.ingest.items import index_text

PUBLISH = 30.0  # seconds of work between two generations
MERGED = 8  # indexes of a segment that become one
CHARS = 2_000  # of an item that a model reads

Say = Callable[[int, int], None]
"""Called with (items done, of how many)."""


class Held(Protocol):
    """An index, opened."""

    @property
    def rows(self) -> U32:
        """uint32[q], ascending: rows of its segment."""


Indexes = Sequence[Index]
Ids = Callable[[U32], list[str]]
"""The ids of rows."""


class Kind(NamedTuple):
    """The indexes of one pass."""

    name: str
    open: Callable[[Path, Index], Any]  # → Held
    own: Callable[[Indexes], list[Index]]  # those of a generation that count
    merge: Callable[[Path, Sequence[tuple[Any, I64]], Ids], U32]  # several, with the new row of each row, as one
    coverage: Callable[[Path, Manifest, Settings], dict[str, Any]]
    beside: Callable[[Indexes], list[Index]]  # what has to be there wherever the own ones are


def _merge_queries(folder: Path, parts: Sequence[tuple[queries.Queries, I64]], ids: Ids) -> U32:
    rows, asked = queries.joined(parts)
    queries.write_queries(folder, rows, ids(rows), asked)
    return rows


def _merge_impacts(folder: Path, parts: Sequence[tuple[impacts.Impacts, I64]], ids: Ids) -> U32:
    return impacts.merge_impacts(folder, parts)


DOC2QUERY: Final = Kind(
    queries.KIND,
    queries.open_queries,
    lambda indexes: [index for index in indexes if index.kind == queries.KIND],
    _merge_queries,
    expanded,
    lambda indexes: [],
)

SPARSE: Final = Kind(
    impacts.KIND,
    impacts.open_impacts,
    impacts.usable,
    _merge_impacts,
    encoded,
    lambda indexes: [index for index in indexes if index.kind == impacts.ENCODER],
)

KINDS: Final = (DOC2QUERY, SPARSE)


class Made(NamedTuple):
    """What a model made of some rows."""

    rows: U32  # uint32[q], ascending
    write: Callable[[Path, I64, list[str]], None]  # (folder, positions in `rows`, their ids): the files of an index
    count: Callable[[I64], int] = len  # of positions: how much there is to tell of


class Worked(NamedTuple):
    """What a run did."""

    generation: int
    items: int
    made: int
    waiting: int


def work(
    root: Path,
    kind: Kind,
    make: Callable[[Manifest, Segment, I64], Made],
    params: Mapping[str, Any],
    settings: Settings,
    *,
    base: Callable[[Indexes], Sequence[Index]] = lambda indexes: indexes,
    limit: int | None = None,
    say: Say | None = None,
) -> Worked:
    """Add to items that have nothing of this kind yet, at most `limit` of them.

    Args:
        make: as many of the rows of a segment as half a minute is enough for, the first of them at least.
        params: of the indexes.
        base: the indexes of a generation that stay, and what has to be beside the new ones.

    Raises:
        Damaged: a segment is; all others were worked off.
        StoreError: the store cannot be read or written.
    """
    done = told = 0
    damaged: dict[str, Damaged] = {}
    checked: set[str] = set()
    begun = waiting(root, kind)
    wanted = begun if limit is None else min(limit, begun)
    while done < wanted:
        _, manifest = ledger.current(root)
        if manifest is None or not (chosen := _next(root, manifest, kind, damaged)):
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
            continue  # the segment was merged meanwhile: what it became is looked at
        failpoint("expand.published")
        _fold(root, segment, kind, settings)
        done += len(made.rows)
        told += made.count(np.arange(len(made.rows)))
        if say:
            say(done, wanted)
    for found in damaged.values():  # all the others have what they wait for
        raise found
    _, manifest = ledger.current(root)
    return Worked(manifest.generation if manifest else 0, done, told, waiting(root, kind))


_READ = ("/text.arrow", "/columns.arrow", "/vectors.i8.npy", "/vectors.scale.npy")
"""Files of a segment that a model is shown."""


def waiting(root: Path, kind: Kind) -> int:
    """Live items of the current generation that have nothing of this kind."""
    _, manifest = ledger.current(root)
    return sum(len(_todo(root, manifest, segment, kind)) for segment in manifest.segments) if manifest else 0


def text_of(entry: Mapping[str, Any]) -> str:
    """What a model reads of an item: with its speaker or heading, as it is indexed."""
    return index_text("", entry["speaker"] or entry["title"], None, entry["text"])[:CHARS]


def _todo(root: Path, manifest: Manifest, segment: Segment, kind: Kind) -> I64:
    """int64[m]: rows of a segment that have nothing of this kind."""
    left = alive_of(root, manifest, segment)
    for found in _opened(root, manifest, segment, kind):
        left[found.rows] = False
    return np.flatnonzero(left)


def _opened(root: Path, manifest: Manifest, segment: Segment, kind: Kind) -> list[Held]:
    return [kind.open(root, index) for index in kind.own(manifest.indexes) if segment.id in index.covers]


def _next(root: Path, manifest: Manifest, kind: Kind, damaged: Container[str]) -> tuple[Segment, I64] | None:
    """Return the newest segment that has work left and is not damaged, and that work."""
    for segment in reversed(manifest.segments):
        if segment.id in damaged:
            continue
        rows = _todo(root, manifest, segment, kind)
        if len(rows):
            return segment, rows
    return None


def _publish(
    root: Path,
    segment: Segment,
    made: Made,
    kind: Kind,
    params: Mapping[str, Any],
    base: Callable[[Indexes], Sequence[Index]],
    settings: Settings,
) -> bool:
    """A generation with what was made; False where the segment is gone."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None or name is None or segment.id not in {other.id for other in manifest.segments}:
            return False
        # Another run may have been here, and of what was forgotten meanwhile nothing must come back.
        new = np.flatnonzero(np.isin(made.rows, _todo(root, manifest, segment, kind)))
        if len(new):
            ids = _ids(open_segment(root, segment, ()))(made.rows[new])
            index = _index(root, segment, kind, lambda folder: made.write(folder, new, ids), params)
            _replace(held, name, manifest, base(manifest.indexes), index, kind, settings)
    return True


def _fold(root: Path, segment: Segment, kind: Kind, settings: Settings) -> None:
    """Make one index of the many small ones of a segment."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None or name is None:
            return
        mine = [index for index in kind.own(manifest.indexes) if segment.id in index.covers]
        small = [index for index in mine if is_whole(root, index.files)]  # what another held is made again
        if len(mine) < MERGED or not small:
            return
        parts = [(found, found.rows.astype(np.int64)) for found in (kind.open(root, index) for index in small)]
        ids = _ids(open_segment(root, segment, ()))
        index = _index(root, segment, kind, _joined(kind, parts, ids), mine[-1].params)
        gone = {entry.id for entry in mine}
        kept = [entry for entry in manifest.indexes if entry.id not in gone]
        _replace(held, name, manifest, kept, index, kind, settings)


def _joined(kind: Kind, parts: Sequence[tuple[Any, I64]], ids: Ids) -> Callable[[Path], U32]:
    return lambda folder: kind.merge(folder, parts, ids)


def _ids(opened: Opened) -> Ids:
    return lambda rows: [f"{key:016x}" for key in opened.column("key")[rows].tolist()]


def _index(root: Path, segment: Segment, kind: Kind, write: Callable[[Path], Any], params: Mapping[str, Any]) -> Index:
    """An index of some rows of a segment, written and durable."""
    identity = new_id()
    target = root / "indexes" / identity
    with paths.new_folder(target) as folder:
        write(folder / kind.name)
    return Index(identity, kind.name, (segment.id,), describe_tree(root, target), params)


def _replace(
    held: writer.Lock,
    name: str,
    manifest: Manifest,
    kept: Sequence[Index],
    index: Index,
    kind: Kind,
    settings: Settings,
) -> None:
    """Publish the generation with one more index, beside those that are kept."""
    new = writer.following(held, name, manifest, indexes=(*kept, index))
    told = kind.coverage(held.root, new, settings)
    writer.publish(held, replace(new, coverage={**new.coverage, kind.name: told}))


# ---------------------------------------------------------------- merges and other lineages


class _Source(NamedTuple):
    """An index of CURRENT, and what its rows are."""

    held: Any
    key: U64  # uint64[q]
    content: U64
    alive: Bool


def carry(root: Path, settings: Settings, pointer: str = "NEXT") -> int:
    """Hand what the passes made for CURRENT on to the items of another lineage that say the same; returns to how many.

    It follows from the text alone, and took hours.
    """
    return sum(_carry(root, kind, settings, pointer) for kind in KINDS)


def _carry(root: Path, kind: Kind, settings: Settings, pointer: str) -> int:
    _, now = ledger.current(root)
    own = [index for index in kind.own(now.indexes) if is_whole(root, index.files)] if now else []
    sources = [_source(root, now, index, kind) for index in own if now]
    carried = 0
    with writer.lock(root, settings.lock_wait, pointer) as held:
        while sources and (name := manifests.current_name(root, pointer)):
            built = manifests.load(root, name, write=True)
            found = next(_same(root, built, sources, kind), None)
            if found is None:
                break
            segment, parts, ids = found
            rows = np.concatenate([new for _, new in parts])
            index = _index(root, segment, kind, _joined(kind, parts, ids), own[-1].params)
            there = {entry.id for entry in built.indexes}
            beside = [entry for entry in kind.beside(now.indexes) if entry.id not in there] if now else []
            _replace(held, name, built, (*built.indexes, *beside), index, kind, settings)
            carried += len(np.unique(rows[rows >= 0]))
    return carried


def _source(root: Path, manifest: Manifest, index: Index, kind: Kind) -> _Source:
    segment = next(segment for segment in manifest.segments if segment.id == index.covers[0])
    found, opened = kind.open(root, index), open_segment(root, segment, ())
    key, content = (opened.column(name)[found.rows] for name in ("key", "content"))
    return _Source(found, key, content, alive_of(root, manifest, segment)[found.rows])


def _same(
    root: Path, built: Manifest, sources: Sequence[_Source], kind: Kind
) -> Iterator[tuple[Segment, list[tuple[Any, I64]], Ids]]:
    """Segments whose items without anything of this kind have it in CURRENT, where that says the same."""
    for segment in built.segments:
        opened, rows = open_segment(root, segment, ()), _todo(root, built, segment, kind)
        if not len(rows):
            continue
        rows = rows[np.argsort(opened.column("key")[rows])]
        key, content = (opened.column(name)[rows] for name in ("key", "content"))
        parts = []
        for source in sources:
            at = np.minimum(np.searchsorted(key, source.key), len(key) - 1)
            same = source.alive & (key[at] == source.key) & (content[at] == source.content)
            parts.append((source.held, np.where(same, rows[at], -1)))
        if any((new >= 0).any() for _, new in parts):
            yield segment, parts, _ids(opened)


def merged(
    root: Path,
    manifest: Manifest,
    sources: Sequence[Opened],
    kept: Sequence[Bool],
    folder: Path,
    done: Mapping[str, U32],
) -> Iterator[tuple[Kind, U32, Path, Mapping[str, Any]]]:
    """What the passes made for the kept rows of some segments, by kind as one index of the merged segment.

    An index one of whose files is damaged is left out: what it held is made again.

    Args:
        folder: where each kind gets a folder.
        done: by kind, rows of the merged segment that are left out.

    Yields:
        (kind, rows, the folder that holds its files, params); nothing where there is nothing of a kind.
    """
    starts = np.cumsum([0, *(int(keep.sum()) for keep in kept)]).tolist()
    place = {
        source.id: np.where(keep, start - 1 + np.cumsum(keep), -1)
        for source, keep, start in zip(sources, kept, starts, strict=False)
    }

    def ids(rows: U32) -> list[str]:
        keys = np.concatenate([source.column("key")[keep] for source, keep in zip(sources, kept, strict=True)])
        return [f"{key:016x}" for key in keys[rows].tolist()]

    for kind in KINDS:
        mine = [index for index in kind.own(manifest.indexes) if index.covers[0] in place]
        chosen = [index for index in mine if is_whole(root, index.files)]
        opened = [(kind.open(root, index), place[index.covers[0]]) for index in chosen]
        parts = [(found, new[found.rows]) for found, new in opened]
        if kind.name in done:  # an index that was folded meanwhile has what its parts had
            parts = [(found, np.where(np.isin(new, done[kind.name]), -1, new)) for found, new in parts]
        if any((new >= 0).any() for _, new in parts):
            target = folder / kind.name
            yield kind, kind.merge(target / kind.name, parts, ids), target, chosen[-1].params
