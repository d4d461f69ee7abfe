"""Features of candidates for what a question is about now, then, or why: the input of the reading models.

A candidate is likely to be asked for if it is near the question, sets something, and no later candidate changes it; a
later item is near through the one that it changes. All of it is compared within the candidates of one question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from helix.text.claims import CLAIMS, CUES, VALUES, has_change
from helix.text.reading import HINTS
from helix.types import F32, I64, ROLES, U8, AnyArray, Bool


class ReadingRows(NamedTuple):
    """n candidates by time, oldest first, then in reading order."""

    score: F32  # float32[n], of the ranking; 0 for a row that only a link led to
    found: Bool  # bool[n], the row was among the best of the pool
    own: F32  # float32[n], inner product of the question with the item
    lean: F32  # float32[n], with the item leaned to the turn before
    overlap: F32  # float32[n], share of the question's terms, weighted, that the item has
    overlap_before: F32  # float32[n], that the item or the turn before has
    before: F32  # float32[n], inner product of the question with the turn before; 0 without one
    reply: F32  # float32[n], of the item with the turn before
    links: F32  # float32[n, n], [i, j]: certainty that j changes i
    alike: F32  # float32[n, n], inner products
    sets: F32  # float32[n], probability that the item sets something
    claims: U8  # uint8[n, CLAIMS]
    length: F32  # float32[n], terms
    role: U8
    time: I64  # seconds


FEATURES: Final = (
    *("score", "rank", "own", "lean", "own_share", "lean_share", "overlap", "overlap_before", "linked_only"),
    *("in_score", "in", "in_top", "in_own", "in_from", "out", "out_score", "out_any"),
    *("newer_score", "newer_near", "older_score", "newer_better", "older_better", "newest_3", "newest_5"),
    *("older_alike", "newer_alike", "older_alike_score", "sets", "in_sets", "newer_sets", "changes", "length"),
    *("assistant", "tool", "asks", "fits", "fits_not", "asked_now", "asked_yes", "place"),
    *("first", "before", "after", "second", "dated", "day", "by_day", "past_day", "last_by_day"),
    *("first_place", "first_out", "before_out", "before_place", "reach", "superseded"),
    *(f"cue_{name}" for name in CUES),
    *(f"value_{name}" for name in VALUES),
    *("turn_before", "reply"),
    *(
        "any_link",
        "any_led",
        "any_both",
        "changed_6",
        "second_change",
        "lead",
        "nearest",
        "most_overlap",
        "mean_length",
    ),
    *("sets_6", "has_score", "log_score"),
)
"""Features of a candidate, in order."""

_LEAST: Final = 0.02  # of a link that counts as leading to a candidate
_SURE: Final = 0.2  # of a link that counts as a change of one of the best
_BEST: Final = 6  # candidates, by score
_TINY: Final = 1e-6


def compute_features(rows: ReadingRows, hints: F32, days: Sequence[tuple[int, int, float]]) -> F32:
    """Return float32[n, FEATURES].

    Args:
        hints: of `helix.text.reading.read_hints`.
        days: windows of time the question names: (first second, last second, weight).
    """
    n, links = len(rows.score), rows.links
    score = rows.score / np.float32(max(float(rows.score.max()), _TINY))
    order = np.argsort(-score, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    newer = np.arange(n)[None, :] > np.arange(n)[:, None]  # [i, j]: j is newer than i
    near = np.maximum(rows.own, rows.lean)
    best = np.float32(max(float(near.max()), _TINY))
    led = links * score[:, None]
    source = led.argmax(axis=0)
    came = led.max(axis=0)
    newer_score, older_score = _find_most(score, newer), _find_most(score, newer.T)
    better = score[None, :] >= score[:, None]
    asked = dict(zip(HINTS, hints.tolist(), strict=True))
    kinds = rows.claims[:, len(CUES) : len(CUES) + len(VALUES)].astype(np.float32)
    dated = kinds[:, :2].max(axis=1)
    fits = asked["when"] * dated + asked["number"] * kinds[:, 2] + asked["who"] * kinds[:, 4]
    fits_not = asked["when"] * (1 - dated) + asked["number"] * (1 - kinds[:, 2])
    place = np.arange(n) / n
    reach = np.maximum(score, np.sqrt(led).max(axis=0))
    out = links.max(axis=1)
    within = _place_in_days(rows.time, reach, days)
    columns: list[AnyArray] = [
        *(score, 1 / (1 + rank), rows.own, rows.lean, rows.own / best, rows.lean / best),
        *(rows.overlap, rows.overlap_before, ~rows.found, came, links.max(axis=0), links[order[0]]),
        *((links * rows.own[:, None]).max(axis=0), score[source] * (came > _LEAST), out),
        *((links * score[None, :]).max(axis=1), 1 - np.prod(1 - links, axis=1)),
        *(newer_score, _find_most(near, newer) / best, older_score),
        *((newer & better).sum(axis=1), (newer.T & better).sum(axis=1), _is_newest(order[:3], n)),
        *(_is_newest(order[:5], n), _find_most_of(rows.alike, newer.T), _find_most_of(rows.alike, newer)),
        *(_find_most_of(rows.alike * score[None, :], newer.T), rows.sets, rows.sets[source] * (came > _LEAST)),
        *(_find_most(rows.sets * score, newer), has_change(rows.claims), np.log(rows.length + 1)),
        *(rows.role == ROLES.index("assistant"), rows.role == ROLES.index("tool")),
        *(rows.claims[:, CLAIMS.index("asks")], fits, fits_not, asked["now"], asked["yes"], place),
        *(asked[name] for name in ("first", "before", "after", "second")),
        *within,
        *(asked["first"] * place, asked["first"] * out, asked["before"] * out, asked["before"] * place, reach),
        1 - np.prod(1 - links * np.maximum(reach, 0.2)[None, :], axis=1),
    ]
    columns += [*rows.claims[:, : len(CUES)].T, *kinds.T, rows.before, rows.reply]
    columns += [*_describe_list(rows, score, order), score > 0, _log(score)]
    out = np.empty((n, len(FEATURES)), np.float32)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


def _describe_list(rows: ReadingRows, score: F32, order: I64) -> F32:
    """Return what is the same for all candidates, and tells whether a change concerns the question at all: float32[10].

    Args:
        score: float32[n], 1 for the best.
        order: int64[n], by score.
    """
    best, links = order[:_BEST], rows.links
    changed = np.sort(links[best].max(axis=1))
    parts = [
        *(links.max(), (links * score[:, None]).max(), (links * score[:, None] * score[None, :]).max()),
        *((changed >= _SURE).mean(), changed[-2] if len(best) > 1 else 0),
        *((score[order[1]] - score[best[-1]]) if len(best) > 1 else 0, rows.own.max(), rows.overlap.max()),
        *(np.log(rows.length.mean() + 1), rows.sets[best].mean()),
    ]
    return np.array(parts, np.float32)


def _log(score: F32) -> F32:
    return np.log(np.maximum(score, np.float32(0.01)))


def _find_most(values: F32, among: Bool) -> F32:
    """Return the largest value among the chosen others of each row; 0 without any: float32[n]."""
    return _find_most_of(np.broadcast_to(values, among.shape), among)


def _find_most_of(values: AnyArray, among: Bool) -> F32:
    return np.asarray(np.where(among, values, np.float32(0)).max(axis=1), np.float32)


def _is_newest(few: AnyArray, n: int) -> F32:
    """Return 1 for the newest of a few rows, else 0: float32[n]."""
    out = np.zeros(n, np.float32)
    out[few.max()] = 1
    return out


def _place_in_days(time: I64, reach: F32, days: Sequence[tuple[int, int, float]]) -> list[AnyArray]:
    """Return how rows lie to the windows a question names: dated, inside, by their end, past it, the last by then."""
    n = len(time)
    inside, by, past, last = (np.zeros(n, np.float32) for _ in range(4))
    for first, end, weight in days:
        inside = np.maximum(inside, np.float32(weight) * ((time >= first) & (time <= end)))
        by = np.maximum(by, time <= end)
        past = np.maximum(past, time > end)
    strong = np.flatnonzero((by > 0) & (reach > 0.5))
    if len(strong):
        last[strong[-1]] = 1
    return [np.full(n, bool(days)), inside, by, past, last]
