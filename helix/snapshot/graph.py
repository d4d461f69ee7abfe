"""The typed graph of a snapshot as numbered nodes: rows, then sessions, then the entities items name.

Nothing is built: the lists of the segments are read around a few nodes at a time, in C (`helix/native/graph.c`). Edges
are item–entity (weighted by idf), turn–next turn, item–session, an item and what it replies to, items about the same
file or error, and the two entities of a fact that holds. They are the same in either direction.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from helix.errors import StoreError
from helix.native import addr, short
from helix.snapshot.rows import LINKS
from helix.snapshot.segment import Opened
from helix.types import F32, I64, U64, Bool

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

FACTS: Final = 64
"""Facts of one entity that carry: the surest."""

_LISTS: Final = {  # of a segment: (field, array, dtype), and where its length goes
    "mention_at": ("mentions.indptr", np.int64, None),
    "mention": ("mentions.entity", np.uint64, "mentions"),
    "entity": ("mentioned.key", np.uint64, "entities"),
    "naming_at": ("mentioned.indptr", np.int64, None),
    "naming": ("mentioned.rows", np.uint32, "namings"),
    "session": ("sessions.key", np.uint64, "sessions"),
    "member_at": ("sessions.indptr", np.int64, None),
    "member": ("sessions.rows", np.uint32, "members"),
    "link_at": ("links.indptr", np.int64, None),
    "link": ("links.key", np.uint64, "links"),
    "link_kind": ("links.kind", np.uint8, None),
    "linked_key": ("linked.key", np.uint64, "linked"),
    "linked_row": ("linked.row", np.uint32, None),
    "linked_kind": ("linked.kind", np.uint8, None),
    "id": ("ids.key", np.uint64, "ids"),
    "id_row": ("ids.row", np.uint32, None),
}
_ALIKE: Final = (  # arrays of one length, or of one more
    ("mention_at", "rows", 1),
    ("naming_at", "entities", 1),
    ("member_at", "sessions", 1),
    ("link_at", "rows", 1),
    ("link_kind", "links", 0),
    ("linked_row", "linked", 0),
    ("linked_kind", "linked", 0),
    ("id_row", "ids", 0),
)


class _Segment(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("start", "rows", "entities", "first_entity", "namings", "mentions")),
        *((name, ctypes.c_int64) for name in ("sessions", "members", "links", "linked", "ids")),
        *((name, ctypes.c_void_p) for name in ("mention_at", "mention", "entity", "naming_at", "naming", "named")),
        *((name, ctypes.c_void_p) for name in ("session", "member_at", "member", "link_at", "link", "link_kind")),
        *((name, ctypes.c_void_p) for name in ("linked_key", "linked_row", "linked_kind", "id", "id_row")),
    ]


class _Graph(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("segments", "rows", "sessions", "entities", "live", "facts")),
        *((name, ctypes.c_void_p) for name in ("segment", "previous", "next", "session", "alive", "key")),
        *((name, ctypes.c_void_p) for name in ("session_key", "session_size")),
        *((name, ctypes.c_void_p) for name in ("fact_one", "fact_other", "fact_confidence", "fact_row")),
    ]


class _Question(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("entity_df", "session_size", "facts", "asked", "hubs")),
        *((name, ctypes.c_double) for name in ("next", "session", "fact", "reply", "same")),
        *((name, ctypes.c_void_p) for name in ("allowed", "asked_key", "hub", "hub_row", "hub_weight")),
    ]


_find, _degrees, _edges = short.graph_find, short.graph_degrees, short.graph_edges
_P, _N = ctypes.c_void_p, ctypes.c_int64
_find.argtypes, _find.restype = (_P, _P, _N, _P, _P), None
_degrees.argtypes, _degrees.restype = (_P, _P, _P, _N, _P), ctypes.c_int64
_edges.argtypes, _edges.restype = (_P, _P, _P, _N, _P, _P, _P, _N), ctypes.c_int64


@dataclass(frozen=True, slots=True)
class FactEdges:
    """Facts that hold, once from either of their two entities: by entity, of one the surest first."""

    one: U64  # ascending
    other: U64
    confidence: F32
    row: I64  # that says it


class Graph:
    """The graph of the live rows of some segments.

    Args:
        starts: the first row of each segment.
        named: of each segment, how many live items name each of its entities: int32.
        previous, following, session: int32[rows]: the turn before and after, −1 for none; the session's code.
        alive: bool[rows].
        key: uint64[rows], the items' ids.
        session_key, session_size: of each session, and its live items.

    Raises:
        ValueError: arrays of a segment do not fit together.
    """

    def __init__(
        self,
        segments: Sequence[Opened],
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
        self.sessions = len(alive)  # the first number of a session
        self.entities = self.sessions + len(session_key)  # and of an entity
        self._kept: list[Any] = []  # what the structs point to
        parts, entities = (_Segment * len(segments))(), 0
        for part, segment, start, counts in zip(parts, segments, starts.tolist(), named, strict=True):
            part.start, part.rows, part.first_entity = start, segment.rows, entities
            for field, (name, dtype, size) in _LISTS.items():
                setattr(part, field, self._hold(segment[name], dtype))
                if size:
                    setattr(part, size, len(segment[name]))
            for field, size, more in _ALIKE:
                name = _LISTS[field][0]
                if len(segment[name]) != getattr(part, size) + more:
                    raise ValueError(f"{name} of the segment {segment.id} holds {len(segment[name])} entries")
            part.named = self._hold(counts, np.int32)
            entities += part.entities
        self._kept.append(parts)
        self._graph = _Graph(
            len(segments), len(alive), len(session_key), entities, int(alive.sum()), len(facts.one),
            ctypes.addressof(parts),
            *(self._hold(column, np.int32) for column in (previous, following, session)),
            self._hold(alive, np.bool_), self._hold(key, np.uint64),
            self._hold(session_key, np.uint64), self._hold(session_size, np.int64),
            self._hold(facts.one, np.uint64), self._hold(facts.other, np.uint64),
            self._hold(facts.confidence, np.float32), self._hold(facts.row, np.int64),
        )  # fmt: skip
        self.address = ctypes.addressof(self._graph)

    def _hold(self, array: npt.NDArray[Any], dtype: Any) -> int:
        """Where it lies; mapped arrays are not copied."""
        kept = np.ascontiguousarray(array, dtype)
        self._kept.append(kept)
        return addr(kept)

    def find(self, keys: U64) -> tuple[I64, I64]:
        """(node int64[n], −1 where no item ever named it; live items that name it int64[n]) of entities."""
        keys = np.ascontiguousarray(keys, np.uint64)
        node, df = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        _find(self.address, addr(keys), len(keys), addr(node), addr(df))
        return node, df


class Seen:
    """The graph as one question sees it: without rows that are left out, without hubs.

    Args:
        allowed: bool[rows]; None allows every row.
        asked: entities the question names, ascending: they are nodes whatever their df.
        hubs: (node, row it leads to, weight) of those hubs that lead somewhere after all.
        entity_df: entities that more items name are hubs: they carry nothing.
        session_size: sessions of more items carry nothing.
        weights: by kind of edge: next, session, fact, reply, same.
    """

    def __init__(
        self,
        graph: Graph,
        allowed: Bool | None,
        asked: U64,
        hubs: tuple[I64, I64, F64],
        entity_df: int,
        session_size: int,
        weights: Mapping[str, float],
    ) -> None:
        self.graph = graph
        node, row, weight = hubs
        self._kept = (
            None if allowed is None else np.ascontiguousarray(allowed, np.bool_),
            np.ascontiguousarray(asked, np.uint64),
            np.ascontiguousarray(node, np.int64),
            np.ascontiguousarray(row, np.int64),
            np.ascontiguousarray(weight, np.float64),
        )
        self._question = _Question(
            entity_df, session_size, FACTS, len(asked), len(node),
            *(weights[name] for name in ("next", "session", "fact", *LINKS)),
            *(None if array is None else addr(array) for array in self._kept),
        )  # fmt: skip
        self._at = ctypes.addressof(self._question)

    def degree(self, nodes: I64) -> I64:
        """int64[n]: edges to read for each node. An item has two neighbours and a session besides what it names; its
        links, a handful, are not counted.
        """
        nodes, out = np.ascontiguousarray(nodes, np.int64), np.empty(len(nodes), np.int64)
        if _degrees(self.graph.address, self._at, addr(nodes), len(nodes), addr(out)) < 0:
            raise IndexError("there is no such node")
        return out

    def edges(self, nodes: I64) -> tuple[I64, I64, F64]:
        """(position in `nodes` int64[e] ascending, node it leads to int64[e], weight float64[e]).

        Raises:
            StoreError: a list of the store is damaged.
        """
        nodes, most = np.ascontiguousarray(nodes, np.int64), 4096
        while True:
            source, target, weight = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float64)
            n = _edges(
                self.graph.address, self._at, addr(nodes), len(nodes),
                addr(source), addr(target), addr(weight), most,
            )  # fmt: skip
            if n < 0:
                raise StoreError("the graph of the store is damaged", "run 'helix verify': it names the file")
            if n <= most:
                return source[:n], target[:n], weight[:n]
            most = n
