"""Fit of the similarity's weights to benchmark sets, tested on other haystacks and other sets.

A question's pool is ranked by w · x over the features of its items (`helix.stages.features.similarity`). The loss is
the cross entropy of the gold turns' items under the softmax of it, list by list (Cao et al. 2007, "Learning to Rank:
From Pairwise Approach to Listwise Approach"), with λ |w − w₀|² towards the current weights. All sets weigh the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from helix.encoders.rerank import Rerankers
from helix.question.build import build_query
from helix.recipes.default import recall
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, SimilarityConstants
from helix.stages.trace import Trace
from helix.types import F32, F64, RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import Say, find_last_moment
from pipelines.eval.score import recall_at, reciprocal_rank
from pipelines.eval.sets.benchmark import turn_key
from pipelines.eval.sets.registry import read_set

Floats = F64

FIXED = ("lean", "mean", "rrf", "doc2query", "sparse")
"""Constants of SimilarityConstants that are not weights, or that no set here can tell."""

TEMPERATURE = 10.0
"""Factor of the scores, which are within about one of each other, before the softmax."""

FOLDS = 5
K = 10


class FeaturePool(NamedTuple):
    """The pool of one question, n items."""

    features: F32  # [n, f]
    turns: list[str]
    gold: frozenset[str]
    fold: int  # of its haystack; of the question itself if the set is one haystack


class Fitted(NamedTuple):
    """Weights by feature, with recall@10 and MRR of the pools by set."""

    weights: dict[str, float]
    before: dict[str, tuple[float, float]]  # with the current weights
    held_out: dict[str, tuple[float, float]]  # fitted to the other folds of all sets
    across: dict[str, tuple[float, float]]  # fitted to the other sets alone


def list_features() -> list[str]:
    """Return the features that have a weight."""
    return [one.name for one in fields(SimilarityConstants) if one.name not in FIXED]


def fit_weights(
    sources: Mapping[str, tuple[str, Path]], settings: Settings, *, strength: float = 0.1, say: Say
) -> Fitted:
    """Fit the weights to sets by label, each a set's name and its path; `strength` is λ.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    profile: HelixProfile = load("helix", settings.profiles)
    prior = np.array([getattr(profile.sim, name) for name in list_features()])
    sets: dict[str, list[FeaturePool]] = {}
    for label, (kind, path) in sources.items():
        sets[label] = read_pools(kind, path, settings, profile)
        say(f"{label}: {len(sets[label])} pools")
    held_out: dict[str, list[tuple[float, float]]] = {}
    for fold in range(FOLDS):
        rest = {label: [p for p in one if p.fold != fold] for label, one in sets.items()}
        weights = minimise_loss(rest, prior, strength)
        for label, one in sets.items():
            held_out.setdefault(label, []).extend(_measure([p for p in one if p.fold == fold], weights))
    across = {
        label: _mean(_measure(one, minimise_loss({k: v for k, v in sets.items() if k != label}, prior, strength)))
        for label, one in sets.items()
        if len(sets) > 1
    }
    weights = minimise_loss(sets, prior, strength)
    return Fitted(
        dict(zip(list_features(), weights.round(4).tolist(), strict=True)),
        {label: _mean(_measure(one, prior)) for label, one in sets.items()},
        {label: _mean(values) for label, values in held_out.items()},
        across,
    )


def read_pools(kind: str, path: Path, settings: Settings, profile: HelixProfile) -> list[FeaturePool]:
    """Return the pool of every question of a set, from the normal recall."""
    weighted = replace(profile, sim=replace(profile.sim, **dict.fromkeys(list_features(), 1.0)))
    with tempfile.TemporaryDirectory() as work:
        benchmark = read_set(kind, path, Path(work) / "documents")
        root = Path(work) / "store"
        ingest(root, list(benchmark.documents), settings)
        snap = Snapshot.open(root)
        turns = [turn_key(entry["session"], entry["turns"][0]) for entry in snap.text(np.arange(snap.rows))]
        folds = {name: i % FOLDS for i, name in enumerate(sorted(snap.projects))}
        moments = {name: find_last_moment(snap, name) for name in snap.projects}
        out = []
        for i, question in enumerate(benchmark.questions):
            at = question.at or moments.get(question.project or "")
            query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=at))
            trace = Trace(on=True)
            recall(query, snap, weighted, trace, Rerankers(settings))
            if trace.parts is None:
                continue
            rows, parts = trace.parts
            zeros = np.zeros(len(rows), np.float32)
            features = np.stack([parts.get(name, zeros) for name in list_features()], axis=1)
            fold = folds[question.project] if question.project and len(folds) >= FOLDS else i % FOLDS
            out.append(FeaturePool(features, [turns[row] for row in rows.tolist()], question.gold, fold))
    return out


def minimise_loss(sets: Mapping[str, Sequence[FeaturePool]], prior: Floats, strength: float) -> Floats:
    """Return the weights with the least loss: float64[f]. Pools without gold have no effect."""
    from scipy.optimize import minimize

    taught = [
        (pool.features, wanted / wanted.sum(), 1 / len(one))
        for one in sets.values()
        for pool in one
        for wanted in (np.array([name in pool.gold for name in pool.turns], np.float32),)
        if wanted.any()
    ]
    total = sum(share for _, _, share in taught)

    def loss(weights: Floats) -> tuple[float, Floats]:
        value, slope = strength * float(((weights - prior) ** 2).sum()), 2 * strength * (weights - prior)
        for features, wanted, share in taught:
            scores = TEMPERATURE * (features @ weights)
            odds = np.exp(scores - scores.max())
            odds /= odds.sum()
            value -= share / total * float(wanted @ np.log(odds + 1e-30))
            slope += share / total * TEMPERATURE * ((odds - wanted) @ features)
        return value, slope

    return np.asarray(minimize(loss, prior, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x)


def _measure(pools: Sequence[FeaturePool], weights: Floats) -> list[tuple[float, float]]:
    """Return (recall@10, reciprocal rank) of each pool by the weights."""
    out = []
    for pool in pools:
        best = np.argsort(-(pool.features @ weights), kind="stable")
        ranking = list(dict.fromkeys(pool.turns[i] for i in best.tolist()))
        out.append((recall_at(ranking, pool.gold, K), reciprocal_rank(ranking, pool.gold)))
    return out


def _mean(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    recall_, rank = np.mean(values, axis=0).round(4).tolist()
    return recall_, rank


def format_weights(fitted: Fitted) -> str:
    """Format the weights as a profile has them, and their figures."""
    lines = ["[sim]", *(f"{name} = {value:.3f}" for name, value in fitted.weights.items()), ""]
    head = f"{'recall@10, MRR of the pool':28}{'as it is':>16}{'other folds':>16}{'other sets':>16}"

    def format_pair(values: Mapping[str, tuple[float, float]], label: str) -> str:
        return "{:.3f} {:.3f}".format(*values[label]) if label in values else "–"

    columns = (fitted.before, fitted.held_out, fitted.across)
    rows = [f"{label:28}" + "".join(f"{format_pair(one, label):>16}" for one in columns) for label in fitted.before]
    return "\n".join([*lines, head, *rows])
