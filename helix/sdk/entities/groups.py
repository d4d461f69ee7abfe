"""Groups of a weighted graph: nodes with more weight between them than by chance (modularity), found by local moves.

The nodes are visited in their order, so the same graph always has the same groups.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from helix.types import F64, I64

_ROUNDS: Final = 12  # of visits to all nodes; most graphs come to rest after five
_LEVELS: Final = 6  # at which whole groups move


def find_groups(size: int, one: I64, other: I64, weight: F64) -> I64:
    """Return the group of each node: int64[size].

    Args:
        one, other: nodes of each edge, which is given once.
        weight: of each edge, positive.
    """
    group, level = np.arange(size), np.arange(size)
    for _ in range(_LEVELS):
        count = int(level.max(initial=-1)) + 1
        moved = _move_nodes(count, one, other, weight)
        if len(np.unique(moved)) == count:
            break
        _, level = np.unique(moved, return_inverse=True)
        group, one, other = level[group], level[one], level[other]
        keys, place = np.unique(np.minimum(one, other) * count + np.maximum(one, other), return_inverse=True)
        one, other, weight = keys // count, keys % count, np.bincount(place, weight).astype(np.float64)
    return group


def _move_nodes(size: int, one: I64, other: I64, weight: F64) -> I64:
    """Return the group of each node after single moves, each to the group that gains most."""
    near: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    degree = [0.0] * size
    for a, b, w in zip(one.tolist(), other.tolist(), weight.tolist(), strict=True):
        degree[a] += w
        degree[b] += w
        if a != b:
            near[a].append((b, w))
            near[b].append((a, w))
    twice = sum(degree) or 1.0
    group, total, waits = list(range(size)), degree[:], [bool(edges) for edges in near]
    for _ in range(_ROUNDS):
        for node, edges in enumerate(near):
            if not waits[node]:
                continue
            waits[node] = False
            own, share = group[node], degree[node] / twice
            to = {own: 0.0}
            for neighbour, w in edges:
                place = group[neighbour]
                to[place] = to.get(place, 0.0) + w
            total[own] -= degree[node]
            best, most = own, to[own] - total[own] * share
            for place, w in to.items():
                gain = w - total[place] * share
                if gain > most + 1e-12 or (gain > most - 1e-12 and place < best):
                    best, most = place, gain
            total[best] += degree[node]
            if best != own:
                group[node] = best
                for neighbour, _ in edges:
                    waits[neighbour] = True
        if not any(waits):
            break
    return np.array(group, np.int64)
