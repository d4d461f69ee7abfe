"""Graph of a snapshot's live items: entities they name, links between them, and the numbered graph of a walk."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from helix.snapshot.index.graph import FactEdges, SegmentGraph
from helix.snapshot.reader.catalog import Catalog
from helix.snapshot.reader.facts import Facts
from helix.snapshot.reader.row_map import RowMap, concatenate, owners_of
from helix.snapshot.segment.arrays import flatten_rows
from helix.types import I32, I64, U8, U32, U64, AnyArray


class GraphView:
    """Entities, links and the graph of the live rows."""

    def __init__(self, rows: RowMap, catalog: Catalog, facts: Facts) -> None:
        self._rows, self._catalog, self._facts = rows, catalog, facts

    def replace_rows(self, rows: RowMap) -> GraphView:
        """Return the same graph with other live rows; the numbered graph stays."""
        _ = self.nodes  # else the copy would number its own rows
        other = copy(self)
        other._rows = rows
        return other

    def entities_of(self, rows: AnyArray) -> tuple[I64, U64]:
        """Return the entities that rows name: (position in `rows` int64[m], entity hash uint64[m])."""
        return self._rows.lists(rows, "mentions.indptr", "mentions.entity", np.uint64)

    def rows_of(self, entities: U64) -> tuple[I64, U32]:
        """Return the live rows that name entities: (position in `entities` int64[m], row uint32[m])."""
        positions: list[I64] = []
        rows: list[U32] = []
        for start, segment in self._rows.by_segment():
            keys = segment["mentioned.key"]
            if not len(keys):
                continue
            found = np.minimum(keys.searchsorted(entities), len(keys) - 1)
            hit = (keys[found] == entities).nonzero()[0]
            indptr, flat = flatten_rows(segment["mentioned.indptr"], found[hit])
            positions.append(hit.repeat(indptr[1:] - indptr[:-1]))
            rows.append(segment["mentioned.rows"].take(flat) + np.uint32(start))
        position, row = concatenate(positions, np.int64), concatenate(rows, np.uint32)
        keep = self._rows.alive[row]
        return position[keep], row[keep]

    def count_items(self, entities: U64) -> I64:
        """Count the live items that name each entity: int64[len(entities)]."""
        return self.nodes.find(entities)[1]

    def count_entities(self, rows: AnyArray) -> I64:
        """Count the entities that each row names: int64[len(rows)]."""
        out = np.zeros(len(rows), np.int64)
        for segment, here, local in self._rows.split(rows):
            indptr = segment["mentions.indptr"]
            out[here] = indptr[local + 1] - indptr[local]
        return out

    def links_of(self, rows: AnyArray) -> tuple[I64, I64, U8]:
        """Return the live items linked with rows, in either direction.

        Returns:
            (position in `rows` int64[m], linked row int64[m], position in LINKS uint8[m]).
        """
        positions: list[I64] = []
        targets: list[I64] = []
        kinds: list[U8] = []
        for segment, here, local in self._rows.split(rows):
            indptr, flat = flatten_rows(segment["links.indptr"], local)
            if len(flat):
                positions.append(here.repeat(indptr[1:] - indptr[:-1]))
                targets.append(self._rows.by_key(segment["links.key"][flat]))
                kinds.append(segment["links.kind"][flat])
        keys = self._rows.columns.key[rows]
        for start, segment in self._rows.by_segment():
            known = segment["linked.key"]
            owner, flat = owners_of(known.searchsorted(keys), known.searchsorted(keys, "right"))
            if len(flat):
                row = start + segment["linked.row"][flat].astype(np.int64)
                positions.append(owner)
                targets.append(np.where(self._rows.alive[row], row, -1))
                kinds.append(segment["linked.kind"][flat])
        position, row = concatenate(positions, np.int64), concatenate(targets, np.int64)
        keep = row >= 0
        return position[keep], row[keep], concatenate(kinds, np.uint8)[keep]

    @cached_property
    def _item_counts(self) -> list[I32]:
        """Live items that name each entity of a segment, by segment."""
        counts = []
        for start, segment in self._rows.by_segment():
            indptr, rows = segment["mentioned.indptr"], segment["mentioned.rows"]
            before = np.zeros(len(rows) + 1, np.int32)
            np.cumsum(self._rows.alive[start : start + segment.rows][rows], out=before[1:])
            counts.append(before[indptr[1:]] - before[indptr[:-1]])
        return counts

    @cached_property
    def _fact_edges(self) -> FactEdges:
        """Facts that hold, once from either entity: by entity, the surest first."""
        subjects, objects, confidence, row = self._facts.edges
        one, other = np.concatenate([subjects, objects]), np.concatenate([objects, subjects])
        order = np.lexsort((np.tile(-confidence, 2), one))
        edge = order % max(1, len(subjects))
        return FactEdges(one[order], other[order], confidence[edge], row[edge])

    @cached_property
    def nodes(self) -> SegmentGraph:
        """The numbered graph of the live rows, read where a walk leads."""
        columns = self._rows.columns
        return SegmentGraph(
            self._rows.segments,
            self._rows.generation.starts,
            self._item_counts,
            columns.previous,
            columns.next,
            columns.session,
            self._rows.alive,
            columns.key,
            self._rows.sessions,
            self._catalog.session_size,
            self._fact_edges,
        )
