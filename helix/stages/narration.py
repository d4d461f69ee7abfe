"""End of stage 6: narration of an agent ("Now let me check…") ranks below what says something."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from helix.ranking.topk import sort_rows
from helix.text.cues import NARRATES
from helix.types import Candidates

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def demote_narration(pool: Candidates, snap: Snapshot, share: float) -> Candidates:
    """Return the pool in its new order: narration loses a share of its score.

    Args:
        share: 0 leaves the pool as it is.
    """
    if not share or not len(pool):
        return pool
    narrates = (snap.lexical.cues(pool.row) & NARRATES) > 0
    if not narrates.any():
        return pool
    final = np.where(narrates, pool.final * np.float32(1 - share), pool.final).astype(np.float32)
    return replace(pool, final=final).take(sort_rows(final, snap.columns.key[pool.row]))
