"""Fit of the probability that a later turn changes an earlier one: boosted trees over pairs of turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from helix.enrich.changes import TurnRows, choose_pairs, compute_features, lean_vectors
from helix.ranking.trees import DEPTH, Trees, predict, sigmoid
from helix.text.claims import hash_former
from helix.types import F32, I64, AnyArray
from pipelines.eval.changes.material import Folds, Material, Ordinary, list_chain, list_steps, make_folds

TREES: Final = 400
RATE: Final = 0.05
RIDGE: Final = 10.0

SAMPLED: Final = 20_000
"""Pairs of an ordinary set that are trained on."""

WEIGHT: Final = 0.3
"""Of such a pair: few of them are changes that are not marked."""


def fit_links(materials: Sequence[Material], ordinary: Sequence[Ordinary], folds: Folds) -> Trees:
    """Fit the links; fill in the links of left-out histories, and of left-out haystacks of the ordinary sets."""
    for one in materials:
        one.pairs = list(_compare_histories(one))
    for each in ordinary:
        each.pairs = [_compare(scope, rows) for scope, rows in each.scopes]
        each.links = [np.empty(0, np.float32)] * len(each.pairs)
    parts = [make_folds(len(each.pairs)) for each in ordinary]
    for fold, (train_on, left_out) in enumerate(folds):
        others = [
            [each.pairs[i] for i in part[fold][0]] if fold < len(part) else each.pairs
            for each, part in zip(ordinary, parts, strict=True)
        ]
        model = fit_trees(*_join([materials[i].pairs for i in train_on], others))
        for i in left_out:
            materials[i].links = _predict_all(model, materials[i].pairs)
        for each, part in zip(ordinary, parts, strict=True):
            for i in part[fold][1] if fold < len(part) else ():
                (each.links[i],) = _predict_all(model, [each.pairs[i]])
    return fit_trees(*_join([one.pairs for one in materials], [each.pairs for each in ordinary]))


Pairs = tuple[I64, I64, F32, I64]
"""Compared pairs of one scope: earlier row, later row, features, label: 1, 0, or −1 for unknown."""


def _compare_histories(one: Material) -> Iterator[Pairs]:
    wanted, unknown = _label_pairs(one)
    for scope, rows in one.scopes:
        former = hash_former([one.texts[row] for row in rows.tolist()])
        i, j, x, label = _compare(scope._replace(claims=one.claims[rows], alters=one.alters[rows], former=former), rows)
        for place, ends in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
            label[place] = -1 if ends in unknown else int(ends in wanted)
        yield i, j, x, label


def _compare(turns: TurnRows, rows: I64) -> Pairs:
    """Compare the turns of a scope; no pair is a change."""
    leaned = lean_vectors(turns)
    pairs = choose_pairs(turns, leaned, np.ones(len(rows), np.bool_))
    return rows[pairs.old], rows[pairs.new], compute_features(turns, leaned, pairs), np.zeros(len(pairs.old), np.int64)


def _predict_all(model: Trees, pairs: Sequence[Pairs]) -> list[F32]:
    return [sigmoid(predict(model, x)) for _, _, x, _ in pairs]


def _join(histories: Sequence[Sequence[Pairs]], ordinary: Sequence[Sequence[Pairs]]) -> tuple[F32, I64, F32]:
    """Return features, labels and weights of the pairs of histories, and of a sample of those of each other set."""
    marked = [pair for pairs in histories for pair in pairs]
    x, y = np.vstack([pair[2] for pair in marked]), np.concatenate([pair[3] for pair in marked])
    parts = [(x[y >= 0], y[y >= 0], np.ones(int((y >= 0).sum()), np.float32))]
    for pairs in ordinary:
        if not (all_ := [pair[2] for pair in pairs]):
            continue
        rows = np.vstack(all_)
        chosen = np.random.default_rng(0).permutation(len(rows))[:SAMPLED]
        n = len(chosen)
        parts.append((rows[chosen], np.zeros(n, np.int64), np.full(n, WEIGHT, np.float32)))
    features, labels, weights = zip(*parts, strict=True)
    return np.vstack(features), np.concatenate(labels), np.concatenate(weights)


def _label_pairs(one: Material) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the pairs of rows that are changes, and those that may be: steps over a value that came between."""
    wanted: set[tuple[int, int]] = set()
    unknown: set[tuple[int, int]] = set()
    said_at = one.memory.snapshot.changes.said_at
    for pair in one.history.pairs:
        unknown |= set(combinations(list_chain(pair, one.rows, said_at), 2))
        wanted |= set(list_steps(pair, one.rows, said_at))
    return wanted, unknown - wanted


def fit_trees(x: F32, y: AnyArray, weights: F32 | None = None) -> Trees:
    """Fit boosted trees of `DEPTH` by log loss."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=RATE,
        max_depth=DEPTH,
        l2_regularization=RIDGE,
        early_stopping=False,
        random_state=0,
    ).fit(x, y, sample_weight=weights)
    return copy_trees(model)


def copy_trees(model: Any) -> Trees:
    """Copy the trees of a fitted `HistGradientBoostingClassifier`, of at most `DEPTH` splits."""
    feature = np.zeros((len(model._predictors), 2**DEPTH - 1), np.int32)
    threshold = np.full(feature.shape, np.inf, np.float32)
    leaf = np.zeros((len(feature), 2**DEPTH), np.float32)
    for tree, (predictor,) in enumerate(model._predictors):
        _copy_tree(predictor.nodes, 0, 0, feature[tree], threshold[tree], leaf[tree])
    return Trees(feature, threshold, leaf, np.float32(model._baseline_prediction.ravel()[0]))  # type: ignore[arg-type]


def _copy_tree(nodes: Any, at: int, place: int, feature: AnyArray, threshold: AnyArray, leaf: AnyArray) -> None:
    """Copy a node of scikit-learn to its place in a complete tree; a leaf above the bottom fills its left branch."""
    node = nodes[at]
    if place >= len(feature):
        leaf[place - len(feature)] = node["value"]
    elif node["is_leaf"]:
        _copy_tree(nodes, at, 2 * place + 1, feature, threshold, leaf)
    else:
        feature[place], threshold[place] = node["feature_idx"], node["num_threshold"]
        _copy_tree(nodes, node["left"], 2 * place + 1, feature, threshold, leaf)
        _copy_tree(nodes, node["right"], 2 * place + 2, feature, threshold, leaf)
