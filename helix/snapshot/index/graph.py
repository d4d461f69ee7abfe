"""The typed graph of a snapshot. Nodes are numbered: rows, then sessions, then entities.

No graph is built: C code reads the segments' lists around a few nodes at a time (`helix/native/graph.c`). Edges link
item and entity (weighted by idf), turn and next turn, item and session, item and the item it replies to, items about
the same file or error, and the two entities of a current fact. They are undirected.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from helix.native.arrays import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    allocate,
    check_array,
    explain_damage,
)
from helix.native.library import INT, POINTER, SHORT, declare_kernel
from helix.snapshot.segment.batch import LINKS
from helix.snapshot.segment.open import OpenSegment
from helix.types import F32, F64, I32, I64, U64, AnyArray, Bool

FACTS: Final = 64  # facts of one entity that are edges: those of highest confidence

_BROKEN: Final = "a list of its graph leads to no item"

# By field of _SegmentStruct: the array, its dtype, and the field of its length.
_LISTS: Final[dict[str, tuple[str, np.dtype[Any], str]]] = {
    "mention": ("mentions.entity", UINT64, "mentions"),
    "entity": ("mentioned.key", UINT64, "entities"),
    "naming": ("mentioned.rows", UINT32, "namings"),
    "session": ("sessions.key", UINT64, "sessions"),
    "member": ("sessions.rows", UINT32, "members"),
    "link": ("links.key", UINT64, "links"),
    "linked_key": ("linked.key", UINT64, "linked"),
    "id": ("ids.key", UINT64, "ids"),
}
# By field: the array, its dtype, the field of a known length, and how much longer the array is.
_ALIKE: Final[dict[str, tuple[str, np.dtype[Any], str, int]]] = {
    "mention_at": ("mentions.indptr", INT64, "rows", 1),
    "naming_at": ("mentioned.indptr", INT64, "entities", 1),
    "member_at": ("sessions.indptr", INT64, "sessions", 1),
    "link_at": ("links.indptr", INT64, "rows", 1),
    "link_kind": ("links.kind", UINT8, "links", 0),
    "linked_row": ("linked.row", UINT32, "linked", 0),
    "linked_kind": ("linked.kind", UINT8, "linked", 0),
    "id_row": ("ids.row", UINT32, "ids", 0),
}


class _SegmentStruct(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("start", "rows", "entities", "first_entity", "namings", "mentions")),
        *((name, ctypes.c_int64) for name in ("sessions", "members", "links", "linked", "ids")),
        *((name, ctypes.c_void_p) for name in ("mention_at", "mention", "entity", "naming_at", "naming", "named")),
        *((name, ctypes.c_void_p) for name in ("session", "member_at", "member", "link_at", "link", "link_kind")),
        *((name, ctypes.c_void_p) for name in ("linked_key", "linked_row", "linked_kind", "id", "id_row")),
    ]


class _GraphStruct(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("segments", "rows", "sessions", "entities", "live", "facts")),
        *((name, ctypes.c_void_p) for name in ("segment", "previous", "next", "session", "alive", "key")),
        *((name, ctypes.c_void_p) for name in ("session_key", "session_size")),
        *((name, ctypes.c_void_p) for name in ("fact_one", "fact_other", "fact_confidence", "fact_row")),
    ]


class _QuestionStruct(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("entity_df", "session_size", "facts", "asked", "hubs")),
        *((name, ctypes.c_double) for name in ("next", "session", "fact", "reply", "same")),
        *((name, ctypes.c_void_p) for name in ("allowed", "asked_key", "hub", "hub_row", "hub_weight")),
    ]


_find = declare_kernel(SHORT, "graph_find", POINTER, POINTER, INT, POINTER, POINTER, result=None)
_degrees = declare_kernel(SHORT, "graph_degrees", *[POINTER] * 3, INT, POINTER)
_edges = declare_kernel(SHORT, "graph_edges", *[POINTER] * 3, INT, *[POINTER] * 3, INT)


@dataclass(frozen=True, slots=True)
class FactEdges:
    """Current facts, once from each of their two entities: by entity, then by falling confidence."""

    one: U64  # ascending
    other: U64
    confidence: F32
    row: I64  # of the item that states it


class SegmentGraph:
    """The graph of the live rows of some segments.

    Args:
        starts: the first row of each segment.
        named: for each segment, live items that name each of its entities: int32.
        previous, following, session: int32[rows]: the turn before and after, −1 for none; the session's code.
        alive: bool[rows].
        key: uint64[rows], the items' ids.
        session_key, session_size: key and live items of each session.

    Raises:
        StoreError: arrays of a segment have wrong dtypes, or do not fit together.
        TypeError, ValueError: other arrays have wrong dtypes or lengths.
    """

    def __init__(
        self,
        segments: Sequence[OpenSegment],
        starts: I64,
        named: Sequence[I32],
        previous: I32,
        following: I32,
        session: I32,
        alive: Bool,
        key: U64,
        session_key: U64,
        session_size: I64,
        facts: FactEdges,
    ) -> None:
        self.sessions = len(alive)  # number of the first session
        self.entities = self.sessions + len(session_key)  # number of the first entity
        self._arrays: list[Any] = []  # owners of the memory that the structs point to
        parts, entities = (_SegmentStruct * len(segments))(), 0
        for part, segment, start, counts in zip(parts, segments, starts.tolist(), named, strict=True):
            part.start, part.first_entity = start, entities
            self._fill(part, segment)
            part.named = self._hold("named", counts, INT32, part.entities)
            entities += part.entities
        self._arrays.append(parts)
        rows, sessions, edges = len(alive), len(session_key), len(facts.one)
        self._graph = _GraphStruct(
            len(segments),
            rows,
            sessions,
            entities,
            int(alive.sum()),
            edges,
            ctypes.addressof(parts),
            self._hold("previous", previous, INT32, rows),
            self._hold("following", following, INT32, rows),
            self._hold("session", session, INT32, rows),
            self._hold("alive", alive, BOOL, rows),
            self._hold("key", key, UINT64, rows),
            self._hold("session_key", session_key, UINT64, sessions),
            self._hold("session_size", session_size, INT64, sessions),
            self._hold("facts.one", facts.one, UINT64, edges),
            self._hold("facts.other", facts.other, UINT64, edges),
            self._hold("facts.confidence", facts.confidence, FLOAT32, edges),
            self._hold("facts.row", facts.row, INT64, edges),
        )
        self.address = ctypes.addressof(self._graph)

    def _fill(self, part: _SegmentStruct, segment: OpenSegment) -> None:
        """Point to the lists of a segment."""
        part.rows = segment.rows
        try:
            for field, (name, dtype, count) in _LISTS.items():
                setattr(part, count, len(segment[name]))
                setattr(part, field, self._hold(name, segment[name], dtype, len(segment[name])))
            for field, (name, dtype, count, more) in _ALIKE.items():
                setattr(part, field, self._hold(name, segment[name], dtype, getattr(part, count) + more))
        except (TypeError, ValueError) as error:
            raise explain_damage(f"{error}, in the segment {segment.id}") from None

    def _hold(self, name: str, array: AnyArray, dtype: np.dtype[Any], size: int) -> int:
        """Return the address of an array, which is not copied and stays referenced."""
        self._arrays.append(array)
        return check_array(name, array, dtype, size)

    def find(self, keys: U64) -> tuple[I64, I64]:
        """Return (node int64[n], −1 if no item names it; live items that name it int64[n]) of entities."""
        n = len(keys)
        (node, node_to), (df, df_to) = allocate(INT64, n), allocate(INT64, n)
        _find(self.address, check_array("keys", keys, UINT64, n), n, node_to, df_to)
        return node, df


class FilteredGraph:
    """The graph for one question: without excluded rows and without hubs.

    Args:
        allowed: bool[rows]; None allows every row.
        asked: entities the question names, ascending: they are nodes whatever their df.
        hubs: (node, row it leads to, weight) of hubs that keep some edges.
        entity_df: entities that more items name are hubs, without edges.
        session_size: sessions of more items have no edges.
        weights: by kind of edge: next, session, fact, reply, same.
    """

    def __init__(
        self,
        graph: SegmentGraph,
        allowed: Bool | None,
        asked: U64,
        hubs: tuple[I64, I64, F64],
        entity_df: int,
        session_size: int,
        weights: Mapping[str, float],
    ) -> None:
        self.graph = graph
        node, row, weight = hubs
        self._arrays = (allowed, asked, *hubs)  # owners of the memory that the struct points to
        self._question = _QuestionStruct(
            entity_df,
            session_size,
            FACTS,
            len(asked),
            len(node),
            *(weights[name] for name in ("next", "session", "fact", *LINKS)),
            None if allowed is None else check_array("allowed", allowed, BOOL, graph.sessions),
            check_array("asked", asked, UINT64, len(asked)),
            check_array("hubs", node, INT64, len(node)),
            check_array("rows of hubs", row, INT64, len(node)),
            check_array("weights of hubs", weight, FLOAT64, len(node)),
        )
        self._at = ctypes.addressof(self._question)

    def degree(self, nodes: I64) -> I64:
        """Count the edges to read for each node: int64[n]. An item's few links are not counted.

        Raises:
            StoreError: a list of the store is damaged, or a node does not exist.
        """
        n = len(nodes)
        out, to = allocate(INT64, n)
        if _degrees(self.graph.address, self._at, check_array("nodes", nodes, INT64, n), n, to) < 0:
            raise explain_damage(_BROKEN)
        return out

    def edges(self, nodes: I64) -> tuple[I64, I64, F64]:
        """Return (position in `nodes` int64[e] ascending, node it leads to int64[e], weight float64[e]).

        Raises:
            StoreError: a list of the store is damaged, or a node does not exist.
        """
        n, most = len(nodes), 4096
        given = check_array("nodes", nodes, INT64, n)
        while True:
            (source, source_to), (target, target_to) = allocate(INT64, most), allocate(INT64, most)
            weight, weight_to = allocate(FLOAT64, most)
            count = _edges(self.graph.address, self._at, given, n, source_to, target_to, weight_to, most)
            if count < 0:
                raise explain_damage(_BROKEN)
            if count <= most:
                return source[:count], target[:count], weight[:count]
            most = count
