"""Stage 5: personalised PageRank around the best fused items, over the typed graph (`helix.snapshot.index.graph`).

Haveliwala 2002, computed by forward push (Andersen, Chung & Lang 2006). The walk starts from a few seeds and from
entities of the question. It reads a node's neighbours only if the node holds enough mass, and at most `work` edges in
all. Hubs carry nothing; rows that the filters exclude are not in the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from helix.ranking.topk import select_top
from helix.snapshot.index.graph import FilteredGraph
from helix.types import F32, F64, I64, U32, U64, AnyArray, Bool, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import GraphConstants


_BFS_HOPS = 2


class Nodes(NamedTuple):
    """Nodes that hold mass: items, sessions and entities by their numbers."""

    number: I64  # ascending; an item's is its row
    estimate: F64  # mass that stays
    residual: F64  # mass still to be pushed


class PushState(NamedTuple):
    """The state of a forward push. Estimates and residuals of all nodes add up to 1."""

    nodes: Nodes
    injected: float  # restart mass in all: 1, and mass returned from nodes without edges
    edges: int  # read


def spread(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: GraphConstants) -> Candidates:
    """Give the pool its PageRank mass, and add the best items that the walk reaches."""
    return walk(pool, query, snap, plan, profile)[0]


def walk(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: GraphConstants) -> tuple[Candidates, str]:
    """Do `spread`; also return the method: "push", or "bfs" by profile or if `work` is too little for one hop."""
    if not len(pool):
        return pool, profile.method
    seen, asked = view_graph(pool, query, snap, plan, profile)
    start = seed(pool, asked, profile.seeds)
    state = push(start, seen, profile) if profile.method == "push" else None
    if state is None and profile.neighbours:
        rows, mass = reach_neighbours(start, seen, snap.rows, profile)
        capped = mass.astype(np.float32)
    else:
        if state is None:
            rows, mass = breadth_first(start, seen, snap.rows, profile)
        else:
            rows, mass = collect_mass(state, start, snap.rows, profile.restart)
        capped = mass.clip(0, profile.mass).astype(np.float32)
    return _extend(pool, rows, capped, snap, profile.extra), "push" if state else "bfs"


def view_graph(
    pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: GraphConstants
) -> tuple[FilteredGraph, I64]:
    """Return the graph as the question sees it, and the entities the question names, ascending.

    A hub among them leads to items of the pool only.
    """
    known, df = snap.graph.nodes.find(query.mentions)
    named = (df > 0).nonzero()[0]
    asked = query.mentions[named]
    is_hub = df[named] > profile.entity_df
    row, hub = _find_naming(pool.row, asked[is_hub], snap)
    hubs = (known[named][is_hub][hub], row, np.log1p(snap.live / df[named][is_hub][hub]))
    weights = profile.edges
    seen = FilteredGraph(snap.graph.nodes, plan.allowed, asked, hubs, profile.entity_df, profile.session_size, weights)
    return seen, np.sort(known[named])


def _find_naming(rows: U32, entities: U64, snap: Snapshot) -> tuple[I64, I64]:
    """Return the rows that name entities: (row int64[m], position in `entities`, ascending, int64[m])."""
    if not len(entities):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    at, keys = snap.graph.entities_of(rows)
    place = _find_positions(keys, entities)
    here = place >= 0
    return rows[at[here]].astype(np.int64), place[here]


def seed(pool: Candidates, asked: I64, seeds: int) -> Nodes:
    """Return the start of the walk: half the mass on the best items, by score, half on the question's entities."""
    rows = pool.row[:seeds].astype(np.int64)
    score = pool.rrf[: len(rows)].astype(np.float64)
    place = rows.argsort()
    mass = (0.5 if len(asked) else 1.0) * score[place] / score.sum()
    return _start(
        np.concatenate([rows[place], asked]), np.concatenate([mass, np.full(len(asked), 0.5 / max(1, len(asked)))])
    )


# ---------------------------------------------------------------- forward push


def push(start: Nodes, seen: FilteredGraph, profile: GraphConstants) -> PushState | None:
    """Push forward, one hop a round.

    Each node whose residual exceeds epsilon · degree keeps `restart` of it and passes the rest over its edges; a node
    without edges returns it to the start.

    A degree is the number of edges to read, so that without other bounds 1 / (restart · epsilon) edges are read at
    most. An estimate is never above the node's PageRank, and all of them together fall short of it by the sum of the
    residuals.

    Returns:
        The state after `hops` rounds, or before, when nothing is left to push or the next round would read more than
        `work` edges; None if that is the first round.
    """
    state = PushState(start, 1.0, 0)
    for hop in range(profile.hops):
        some = (state.nodes.residual > profile.epsilon).nonzero()[0]  # few nodes, so few degrees are read
        degree = np.maximum(seen.degree(state.nodes.number[some]), 1)
        enough = state.nodes.residual[some] > profile.epsilon * degree
        ready, cost = some[enough], int(degree[enough].sum())
        if state.edges + cost > profile.work:
            return state if hop else None
        if not len(ready):
            break
        state = _push_round(state, start, ready, seen, profile.restart)._replace(edges=state.edges + cost)
    return state


def _push_round(state: PushState, start: Nodes, ready: I64, seen: FilteredGraph, alpha: float) -> PushState:
    """Push all ready nodes, by position, at once, from the residuals before the round."""
    nodes, held = state.nodes, state.nodes.residual[ready]
    source, target, weight = seen.edges(nodes.number[ready])
    out = np.bincount(source, weight, minlength=len(ready))
    stuck = out <= 0
    share = (1 - alpha) * held / np.where(stuck, 1, out)
    estimate, residual = nodes.estimate.copy(), nodes.residual.copy()
    estimate[ready] += alpha * held
    residual[ready] = 0
    left, mass = Nodes(nodes.number, estimate, residual), share[source] * weight
    lost = (1 - alpha) * float(held[stuck].sum())
    if lost:
        target, mass = np.concatenate([target, start.number]), np.concatenate([mass, lost * start.residual])
    return PushState(_add(left, target, mass), state.injected + lost, state.edges)


def _start(number: I64, mass: F64) -> Nodes:
    return Nodes(number, np.zeros(len(number)), mass)


def _add(nodes: Nodes, number: I64, mass: F64) -> Nodes:
    """Add residual to nodes, in the given order, so that sums are reproducible."""
    joined = np.concatenate([nodes.number, number])
    order = joined.argsort(kind="stable")
    ordered = joined[order]
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    begin = first.nonzero()[0]
    known = ordered[begin]
    estimate = np.zeros(len(known))
    estimate[known.searchsorted(nodes.number)] = nodes.estimate
    return Nodes(known, estimate, np.add.reduceat(np.concatenate([nodes.residual, mass])[order], begin))


def collect_mass(state: PushState, start: Nodes, rows: int, alpha: float) -> tuple[I64, F64]:
    """Return the mass that reached items over edges, without what seeds gave themselves.

    An item keeps `alpha` of its residual, so that much counts as PageRank already.

    Args:
        rows: rows of the snapshot; smaller node numbers are items.

    Returns:
        (rows int64[n] ascending, mass float64[n]).
    """
    nodes = state.nodes
    mass = nodes.estimate + alpha * nodes.residual
    mass[nodes.number.searchsorted(start.number)] -= alpha * state.injected * start.residual
    items = nodes.number.searchsorted(rows)
    return nodes.number[:items], mass[:items]


# ---------------------------------------------------------------- breadth first


def breadth_first(start: Nodes, seen: FilteredGraph, rows: int, profile: GraphConstants) -> tuple[I64, F64]:
    """Return the items within two hops of the start, best first, as far as `work` goes.

    A hop gives a new node 1 − restart of the mass of the node before it, the largest of several.

    Args:
        rows: rows of the snapshot; smaller node numbers are items.

    Returns:
        (rows int64[n] ascending, mass float64[n]); seeds keep what they start with.
    """
    work, known, frontier = profile.work, start, start
    for _ in range(min(profile.hops, _BFS_HOPS)):
        best = (-frontier.residual).argsort(kind="stable")
        cost = seen.degree(frontier.number[best]).cumsum()
        at = best[cost <= work]
        if not len(at):
            break
        work -= int(cost[len(at) - 1])
        source, target, _ = seen.edges(frontier.number[at])
        frontier = _keep_best(target, (1 - profile.restart) * frontier.residual[at][source], known)
        known = _add(known, frontier.number, frontier.residual)
    items = known.number.searchsorted(rows)
    return known.number[:items], known.residual[:items]


def reach_neighbours(start: Nodes, seen: FilteredGraph, rows: int, profile: GraphConstants) -> tuple[I64, F64]:
    """Return the items within two hops of a seed, each with 1 / hops to the nearest one.

    A seed reaches at most `neighbours` items: the nearest first, in a hop those of the heaviest edge, then the smaller
    row. The best seeds go first, as far as `work` goes.

    Args:
        rows: rows of the snapshot; smaller node numbers are items.

    Returns:
        (rows int64[n] ascending, 1 / hops float64[n]; 0 for a seed that no other reaches).
    """
    seed, node = np.arange(len(start.number)), start.number[(-start.residual).argsort(kind="stable")]
    known, taken, work = _pair(seed, node), np.zeros(len(node), np.int64), profile.work
    found, near = list[I64](), list[F64]()
    for hop in range(1, min(profile.hops, _BFS_HOPS) + 1):
        cost = seen.degree(node).cumsum()
        seed, node = seed[cost <= work], node[cost <= work]
        if not len(node):
            break
        work -= int(cost[len(node) - 1])
        source, node, weight = seen.edges(node)
        seed = seed[source]
        order = np.lexsort((node, -weight, seed))
        seed, node = seed[order], node[order]
        pairs, first = np.unique(_pair(seed, node), return_index=True)  # the heaviest of several edges
        first = np.sort(first[_find_positions(pairs, known) < 0])
        seed, node = seed[first], node[first]
        item = node < rows
        keep = ~item | (taken[seed] + _count_before(seed, item) < profile.neighbours)
        seed, node, item = seed[keep], node[keep], item[keep]
        taken += np.bincount(seed[item], minlength=len(taken))
        known = np.sort(np.concatenate([known, _pair(seed, node)]))
        found.append(node[item])
        near.append(np.full(int(item.sum()), 1 / hop))
    seeds = start.number[start.number < rows]  # 0 hops are no way to itself
    reached, first = np.unique(np.concatenate([*found, seeds]), return_index=True)  # the nearest seed comes first
    return reached, np.concatenate([*near, np.zeros(len(seeds))])[first]


def _pair(seed: I64, node: I64) -> I64:
    """Return one number for each pair of a seed and a node."""
    return (seed << 40) + node


def _count_before(seed: I64, item: Bool) -> I64:
    """Count the items before each place that belong to its seed; the seeds are ascending."""
    before: I64 = np.cumsum(item) - item
    return np.asarray(before - before[seed.searchsorted(seed)], np.int64)


def _keep_best(number: I64, mass: F64, known: Nodes) -> Nodes:
    """Return the new nodes, each with the greatest of its masses."""
    found, at = np.unique(number, return_inverse=True)
    best = np.zeros(len(found))
    np.maximum.at(best, at, mass)
    new = _find_positions(found, known.number) < 0
    return _start(found[new], best[new])


# ---------------------------------------------------------------- power iteration


def pagerank(left: I64, right: I64, weight: F32, restart: F64, alpha: float, steps: int) -> F64:
    """Iterate p ← α·s + (1 − α)·Wᵀp over a small undirected graph; nodes without edges return their mass to the seeds.

    Args:
        left, right: int64[e] ends of each edge.
        weight: float32[e].
        restart: float64[nodes], sum 1.
        alpha: restart probability.
        steps: iterations.

    Returns:
        float64[nodes], sum 1.
    """
    source, target = np.concatenate([left, right]), np.concatenate([right, left])
    both = np.concatenate([weight, weight]).astype(np.float64)
    out = np.bincount(source, both, minlength=len(restart))
    share = both / np.maximum(out[source], 1e-12)  # a weight may be 0
    p = restart.copy()
    for _ in range(steps):
        moved = np.bincount(target, p[source] * share, minlength=len(restart))
        lost = 1.0 - moved.sum()
        p = alpha * restart + (1 - alpha) * (moved + lost * restart)
    return p


# ---------------------------------------------------------------- the pool


def _extend(pool: Candidates, items: I64, mass: F32, snap: Snapshot, extra: int) -> Candidates:
    """Give the pool its mass, and add the `extra` best new items with any mass."""
    new = _find_positions(items, np.sort(pool.row).astype(np.int64)) < 0
    new_items, new_mass = items[new], mass[new]
    best = select_top(new_mass, snap.columns.key[new_items], extra)
    best = best[new_mass[best] > 0]
    joined = pool.append(new_items[best])
    at = _find_positions(joined.row.astype(np.int64), items)
    return replace(joined, ppr=np.where(at >= 0, mass[at], 0).astype(np.float32))


def _find_positions(values: AnyArray, among: AnyArray) -> I64:
    """Return the position of each value among ascending ones, −1 if absent: int64[m]."""
    if not len(among) or not len(values):
        return np.full(len(values), -1, np.int64)
    at = np.minimum(among.searchsorted(values), len(among) - 1)
    return np.where(among[at] == values, at, -1)
