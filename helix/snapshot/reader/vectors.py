"""Vectors of a snapshot: int8 codes by segment, the dense indexes, centroids by type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from helix.native.vectors import VectorTable, build_vector_table, score_vectors
from helix.snapshot.index.dense import DenseIndex
from helix.snapshot.index.flat import FlatIndex
from helix.snapshot.reader.row_map import RowMap
from helix.types import F16, F32, I8, I64, TYPES, AnyArray

SAMPLED: Final = 512
"""Live items whose vectors are the background that a question's cosines are compared with."""

_STEP: Final = 1_024  # rows dequantised at a time; they fit the cache


class VectorSample(NamedTuple):
    """Rows and their vectors; a quarter of the memory that they take as numbers."""

    rows: I64  # int64[m], ascending
    codes: I8  # int8[m, d]
    scale: F32  # float32[m]

    def score(self, query: F32) -> F32:
        """Return the inner products with a vector: float32[m]."""
        return score_vectors(self.codes, self.scale, np.arange(len(self.rows)), query)


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """The vectors of one segment. Row i of `codes` is row `start + i` of the snapshot."""

    start: int
    codes: I8
    scale: F32
    dense: DenseIndex | None  # the segment's index, where it has one
    exact: F16 | None = None  # [n, d], where the lineage stores them
    flat: FlatIndex | None = None  # the same vectors on a GPU, where one searches


class Vectors:
    """Vectors of all rows, and their means over live rows.

    Args:
        base: the same of the whole generation, for a view; what is the same in both is taken from it.
    """

    def __init__(self, rows: RowMap, base: Vectors | None = None) -> None:
        self._rows, self._base = rows, base

    @property
    def blocks(self) -> list[VectorBlock]:
        """The vectors, segment by segment."""
        dense, flat = self._rows.generation.dense, self._rows.generation.flat
        return [
            VectorBlock(
                start,
                segment["vectors.i8"],
                segment["vectors.scale"],
                dense.get(segment.id),
                segment["vectors.f16"] if len(segment["vectors.f16"]) else None,
                flat.get(segment.id),
            )
            for start, segment in self._rows.by_segment()
        ]

    def dequantise(self, rows: AnyArray) -> F32:
        """Return the vectors of rows: float32[len(rows), d]."""
        out = np.empty((len(rows), self._rows.generation.dim), np.float32)
        for segment, here, local in self._rows.split(rows):
            values = segment["vectors.i8"].take(local, axis=0).astype(np.float32)
            values *= segment["vectors.scale"][local, None]
            if len(local) == len(rows):
                return values
            out[here] = values
        return out

    @cached_property
    def table(self) -> VectorTable:
        """The vectors of all rows, as a kernel reads them."""
        if self._base:
            return self._base.table
        codes = [segment["vectors.i8"] for segment in self._rows.segments]
        scales = [segment["vectors.scale"] for segment in self._rows.segments]
        return build_vector_table(codes, scales, self._rows.generation.dim)

    @cached_property
    def centroids(self) -> F32:
        """Mean vector by type, last row of all items: float32[types + 1, d]; zero where a type has none."""
        kinds, alive = self._rows.columns.type, self._rows.alive
        counts = np.append(np.bincount(kinds[alive], minlength=len(TYPES)), self._rows.live).astype(np.float64)
        sums = sum((segment["vectors.sum"] for segment in self._rows.segments), np.zeros((len(counts), 1)))
        dead = np.flatnonzero(~alive)
        for start in range(0, len(dead), _STEP):
            rows = dead[start : start + _STEP]
            one_hot = np.asarray(kinds[rows] == np.arange(len(TYPES))[:, None], np.float64)
            gone = one_hot @ self.dequantise(rows).astype(np.float64)  # faster than sums by group
            sums[:-1] -= gone
            sums[-1] -= gone.sum(axis=0)
        return np.asarray(sums / np.maximum(counts, 1)[:, None], np.float32)

    @cached_property
    def sample(self) -> VectorSample:
        """A sample of the live rows, evenly spread, of at most SAMPLED."""
        live = np.flatnonzero(self._rows.alive)
        rows = live if len(live) <= SAMPLED else live[np.linspace(0, len(live) - 1, SAMPLED).astype(np.int64)]
        codes = np.empty((len(rows), self._rows.generation.dim), np.int8)
        scale = np.empty(len(rows), np.float32)
        for segment, here, local in self._rows.split(rows):
            codes[here], scale[here] = segment["vectors.i8"][local], segment["vectors.scale"][local]
        return VectorSample(rows, codes, scale)

    @cached_property
    def type_directions(self) -> F32:
        """Unit vectors of the types' centroids: float32[types, d]; zero where a type has no items."""
        centroids = self.centroids[:-1]
        norms = np.linalg.norm(centroids, axis=1, keepdims=True)
        return np.asarray(centroids / np.maximum(norms, 1e-9), np.float32)
