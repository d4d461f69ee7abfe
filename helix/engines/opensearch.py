"""An OpenSearch cluster with its k-NN plugin, by its client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from opensearchpy import OpenSearch, helpers
from opensearchpy.exceptions import OpenSearchException

from helix.engines.base import (
    KEYWORDS,
    NUMBERS,
    AnyOf,
    Condition,
    EngineState,
    convert_errors,
    parse_keys,
    read_described,
)
from helix.engines.place import EnginePlace
from helix.types import F32, U64

_SCAN: Final = 5_000  # documents a request without vectors
_BULK: Final = 500  # documents a request with vectors: some 5 MB
_EFFORT: Final = 2  # places of the queue for each wanted item
_FAULTS: Final = (OpenSearchException, ValueError, OSError, LookupError)
_STORED: Final = ("id", "digest", "session", "project", "role", "title", "source", "near", "turns")


class OpenSearchIndex:
    """An index of items; its mapping's `_meta` records the export."""

    def __init__(self, place: EnginePlace, client: OpenSearch) -> None:
        self._place, self._client, self._name = place, client, place.collection

    @property
    def place(self) -> str:
        """The engine, its address and the collection."""
        return str(self._place)

    def read_state(self) -> EngineState | None:
        """Read the state."""
        with convert_errors(self.place, _FAULTS):
            if not self._client.indices.exists(index=self._name):
                return None
            mapping = self._client.indices.get_mapping(index=self._name)[self._name]["mappings"]
            return read_described(mapping.get("_meta"), self.place)

    def write_state(self, state: EngineState) -> None:
        """Replace the state."""
        with convert_errors(self.place, _FAULTS):
            self._client.indices.put_mapping(index=self._name, body={"_meta": state._asdict()})

    def prepare(self, dim: int) -> None:
        """Make the index."""
        with convert_errors(self.place, _FAULTS):
            if not self._client.indices.exists(index=self._name):
                self._client.indices.create(index=self._name, body=_describe_index(dim))

    def clear(self) -> None:
        """Remove the index."""
        with convert_errors(self.place, _FAULTS):
            self._client.indices.delete(index=self._name, ignore_unavailable=True)

    def list_digests(self) -> Iterator[pa.RecordBatch]:
        """Yield ids and digests."""
        query = {"query": {"match_all": {}}, "_source": ["digest"], "sort": ["_doc"]}
        with convert_errors(self.place, _FAULTS):
            self._client.indices.refresh(index=self._name)
            for hit in helpers.scan(self._client, query=query, index=self._name, size=_SCAN, preserve_order=True):
                found = {"id": pa.array([hit["_id"]]), "digest": pa.array([hit["_source"].get("digest", "")])}
                yield pa.record_batch(found)

    def write(self, batch: pa.RecordBatch) -> None:
        """Index items."""
        actions = (
            {
                "_op_type": "index",
                "_index": self._name,
                "_id": row["id"],
                "_source": {name: value for name, value in row.items() if value is not None},
            }
            for row in batch.to_pylist()
        )
        with convert_errors(self.place, _FAULTS):
            helpers.bulk(self._client, actions, chunk_size=_BULK)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete items."""
        actions = ({"_op_type": "delete", "_index": self._name, "_id": one} for one in ids)
        with convert_errors(self.place, _FAULTS):
            helpers.bulk(self._client, actions, chunk_size=_SCAN, ignore_status=(404,))

    def finish(self) -> None:
        """Make what was written searchable."""
        with convert_errors(self.place, _FAULTS):
            self._client.indices.refresh(index=self._name)

    def search(self, vector: F32, n: int, conditions: Sequence[Condition]) -> U64:
        """Search with the filter applied in the walk through the graph."""
        knn: dict[str, Any] = {"vector": vector.tolist(), "k": n, "method_parameters": {"ef_search": _EFFORT * n}}
        if conditions:
            knn["filter"] = {"bool": {"filter": [_write_condition(one) for one in conditions]}}
        body = {"size": n, "_source": False, "query": {"knn": {"vector": knn}}}
        with convert_errors(self.place, _FAULTS):
            hits = self._client.search(index=self._name, body=body)["hits"]["hits"]
            return parse_keys([hit["_id"] for hit in hits])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _describe_index(dim: int) -> dict[str, Any]:
    """Return settings and mapping. The method is HNSW of Lucene, which filters while it searches."""
    vector = {
        "type": "knn_vector",
        "dimension": dim,
        "method": {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"},
    }
    fields: dict[str, Any] = {name: {"type": "keyword"} for name in KEYWORDS}
    fields |= {name: {"type": "long"} for name in NUMBERS}
    fields |= {name: {"type": "keyword", "index": False} for name in _STORED}
    fields |= {name: {"type": "float", "index": False} for name in ("salience", "confidence", "priority")}
    fields |= {"tokens": {"type": "integer", "index": False}, "text": {"type": "text"}, "vector": vector}
    return {"settings": {"index": {"knn": True}}, "mappings": {"dynamic": False, "properties": fields}}


def _write_condition(condition: Condition) -> dict[str, Any]:
    if isinstance(condition, AnyOf):
        return {"terms": {condition.field: list(condition.values)}}
    bounds = (("gte", condition.least), ("lte", condition.most))
    return {"range": {condition.field: {sign: end for sign, end in bounds if end is not None}}}


def open_index(place: EnginePlace, key: str, seconds: float) -> OpenSearchIndex:
    """Open an index of a cluster."""
    user, _, password = key.partition(":")
    client = OpenSearch(hosts=[place.uri], http_auth=(user, password) if key else None, timeout=seconds, max_retries=0)
    return OpenSearchIndex(place, client)
