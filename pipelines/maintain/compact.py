"""Compaction: keeps the number of segments logarithmic, drops deleted rows, and builds dense indexes.

The policy is FORMAT.md's: a segment of r rows is of tier ⌊log₈(r / 1,024)⌋; where a tier holds eight they become one,
but for the largest while it outweighs the others together, and a segment a quarter of whose rows are deleted is
rewritten (tiered merging, as in log-structured merge trees, O'Neil et al. 1996). Everything is built without a lock,
from immutable files; the writer's lock is held only to move the result into place, to carry over what was deleted
meanwhile, and to publish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from helix.errors import Damaged, StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.checked_arrays import map_all
from helix.snapshot.index import dense
from helix.snapshot.manifest import Deletes, File, Index, Manifest, Segment, describe_tree, new_id
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.merge import merge
from helix.snapshot.segment.open import Opened, alive_of, open_segment, read_table
from helix.snapshot.verify import check, require_whole
from helix.types import U32, Bool
from helix.util.failpoints import failpoint
from pipelines.passes.base import Kind, merged

FANOUT = 8
TIER_ROWS = 1_024  # rows of the smallest tier; below it a segment is of that tier too
DEAD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did. `generation` is unchanged where there was nothing to do."""

    generation: int
    merged: int  # segments that went into others
    segments: int  # that there are now
    indexed: int  # dense indexes built
    dropped: int  # deleted rows left out for good
    damaged: tuple[str, ...] = ()  # what was left as it is, since a file of it is damaged: a line each


Progress = Callable[[str, int, int], None]
"""Called with (what is done, how far, of how many)."""


def still(what: str, done: int, total: int) -> None:
    """Nobody looks."""


class DamagedSegment(Damaged):
    """A segment one of whose files is not what the manifest says."""

    def __init__(self, what: str, remedy: str = "", segment: str = "") -> None:
        super().__init__(what, remedy)
        self.segment = segment


class Conflict(StoreError):
    """What was merged is no longer there: another compaction, a rollback or a deletion was faster."""


def tier(rows: int) -> int:
    """⌊log₈(rows / 1,024)⌋, at least 0."""
    return max(0, math.floor(math.log(max(rows, 1) / TIER_ROWS, FANOUT) + 1e-9))


def plan(manifest: Manifest) -> list[str]:
    """The segments of the next merge, in row order; empty where there is nothing to do. The cheapest first."""
    dead = {entry.segment: entry.rows for entry in manifest.deletes}
    live = {segment.id: segment.rows - dead.get(segment.id, 0) for segment in manifest.segments}
    tiers: dict[int, list[str]] = {}
    for segment in manifest.segments:
        tiers.setdefault(tier(live[segment.id]), []).append(segment.id)
    full = [ids for _, ids in sorted(tiers.items()) if len(ids) >= FANOUT]
    if full:
        return worth_merging(full[0], live)
    for segment in sorted(manifest.segments, key=lambda segment: segment.rows):
        if dead.get(segment.id, 0) >= DEAD_SHARE * segment.rows:
            return [segment.id]
    return []


def worth_merging(ids: Sequence[str], rows: Mapping[str, int]) -> list[str]:
    """At least two of them, in their order, without the largest while it holds more than all the others together.

    The lowest tier has no lower bound: without this, a growing segment would be rewritten for every seven tiny ones.
    """
    chosen = sorted(ids, key=rows.__getitem__)
    total = sum(map(rows.__getitem__, chosen))
    while len(chosen) > 2 and 2 * rows[chosen[-1]] > total:
        total -= rows[chosen.pop()]
    left = set(chosen)
    return [each for each in ids if each in left]


def everything(manifest: Manifest) -> list[str]:
    """All segments, where one without deleted rows could take their place."""
    whole = len(manifest.segments) == 1 and not manifest.deletes
    return [] if whole else [segment.id for segment in manifest.segments]


def unindexed(manifest: Manifest) -> list[Segment]:
    """Segments that should have a dense index and do not."""
    covered = {segment for index in manifest.indexes if index.kind == "dense" for segment in index.covers}
    return [s for s in manifest.segments if s.rows >= dense.INDEXED_ROWS and s.id not in covered]


def compact(
    root: Path,
    settings: Settings,
    say: Callable[[str], None] | None = None,
    *,
    full: bool = False,
    pointer: str = "CURRENT",
    progress: Progress = still,
) -> Compacted:
    """Merge and index until the policy is content.

    What is damaged stays as it is: a merge would give it digests that fit. All the rest goes on without it.

    Args:
        full: make one segment of all.
        pointer: CURRENT, or NEXT for the lineage a reindex builds.
        progress: called with (what is done, how far, of how many).

    Raises:
        StoreError: the store cannot be read or written.
    """
    merged = indexed = dropped = 0
    damaged: dict[str, str] = {}  # segments and document files: what is wrong
    name = manifests.current_name(root, pointer)
    while name is not None:
        manifest = without(manifests.load(root, name, write=True), damaged)
        chosen = everything(manifest) if full else plan(manifest)
        try:
            if chosen:
                if say:
                    say(f"merging {len(chosen)} segments")
                dropped += merge_segments(root, chosen, settings, pointer, progress=progress)
                merged, full = merged + len(chosen), False
            elif missing := unindexed(manifest):
                if say:
                    say(f"indexing {missing[0].rows:,} items")
                progress("index", 0, 1)
                _index(root, missing[0], settings, pointer)
                progress("index", 1, 1)
                indexed += 1
            elif len(manifest.documents) >= FANOUT and (files := plan_documents(manifest)):
                damaged |= _merge_documents(root, files, settings, pointer)
            else:
                segments = len(manifest.segments) + sum("/" not in one for one in damaged)
                return Compacted(manifest.generation, merged, segments, indexed, dropped, (*damaged.values(),))
        except DamagedSegment as error:
            damaged[error.segment] = error.what
            if say:
                say(f"left as it is: {error.what}")
        except Conflict:
            if say:
                say("the segments changed meanwhile: looking again")
        name = manifests.current_name(root, pointer)
    return Compacted(0, 0, 0, 0, 0)


def without(manifest: Manifest, damaged: Collection[str]) -> Manifest:
    """A generation without some of its segments and document files, for planning only."""
    return replace(
        manifest,
        segments=tuple(segment for segment in manifest.segments if segment.id not in damaged),
        deletes=tuple(entry for entry in manifest.deletes if entry.segment not in damaged),
        documents=tuple(file for file in manifest.documents if file.path not in damaged),
    )


# ---------------------------------------------------------------- segments


def merge_segments(
    root: Path,
    chosen: Sequence[str],
    settings: Settings,
    pointer: str,
    *,
    progress: Progress = still,
) -> int:
    """Merge some segments and publish; returns how many deleted rows went.

    Every file that is read is compared with its digest first.

    Raises:
        Conflict: one of them is no longer there; nothing was published.
        DamagedSegment: one of them is damaged; nothing was published.
    """
    with paths.building(root) as folder:
        failpoint("compact.begin")
        with _reading(root, pointer, chosen):
            # Looked at with a builder's claim in hand: a deletion waits for this merge, or is seen by it.
            _, base = _same_base(root, pointer, chosen)
            segments = [segment for segment in base.segments if segment.id in chosen]
            _check(root, base, segments, progress)
            progress("merge", 0, 1)
            sources = [open_segment(root, segment, dim=base.lineage.dim) for segment in segments]
            kept = [alive_of(root, base, source) for source in sources]
            rows = merge(root, list(zip(sources, kept, strict=True)), folder) if any(keep.any() for keep in kept) else 0
        failpoint("compact.merged")
        progress("merge", 1, 1)
        found = list(carry_passes(root, base, sources, kept, folder.parent / "passes", {})) if rows else []
        index_folder = folder.parent / "index"
        tier = base.lineage.vectors.removesuffix(dense.FLOAT)
        built = None
        if rows >= dense.INDEXED_ROWS:
            progress("index", 0, 1)
            built = build_dense(folder, index_folder / "dense", tier)
            progress("index", 1, 1)
        # Seconds for a large segment: not while others wait to commit.
        segment = Segment(new_id(), rows, ()) if rows else None
        if segment:
            segment = replace(segment, files=_sealed(root, folder, f"segments/{segment.id}"))
        index = _dense_index(root, index_folder, built) if built else None
        with writer.lock(root, settings.lock_wait, pointer) as held:
            name, now = _same_base(root, pointer, chosen)
            # What was made for the sources since the merge began: little, or they would not be merged.
            if segment:
                done = {kind.name: rows for kind, rows, _, _ in found}
                found += carry_passes(root, now, sources, kept, folder.parent / "late", done)
            built_on = [(index, index_folder)] if index else []
            built_on += [(entry, at) for kind, _, entry, at in found if entry in kind.own((*now.indexes, entry))]
            for entry, at in built_on:
                _move(at, root / "indexes" / entry.id)
            if segment:
                _move(folder, root / "segments" / segment.id)
            failpoint("compact.moved")
            deletes = carried_over(root, now, sources, kept, segment) if segment else None
            indexes = [entry for entry, _ in built_on]
            writer.publish(held, replaced(now, name, held, set(chosen), segment, deletes, indexes))
    return sum(int((~keep).sum()) for keep in kept)


def carry_passes(
    root: Path,
    manifest: Manifest,
    sources: Sequence[Opened],
    kept: Sequence[Bool],
    folder: Path,
    done: Mapping[str, U32],
) -> Iterator[tuple[Kind, U32, Index, Path]]:
    """What second passes made for the kept rows, as one index a kind of the merged segment: (kind, its rows, the index,
    where it lies). It has to be moved to indexes/, and what it covers is filled in later.

    Args:
        done: by kind, rows of the merged segment that another such index has already.
    """
    for kind, rows, at, params in merged(root, manifest, sources, kept, folder, done):
        identity = new_id()
        yield kind, rows, Index(identity, kind.name, (), _sealed(root, at, f"indexes/{identity}"), params), at


@contextmanager
def _reading(root: Path, pointer: str, chosen: Sequence[str]) -> Iterator[None]:
    """Files that go while they are read belong to segments that are replaced already."""
    try:
        yield
    except (OSError, StoreError):
        _same_base(root, pointer, chosen)
        raise


def _check(root: Path, manifest: Manifest, segments: Sequence[Segment], progress: Progress) -> None:
    """Compare the files of segments, and the lists of their deleted rows, with their digests."""
    deletes = {entry.segment: entry.file for entry in manifest.deletes}
    files = [(segment.id, file) for segment in segments for file in (*segment.files, *_one(deletes.get(segment.id)))]
    for i, (segment, file) in enumerate(files):
        try:
            require_whole(root, [file])
        except Damaged as error:
            raise DamagedSegment(error.what, error.remedy, segment) from None
        progress("check", i + 1, len(files))


def _one(file: File | None) -> tuple[File, ...]:
    return () if file is None else (file,)


def _same_base(root: Path, pointer: str, chosen: Sequence[str]) -> tuple[str, Manifest]:
    """The newest generation, if it still holds what was merged."""
    name = manifests.current_name(root, pointer)
    if name is None:
        raise StoreError(f"{pointer} of {root} is gone", "nothing was published; run the command again")
    manifest = manifests.load(root, name, write=True)
    if set(chosen) - {segment.id for segment in manifest.segments}:
        raise Conflict(
            f"the segments of {root} changed while they were merged (another compaction, a rollback or a deletion)",
            "nothing was published; run 'helix compact' again",
        )
    return name, manifest


def build_dense(segment: Path, folder: Path, tier: str = "int8") -> dict[str, object]:
    """The dense index of a segment's files, in a new folder; returns its params."""
    folder.mkdir(mode=0o700, parents=True)
    codes, scale = map_all(segment, {name: ARRAYS[name] for name in ("vectors.i8", "vectors.scale")}, {}).values()
    path = folder / "ivf.faiss"
    try:
        return dense.build(codes, scale, path, tier=tier)
    except RuntimeError as error:  # faiss knows no other, also where the disk is full
        reason = str(error).rpartition(": ")[2][:200]
        raise StoreError(f"cannot make {path}: {reason}", "check permissions and free space") from None


def _sealed(root: Path, folder: Path, target: str) -> tuple[File, ...]:
    """Make built files durable, and describe them as they will lie below `target`."""
    paths.sync_tree(folder)
    here = str(folder.relative_to(root))
    return tuple(replace(file, path=target + file.path.removeprefix(here)) for file in describe_tree(root, folder))


def _dense_index(root: Path, folder: Path, params: dict[str, object]) -> Index:
    """A built dense index, durable; it has to be moved to indexes/, and what it covers is filled in later."""
    identity = new_id()
    return Index(identity, "dense", (), _sealed(root, folder, f"indexes/{identity}"), params)


def _move(folder: Path, target: Path) -> None:
    """Put a sealed folder into its place."""
    folder.rename(target)
    paths.sync_folder(target.parent)


def carried_over(
    root: Path, now: Manifest, sources: Sequence[Opened], kept: Sequence[Bool], segment: Segment
) -> Deletes | None:
    """What was deleted in the sources since they were merged, as deletes of the merged segment."""
    gone, start = [np.empty(0, np.int64)], 0
    for source, keep in zip(sources, kept, strict=True):
        place = start - 1 + np.cumsum(keep)
        gone.append(place[keep & ~alive_of(root, now, source)])
        start += int(keep.sum())
    rows = np.concatenate(gone).astype(np.uint32)
    return writer.write_deletes(root, segment.id, rows) if len(rows) else None


def replaced(
    now: Manifest,
    name: str,
    held: writer.Lock,
    old: set[str],
    segment: Segment | None,
    deletes: Deletes | None,
    built: Sequence[Index],
) -> Manifest:
    """The next generation, with one segment in the place of some."""
    segments = list(now.segments)
    place = next(i for i, entry in enumerate(segments) if entry.id in old)
    segments = [entry for entry in segments if entry.id not in old]
    if segment:
        segments.insert(place, segment)
    indexes = [entry for entry in now.indexes if not old & set(entry.covers)]
    if segment:
        indexes += [replace(index, covers=(segment.id,)) for index in built]
    others = [entry for entry in now.deletes if entry.segment not in old]
    return writer.following(
        held,
        name,
        now,
        segments=tuple(segments),
        deletes=(*others, *([deletes] if deletes else [])),
        indexes=tuple(indexes),
    )


# ---------------------------------------------------------------- dense indexes, documents


def _index(root: Path, segment: Segment, settings: Settings, pointer: str) -> None:
    """Build the dense index of a segment that has none, and publish."""
    with paths.building(root) as folder:
        with _reading(root, pointer, [segment.id]):
            _, base = _same_base(root, pointer, [segment.id])
            _check(root, base, [segment], still)
            tier = base.lineage.vectors.removesuffix(dense.FLOAT)
            params = build_dense(root / "segments" / segment.id, folder / "dense", tier)
        failpoint("compact.indexed")
        index = replace(_dense_index(root, folder, params), covers=(segment.id,))
        with writer.lock(root, settings.lock_wait, pointer) as held:
            name, now = _same_base(root, pointer, [segment.id])
            _move(folder, root / "indexes" / index.id)
            new = writer.following(held, name, now, indexes=(*now.indexes, index))
            writer.publish(held, new)


def plan_documents(manifest: Manifest) -> list[File]:
    """Document files of one full tier, by rows; empty where there is none."""
    tiers: dict[int, list[File]] = {}
    for file in manifest.documents:
        tiers.setdefault(tier(file.rows), []).append(file)
    full = next((files for _, files in sorted(tiers.items()) if len(files) >= FANOUT), [])
    chosen = set(worth_merging([file.path for file in full], {file.path: file.rows for file in full}))
    return [file for file in full if file.path in chosen]


def _merge_documents(root: Path, files: Sequence[File], settings: Settings, pointer: str) -> dict[str, str]:
    """Join small tables, under the lock. Where some are damaged nothing is joined: what is wrong with each, by path."""
    with writer.lock(root, settings.lock_wait, pointer) as held:
        name, now = _same_base(root, pointer, [])
        if set(files) - set(now.documents):
            return {}
        if damaged := {file.path: problem for file in files if (problem := check(root, file))}:
            return damaged
        table = pa.concat_tables([read_table(root / file.path) for file in files])
        file = writer.write_documents(root, table)
        others = [entry for entry in now.documents if entry not in files]
        new = writer.following(held, name, now, documents=(file, *others))
        writer.publish(held, new)
        return {}
