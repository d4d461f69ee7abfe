"""A graph of the most telling entities of a view: which of them items name together, and their groups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np

from helix.sdk.entities.board import EntityBoard
from helix.sdk.entities.groups import find_groups
from helix.sdk.entities.listing import find_entity
from helix.types import F64, I64, Bool
from helix.util.sanitise import sanitise_name

STRONGEST: Final = 6
"""Edges that each node keeps; it may have more that others keep."""

APART: Final = frozenset({"identifier", "module", "command", "version", "date", "url"})
"""Kinds that a graph has only if they are asked for: there are many, and they say how or when, not who or what."""

LISTED: Final = 32
"""Items that name more of the nodes are listings, and connect none."""


class EdgeList(NamedTuple):
    """Nodes that items name together: p pairs."""

    one: I64  # place of a node
    other: I64  # a later one
    common: I64  # items
    strength: F64  # nats

    def take(self, chosen: I64) -> EdgeList:
        """Return some of the pairs."""
        return EdgeList(self.one[chosen], self.other[chosen], self.common[chosen], self.strength[chosen])


def answer_graph(board: EntityBoard, kinds: Collection[str], around: str | None, limit: int) -> dict[str, Any]:
    """Return the graph of every surface; see `draw_graph`.

    Args:
        around: id or name of an entity; None: of all.
    """
    center = None if around is None else find_entity(board, around)
    if around is not None and center is None:
        nothing = {"total": 0, "nodes": [], "groups": [], "edges": []}
        return {**nothing, "notice": f"no item names {sanitise_name(around)}"}
    found = draw_graph(board, kinds, center, limit)
    return {**found, "notice": None if found["nodes"] else "no item names an entity of these kinds"}


def draw_graph(board: EntityBoard, kinds: Collection[str], around: int | None, limit: int) -> dict[str, Any]:
    """Return nodes, edges and groups as plain data, the most telling nodes and the strongest edges first.

    Args:
        kinds: only these; empty: all but those `APART`.
        around: an entity; only it and those that its items name, the closest first. None: of all.
        limit: nodes at most.
    """
    candidates = rank_around(board, around) if around is not None else _rank_all(board)
    codes = [code for code, kind in enumerate(board.table.kinds) if (kind in kinds if kinds else kind not in APART)]
    candidates = candidates[np.isin(board.table.kind[candidates], codes) | (candidates == around)]
    nodes = candidates[:limit]
    pairs = find_pairs(board, nodes)
    group = find_groups(len(nodes), pairs.one, pairs.other, pairs.strength)
    return {
        "total": len(candidates),
        **_write_nodes(board, nodes, pairs, group),
        "edges": _write_edges(board, nodes, pairs),
    }


def _rank_all(board: EntityBoard) -> I64:
    """Return the entities, the most telling first."""
    order = np.lexsort((board.table.key[board.shown], -board.telling[board.shown]))
    return board.shown[order]


def rank_around(board: EntityBoard, center: int) -> I64:
    """Return an entity and those that its items name, the closest first."""
    beside, common = board.list_beside(center)
    items = board.counts.items
    closeness = common * np.log(np.maximum(common * float(board.live) / (items[beside] * float(items[center])), 1.0))
    order = np.lexsort((board.table.key[beside], -common, -closeness))
    return np.append(center, beside[order])


def find_pairs(board: EntityBoard, nodes: I64) -> EdgeList:
    """Return the strongest pairs of nodes that items name together more often than by chance.

    The strength of a pair is its pointwise mutual information times the items in common; an item counts the less the
    more of the nodes it names. Each node keeps its `STRONGEST`.
    """
    place = np.full(len(board.same), -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    row, entity = board.find_named(nodes)
    one, other, size = _pair_up(row, place[entity])
    n = max(len(nodes), 1)
    keys, at = np.unique(np.minimum(one, other) * n + np.maximum(one, other), return_inverse=True)
    common, share = (
        np.bincount(at, minlength=len(keys)),
        np.bincount(at, 1 / (size - 1.0), len(keys)).astype(np.float64),
    )
    one, other, items = keys // n, keys % n, board.counts.items[nodes].astype(np.float64)
    strength: F64 = share * np.log(common * float(board.live) / (items[one] * items[other]))
    found = EdgeList(one, other, common, strength).take(np.flatnonzero(strength > 0))
    keep = np.flatnonzero(_keep_strongest(found, len(nodes)))
    return found.take(keep[np.argsort(-found.strength[keep], kind="stable")])


def _pair_up(row: I64, node: I64) -> tuple[I64, I64, I64]:
    """Return all pairs of one row: (node int64[p], node int64[p], nodes of the row int64[p]).

    Args:
        row: int64[m], ascending.
        node: int64[m].
    """
    _, at, size = np.unique(row, return_inverse=True, return_counts=True)
    keep = (size[at] > 1) & (size[at] <= LISTED)
    row, node, size = row[keep], node[keep], size[at[keep]]
    left = np.arange(len(row))
    parts: list[tuple[I64, I64, I64]] = []
    for step in range(1, LISTED):
        left = left[left < len(row) - step]
        left = left[row[left] == row[left + step]]
        if not len(left):
            break
        parts.append((node[left], node[left + step], size[left]))
    if not parts:
        none = np.empty(0, np.int64)
        return none, none, none
    one, other, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return one, other, sizes


def _keep_strongest(pairs: EdgeList, size: int) -> Bool:
    """Return which pairs are among the strongest of one of their nodes: bool[p]."""
    count = len(pairs.one)
    node = np.concatenate([pairs.one, pairs.other])
    order = np.lexsort((np.tile(np.arange(count), 2), -np.tile(pairs.strength, 2), node))
    first = np.searchsorted(node[order], np.arange(size))
    rank = np.arange(2 * count) - first[node[order]]
    keep = np.zeros(count, bool)
    keep[order[rank < STRONGEST] % max(count, 1)] = True
    return keep


def _write_nodes(board: EntityBoard, nodes: I64, pairs: EdgeList, group: I64) -> dict[str, Any]:
    """Return `nodes` and `groups`; a node without an edge has no group."""
    items, labels = board.counts.items[nodes].tolist(), board.label(nodes)
    members: dict[int, list[int]] = {}
    for at in sorted({*pairs.one.tolist(), *pairs.other.tolist()}):
        members.setdefault(int(group[at]), []).append(at)
    ranked = sorted(members.values(), key=lambda some: (-len(some), some[0]))
    of = {at: number for number, some in enumerate(ranked) for at in some}
    heads = [max(some, key=lambda at: (items[at], -at)) for some in ranked]
    parts = zip(board.table.key[nodes].tolist(), labels, board.kinds_of(nodes), items, strict=True)
    return {
        "nodes": [
            {"id": f"{key:016x}", "label": label, "kind": kind, "items": count, "group": of.get(at)}
            for at, (key, label, kind, count) in enumerate(parts)
        ],
        "groups": [
            {"id": number, "label": labels[head], "nodes": len(some)}
            for number, (head, some) in enumerate(zip(heads, ranked, strict=True))
        ],
    }


def _write_edges(board: EntityBoard, nodes: I64, pairs: EdgeList) -> list[dict[str, Any]]:
    ids = [f"{key:016x}" for key in board.table.key[nodes].tolist()]
    columns = (pairs.one, pairs.other, pairs.strength.round(4), pairs.common)
    return [
        {"from": ids[one], "to": ids[other], "weight": weight, "items": common}
        for one, other, weight, common in zip(*(column.tolist() for column in columns), strict=True)
    ]
