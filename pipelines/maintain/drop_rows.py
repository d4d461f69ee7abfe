"""Dropping items from a generation: first as deleted rows, then by rewriting the segments that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from helix.errors import Damaged
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.checked_arrays import map_npy
from helix.snapshot.segment.arrays import look_up
from helix.snapshot.segment.layout import ARRAYS
from helix.snapshot.segment.open import map_forgotten_keys
from helix.snapshot.verify import require_whole
from helix.types import U64
from pipelines.ingest.commit_base import find_live_sessions, open_base
from pipelines.ingest.coverage import count_optional, recount
from pipelines.maintain.compact import Conflict, DamagedSegment, merge_segments


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
