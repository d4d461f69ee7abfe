"""A Qdrant server, by its client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from helix.engines.base import (
    KEYWORDS,
    NUMBERS,
    AnyOf,
    Condition,
    EngineState,
    convert_errors,
    read_described,
)
from helix.engines.place import EnginePlace
from helix.types import F32, U64

_SCROLL: Final = 10_000  # points a request without vectors
_UPSERT: Final = 500  # points a request with vectors: some 4 MB
_EFFORT: Final = 2  # places of the queue for each wanted item
_STATE: Final = 0  # id of the point that records the export, in a collection of its own
_FAULTS: Final = (ApiException, ValueError, OSError, RuntimeError, LookupError)


class QdrantServer:
    """A collection of items, and one of a single point that records the export."""

    def __init__(self, place: EnginePlace, client: QdrantClient) -> None:
        self._place, self._client = place, client
        self._name, self._state_name = place.collection, f"{place.collection}-state"

    @property
    def place(self) -> str:
        """The engine, its address and the collection."""
        return str(self._place)

    def read_state(self) -> EngineState | None:
        """Read the state."""
        with convert_errors(self.place, _FAULTS):
            if not self._client.collection_exists(self._state_name):
                return None
            points = self._client.retrieve(self._state_name, [_STATE], with_payload=True)
            return read_described(points[0].payload if points else None, self.place)

    def write_state(self, state: EngineState) -> None:
        """Replace the state."""
        with convert_errors(self.place, _FAULTS):
            if not self._client.collection_exists(self._state_name):
                self._client.create_collection(self._state_name, vectors_config=_describe_vectors(1))
            point = models.PointStruct(id=_STATE, vector=[1.0], payload=state._asdict())
            self._client.upsert(self._state_name, [point], wait=True)

    def prepare(self, dim: int) -> None:
        """Make the collection, with an index on each field that conditions name."""
        with convert_errors(self.place, _FAULTS):
            if self._client.collection_exists(self._name):
                return
            self._client.create_collection(self._name, vectors_config=_describe_vectors(dim))
            for names, kind in (
                (KEYWORDS, models.PayloadSchemaType.KEYWORD),
                (NUMBERS, models.PayloadSchemaType.INTEGER),
            ):
                for name in names:
                    self._client.create_payload_index(self._name, name, kind, wait=True)

    def clear(self) -> None:
        """Remove both collections."""
        with convert_errors(self.place, _FAULTS):
            for name in (self._state_name, self._name):
                if self._client.collection_exists(name):
                    self._client.delete_collection(name)

    def list_digests(self) -> Iterator[pa.RecordBatch]:
        """Yield ids and digests."""
        offset: Any = None
        with convert_errors(self.place, _FAULTS):
            while True:
                points, offset = self._client.scroll(
                    self._name, limit=_SCROLL, offset=offset, with_payload=["digest"], with_vectors=False
                )
                ids = [format_point(point.id) for point in points]
                digests = [(point.payload or {}).get("digest", "") for point in points]
                yield pa.record_batch({"id": pa.array(ids, pa.string()), "digest": pa.array(digests, pa.string())})
                if offset is None:
                    return

    def write(self, batch: pa.RecordBatch) -> None:
        """Upsert items."""
        with convert_errors(self.place, _FAULTS):
            for start in range(0, batch.num_rows, _UPSERT):
                points = [
                    models.PointStruct(id=identity, vector=vector, payload=payload)
                    for identity, vector, payload in list_points(batch.slice(start, _UPSERT))
                ]
                self._client.upsert(self._name, points, wait=True)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete items."""
        with convert_errors(self.place, _FAULTS):
            points = models.PointIdsList(points=[int(one, 16) for one in ids])
            self._client.delete(self._name, points, wait=True)

    def finish(self) -> None:
        """Do nothing: the server builds its indexes in the background."""

    def search(self, vector: F32, n: int, conditions: Sequence[Condition]) -> U64:
        """Search with the filter applied in the walk through the graph."""
        with convert_errors(self.place, _FAULTS):
            found = self._client.query_points(
                self._name,
                query=vector.tolist(),
                query_filter=models.Filter(must=[_write_condition(one) for one in conditions]) if conditions else None,
                limit=n,
                search_params=models.SearchParams(hnsw_ef=_EFFORT * n),
                with_payload=False,
                with_vectors=False,
            )
            return np.array([int(point.id) for point in found.points], np.uint64)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _describe_vectors(dim: int) -> models.VectorParams:
    return models.VectorParams(size=dim, distance=models.Distance.DOT)


def list_points(batch: pa.RecordBatch) -> Iterator[tuple[int, list[float], dict[str, Any]]]:
    """Yield the points of items: (id, vector, payload without nulls)."""
    for row in batch.to_pylist():
        vector, identity = row.pop("vector"), row["id"]
        yield int(identity, 16), vector, {name: value for name, value in row.items() if value is not None}


def format_point(identity: Any) -> str:
    """Return the item id of a point."""
    return f"{int(identity):016x}"


def _write_condition(condition: Condition) -> models.FieldCondition:
    if isinstance(condition, AnyOf):
        return models.FieldCondition(key=condition.field, match=models.MatchAny(any=list(condition.values)))
    return models.FieldCondition(key=condition.field, range=models.Range(gte=condition.least, lte=condition.most))


def open_server(place: EnginePlace, key: str, seconds: float) -> QdrantServer:
    """Open a collection of a server."""
    client = QdrantClient(url=place.uri, api_key=key or None, timeout=max(1, round(seconds)), check_compatibility=False)
    return QdrantServer(place, client)
