"""Stage 5: personalised PageRank (Haveliwala 2002) around the best fused items, on the part of the graph in reach.

Nodes are items, the entities they name and their sessions; edges are item–entity (weighted by idf), turn–next turn,
item–session, an item and what it replies to, items about the same file or error, and the two entities of a fact that
holds. The walk is bounded: it starts from a few seeds and from entities of the question, hubs carry nothing, and
only the items around the seeds take part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from helix.topk import top_k
from helix.types import F32, I64, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.profiles import Graph
    from helix.snapshot.reader import Snapshot

F64 = npt.NDArray[np.float64]

_LINKS = ("reply", "same")  # kinds of links, in the order of their codes
_FACTS = 64  # entities at most that the facts about those of the question add


def spread(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: Graph) -> Candidates:
    """Give the pool its PageRank mass, and add the best items it leads to."""
    if not len(pool):
        return pool
    seeds = pool.row[: profile.seeds].astype(np.int64)
    items, entities = _reach(pool, seeds, query, snap, plan, profile)
    left, right, weight, nodes = _edges(items, entities, snap, plan, profile.edges)
    restart = np.zeros(nodes)
    restart[np.searchsorted(items, seeds)] = pool.rrf[: len(seeds)] / pool.rrf[: len(seeds)].sum()
    named = np.searchsorted(entities, query.mentions[np.isin(query.mentions, entities)])
    if len(named):  # half of the restart mass goes to what the question names
        restart *= 0.5
        restart[len(items) + named] += 0.5 / len(named)
    mass = pagerank(left, right, weight, restart, profile.restart, profile.steps)
    # What a seed gives itself says nothing new: only the mass that came over an edge counts.
    arrived = np.clip(mass - profile.restart * restart, 0, profile.mass)[: len(items)]
    return _extend(pool, items, arrived.astype(np.float32), snap, profile.extra)


def pagerank(left: I64, right: I64, weight: F32, restart: F64, alpha: float, steps: int) -> F64:
    """Power iteration p ← α·s + (1 − α)·Wᵀp over undirected edges; mass of nodes without edges returns to the seeds.

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
    share = both / np.maximum(out[source], 1e-12)  # an edge may weigh nothing
    p = restart.copy()
    for _ in range(steps):
        moved = np.bincount(target, p[source] * share, minlength=len(restart))
        lost = 1.0 - moved.sum()
        p = alpha * restart + (1 - alpha) * (moved + lost * restart)
    return p


def _reach(
    pool: Candidates, seeds: I64, query: Query, snap: Snapshot, plan: Plan, profile: Graph
) -> tuple[I64, npt.NDArray[np.uint64]]:
    """The items and entities that take part: the pool, the seeds' neighbours, and what shares an entity with a seed."""
    _, keys = snap.entities_of(seeds)
    entities = np.unique(np.concatenate([keys, query.mentions, _known_of(query.mentions, snap, plan)]))
    at, rows = snap.rows_of(entities)
    df = np.bincount(at, minlength=len(entities))
    carries = (df >= 2) & (df <= profile.entity_df)
    # A name in the question is a seed of its own, even where it is a hub; it adds no items then.
    asked = np.isin(entities, query.mentions) & (df >= 1)
    linked = rows[carries[at]].astype(np.int64)
    _, replies, _ = snap.links_of(seeds)
    around = np.concatenate([snap.columns.previous[seeds], snap.columns.next[seeds], replies])
    items = np.unique(np.concatenate([pool.row.astype(np.int64), linked, around[around >= 0]]))
    if plan.allowed is not None:
        items = items[plan.allowed[items]]
    return items, entities[carries | asked]


def _facts_about(entities: npt.NDArray[np.uint64], snap: Snapshot, plan: Plan) -> tuple[I64, I64]:
    """(position in `entities` int64[m], position in the fact edges int64[m]); said by items that may be searched."""
    subjects, _, _, row = snap.fact_edges
    low, high = (np.searchsorted(subjects, entities, side) for side in ("left", "right"))
    of = np.repeat(np.arange(len(entities)), high - low)
    found = np.concatenate([np.empty(0, np.int64), *map(np.arange, low, high)]).astype(np.int64)
    seen = np.ones(len(found), bool) if plan.allowed is None else plan.allowed[row[found]]
    return of[seen], found[seen]


def _known_of(entities: npt.NDArray[np.uint64], snap: Snapshot, plan: Plan) -> npt.NDArray[np.uint64]:
    """What the surest facts say of some entities: other entities."""
    _, objects, confidence, _ = snap.fact_edges
    _, found = _facts_about(entities, snap, plan)
    return objects[found[np.argsort(-confidence[found], kind="stable")[:_FACTS]]]


def _edges(
    items: I64, entities: npt.NDArray[np.uint64], snap: Snapshot, plan: Plan, weights: Mapping[str, float]
) -> tuple[I64, I64, F32, int]:
    """Edges among the given nodes: items first, then entities, then sessions. (left, right, weight, nodes)."""
    at, rows = snap.rows_of(entities)
    position = np.searchsorted(items, rows)
    here = (position < len(items)) & (items[np.minimum(position, len(items) - 1)] == rows)
    df = np.maximum(np.bincount(at, minlength=len(entities)), 1)
    idf = np.log1p(snap.live / df)[at[here]]

    following = snap.columns.next[items]
    found = np.minimum(np.searchsorted(items, following), len(items) - 1)
    joined = np.flatnonzero((following >= 0) & (items[found] == following))

    _, session = np.unique(snap.columns.session[items], return_inverse=True)
    source, row, kind = snap.links_of(items)
    target = _position(row, items)
    # Each link is seen from both of its ends.
    linked = np.flatnonzero((target >= 0) & (source < target))
    by_kind = np.array([weights[name] for name in _LINKS])[kind[linked]]

    _, objects, confidence, _ = snap.fact_edges
    of, fact = _facts_about(entities, snap, plan)
    other = _position(objects[fact], entities)
    both = np.flatnonzero((other >= 0) & (other != of))

    n, base = len(items), len(items) + len(entities)
    left = np.concatenate([position[here], joined, np.arange(n), source[linked], n + of[both]])
    right = np.concatenate([n + at[here], found[joined], base + session, target[linked], n + other[both]])
    weight = np.concatenate(
        [
            idf,
            np.full(len(joined), weights["next"]),
            np.full(n, weights["session"]),
            by_kind,
            weights["fact"] * confidence[fact[both]],
        ]
    )
    nodes = base + (int(session.max()) + 1 if len(session) else 0)
    return left.astype(np.int64), right.astype(np.int64), weight.astype(np.float32), nodes


def _position(values: npt.NDArray[Any], among: npt.NDArray[Any]) -> I64:
    """int64[m]: where each value stands among sorted ones, −1 where it does not."""
    if not len(among):
        return np.full(len(values), -1, np.int64)
    at = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[at] == values, at, -1)


def _extend(pool: Candidates, items: I64, mass: F32, snap: Snapshot, extra: int) -> Candidates:
    """The pool with its mass, then the `extra` best items that were not in it and hold any mass."""
    new = ~np.isin(items, pool.row)
    new_items, new_mass = items[new], mass[new]
    best = top_k(new_mass, snap.columns.key[new_items], extra)
    best = best[new_mass[best] > 0]
    nothing = np.full(len(best), np.nan, np.float32)
    joined = {name: np.concatenate([getattr(pool, name), nothing]) for name in pool.__slots__ if name != "row"}
    joined["row"] = np.concatenate([pool.row, new_items[best].astype(np.uint32)])
    joined["ppr"] = mass[np.searchsorted(items, joined["row"])]
    return replace(pool, **joined)
