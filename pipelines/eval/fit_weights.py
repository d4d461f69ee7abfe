"""Fits the weights of the similarity to benchmark sets: what each feature is worth, found on some haystacks and tried
on others.

A question's pool is ranked by w · x over the features of its items (`helix.stages.features.similarity`); the loss is
the cross entropy of the gold turns' items under the softmax of it, list by list (Cao et al. 2007, "Learning to Rank:
From Pairwise Approach to Listwise Approach"), with λ |w − w₀|² towards the weights there are. All sets weigh the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.encoders.rerank import Rerankers
from helix.question.build import build_query
from helix.recipes.default import recall
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, SimilarityConstants
from helix.stages.trace import Trace
from helix.types import RecallOptions
from pipelines.embedded.ingest import ingest
from pipelines.eval.evaluate import Say, asked_at
from pipelines.eval.metrics import recall_at, reciprocal_rank
from pipelines.eval.sets.registry import read, turn

Floats = npt.NDArray[np.float64]

FIXED = (
    "lean",
    "mean",
    "rrf",
    "doc2query",
    "sparse",
)  # constants of SimilarityConstants that are no weights, or that no set here can tell
TEMPERATURE = 10.0  # scores of a pool lie within about one; their softmax shall be able to choose
FOLDS = 5
K = 10


class Pool(NamedTuple):
    """One question's pool of n items."""

    features: npt.NDArray[np.float32]  # [n, f]
    turns: list[str]
    gold: frozenset[str]
    fold: int  # of its haystack; of the question itself where the set is one haystack


class Fitted(NamedTuple):
    """Weights by feature, and recall@10 and MRR of the pools by set."""

    weights: dict[str, float]
    before: dict[str, tuple[float, float]]  # with the weights there were
    held_out: dict[str, tuple[float, float]]  # fitted to the other folds of all sets
    across: dict[str, tuple[float, float]]  # fitted to the other sets alone


def names() -> list[str]:
    """The features that have a weight."""
    return [one.name for one in fields(SimilarityConstants) if one.name not in FIXED]


def fit(jobs: Mapping[str, tuple[str, Path]], settings: Settings, *, strength: float = 0.1, say: Say) -> Fitted:
    """Fit the weights to the sets.

    Args:
        jobs: by label, the set's kind and its path.
        strength: λ.

    Raises:
        UsageError, InputRefused: as of `pipelines.sets.read`.
    """
    profile: HelixProfile = load("helix", settings.profiles)
    prior = np.array([getattr(profile.sim, name) for name in names()])
    sets: dict[str, list[Pool]] = {}
    for label, (kind, path) in jobs.items():
        sets[label] = pools(kind, path, settings, profile)
        say(f"{label}: {len(sets[label])} pools")
    held_out: dict[str, list[tuple[float, float]]] = {}
    for fold in range(FOLDS):
        weights = listwise({label: [p for p in one if p.fold != fold] for label, one in sets.items()}, prior, strength)
        for label, one in sets.items():
            held_out.setdefault(label, []).extend(_tried([p for p in one if p.fold == fold], weights))
    across = {
        label: _mean(_tried(one, listwise({k: v for k, v in sets.items() if k != label}, prior, strength)))
        for label, one in sets.items()
        if len(sets) > 1
    }
    found = listwise(sets, prior, strength)
    return Fitted(
        dict(zip(names(), found.round(4).tolist(), strict=True)),
        {label: _mean(_tried(one, prior)) for label, one in sets.items()},
        {label: _mean(values) for label, values in held_out.items()},
        across,
    )


def pools(kind: str, path: Path, settings: Settings, profile: HelixProfile) -> list[Pool]:
    """What the stages hand to the ranking, for every question of a set, asked through the normal recall."""
    weighty = replace(profile, sim=replace(profile.sim, **dict.fromkeys(names(), 1.0)))
    with tempfile.TemporaryDirectory() as work:
        found = read(kind, path, Path(work) / "documents")
        root = Path(work) / "store"
        ingest(root, list(found.documents), settings)
        snap = Snapshot.open(root)
        turns = _turns(snap)
        folds = {name: i % FOLDS for i, name in enumerate(sorted(snap.projects))}
        moments = {name: asked_at(snap, name) for name in snap.projects}
        out = []
        for i, question in enumerate(found.questions):
            at = question.at or moments.get(question.project or "")
            query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=at))
            trace = Trace(on=True)
            recall(query, snap, weighty, trace, Rerankers(settings))
            if trace.parts is None:
                continue
            rows, parts = trace.parts
            nothing = np.zeros(len(rows), np.float32)
            features = np.stack([parts.get(name, nothing) for name in names()], axis=1)
            fold = folds[question.project] if question.project and len(folds) >= FOLDS else i % FOLDS
            out.append(Pool(features, [turns[row] for row in rows.tolist()], question.gold, fold))
    return out


def _turns(snap: Snapshot) -> list[str]:
    """The turn of every row."""
    return [turn(entry["session"], entry["turns"][0]) for entry in snap.text(np.arange(snap.rows))]


def listwise(sets: Mapping[str, Sequence[Pool]], prior: Floats, strength: float) -> Floats:
    """The weights: float64[f]. A pool without gold teaches nothing."""
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


def _tried(some: Sequence[Pool], weights: Floats) -> list[tuple[float, float]]:
    """(recall@10, reciprocal rank) of each pool by the weights."""
    out = []
    for pool in some:
        best = np.argsort(-(pool.features @ weights), kind="stable")
        ranking = list(dict.fromkeys(pool.turns[i] for i in best.tolist()))
        out.append((recall_at(ranking, pool.gold, K), reciprocal_rank(ranking, pool.gold)))
    return out


def _mean(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    found = np.mean(values, axis=0).round(4).tolist()
    return found[0], found[1]


def table(found: Fitted) -> str:
    """The weights as they stand in a profile, and what they give."""
    lines = ["[sim]", *(f"{name} = {value:.3f}" for name, value in found.weights.items()), ""]
    head = f"{'recall@10, MRR of the pool':28}{'as it is':>16}{'other folds':>16}{'other sets':>16}"

    def pair(values: Mapping[str, tuple[float, float]], label: str) -> Any:
        return "{:.3f} {:.3f}".format(*values[label]) if label in values else "–"

    rows = [
        f"{label:28}{pair(found.before, label):>16}{pair(found.held_out, label):>16}{pair(found.across, label):>16}"
        for label in found.before
    ]
    return "\n".join([*lines, head, *rows])
