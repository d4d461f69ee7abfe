"""Compaction: merges segments by `merge_policy`, drops deleted rows, and builds dense indexes.

Everything is built without a lock, from immutable files. The writer's lock is held only to move the result into place,
to carry over rows deleted meanwhile, and to publish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from helix.errors import Damaged, StoreError
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.checked_arrays import map_arrays
from helix.snapshot.index import dense
from helix.snapshot.manifest import Deletes, File, Index, Manifest, Segment, describe_tree, make_id
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.merge import merge_rows
from helix.snapshot.segment.open import OpenSegment, load_alive, open_segment, read_table
from helix.snapshot.verify import find_damage, require_whole
from helix.types import U32, Bool
from helix.util.failpoints import failpoint
from pipelines.maintain import merge_policy as policy
from pipelines.passes.carry import merge_indexes, place_rows
from pipelines.passes.run import PassKind


@dataclass(frozen=True, slots=True)
class Compacted:
    """The outcome of a compaction. `generation` is unchanged where the policy asked for nothing."""

    generation: int
    merged: int  # segments merged into others
    segments: int  # segments now
    indexed: int  # dense indexes built
    dropped: int  # deleted rows left out for good
    damaged: tuple[str, ...] = ()  # a line for each damaged file that was left as it is


Progress = Callable[[str, int, int], None]
"""Called with (step, done, total)."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """Report nothing."""


class DamagedSegment(Damaged):
    """A segment with a file that differs from the manifest."""

    def __init__(self, what: str, remedy: str = "", segment: str = "") -> None:
        super().__init__(what, remedy)
        self.segment = segment


class Conflict(StoreError):
    """A merged segment is gone: another compaction, a rollback or a deletion was faster."""


def compact(
    root: Path,
    settings: Settings,
    say: Callable[[str], None] | None = None,
    *,
    full: bool = False,
    pointer: str = "CURRENT",
    progress: Progress = ignore_progress,
) -> Compacted:
    """Merge and index until the policy asks for nothing more.

    Damaged segments stay as they are: a merge would give damage a digest that fits. The others are merged without them.

    Args:
        full: merge all segments into one.
        pointer: CURRENT, or NEXT for the lineage a reindex builds.

    Raises:
        StoreError: the store cannot be read or written.
    """
    say = say or (lambda line: None)
    merged = indexed = dropped = 0
    damaged: dict[str, str] = {}  # segment id or document table → problem
    name = manifests.read_current(root, pointer)
    while name is not None:
        manifest = policy.leave_out_damaged(manifests.load(root, name, write=True), damaged)
        chosen = policy.plan_full_merge(manifest) if full else policy.plan_merge(manifest)
        try:
            if chosen:
                say(f"merging {len(chosen)} segments")
                dropped += merge_segments(root, chosen, settings, pointer, progress=progress)
                merged, full = merged + len(chosen), False
            elif missing := policy.find_unindexed(manifest):
                say(f"indexing {missing[0].rows:,} items")
                progress("index", 0, 1)
                _index_segment(root, missing[0], settings, pointer)
                progress("index", 1, 1)
                indexed += 1
            elif files := policy.plan_documents(manifest):
                damaged |= _merge_documents(root, files, settings, pointer)
            else:
                segments = len(manifest.segments) + sum("/" not in one for one in damaged)
                return Compacted(manifest.generation, merged, segments, indexed, dropped, (*damaged.values(),))
        except DamagedSegment as error:
            damaged[error.segment] = error.what
            say(f"left as it is: {error.what}")
        except Conflict:
            say("the segments changed meanwhile: planning again")
        name = manifests.read_current(root, pointer)
    return Compacted(0, 0, 0, 0, 0)


# ---------------------------------------------------------------- segments


def merge_segments(
    root: Path, chosen: Sequence[str], settings: Settings, pointer: str, *, progress: Progress = ignore_progress
) -> int:
    """Merge some segments and publish; return the number of deleted rows left out.

    Every file is compared with its digest before it is read.

    Raises:
        Conflict: a segment is gone; nothing was published.
        DamagedSegment: a segment is damaged; nothing was published.
    """
    with paths.open_workplace(root) as folder:
        failpoint("compact.begin")
        with _detect_conflict(root, pointer, chosen):
            # Read while this builder is registered: a deletion waits for this merge, or the merge sees it.
            _, base = _load_base(root, pointer, chosen)
            segments = [segment for segment in base.segments if segment.id in chosen]
            _check(root, base, segments, progress)
            progress("merge", 0, 1)
            sources = [open_segment(root, segment, dim=base.lineage.dim) for segment in segments]
            live = [load_alive(root, base, source) for source in sources]
            kept = any(keep.any() for keep in live)
            rows = merge_rows(root, list(zip(sources, live, strict=True)), folder) if kept else 0
        failpoint("compact.merged")
        progress("merge", 1, 1)
        indexes = list(_merge_passes(root, base, sources, live, folder.parent / "passes", {})) if rows else []
        index_folder = folder.parent / "index"
        built = None
        if rows >= dense.INDEXED_ROWS:
            progress("index", 0, 1)
            built = _build_dense(folder, index_folder / "dense", base.lineage.vectors)
            progress("index", 1, 1)
        # Syncing a large segment takes seconds: do it before taking the lock.
        segment = Segment(make_id(), rows, ()) if rows else None
        if segment:
            segment = replace(segment, files=_seal(root, folder, f"segments/{segment.id}"))
        index = _seal_index(root, index_folder, "dense", built) if built else None
        with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
            name, now = _load_base(root, pointer, chosen)
            # Pass indexes published since the merge began: few, or the sources would not be merged.
            if segment:
                done = {kind.name: rows for kind, rows, _, _ in indexes}
                indexes += _merge_passes(root, now, sources, live, folder.parent / "late", done)
            new = [(index, index_folder)] if index else []
            new += [(entry, at) for kind, _, entry, at in indexes if entry in kind.own((*now.indexes, entry))]
            for entry, at in new:
                _move(at, root / "indexes" / entry.id)
            if segment:
                _move(folder, root / "segments" / segment.id)
            failpoint("compact.moved")
            deletes = _carry_deletes(root, now, sources, live, segment) if segment else None
            entries = [entry for entry, _ in new]
            writer.publish_generation(held, _replace_segments(now, name, held, set(chosen), segment, deletes, entries))
    return sum(int((~keep).sum()) for keep in live)


def _merge_passes(
    root: Path,
    manifest: Manifest,
    sources: Sequence[OpenSegment],
    live: Sequence[Bool],
    folder: Path,
    done: Mapping[str, U32],
) -> Iterator[tuple[PassKind, U32, Index, Path]]:
    """Yield (kind, its rows, the index, its folder) of the merged segment for each second pass.

    The caller moves the folder to indexes/ and fills in the covered segment.

    Args:
        done: by kind, rows of the merged segment that another such index covers.
    """
    for kind, rows, at, params in merge_indexes(root, manifest, sources, live, folder, done):
        yield kind, rows, _seal_index(root, at, kind.name, params), at


@contextmanager
def _detect_conflict(root: Path, pointer: str, chosen: Sequence[str]) -> Iterator[None]:
    """Raise Conflict for files that vanish because their segments were replaced."""
    try:
        yield
    except (OSError, StoreError):
        _load_base(root, pointer, chosen)
        raise


def _check(root: Path, manifest: Manifest, segments: Sequence[Segment], progress: Progress) -> None:
    """Compare the files of segments and their lists of deleted rows with their digests."""
    deletes = {entry.segment: (entry.file,) for entry in manifest.deletes}
    files = [(segment.id, file) for segment in segments for file in (*segment.files, *deletes.get(segment.id, ()))]
    for i, (segment, file) in enumerate(files):
        try:
            require_whole(root, [file])
        except Damaged as error:
            raise DamagedSegment(error.what, error.remedy, segment) from None
        progress("check", i + 1, len(files))


def _load_base(root: Path, pointer: str, chosen: Sequence[str]) -> tuple[str, Manifest]:
    """Load the newest generation, if it still holds the chosen segments."""
    name = manifests.read_current(root, pointer)
    if name is None:
        raise StoreError(f"{pointer} of {root} is gone", "nothing was published; run the command again")
    manifest = manifests.load(root, name, write=True)
    if set(chosen) - {segment.id for segment in manifest.segments}:
        raise Conflict(
            f"the segments of {root} changed while they were merged (another compaction, a rollback or a deletion)",
            "nothing was published; run 'helix compact' again",
        )
    return name, manifest


def _build_dense(segment: Path, folder: Path, vectors: str) -> dict[str, object]:
    """Build the dense index of a segment's files in a new folder; return its params.

    Args:
        vectors: the lineage's storage level.
    """
    folder.mkdir(mode=0o700, parents=True)
    codes, scale = map_arrays(segment, {name: ARRAYS[name] for name in ("vectors.i8", "vectors.scale")}, {}).values()
    path = folder / "ivf.faiss"
    try:
        return dense.build_dense(codes, scale, path, tier=vectors.removesuffix(dense.FLOAT))
    except RuntimeError as error:  # faiss raises no other, also on a full disk
        reason = str(error).rpartition(": ")[2][:200]
        raise StoreError(f"cannot make {path}: {reason}", "check permissions and free space") from None


def _seal(root: Path, folder: Path, target: str) -> tuple[File, ...]:
    """Make built files durable; describe them by their future paths below `target`."""
    paths.sync_tree(folder)
    here = str(folder.relative_to(root))
    return tuple(replace(file, path=target + file.path.removeprefix(here)) for file in describe_tree(root, folder))


def _seal_index(root: Path, folder: Path, kind: str, params: Mapping[str, object]) -> Index:
    """Make a built index durable; the caller moves it to indexes/ and fills in the covered segment."""
    identity = make_id()
    return Index(identity, kind, (), _seal(root, folder, f"indexes/{identity}"), params)


def _move(folder: Path, target: Path) -> None:
    """Move a sealed folder into place."""
    folder.rename(target)
    paths.sync_folder(target.parent)


def _carry_deletes(
    root: Path, now: Manifest, sources: Sequence[OpenSegment], live: Sequence[Bool], segment: Segment
) -> Deletes | None:
    """Write the rows deleted from the sources since the merge began as deletes of the merged segment."""
    places = zip(sources, live, place_rows(live), strict=True)
    gone = [place[keep & ~load_alive(root, now, source)] for source, keep, place in places]
    rows = np.concatenate([np.empty(0, np.int64), *gone]).astype(np.uint32)
    return writer.write_deletes(root, segment.id, rows) if len(rows) else None


def _replace_segments(
    now: Manifest,
    name: str,
    held: writer.WriterLock,
    old: set[str],
    segment: Segment | None,
    deletes: Deletes | None,
    built: Sequence[Index],
) -> Manifest:
    """Return the next generation, with one segment or none in place of the old ones."""
    segments = list(now.segments)
    place = next(i for i, entry in enumerate(segments) if entry.id in old)
    segments = [entry for entry in segments if entry.id not in old]
    indexes = [entry for entry in now.indexes if not old & set(entry.covers)]
    if segment:
        segments.insert(place, segment)
        indexes += [replace(index, covers=(segment.id,)) for index in built]
    others = [entry for entry in now.deletes if entry.segment not in old]
    return writer.build_next(
        held,
        name,
        now,
        segments=tuple(segments),
        deletes=(*others, *([deletes] if deletes else [])),
        indexes=tuple(indexes),
    )


# ---------------------------------------------------------------- dense indexes, documents


def _index_segment(root: Path, segment: Segment, settings: Settings, pointer: str) -> None:
    """Build the missing dense index of a segment, and publish."""
    with paths.open_workplace(root) as folder:
        with _detect_conflict(root, pointer, [segment.id]):
            _, base = _load_base(root, pointer, [segment.id])
            _check(root, base, [segment], ignore_progress)
            params = _build_dense(root / "segments" / segment.id, folder / "dense", base.lineage.vectors)
        failpoint("compact.indexed")
        index = replace(_seal_index(root, folder, "dense", params), covers=(segment.id,))
        with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
            name, now = _load_base(root, pointer, [segment.id])
            _move(folder, root / "indexes" / index.id)
            writer.publish_generation(held, writer.build_next(held, name, now, indexes=(*now.indexes, index)))


def _merge_documents(root: Path, files: Sequence[File], settings: Settings, pointer: str) -> dict[str, str]:
    """Join small tables under the lock. If some are damaged, join none and return their problems by path."""
    with writer.acquire_lock(root, settings.lock_wait, pointer) as held:
        name, now = _load_base(root, pointer, [])
        if set(files) - set(now.documents):
            return {}
        if damaged := {file.path: problem for file in files if (problem := find_damage(root, file))}:
            return damaged
        table = pa.concat_tables([read_table(root / file.path) for file in files])
        file = writer.write_documents(root, table)
        others = [entry for entry in now.documents if entry not in files]
        writer.publish_generation(held, writer.build_next(held, name, now, documents=(file, *others)))
        return {}
