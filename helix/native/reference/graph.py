"""The functions of `graph.c` in Python. The structs and the order of the edges are those of graph.c."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import defaultdict
from math import log1p
from typing import Any, Final, NamedTuple

import numpy as np

from helix.native.arrays import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, UINT32, UINT64
from helix.native.reference.memory import view_array, write_array

_SEGMENT_SIZES: Final = 11
"""Numbers that a segment's struct begins with; addresses follow."""

_SEGMENT_FIELDS: Final = 28
_GRAPH_SIZES: Final = 6
_GRAPH_FIELDS: Final = 18
_QUESTION_SIZES: Final = 5
_QUESTION_FIELDS: Final = 15


class _WrongEntry(Exception):
    """A list that leads outside the store, or a number that is no node."""


class _Views:
    """Views of arrays, whose addresses are read one after the other. A memory view reads one number fast."""

    def __init__(self, addresses: list[int]) -> None:
        self._addresses = iter(addresses)

    def __call__(self, dtype: np.dtype[Any], size: int) -> memoryview:
        return view_array(next(self._addresses), dtype, size).data


class _Segment:
    """The struct of a segment, read."""

    def __init__(self, fields: list[int]) -> None:
        self.start, self.rows, entities, self.first_entity, namings, mentions, sessions = fields[:7]
        members, links, linked, ids = fields[7:_SEGMENT_SIZES]
        read = _Views(fields[_SEGMENT_SIZES:])
        self.mention_at, self.mention = read(INT64, self.rows + 1), read(UINT64, mentions)
        self.entity, self.naming_at = read(UINT64, entities), read(INT64, entities + 1)
        self.naming, self.named = read(UINT32, namings), read(INT32, entities)
        self.session, self.member_at = read(UINT64, sessions), read(INT64, sessions + 1)
        self.member, self.link_at = read(UINT32, members), read(INT64, self.rows + 1)
        self.link, self.link_kind = read(UINT64, links), read(UINT8, links)
        self.linked_key, self.linked_row = read(UINT64, linked), read(UINT32, linked)
        self.linked_kind, self.id, self.id_row = read(UINT8, linked), read(UINT64, ids), read(UINT32, ids)


class _Question(NamedTuple):
    """The struct of a question, read."""

    entity_df: int
    session_size: int
    facts: int
    next: float
    session: float
    fact: float
    link: tuple[float, float]
    allowed: memoryview | None
    asked_key: memoryview
    hub: list[int]
    hub_row: list[int]
    hub_weight: list[float]


class _Graph:
    """The struct of a graph, read. Views of its arrays: their contents are read when they are needed."""

    def __init__(self, fields: list[int], segments: list[list[int]]) -> None:
        _, self.rows, self.sessions, self.entities, self.live, facts = fields[:_GRAPH_SIZES]
        read = _Views(fields[_GRAPH_SIZES + 1 :])
        self.segments = [_Segment(each) for each in segments]
        self.previous, self.next, self.session = (read(INT32, self.rows) for _ in range(3))
        self.alive, self.key = read(BOOL, self.rows), read(UINT64, self.rows)
        self.session_key, self.session_size = read(UINT64, self.sessions), read(INT64, self.sessions)
        self.fact_one, self.fact_other = read(UINT64, facts), read(UINT64, facts)
        self.fact_confidence, self.fact_row = read(FLOAT32, facts), read(INT64, facts)

    def is_seen(self, q: _Question, row: int) -> bool:
        """Return whether a question may see a row; False outside the rows."""
        return 0 <= row < self.rows and bool(self.alive[row]) and (q.allowed is None or q.allowed[row] != 0)

    def compute_idf(self, df: int) -> float:
        return log1p(float(self.live) / float(max(df, 1)))

    def find_entity(self, key: int) -> tuple[int, int]:
        """Return (the node of an entity, −1 if no item names it; the number of live items that do)."""
        node, df = -1, 0
        for part in self.segments:
            at = _find_key(part.entity, key)
            if at >= 0:
                node = self.rows + self.sessions + part.first_entity + at if node < 0 else node
                df += part.named[at]
        return node, df

    def find_segment(self, row: int) -> _Segment:
        s = 0
        while s + 1 < len(self.segments) and self.segments[s + 1].start <= row:
            s += 1
        return self.segments[s]

    def read_entity_key(self, node: int) -> int:
        at, s = node - self.rows - self.sessions, 0
        while s + 1 < len(self.segments) and self.segments[s + 1].first_entity <= at:
            s += 1
        return int(self.segments[s].entity[at - self.segments[s].first_entity])

    def find_row(self, key: int) -> int:
        """Return the live row of an item's id, or −1."""
        found = -1
        for part in self.segments:
            at = _find_key(part.id, key)
            if at >= 0 and part.id_row[at] < part.rows and self.alive[part.start + part.id_row[at]]:
                found = part.start + part.id_row[at]
        return found

    def count_facts(self, key: int, most: int) -> int:
        """Return the number of facts of an entity, or `most` if it has more."""
        low = high = bisect_left(self.fact_one, key)
        while high < len(self.fact_one) and high - low < most and self.fact_one[high] == key:
            high += 1
        return high - low


@functools.lru_cache(maxsize=8)
def _build_graph(fields: bytes, segments: bytes) -> _Graph:
    """Return the graph of the bytes of its struct and of its segments' structs: the same bytes are the same views."""
    parts = np.frombuffer(segments, np.int64).reshape(-1, _SEGMENT_FIELDS)
    return _Graph(np.frombuffer(fields, np.int64).tolist(), parts.tolist())


def _read_graph(address: int) -> _Graph:
    fields = view_array(address, INT64, _GRAPH_FIELDS)
    segments = view_array(int(fields[_GRAPH_SIZES]), INT64, int(fields[0]), _SEGMENT_FIELDS)
    return _build_graph(fields.tobytes(), segments.tobytes())


def _read_question(address: int, rows: int) -> _Question:
    fields = view_array(address, INT64, _QUESTION_FIELDS).tolist()
    entity_df, session_size, facts, asked, hubs = fields[:_QUESTION_SIZES]
    following, session, fact, *link = view_array(address, FLOAT64, _QUESTION_FIELDS)[_QUESTION_SIZES:10].tolist()
    allowed, asked_key, hub, hub_row, hub_weight = fields[10:]
    return _Question(
        entity_df, session_size, facts, following, session, fact, (link[0], link[1]),
        view_array(allowed, UINT8, rows).data if allowed else None,
        view_array(asked_key, UINT64, asked).data,
        view_array(hub, INT64, hubs).tolist(),
        view_array(hub_row, INT64, hubs).tolist(),
        view_array(hub_weight, FLOAT64, hubs).tolist(),
    )  # fmt: skip


def _find_key(keys: memoryview, key: int) -> int:
    at = bisect_left(keys, key)
    return at if at < len(keys) and keys[at] == key else -1


def _list_entries(at: memoryview, i: int, n: int) -> range:
    """Return the entries at[i] to at[i + 1]."""
    if not 0 <= at[i] <= at[i + 1] <= n:
        raise _WrongEntry
    return range(at[i], at[i + 1])


class _Edges:
    """The edges of some nodes: of each its place, the node it leads to, its weight."""

    def __init__(self, graph: _Graph, question: _Question) -> None:
        self._g, self._q = graph, question
        self.source, self.target, self.weight = list[int](), list[int](), list[float]()
        self._hubs_of, self._rows_of = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for j, (hub, row) in enumerate(zip(question.hub, question.hub_row, strict=True)):
            self._hubs_of[row].append(j)
            self._rows_of[hub].append(j)

    def _add(self, i: int, target: int, weight: float) -> None:
        self.source.append(i)
        self.target.append(target)
        self.weight.append(weight)

    def _add_seen(self, i: int, row: int, weight: float) -> None:
        if self._g.is_seen(self._q, row):
            self._add(i, row, weight)

    def _is_node(self, key: int, df: int) -> bool:
        """Return whether an entity joins items and is no hub, or the question names it."""
        return 2 <= df <= self._q.entity_df or _find_key(self._q.asked_key, key) >= 0

    def read(self, i: int, node: int) -> None:
        """Read the edges of a node, the i-th of some."""
        g = self._g
        if not 0 <= node < g.rows + g.sessions + g.entities:
            raise _WrongEntry
        if node < g.rows:
            self._read_item(i, node)
        elif node < g.rows + g.sessions:
            self._read_session(i, node - g.rows)
        else:
            self._read_entity(i, node)

    def _read_item(self, i: int, row: int) -> None:
        g, q, part = self._g, self._q, self._g.find_segment(row)
        local = row - part.start
        mentions = _list_entries(part.mention_at, local, len(part.mention))
        links = _list_entries(part.link_at, local, len(part.link))
        for j in mentions:
            key = part.mention[j]
            node, df = g.find_entity(key)
            if node >= 0 and df <= q.entity_df and self._is_node(key, df):
                self._add(i, node, g.compute_idf(df))
        self._add_seen(i, g.previous[row], q.next)
        self._add_seen(i, g.next[row], q.next)
        for j in links:
            if part.link_kind[j] > 1:
                raise _WrongEntry
            self._add_seen(i, g.find_row(part.link[j]), q.link[part.link_kind[j]])
        self._read_linked(i, g.key[row])
        session = g.session[row]
        if not 0 <= session < g.sessions:
            raise _WrongEntry
        if 2 <= g.session_size[session] <= q.session_size:
            self._add(i, g.rows + session, q.session)
        for j in self._hubs_of.get(row, ()):
            self._add(i, q.hub[j], q.hub_weight[j])

    def _read_linked(self, i: int, key: int) -> None:
        """Read the edges to the items that are linked with one."""
        for part in self._g.segments:
            j = bisect_left(part.linked_key, key)
            while j < len(part.linked_key) and part.linked_key[j] == key:
                if part.linked_row[j] >= part.rows or part.linked_kind[j] > 1:
                    raise _WrongEntry
                self._add_seen(i, part.start + part.linked_row[j], self._q.link[part.linked_kind[j]])
                j += 1

    def _read_session(self, i: int, code: int) -> None:
        key = self._g.session_key[code]
        for part in self._g.segments:
            if (at := _find_key(part.session, key)) < 0:
                continue
            for j in _list_entries(part.member_at, at, len(part.member)):
                if part.member[j] >= part.rows:
                    raise _WrongEntry
                self._add_seen(i, part.start + part.member[j], self._q.session)

    def _read_entity(self, i: int, node: int) -> None:
        g, q, key = self._g, self._q, self._g.read_entity_key(node)
        _, df = g.find_entity(key)
        for part in g.segments if df <= q.entity_df else ():
            if (at := _find_key(part.entity, key)) < 0:
                continue
            for j in _list_entries(part.naming_at, at, len(part.naming)):
                if part.naming[j] >= part.rows:
                    raise _WrongEntry
                self._add_seen(i, part.start + part.naming[j], g.compute_idf(df))
        for j in self._rows_of.get(node, ()):
            self._add(i, q.hub_row[j], q.hub_weight[j])
        read, j = 0, bisect_left(g.fact_one, key)
        while j < len(g.fact_one) and g.fact_one[j] == key and read < q.facts:
            if g.is_seen(q, g.fact_row[j]):
                read += 1
                other, other_df = g.find_entity(g.fact_other[j])
                if other >= 0 and g.fact_other[j] != key and self._is_node(g.fact_other[j], other_df):
                    self._add(i, other, q.fact * g.fact_confidence[j])
            j += 1


def graph_find(graph: int, keys: int, n: int, node: int, df: int) -> None:
    """Write the node of each of n entities and the number of live items that name it, int64[n] each."""
    g = _read_graph(graph)
    found = [g.find_entity(key) for key in view_array(keys, UINT64, n).tolist()]
    for at, values in zip((node, df), np.array(found, np.int64).reshape(-1, 2).T, strict=True):
        write_array(at, values)


def graph_degrees(graph: int, question: int, nodes: int, n: int, out: int) -> int:
    """Write the number of edges to read for each of n nodes, int64[n]; an item's few links are not counted.

    Return −1 for a damaged list or a number that is no node, else 0.
    """
    g = _read_graph(graph)
    q = _read_question(question, g.rows)
    try:
        counts = [_count_edges(g, q, node) for node in view_array(nodes, INT64, n).tolist()]
    except _WrongEntry:
        return -1
    write_array(out, np.array(counts, np.int64))
    return 0


def _count_edges(g: _Graph, q: _Question, node: int) -> int:
    if not 0 <= node < g.rows + g.sessions + g.entities:
        raise _WrongEntry
    if node < g.rows:
        part = g.find_segment(node)
        return len(_list_entries(part.mention_at, node - part.start, len(part.mention))) + 3
    if node < g.rows + g.sessions:
        return int(g.session_size[node - g.rows])
    key = g.read_entity_key(node)
    _, df = g.find_entity(key)
    return (q.hub.count(node) if df > q.entity_df else df) + g.count_facts(key, q.facts)


def graph_edges(graph: int, question: int, nodes: int, n: int, source: int, target: int, weight: int, most: int) -> int:
    """Write the edges of n nodes: place among the nodes int64, node it leads to int64, weight float64.

    Return the number of all, of which the first `most` are written, or −1 for a damaged list or a number that is no
    node.
    """
    g = _read_graph(graph)
    edges = _Edges(g, _read_question(question, g.rows))
    try:
        for i, node in enumerate(view_array(nodes, INT64, n).tolist()):
            edges.read(i, node)
    except _WrongEntry:
        return -1
    write_array(source, np.array(edges.source[:most], np.int64))
    write_array(target, np.array(edges.target[:most], np.int64))
    write_array(weight, np.array(edges.weight[:most], np.float64))
    return len(edges.source)
