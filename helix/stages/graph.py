"""Stage 5: personalised PageRank (Haveliwala 2002) around the best fused items, by forward push (Andersen, Chung &
Lang 2006) over the typed graph.

Nodes are items, the entities they name and their sessions; edges are item–entity (weighted by idf), turn–next turn,
item–session, an item and what it replies to, items about the same file or error, and the two entities of a fact that
holds. The walk starts from a few seeds and from entities of the question; a node's neighbours are read only where
enough mass lies on it, and no more than `work` edges in all. Hubs carry nothing, and what the question's filters leave
out is not there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.topk import top_k
from helix.types import F32, I64, U64, Bool, Candidates, Plan, Query

if TYPE_CHECKING:
    from helix.profiles import Graph
    from helix.snapshot.reader import Snapshot

F64 = npt.NDArray[np.float64]

ITEM, ENTITY, SESSION = KINDS = (0, 1, 2)
_LINKS = ("reply", "same")  # kinds of links, in the order of their codes
_FACTS = 64  # facts of one entity that carry: the surest
_BFS_HOPS = 2


class Nodes(NamedTuple):
    """Nodes of one kind that hold mass."""

    key: npt.NDArray[Any]  # ascending: row int64[n], entity hash uint64[n] or session code int64[n]
    estimate: F64  # what stays
    residual: F64  # what is still to be pushed


class State(NamedTuple):
    """Where a push stands. Estimates and residuals of all nodes add up to 1."""

    nodes: tuple[Nodes, Nodes, Nodes]  # by kind
    injected: float  # restart mass in all: 1, and what came back from nodes without edges
    edges: int  # read


class Edges(NamedTuple):
    """Edges from some nodes to nodes of one kind."""

    source: I64  # position among the nodes
    kind: int
    target: npt.NDArray[Any]  # keys
    weight: F64


@dataclass(frozen=True, slots=True)
class View:
    """The graph as one question sees it."""

    snap: Snapshot
    allowed: Bool | None
    profile: Graph
    asked: U64  # ascending: entities the question names that some live item names
    hub: U64  # those that are hubs, once for each item of the pool that names it
    hub_row: I64  # that item
    hub_weight: F64


def spread(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: Graph) -> Candidates:
    """Give the pool its PageRank mass, and add the best items it leads to."""
    return walk(pool, query, snap, plan, profile)[0]


def walk(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: Graph) -> tuple[Candidates, str]:
    """`spread`, and how it was done: "push", or "bfs" where the profile says so or `work` is too little for one hop."""
    if not len(pool):
        return pool, profile.method
    view = look(pool, query, snap, plan, profile)
    start = origin(pool, view)
    state = push(start, view) if profile.method == "push" else None
    if state is None:
        rows, mass = breadth_first(start, view)
    else:
        rows, mass = arrived(state, start[ITEM], profile.restart)
    capped = np.clip(mass, 0, profile.mass).astype(np.float32)
    return _extend(pool, rows, capped, snap, profile.extra), "push" if state else "bfs"


def look(pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: Graph) -> View:
    """The graph as the question sees it. A hub it names leads to items of the pool only: it adds none."""
    asked = np.unique(query.mentions)
    df = snap.naming(asked)
    is_hub = df > profile.entity_df
    hubs = asked[is_hub]
    at, keys = snap.entities_of(pool.row) if len(hubs) else (np.empty(0, np.int64), hubs)
    hub = _position(keys, hubs)
    at, hub = at[hub >= 0], hub[hub >= 0]
    weight = _idf(df[is_hub], snap)[hub]
    return View(snap, plan.allowed, profile, asked[df > 0], hubs[hub], pool.row.astype(np.int64)[at], weight)


def origin(pool: Candidates, view: View) -> tuple[Nodes, Nodes, Nodes]:
    """Where the walk starts, by kind: half from the best fused items, by their score, half from what is asked for."""
    rows = pool.row[: view.profile.seeds].astype(np.int64)
    score = pool.rrf[: len(rows)].astype(np.float64)
    place = rows.argsort()
    asked = len(view.asked)
    return (
        _start(rows[place], (0.5 if asked else 1.0) * score[place] / score.sum()),
        _start(view.asked, np.full(asked, 0.5 / max(1, asked))),
        _start(np.empty(0, np.int64), np.empty(0)),
    )


# ---------------------------------------------------------------- forward push


def push(start: tuple[Nodes, Nodes, Nodes], view: View) -> State | None:
    """Forward push, one hop a round: each node whose residual exceeds epsilon · degree keeps `restart` of it and hands
    the rest on over its edges; a node without edges hands it back to the start.

    A degree is the number of edges to read, so that without other bounds 1 / (restart · epsilon) edges are read at
    most. An estimate is never above the node's PageRank, and all of them together fall short of it by the sum of the
    residuals.

    Returns:
        Where it stands after `hops` rounds, or earlier when nothing is left to push, or when the next round would
        bring the edges read above `work`; None where that is the first round.
    """
    state = State(start, 1.0, 0)
    for hop in range(view.profile.hops):
        ready = [_ready(kind, state.nodes[kind], view) for kind in KINDS]
        cost = sum(edges for _, edges in ready)
        if state.edges + cost > view.profile.work:
            return state if hop else None
        if not any(len(at) for at, _ in ready):
            break
        state = _round(state, start, [at for at, _ in ready], view)._replace(edges=state.edges + cost)
    return state


def _ready(kind: int, nodes: Nodes, view: View) -> tuple[I64, int]:
    """(positions of the nodes to push int64[m], edges to read for them)."""
    epsilon = view.profile.epsilon
    some = (nodes.residual > epsilon).nonzero()[0]  # few, of which the degree is asked for
    if not len(some):
        return some, 0
    degree = np.maximum(_degree(kind, nodes.key[some], view), 1)
    enough = nodes.residual[some] > epsilon * degree
    return some[enough], int(degree[enough].sum())


def _round(state: State, start: tuple[Nodes, Nodes, Nodes], chosen: Sequence[I64], view: View) -> State:
    """All chosen nodes pushed at once, from the residuals before the round."""
    alpha = view.profile.restart
    keys: list[list[npt.NDArray[Any]]] = [[], [], []]
    values: list[list[F64]] = [[], [], []]
    left: list[Nodes] = []
    lost = 0.0
    for kind, (nodes, at) in enumerate(zip(state.nodes, chosen, strict=True)):
        if not len(at):
            left.append(nodes)
            continue
        held = nodes.residual[at]
        edges = [edge for edge in _EDGES[kind](nodes.key[at], view) if len(edge.source)]
        out = np.zeros(len(at))
        for edge in edges:
            out += np.bincount(edge.source, edge.weight, minlength=len(at))
        stuck = out <= 0
        lost += (1 - alpha) * float(held[stuck].sum())
        share = (1 - alpha) * held / np.where(stuck, 1, out)
        for edge in edges:
            keys[edge.kind].append(edge.target)
            values[edge.kind].append(share[edge.source] * edge.weight)
        estimate, residual = nodes.estimate.copy(), nodes.residual.copy()
        estimate[at] += alpha * held
        residual[at] = 0
        left.append(Nodes(nodes.key, estimate, residual))
    if lost:
        for kind in KINDS:
            keys[kind].append(start[kind].key)
            values[kind].append(lost * start[kind].residual)
    item, entity, session = (_add(left[kind], keys[kind], values[kind]) for kind in KINDS)
    return State((item, entity, session), state.injected + lost, state.edges)


def _start(key: npt.NDArray[Any], mass: F64) -> Nodes:
    return Nodes(key, np.zeros(len(key)), mass)


def _add(nodes: Nodes, keys: Sequence[npt.NDArray[Any]], values: Sequence[F64]) -> Nodes:
    """The nodes with more residual. Sums are taken in the order given: they come out the same every time."""
    if not any(map(len, keys)):
        return nodes
    joined = np.concatenate([nodes.key, *keys])
    order = joined.argsort(kind="stable")
    ordered = joined[order]
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    begin = first.nonzero()[0]
    key = ordered[begin]
    estimate = np.zeros(len(key))
    estimate[key.searchsorted(nodes.key)] = nodes.estimate
    return Nodes(key, estimate, np.add.reduceat(np.concatenate([nodes.residual, *values])[order], begin))


def arrived(state: State, start: Nodes, alpha: float) -> tuple[I64, F64]:
    """What came to the items over an edge: what a seed gives itself says nothing new.

    Of what still lies on an item it would keep `alpha`, so that much is of its PageRank already.

    Returns:
        (rows int64[n] ascending, mass float64[n]).
    """
    item = state.nodes[ITEM]
    mass = item.estimate + alpha * item.residual
    mass[item.key.searchsorted(start.key)] -= alpha * state.injected * start.residual
    return item.key, mass


# ---------------------------------------------------------------- breadth first


def breadth_first(start: tuple[Nodes, Nodes, Nodes], view: View) -> tuple[I64, F64]:
    """What lies within two hops of the start, the best first, as far as `work` goes: the first hop to an item leaves it
    1 − restart of what the node before it holds, of several the most.

    Returns:
        (rows int64[n] ascending, mass float64[n]); seeds keep what they start with.
    """
    profile, work = view.profile, view.profile.work
    seen, frontier = list(start), list(start)
    for _ in range(min(profile.hops, _BFS_HOPS)):
        keys: list[list[npt.NDArray[Any]]] = [[], [], []]
        values: list[list[F64]] = [[], [], []]
        for kind, nodes in enumerate(frontier):
            best = (-nodes.residual).argsort(kind="stable")
            cost = np.cumsum(_degree(kind, nodes.key[best], view))
            at = best[cost <= work]
            if not len(at):
                continue
            work -= int(cost[len(at) - 1])
            for edge in _EDGES[kind](nodes.key[at], view):
                keys[edge.kind].append(edge.target)
                values[edge.kind].append((1 - profile.restart) * nodes.residual[at][edge.source])
        for kind in KINDS:
            frontier[kind] = _best(keys[kind], values[kind], seen[kind])
            seen[kind] = _add(seen[kind], [frontier[kind].key], [frontier[kind].residual])
    return seen[ITEM].key, seen[ITEM].residual


def _best(keys: Sequence[npt.NDArray[Any]], values: Sequence[F64], seen: Nodes) -> Nodes:
    """Each key that was not seen yet, with the greatest of its values."""
    key, at = np.unique(np.concatenate([seen.key[:0], *keys]), return_inverse=True)
    best = np.zeros(len(key))
    np.maximum.at(best, at, np.concatenate([np.empty(0), *values]))
    new = _position(key, seen.key) < 0
    return _start(key[new], best[new])


# ---------------------------------------------------------------- power iteration


def pagerank(left: I64, right: I64, weight: F32, restart: F64, alpha: float, steps: int) -> F64:
    """Power iteration p ← α·s + (1 − α)·Wᵀp over all of a small graph, undirected; the mass of nodes without edges
    returns to the seeds.

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


# ---------------------------------------------------------------- the graph


def _degree(kind: int, keys: npt.NDArray[Any], view: View) -> I64:
    """int64[n]: edges to read for each node. An item has two neighbours and a session besides what it names; its links,
    a handful, are not counted.
    """
    snap = view.snap
    if kind == ITEM:
        return snap.names_in(keys) + 3
    if kind == SESSION:
        return np.asarray(snap.session_size[keys])
    df, at = snap.naming(keys), _position(view.hub, keys)
    items = np.where(df > view.profile.entity_df, np.bincount(at[at >= 0], minlength=len(keys)), df)
    return np.asarray(items + np.minimum(snap.fact_count(keys), _FACTS))


def _of_items(rows: I64, view: View) -> list[Edges]:
    snap, profile = view.snap, view.profile
    at, keys = snap.entities_of(rows)
    df = snap.naming(keys)
    carrying = (_carries(keys, df, view) & (df <= profile.entity_df)).nonzero()[0]
    named = Edges(at[carrying], ENTITY, keys[carrying], _idf(df[carrying], snap))

    source, row, kind = snap.links_of(rows)
    each, columns = np.arange(len(rows)), snap.columns
    joined = Edges(
        np.concatenate([each, each, source]),
        ITEM,
        np.concatenate([columns.previous[rows], columns.next[rows], row], dtype=np.int64),
        np.concatenate(
            [
                np.full(2 * len(rows), profile.edges["next"]),
                np.array([profile.edges[name] for name in _LINKS])[kind],
            ]
        ),
    )

    session = snap.columns.session[rows].astype(np.int64)
    size = snap.session_size[session]
    small = ((size >= 2) & (size <= profile.session_size)).nonzero()[0]
    within = Edges(small, SESSION, session[small], np.full(len(small), profile.edges["session"]))

    edges = [named, _seen(joined, view), within]
    if len(view.hub):
        at = _position(view.hub_row, rows)
        here = at >= 0
        edges.append(Edges(at[here], ENTITY, view.hub[here], view.hub_weight[here]))
    return edges


def _of_entities(keys: U64, view: View) -> list[Edges]:
    snap = view.snap
    df = snap.naming(keys)
    carrying = (df <= view.profile.entity_df).nonzero()[0]
    at, rows = snap.rows_of(keys[carrying])
    source = carrying[at]
    naming = Edges(source, ITEM, rows.astype(np.int64), _idf(df, snap)[source])
    edges = [_seen(naming, view), _facts(keys, view)]
    if len(view.hub):
        at = _position(view.hub, keys)
        here = at >= 0
        edges.insert(1, Edges(at[here], ITEM, view.hub_row[here], view.hub_weight[here]))
    return edges


def _of_sessions(codes: I64, view: View) -> list[Edges]:
    at, rows = view.snap.members_of(codes)
    return [_seen(Edges(at, ITEM, rows, np.full(len(at), view.profile.edges["session"])), view)]


_EDGES: tuple[Callable[[Any, View], list[Edges]], ...] = (_of_items, _of_entities, _of_sessions)  # by kind


def _facts(keys: U64, view: View) -> Edges:
    """To what the surest facts say of some entities, of those that items say which may be searched."""
    at, other, confidence, row = view.snap.facts_of(keys)
    if not len(at):
        return Edges(at, ENTITY, other, np.empty(0))
    seen = np.arange(len(at)) if view.allowed is None else view.allowed[row].nonzero()[0]
    first = at[seen].searchsorted(at[seen])  # of the same entity
    surest = seen[np.arange(len(seen)) - first < _FACTS]
    carries = _carries(other[surest], view.snap.naming(other[surest]), view) & (other[surest] != keys[at[surest]])
    found = surest[carries]
    return Edges(at[found], ENTITY, other[found], view.profile.edges["fact"] * confidence[found].astype(np.float64))


def _carries(keys: U64, df: I64, view: View) -> Bool:
    """bool[n]: the entity is a node: it joins items and is no hub, or the question names it."""
    return np.asarray(((df >= 2) & (df <= view.profile.entity_df)) | (_position(keys, view.asked) >= 0))


def _seen(edges: Edges, view: View) -> Edges:
    """The edges to items that are there and may be searched."""
    keep = edges.target >= 0
    if view.allowed is not None:
        keep &= view.allowed[edges.target]
    return Edges(edges.source[keep], edges.kind, edges.target[keep], edges.weight[keep])


def _idf(df: I64, snap: Snapshot) -> F64:
    return np.asarray(np.log1p(snap.live / np.maximum(df, 1)))


def _position(values: npt.NDArray[Any], among: npt.NDArray[Any]) -> I64:
    """int64[m]: where each value stands among ascending ones, −1 where it does not."""
    if not len(among) or not len(values):
        return np.full(len(values), -1, np.int64)
    at = np.minimum(among.searchsorted(values), len(among) - 1)
    return np.where(among[at] == values, at, -1)


# ---------------------------------------------------------------- the pool


def _extend(pool: Candidates, items: I64, mass: F32, snap: Snapshot, extra: int) -> Candidates:
    """The pool with its mass, then the `extra` best items that were not in it and hold any mass."""
    new = _position(items, np.sort(pool.row).astype(np.int64)) < 0
    new_items, new_mass = items[new], mass[new]
    best = top_k(new_mass, snap.columns.key[new_items], extra)
    best = best[new_mass[best] > 0]
    joined = pool.joined(new_items[best])
    at = _position(joined.row.astype(np.int64), items)
    return replace(joined, ppr=np.where(at >= 0, mass[at], 0).astype(np.float32))
