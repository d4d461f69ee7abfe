"""Recall of the legs against exact search of all rows, and what else is compared at that: effort, limit, vectors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from helix.errors import StoreError
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.recipes.load_profile import load as load_profile
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.types import F32, I64, Plan, Query
from pipelines.bench.figures import Report, Say, percentiles, time_call
from pipelines.bench.likeness import compare_vectors
from pipelines.bench.limit import measure_limit
from pipelines.bench.posed import K, PosedQuestion, pose_question
from pipelines.bench.questions import KINDS, OPEN, Ask

_COMPARED: Final = 200  # questions
_BLOCK: Final = 32_768  # rows scored at a time
_CLOSE: Final = 1e-5  # relative difference of equal scores: the order of summands differs


def compare_legs(root: Path, asks: Sequence[Ask], settings: Settings, say: Say) -> Report:
    """Measure recall@100 of each leg, recall against effort, the least time, and the likeness of the vectors.

    Raises:
        StoreError: the store has no encoder, or the default profile has another recipe.
    """
    profile = load_profile("helix", settings.profiles)
    if not isinstance(profile, HelixProfile):
        raise StoreError("the profile 'helix' has another recipe", "unset HELIX_PROFILES")
    memory = Memory(root, replace(settings, answers=0))
    sample = [asks[i] for i in np.linspace(0, len(asks) - 1, min(_COMPARED, len(asks))).astype(int).tolist()]
    posed = [pose_question(memory, ask, profile) for ask in sample]
    say(f"comparing the legs of {len(posed)} questions with exact search")
    least_scores = find_least_scores(posed, K)
    near = [measure_dense(one, least) for one, least in zip(posed, least_scores, strict=True)]
    words = [measure_lexical(one, profile) for one in posed]
    kinds = [one.ask["kind"] for one in posed]
    rows = {kind: [one.plan.allowed_rows for one in posed if one.ask["kind"] == kind] for kind in KINDS}
    unfiltered = [(one, least) for one, least in zip(posed, least_scores, strict=True) if one.ask["kind"] in OPEN]
    say("recall against effort, and the distance to the limit")
    return {
        "recall_at_100": {"dense": _mean(near), "bm25": _mean(words)},
        "recall_unfiltered": _mean([share for share, kind in zip(near, kinds, strict=True) if kind in OPEN]),
        "recall_by_kind": {
            kind: {"dense": _mean(near, kinds, kind), "bm25": _mean(words, kinds, kind)}
            for kind in dict.fromkeys(kinds)
        },
        "allowed_rows": {kind: round(statistics.mean(counts)) for kind, counts in rows.items() if counts},
        "effort": measure_effort(unfiltered),
        "limit": measure_limit(memory, [one for one, _ in unfiltered], profile),
        "vectors": compare_vectors(root, memory.snapshot),
    }


def _mean(shares: Sequence[float], kinds: Sequence[str] = (), kind: str = "") -> float:
    chosen = [share for i, share in enumerate(shares) if not kind or kinds[i] == kind]
    return round(statistics.mean(chosen), 4)


def find_least_scores(posed: Sequence[PosedQuestion], k: int) -> list[float]:
    """Return the score of each question's k-th best allowed row by int8 codes; −inf for fewer rows."""
    if not posed:
        return []
    vectors = np.stack([one.vector for one in posed])
    best = np.full((len(posed), k), -np.inf, np.float32)
    for block in posed[0].snap.vectors.blocks:
        for start in range(0, len(block.codes), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(block.codes)))
            scores = vectors @ (block.codes[part] * block.scale[part, None]).T
            for i, one in enumerate(posed):
                if one.plan.allowed is not None:
                    scores[i, ~one.plan.allowed[block.start + part.start : block.start + part.stop]] = -np.inf
            both = np.concatenate([best, scores], axis=1)
            best = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return [float(row.min()) for row in best]


def measure_dense(one: PosedQuestion, least: float) -> float:
    """Return recall@K of the dense leg; `least` is the score of the K-th best row."""
    leg = search_dense(one.vector, one.snap, one.plan, K)
    return _share(one.snap.vectors.dequantise(np.unique(leg.rows)) @ one.vector, least, min(K, one.plan.allowed_rows))


def measure_lexical(one: PosedQuestion, profile: HelixProfile) -> float:
    """Return recall@K of the lexical leg."""
    k1, b = profile.retrieve.k1, profile.retrieve.b
    scores = score_all(one.query, one.snap, one.plan, k1, b)
    leg = search_lexical(one.query, one.snap.lexical, one.plan, K, k1, b)
    matching = int(np.count_nonzero(scores))
    least = float(np.partition(scores, -K)[-K]) if matching > K else 0.0
    return _share(scores[np.unique(leg.rows)], least, min(K, matching))


def _share(scores: F32, least: float, wanted: int) -> float:
    """Return the share of the `wanted` best rows among those of these exact scores; any of equal rows counts."""
    return min(int(np.count_nonzero(scores >= least - _CLOSE * max(1.0, abs(least)))) / wanted, 1.0) if wanted else 1.0


def score_all(query: Query, snap: Snapshot, plan: Plan, k1: float, b: float) -> F32:
    """Return BM25 of every allowed row from all postings: float32[rows]; 0 for a row without the terms."""
    scores = np.zeros(snap.rows, np.float32)
    for term in query.terms:
        rows, tf = snap.lexical.postings(term)
        if len(rows):
            weight = np.float32(compute_idf(len(rows), snap.live))
            scores[rows] += weight * saturate_tf(tf, snap.lexical.length[rows], snap.lexical.mean_length, k1, b)
    return scores if plan.allowed is None else np.where(plan.allowed, scores, np.float32(0)).astype(np.float32)


def measure_effort(compared: Sequence[tuple[PosedQuestion, float]]) -> list[dict[str, float]]:
    """Measure recall@K and milliseconds of the indexes by the probed lists; `default` marks the usual number.

    Args:
        compared: questions without a filter, each with the score of its K-th best row.
    """
    points = []
    indexes = [block.dense for block in compared[0][0].snap.vectors.blocks if block.dense] if compared else []
    if not indexes:  # a small store is scanned
        return []
    usual = indexes[0].probes
    for probes in sorted({max(1, usual * factor // 16) for factor in (1, 2, 4, 8, 16, 32, 64)}):
        spent, shares = [], []
        for one, least in compared:
            rows = _search_indexes(one, probes)
            spent.append(min(time_call(_search_indexes, one, probes) for _ in range(2)))
            shares.append(_share(one.snap.vectors.dequantise(rows) @ one.vector, least, min(K, one.plan.allowed_rows)))
        points.append({"probes": probes, "default": probes == usual, "recall": _mean(shares), **percentiles(spent)})
    return points


def _search_indexes(one: PosedQuestion, probes: int) -> I64:
    """Return the K best rows of the indexes with this number of probes, rescored: int64[≤ K]."""
    rows, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for block in one.snap.vectors.blocks:
        if block.dense is None:
            continue
        allowed = None if one.plan.allowed is None else one.plan.allowed[block.start : block.start + len(block.codes)]
        local = replace(block.dense, probes=probes).search(one.vector, K, allowed)
        rows.append(block.start + local)
        scores.append((block.codes[local] @ one.vector) * block.scale[local])
    every, score = np.concatenate(rows), np.concatenate(scores)
    return every[np.argsort(-score, kind="stable")[:K]]
