"""Links from items to the later items that change what they say, found by topic.

Each pair of an earlier and a later item near in meaning gets the probability that the later one sets another value of
what the earlier one set: gradient-boosted trees over similarity, shared rare words, the claims of both, and how near
their rivals are, other turns before the later one. Later items alter no link, so a link is the same for every
moment since. An older log that comes later has the items after it judged again, so the order of ingestion does not
count; only where more than `AFFECTED` items come after it, those far from it keep their links.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np

from helix.ranking.trees import load_trees, predict, sigmoid
from helix.text.claims import CLAIMS, CUES, VALUES, has_change
from helix.text.gazetteer import COMMON_WORDS
from helix.text.tokenize import hash_terms, shorten_ids, tokenise
from helix.types import F32, I64, ROLES, U8, U32, AnyArray, Bool

NEAREST: Final = 8
"""Earlier items that are compared with each item, by their own vectors and by those that lean to the turn before."""

AFFECTED: Final = 2_000
"""Items after the first new one that are all judged again."""

LEAN: Final = 0.7
"""Weight of the turn before in the vector that leans to it: a short reply tells little of its topic."""

LEAST: Final = 0.05
"""Least probability of a link."""

SETS: Final = 26
"""Least `sets` of an item that is compared, of 255; an item with a cue of change is compared, too."""

SHORT: Final = 14
"""Terms of a short reply."""

COMMON: Final = np.float32(0.35)
"""Weight of a common word, where that of others is 1."""

_LIKENESS: Final = ((False, False), (False, True), (True, True))
"""Vectors that are compared: whether the earlier one leans, and the later one."""

RIVALS: Final = 3 * len(_LIKENESS)
"""Features of a pair among its rivals."""

_BLOCK: Final = 512  # items compared at a time
_NONE: Final = np.float32(-9)  # below any likeness
_FREE: Final = np.float32(0.3)  # lead without a rival


class TurnRows(NamedTuple):
    """n turns of one project and one ACL, by time, then in reading order."""

    vectors: F32  # float32[n, d], unit length
    previous: I64  # int64[n], the turn before in the session, −1 at its start
    indptr: I64  # int64[n + 1]
    terms: U32  # distinct short ids of each turn, ascending
    length: F32  # float32[n], terms with repeats
    claims: U8  # uint8[n, CLAIMS]
    alters: U8  # uint8[n], how likely each alters something, of 255
    former: U32  # uint32[n, FORMER], short ids of what each leaves, 0 for none
    time: I64  # int64[n], seconds
    role: U8  # uint8[n]
    speaker: I64  # int64[n], code, −1 for none
    session: I64  # int64[n], code


FEATURES: Final = (
    *("own", "own_lean", "lean", "lean_own", "overlap", "shared", "rare", "overlap_before", "rare_before", "short"),
    *("short_lean", "short_rare", "changes", "kinds", "numbers", "length_old", "length_new", "speaker", "role"),
    *(
        "leaves",
        "left",
        "left_all",
        "session",
        "gap",
        "assistant_old",
        "assistant_new",
        "asks_old",
        "asks_new",
        "sets_old",
        "sets_new",
        "alters_old",
        "alters_new",
    ),
    *(f"{name}_{end}" for end in ("old", "new") for name in (*CUES, *VALUES)),
    *(f"{name}_{like}" for like in ("own", "own_lean", "lean") for name in ("ahead", "lead")),
    *(f"between_{like}" for like in ("own", "own_lean", "lean")),
)
"""Features of a pair of turns, in order."""

_SETS, _ASKS = CLAIMS.index("sets"), CLAIMS.index("asks")
_CUES, _VALUES = slice(0, len(CUES)), slice(len(CUES), len(CUES) + len(VALUES))
_NUMBERS = slice(len(CUES), len(CUES) + 3)


def lean_vectors(rows: TurnRows) -> F32:
    """Return the vectors leaned to those of the turns before: float32[n, d], unit length."""
    before = np.where((rows.previous >= 0)[:, None], rows.vectors[np.maximum(rows.previous, 0)], np.float32(0))
    leaned = rows.vectors + np.float32(LEAN) * before
    return np.asarray(leaned / np.maximum(np.linalg.norm(leaned, axis=1, keepdims=True), 1e-6), np.float32)


def find_comparable(rows: TurnRows) -> Bool:
    """Return which turns may set something: bool[n]. Tools and documents set nothing."""
    spoken: Bool = np.isin(rows.role, [ROLES.index(role) for role in ("user", "assistant", "system")])
    return spoken & ((rows.claims[:, _SETS] >= SETS) | has_change(rows.claims))


class Pairs(NamedTuple):
    """m pairs of an earlier and a later turn, by the later one, and how they stand among their rivals."""

    old: I64
    new: I64
    rivals: F32  # float32[m, RIVALS]


def choose_pairs(rows: TurnRows, leaned: F32, judged: Bool) -> Pairs:
    """Choose the pairs to compare: each judged turn and the comparable ones before it that are nearest.

    Only turns before the judged one count, so what is said later changes no pair.

    Args:
        leaned: of `lean_vectors`.
        judged: bool[n].
    """
    usable = np.flatnonzero(find_comparable(rows))
    wanted = np.flatnonzero(judged[usable])
    own, lean = rows.vectors[usable], leaned[usable]
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2 * len(_LIKENESS)), np.float32))]
    for start in range(0, len(wanted), _BLOCK):
        later = wanted[start : start + _BLOCK]
        earlier = max(1, int(later[-1]))  # turns that are before any of these
        before = np.arange(earlier) < later[:, None]
        scores = [np.where(before, score, _NONE) for score in _compare(own, lean, slice(earlier), later)]
        nearest = [_list_nearest(score) for score in scores]
        near = np.zeros(before.shape, np.bool_)
        for found in nearest:
            np.put_along_axis(near, found, True, axis=1)
        at, old = np.nonzero(near & before)
        ranks = [_rank(score, found, at, old) for score, found in zip(scores, nearest, strict=True)]
        parts.append((old, later[at], np.hstack(ranks)))
    old, new, as_later = map(np.concatenate, zip(*parts, strict=True))
    return Pairs(usable[old], usable[new], np.hstack([as_later, _compare_between(own, lean, old, new)]))


def _compare(own: F32, lean: F32, old: AnyArray | slice, new: AnyArray | slice) -> list[F32]:
    """Return the likenesses of `_LIKENESS`: float32[new, old] each."""
    return [(lean if b else own)[new] @ (lean if a else own)[old].T for a, b in _LIKENESS]


def _list_nearest(scores: F32) -> I64:
    """Return the columns of the best `NEAREST` of each row, best first; of equals the first."""
    left, rows = scores.copy(), np.arange(len(scores))
    best = np.empty((len(scores), min(NEAREST, scores.shape[1])), np.int64)
    for place in range(best.shape[1]):  # a few searches for the maximum take a tenth of a partition's time
        best[:, place] = left.argmax(axis=1)
        left[rows, best[:, place]] = -np.inf
    return best


def _rank(scores: F32, nearest: I64, at: I64, old: I64) -> F32:
    """Return how many of the nearest are nearer than each pair, and by how much it is nearer than its best rival."""
    best = np.take_along_axis(scores, nearest, axis=1)
    own = scores[at, old]
    ahead = (best[at] > own[:, None]).sum(axis=1)
    second = best[:, 1] if best.shape[1] > 1 else np.full(len(best), _NONE)
    rival = np.where(ahead > 0, best[at, 0], second[at])
    return np.column_stack([ahead, _lead(own, rival)]).astype(np.float32)


def _compare_between(own: F32, lean: F32, old: I64, new: I64) -> F32:
    """Return by how much each pair's later turn is nearer to the earlier one than any turn between them."""
    out = np.empty((len(old), len(_LIKENESS)), np.float32)
    order = np.argsort(old, kind="stable")
    starts, each = np.unique(old[order], return_index=True)
    for start in range(0, len(starts), _BLOCK):
        block = starts[start : start + _BLOCK]
        here = order[each[start] : each[start + _BLOCK] if start + _BLOCK < len(starts) else len(order)]
        first = int(block[0])
        at, to = np.searchsorted(block, old[here]), new[here] - first
        for column, score in enumerate(_compare(own, lean, block, slice(first, None))):
            after = np.where(np.arange(first, len(own)) > block[:, None], score.T, _NONE)
            nearest = np.maximum.accumulate(after, axis=1)
            out[here, column] = _lead(after[at, to], nearest[at, to - 1])
    return out


def _lead(score: F32, rival: F32) -> F32:
    """Return score − rival, `_FREE` where there is no rival."""
    return np.where(rival > _NONE, score - rival, _FREE).astype(np.float32)


def compute_features(rows: TurnRows, leaned: F32, pairs: Pairs) -> F32:
    """Return the features of pairs: float32[m, FEATURES]."""
    i, j = pairs.old, pairs.new
    own, lean = _multiply(rows.vectors, rows.vectors, i, j), _multiply(leaned, leaned, i, j)
    own_lean, lean_own = _multiply(rows.vectors, leaned, i, j), _multiply(leaned, rows.vectors, i, j)
    weight = weigh_terms(rows.terms)
    shared, rare, shared_all, rare_all = _overlap(rows, weight, i, j)
    total = np.add.reduceat(np.append(weight, 0), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0)
    least = np.maximum(np.minimum(total[i], total[j]), 0.3)
    rare, rare_all = np.minimum(rare, 4), np.minimum(rare_all, 4)
    length = rows.length + 1
    short = (length[j] <= SHORT).astype(np.float32)
    a, b = rows.claims[i].astype(np.float32), rows.claims[j].astype(np.float32)
    columns = [
        *(own, own_lean, lean, lean_own, shared / least, np.minimum(shared, 6), rare),
        *((shared_all - shared) / least, rare_all - rare, short, short * (own_lean - own), short * (rare_all - rare)),
        *(has_change(rows.claims[j]), (a[:, _VALUES] * b[:, _VALUES]).sum(axis=1)),
        a[:, _NUMBERS].max(axis=1, initial=0) * b[:, _NUMBERS].max(axis=1, initial=0),
        *(np.log(length[i]), np.log(length[j]), rows.speaker[i] == rows.speaker[j], rows.role[i] == rows.role[j]),
        *_find_left(rows, i, j),
        *(rows.session[i] == rows.session[j], np.log1p(np.maximum(rows.time[j] - rows.time[i], 0) / 86_400)),
        *(rows.role[i] == ROLES.index("assistant"), rows.role[j] == ROLES.index("assistant")),
        *(a[:, _ASKS], b[:, _ASKS], a[:, _SETS] / 255, b[:, _SETS] / 255),
        *(rows.alters[i] / np.float32(255), rows.alters[j] / np.float32(255)),
    ]
    stacked = np.column_stack([np.asarray(column, np.float32) for column in columns])
    return np.hstack([stacked, a[:, _CUES], a[:, _VALUES], b[:, _CUES], b[:, _VALUES], pairs.rivals])


def _multiply(left: F32, right: F32, i: I64, j: I64) -> F32:
    """Return inner products of left[i] and right[j], a block of pairs at a time: float32[m]."""
    out = np.empty(len(i), np.float32)
    for start in range(0, len(i), 8 * _BLOCK):
        part = slice(start, start + 8 * _BLOCK)
        out[part] = np.einsum("md,md->m", left[i[part]], right[j[part]])
    return out


def weigh_terms(terms: AnyArray) -> F32:
    """Return the weight of each short id: `COMMON` for a common word, else 1."""
    common = _hash_common()
    at = np.minimum(np.searchsorted(common, terms), len(common) - 1)
    return np.where(common[at] == terms, COMMON, np.float32(1)).astype(np.float32)


@cache
def _hash_common() -> U32:
    """Return the short ids of common words, ascending."""
    return np.unique(shorten_ids(hash_terms(tokenise(" ".join(sorted(COMMON_WORDS))))))


def _overlap(rows: TurnRows, weight: F32, i: I64, j: I64) -> tuple[F32, F32, F32, F32]:
    """Sum the weights, and count the rare ones, of the terms that i shares with j, and with j and the turn before it.

    Returns:
        (weight, rare terms, weight with the turn before, rare terms with it): float32[m] each.
    """
    owner = np.repeat(np.arange(len(rows.time), dtype=np.int64), np.diff(rows.indptr))
    known = (owner << 32) | rows.terms
    size = rows.indptr[i + 1] - rows.indptr[i]
    pair = np.repeat(np.arange(len(i)), size)
    flat = np.arange(len(pair)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(rows.indptr[i], size)

    def shares(other: I64) -> Bool:
        wanted = (other[pair] << 32) | rows.terms[flat]
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        found: Bool = (known[at] == wanted) & (other[pair] >= 0) if len(known) else np.zeros(len(pair), bool)
        return found

    inside = shares(j)
    around = inside | shares(rows.previous[j])
    rare = weight[flat] == 1
    sums = (inside * weight[flat], inside & rare, around * weight[flat], around & rare)
    counted = [np.bincount(pair, values, minlength=len(i)).astype(np.float32) for values in sums]
    return counted[0], counted[1], counted[2], counted[3]


def _find_left(rows: TurnRows, i: I64, j: I64) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return how many terms j leaves, how many of them i has, and whether it has all: [m] each."""
    owner = np.repeat(np.arange(len(rows.time), dtype=np.int64), np.diff(rows.indptr))
    known = (owner << 32) | rows.terms
    former = rows.former[j]
    wanted = (i[:, None] << 32) | former
    at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    has = (known[at] == wanted) & (former > 0) if len(known) else np.zeros(former.shape, bool)
    leaves, left = (former > 0).sum(axis=1), has.sum(axis=1)
    return leaves, left, (left == leaves) & (leaves > 0)


def find_affected(rows: TurnRows, leaned: F32, new: Bool) -> Bool:
    """Return the comparable turns whose links new turns bring or may alter: the new ones, and known ones after them.

    Of more than `AFFECTED` later known ones it returns the nearest to each new turn.

    Returns:
        bool[n].
    """
    comparable = find_comparable(rows)
    follows = comparable & new[rows.previous] & (rows.previous >= 0)
    later = np.flatnonzero(comparable & ~new & (np.arange(len(new)) > np.argmax(new)) & new.any())
    near = np.zeros(len(new), np.bool_)
    if len(later) <= AFFECTED:
        near[later] = True
    fresh = np.flatnonzero(comparable & new) if len(later) > AFFECTED else later[:0]
    for start in range(0, len(fresh), _BLOCK):
        block = fresh[start : start + _BLOCK]
        for score in _compare(rows.vectors, leaned, block, later):
            near[later[_list_nearest(np.where(later > block[:, None], score.T, _NONE))]] = True
    return comparable & (new | follows | near)


def link_turns(rows: TurnRows, new: Bool) -> tuple[Bool, I64, I64, F32]:
    """Find all links to the turns that new ones affect.

    Returns:
        (the affected turns bool[n], earlier int64[p], later int64[p], probability float32[p]).
    """
    leaned = lean_vectors(rows)
    judged = find_affected(rows, leaned, new)
    pairs = choose_pairs(rows, leaned, judged)
    if not len(pairs.old):
        return judged, pairs.old, pairs.new, np.empty(0, np.float32)
    certainty = sigmoid(predict(load_trees("helix.enrich", "changes"), compute_features(rows, leaned, pairs)))
    keep = certainty >= LEAST
    return judged, pairs.old[keep], pairs.new[keep], certainty[keep]
