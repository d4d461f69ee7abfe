"""The merge policy: which segments and document tables a compaction merges next; see FORMAT.md.

A segment of r rows is in tier ⌊log₈(r / 1,024)⌋. Eight of one tier are merged, except the largest while it outweighs
the others together. A segment with a quarter of its rows deleted is rewritten. This is tiered merging, as in
log-structured merge trees (O'Neil et al. 1996).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from helix.snapshot.index import dense
from helix.snapshot.manifest import File, Manifest, Segment

FANOUT: Final = 8
TIER_ROWS: Final = 1_024  # rows of the smallest tier, which also holds smaller segments
DEAD_SHARE: Final = 0.25


def tier(rows: int) -> int:
    """Return ⌊log₈(rows / 1,024)⌋, at least 0."""
    return max(0, math.floor(math.log(max(rows, 1) / TIER_ROWS, FANOUT) + 1e-9))


def plan_merge(manifest: Manifest) -> list[str]:
    """Return the segments of the next merge, cheapest first, in row order; empty for none."""
    dead = {entry.segment: entry.rows for entry in manifest.deletes}
    live = {segment.id: segment.rows - dead.get(segment.id, 0) for segment in manifest.segments}
    if full := _find_full(live):
        return full
    for segment in sorted(manifest.segments, key=lambda segment: segment.rows):
        if dead.get(segment.id, 0) >= DEAD_SHARE * segment.rows:
            return [segment.id]
    return []


def plan_full_merge(manifest: Manifest) -> list[str]:
    """Return all segments, unless there is one without deleted rows."""
    whole = len(manifest.segments) == 1 and not manifest.deletes
    return [] if whole else [segment.id for segment in manifest.segments]


def plan_documents(manifest: Manifest) -> list[File]:
    """Return the document tables of the next merge; empty for none."""
    chosen = _find_full({file.path: file.rows for file in manifest.documents})
    return [file for file in manifest.documents if file.path in chosen]


def _find_full(rows: Mapping[str, int]) -> list[str]:
    """Return the members of the lowest full tier that are worth merging, in their order."""
    tiers: dict[int, list[str]] = {}
    for name, count in rows.items():
        tiers.setdefault(tier(count), []).append(name)
    full = [names for _, names in sorted(tiers.items()) if len(names) >= FANOUT]
    return select_worthwhile(full[0], rows) if full else []


def select_worthwhile(ids: Sequence[str], rows: Mapping[str, int]) -> list[str]:
    """Return at least two of them, in their order, without the largest while it outweighs all others together.

    The lowest tier has no lower bound: otherwise seven tiny segments would rewrite a growing one each time.
    """
    chosen = sorted(ids, key=rows.__getitem__)
    total = sum(map(rows.__getitem__, chosen))
    while len(chosen) > 2 and 2 * rows[chosen[-1]] > total:
        total -= rows[chosen.pop()]
    left = set(chosen)
    return [each for each in ids if each in left]


def find_unindexed(manifest: Manifest) -> list[Segment]:
    """Return the segments that lack their dense index."""
    covered = {segment for index in manifest.indexes if index.kind == "dense" for segment in index.covers}
    return [s for s in manifest.segments if s.rows >= dense.INDEXED_ROWS and s.id not in covered]


def leave_out_damaged(manifest: Manifest, damaged: Collection[str]) -> Manifest:
    """Return a generation without some segments and document tables, for planning only."""
    return replace(
        manifest,
        segments=tuple(segment for segment in manifest.segments if segment.id not in damaged),
        deletes=tuple(entry for entry in manifest.deletes if entry.segment not in damaged),
        documents=tuple(file for file in manifest.documents if file.path not in damaged),
    )
