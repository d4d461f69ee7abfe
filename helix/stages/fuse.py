"""Stage 4: reciprocal rank fusion, as `helix.ranking.rrf` defines it, by a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helix.native.rows import fuse_legs
from helix.types import Candidates, Leg

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot


def fuse(legs: Sequence[Leg], snap: Snapshot, k: float, weights: Mapping[str, float]) -> Candidates:
    """Fuse the legs into a pool, best first."""
    given = [weights[leg.name] for leg in legs]
    rows, rrf, found = fuse_legs([leg.rows for leg in legs], given, k, snap.columns.key)
    ranks = dict(zip((leg.name for leg in legs), found, strict=True))
    unknown = np.full(len(rows), np.nan, np.float32)
    return Candidates(
        row=rows,
        **{name: ranks.get(name, unknown) for name in ("dense", "bm25", "doc2query", "sparse")},
        rrf=rrf,
        ppr=unknown,
        sim=unknown,
        recency=unknown,
        salience=unknown,
        confidence=unknown,
        graph=unknown,
        rerank=unknown,
        final=unknown,
    )
