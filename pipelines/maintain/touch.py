"""Folding access events into the store: when and how often each item was useful. No segment is rewritten."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, writer
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import AccessTimes
from helix.snapshot.manifest import File, Manifest, describe_file, make_id
from helix.snapshot.segment.arrays import look_up
from helix.snapshot.segment.open import map_deleted_rows, map_ids
from helix.snapshot.verify import require_whole
from helix.types import U64, Bool
from helix.util.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class Touched:
    """The outcome of a fold. `generation` is unchanged without new events."""

    generation: int
    events: int  # counted
    items: int  # of these events
    ignored: int = 0  # events of kind "wrong", about no live item, or damaged


def touch(root: Path, settings: Settings) -> Touched:
    """Fold the new events, and remove event files that are no longer needed.

    An event counts once: its count and the watermark after it are published together.

    Raises:
        StoreError: another writer holds the lock, or the store is damaged or cannot be written.
    """
    manifests.read_current(root)  # raises where there is no store, before a lock file is made
    with writer.acquire_lock(root, settings.lock_wait) as held:
        name, manifest = inbox.load_current(root)
        if name is None or manifest is None:
            return Touched(0, 0, 0)
        failpoint("touch.begin")
        marks: Mapping[str, int] = manifest.watermarks.get("events", {})
        news = access_events.read_events(root, marks)
        done = Touched(manifest.generation, 0, 0)
        if news.lines:
            fresh = access_events.select_access(news.access, find_live(root, manifest, news.access.key))
            counted = int(fresh.count.sum(dtype=np.int64))
            access = _fold(root, manifest, fresh) if counted else manifest.access
            failpoint("touch.access")
            # Removed files lose their marks now: their removal has to be durable first, or they might come back.
            paths.sync_folder(root / "events")
            watermarks = {**manifest.watermarks, "events": dict(news.marks)}
            new = writer.build_next(held, name, manifest, access=access, watermarks=watermarks)
            writer.publish_generation(held, new)
            failpoint("touch.published")
            done = Touched(new.generation, counted, len(fresh.key), news.lines - counted)
        access_events.remove_read_files(root, news.marks)
        failpoint("touch.cleaned")
        return done


def _fold(root: Path, manifest: Manifest, fresh: AccessTimes) -> File:
    """Write the access counts of the next generation: those of live items, and the new ones."""
    require_whole(root, [manifest.access] if manifest.access else [])
    known = access_events.load_access(root, manifest.access)
    known = access_events.select_access(known, find_live(root, manifest, known.key))
    # A clock that runs ahead must not make an item recent for ever.
    fresh = replace(fresh, last=np.minimum(fresh.last, int(time.time())))
    folded = access_events.combine_access([known, fresh])
    path = root / "access" / f"{make_id()}.npz"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    paths.write_file(path, access_events.dump_access(folded))
    return describe_file(root, path, len(folded.key))


def find_live(root: Path, manifest: Manifest, keys: U64) -> Bool:
    """Return which keys belong to live items: bool[len(keys)]. Costs grow with the keys, not the items.

    Raises:
        StoreError: a segment's file is missing or damaged.
    """
    found = np.zeros(len(keys), bool)
    gone = {entry.segment: entry for entry in manifest.deletes}
    for segment in manifest.segments:
        rows = look_up(*map_ids(root, segment), keys)
        here = rows >= 0
        if segment.id in gone:
            here &= ~np.isin(rows, map_deleted_rows(root, gone[segment.id], segment.rows))
        found |= here
    return found
