"""Cosines of a question with items, compared with those of a sample of the items of the same language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from helix.native.vectors import score_neighbours
from helix.stages.features.lexical import TermCounts
from helix.types import F32, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot

UNRELATED: Final = (0.06, 0.08)
"""Mean and deviation of cosines of unrelated texts, where the encoder's own are unknown."""

_LEAST: Final = 64  # sampled items within a filter or of a language; with fewer, all of the sample count
_PRIOR: Final = 24.0  # items' worth of trust in the encoder's own background
_LEAST_DEVIATION: Final = 0.03  # of cosines; unrelated texts differ by more
_LEAN: Final = 0.25


def compare_vectors(counted: TermCounts, vector: F32 | None, snap: Snapshot, plan: Plan) -> tuple[F32, F32, float]:
    """Return the cosines of rows, alone and leaned to their neighbours, in deviations of the background.

    The background is a sample of the items that may be searched, with a prior from the encoder. Where a store has
    several languages, each has its own: a question is nearer to any text of its language. The last value is the
    expected maximum of as many normal values: √(2 ln n).

    Args:
        vector: of the question, float32[d]; None: the cosines are NaN.
    """
    n = counted.ring.shape[1]
    if vector is None:
        nothing = np.full(n, np.nan, np.float32)
        return nothing, nothing, 0.0
    rows = counted.rows[counted.ring[1:4]]
    query = np.ascontiguousarray(vector, np.float32)
    alone, leaned = score_neighbours(snap.vectors.table, rows, query, _LEAN)
    sampled, among = snap.vectors.sample.rows, snap.vectors.sample.score(query)
    usable = np.ones(len(sampled), bool)
    if plan.allowed is not None and np.count_nonzero(within := plan.allowed[sampled]) >= _LEAST:
        usable = within
    mean, deviation = np.empty((2, n), np.float32)
    languages = snap.lexical.language_numbers(rows[1]) if len(snap.lexical.languages) > 1 else np.zeros(n, np.uint8)
    of_sample = snap.lexical.language_numbers(sampled) if len(snap.lexical.languages) > 1 else None
    for language in np.unique(languages).tolist():
        here = languages == language
        same = usable if of_sample is None else usable & (of_sample == language)
        mean[here], deviation[here] = _measure(among[same if np.count_nonzero(same) >= _LEAST else usable], snap)
    expected = float(np.sqrt(2 * np.log(plan.allowed_rows + 1)))
    return (alone - mean) / deviation, (leaned - mean) / deviation, expected


def _measure(among: F32, snap: Snapshot) -> tuple[np.float32, np.float32]:
    """Return mean and deviation of cosines; few of them are pulled to those of unrelated texts of the encoder."""
    router = snap.router
    mean, deviation = router["background"].tolist() if router and "background" in router else UNRELATED
    n = len(among)
    centre = (float(among.sum()) + _PRIOR * mean) / (n + _PRIOR)
    spread = float(((among - centre) ** 2).sum()) + _PRIOR * deviation**2
    return np.float32(centre), np.float32(max(np.sqrt(spread / (n + _PRIOR)), _LEAST_DEVIATION))
