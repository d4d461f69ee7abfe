"""Qdrant in this process: the engine of the server as a library, on a folder that one process at a time has open."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import qdrant_edge as edge

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
from helix.engines.qdrant import format_point, list_points
from helix.errors import EngineError
from helix.types import F32, U64

_SCROLL: Final = 10_000
_UPSERT: Final = 1_000
_EFFORT: Final = 2  # places of the queue for each wanted item
_FAULTS: Final = (Exception,)  # the library raises nothing narrower
_STATE, _LOCK, _SHARD = "helix.json", "helix.lock", "shard"


class QdrantFolder:
    """A shard below a folder, and a file that records the export."""

    def __init__(self, place: EnginePlace) -> None:
        self._place, self._folder = place, Path(place.uri).expanduser() / place.collection
        self._shard: Any = None
        self._lock: int | None = None

    @property
    def place(self) -> str:
        """The engine, its address and the collection."""
        return str(self._place)

    def _claim(self) -> None:
        """Claim the folder for this process: a second one that opens the shard damages it.

        Raises:
            EngineError: another process has it open.
        """
        if self._lock is not None:
            return
        handle = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise EngineError(
                f"another process has {self.place} open", "end it, or run a Qdrant server for several processes"
            ) from None
        self._lock = handle

    def _open(self) -> Any:
        if self._shard is None:
            if not (self._folder / _SHARD).is_dir():
                raise EngineError(f"{self.place} holds no export", "run 'helix export --to'")
            self._claim()
            self._shard = edge.EdgeShard.load(str(self._folder / _SHARD))
        return self._shard

    def read_state(self) -> EngineState | None:
        """Read the state."""
        with convert_errors(self.place, _FAULTS):
            path = self._folder / _STATE
            return read_described(orjson.loads(path.read_bytes()) if path.exists() else None, self.place)

    def write_state(self, state: EngineState) -> None:
        """Replace the state."""
        with convert_errors(self.place, _FAULTS):
            new = self._folder / f"{_STATE}.new"
            new.write_bytes(orjson.dumps(state._asdict()))
            new.replace(self._folder / _STATE)

    def prepare(self, dim: int) -> None:
        """Make the shard, with an index on each field that conditions name."""
        with convert_errors(self.place, _FAULTS):
            if (self._folder / _SHARD).is_dir():
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._claim()
            vectors = edge.EdgeVectorParams(size=dim, distance=edge.Distance.Dot)
            self._shard = edge.EdgeShard.create(str(self._folder / _SHARD), edge.EdgeConfig(vectors=vectors))
            for names, kind in (
                (KEYWORDS, edge.PayloadSchemaType.Keyword),
                (NUMBERS, edge.PayloadSchemaType.Integer),
            ):
                for name in names:
                    self._shard.update(edge.UpdateOperation.create_field_index(name, kind))

    def clear(self) -> None:
        """Remove the shard and the state."""
        import shutil

        with convert_errors(self.place, _FAULTS):
            if not self._folder.is_dir():
                return
            self._claim()
            if self._shard is not None:
                self._shard.close()
                self._shard = None
            (self._folder / _STATE).unlink(missing_ok=True)
            shutil.rmtree(self._folder / _SHARD, ignore_errors=True)

    def list_digests(self) -> Iterator[pa.RecordBatch]:
        """Yield ids and digests."""
        offset: Any = None
        with convert_errors(self.place, _FAULTS):
            while True:
                wanted = edge.ScrollRequest(offset=offset, limit=_SCROLL, with_payload=["digest"], with_vector=False)
                points, offset = self._open().scroll(wanted)
                ids = [format_point(point.id) for point in points]
                digests = [(point.payload or {}).get("digest", "") for point in points]
                yield pa.record_batch({"id": pa.array(ids, pa.string()), "digest": pa.array(digests, pa.string())})
                if offset is None:
                    return

    def write(self, batch: pa.RecordBatch) -> None:
        """Upsert items."""
        with convert_errors(self.place, _FAULTS):
            for start in range(0, batch.num_rows, _UPSERT):
                points = [edge.Point(*point) for point in list_points(batch.slice(start, _UPSERT))]
                self._open().update(edge.UpdateOperation.upsert_points(points))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete items."""
        with convert_errors(self.place, _FAULTS):
            self._open().update(edge.UpdateOperation.delete_points([int(one, 16) for one in ids]))

    def finish(self) -> None:
        """Build the indexes, and write all to disk."""
        with convert_errors(self.place, _FAULTS):
            self._open().optimize()
            self._open().flush()

    def search(self, vector: F32, n: int, conditions: Sequence[Condition]) -> U64:
        """Search with the filter applied in the walk through the graph."""
        with convert_errors(self.place, _FAULTS):
            wanted = edge.QueryRequest(
                limit=n,
                query=edge.Query.Nearest(vector.tolist()),
                filter=edge.Filter(must=[_write_condition(one) for one in conditions]) if conditions else None,
                params=edge.SearchParams(hnsw_ef=_EFFORT * n),
                with_payload=False,
                with_vector=False,
            )
            return np.array([point.id for point in self._open().query(wanted)], np.uint64)

    def close(self) -> None:
        """Close the shard; another process may open it."""
        if self._shard is not None:
            self._shard.close()
        if self._lock is not None:
            os.close(self._lock)
        self._shard = self._lock = None


def _write_condition(condition: Condition) -> edge.FieldCondition:
    if isinstance(condition, AnyOf):
        return edge.FieldCondition(key=condition.field, match=edge.MatchAny(any=list(condition.values)))
    bounds = edge.RangeFloat(gte=condition.least, lte=condition.most)
    return edge.FieldCondition(key=condition.field, range=bounds)
