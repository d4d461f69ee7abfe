"""Links from items to the later items that change what they say, found by topic.

Each pair of an earlier and a later item near in meaning gets the probability that the later one sets another value of
what the earlier one set: gradient-boosted trees over similarity, shared rare words, and the claims of both. A pair's
probability depends on its two items and the turns before them only, so it is the same whatever the order of ingestion.
Each item is compared with those nearest at its commit: of more than `NEAREST`, the order may choose others.
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
"""Earlier items that are compared with each item, by its own vector and by one that leans to the turn before."""

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

_BLOCK: Final = 512  # items compared at a time


class TurnRows(NamedTuple):
    """n turns of one project and one ACL, by time, then in reading order."""

    vectors: F32  # float32[n, d], unit length
    previous: I64  # int64[n], the turn before in the session, −1 at its start
    indptr: I64  # int64[n + 1]
    terms: U32  # distinct short ids of each turn, ascending
    length: F32  # float32[n], terms with repeats
    claims: U8  # uint8[n, CLAIMS]
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
    ),
    *(f"{name}_{end}" for end in ("old", "new") for name in (*CUES, *VALUES)),
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


def choose_pairs(rows: TurnRows, leaned: F32, new: Bool) -> tuple[I64, I64]:
    """Choose the pairs to compare: of each new turn and the nearest comparable ones, earlier and later.

    Args:
        leaned: of `lean_vectors`.
        new: bool[n]; pairs without a new turn were compared before.

    Returns:
        (earlier int64[m], later int64[m]).
    """
    usable = np.flatnonzero(find_comparable(rows))
    fresh = usable[new[usable]]
    pairs = [np.empty(0, np.int64)]
    n = np.int64(len(rows.time))
    for start in range(0, len(fresh), _BLOCK):
        block = fresh[start : start + _BLOCK]
        own = rows.vectors[block] @ rows.vectors[usable].T
        earlier = usable[None, :] < block[:, None]
        later = usable[None, :] > block[:, None]
        as_later = leaned[block] @ rows.vectors[usable].T  # this one replies, the other is older
        as_earlier = rows.vectors[block] @ leaned[usable].T
        for scores, among in ((own, earlier), (as_later, earlier), (own, later), (as_earlier, later)):
            at, which = _find_nearest(scores, among)
            this, other = block[at], usable[which]
            pairs.append(np.minimum(this, other) * n + np.maximum(this, other))
    packed = np.unique(np.concatenate(pairs))
    return packed // n, packed % n


def _find_nearest(scores: F32, among: Bool) -> tuple[I64, I64]:
    """Return (row, column) of the best `NEAREST` allowed entries of each row of scores."""
    masked = np.where(among, scores, -np.inf)
    most = min(NEAREST, masked.shape[1])
    best = np.argpartition(-masked, most - 1, axis=1)[:, :most]
    row = np.arange(len(scores))[:, None].repeat(most, axis=1)
    here = masked[row, best] > -np.inf
    return row[here], best[here]


def compute_features(rows: TurnRows, leaned: F32, i: I64, j: I64) -> F32:
    """Return the features of pairs of an earlier turn i and a later turn j: float32[m, FEATURES]."""
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
    ]
    stacked = np.column_stack([np.asarray(column, np.float32) for column in columns])
    return np.hstack([stacked, a[:, _CUES], a[:, _VALUES], b[:, _CUES], b[:, _VALUES]])


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


def link_turns(rows: TurnRows, new: Bool) -> tuple[I64, I64, F32]:
    """Find the links that new turns bring: (earlier int64[p], later int64[p], probability float32[p])."""
    leaned = lean_vectors(rows)
    i, j = choose_pairs(rows, leaned, new)
    if not len(i):
        return i, j, np.empty(0, np.float32)
    certainty = sigmoid(predict(load_trees("helix.enrich", "changes"), compute_features(rows, leaned, i, j)))
    keep = certainty >= LEAST
    return i[keep], j[keep], certainty[keep]
