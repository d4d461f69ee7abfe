"""LanceDB: a table in a folder or an object store, opened in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from helix.engines.base import (
    FIELDS,
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
from helix.errors import EngineError
from helix.types import F32, U64

os.environ.setdefault("LANCEDB_LOG", "error")  # read on import: each search that selects columns warns

import lancedb
from lancedb.index import Bitmap, BTree, HnswSq, LabelList

INDEXED: Final = 10_000
"""Items from which the vectors get an index; its documentation advises none for small tables."""

_PARTITION: Final = 1 << 20  # rows of one graph, its documentation's start for HNSW
_EFFORT: Final = 8  # places of the queue for each wanted item
_REFINE: Final = 2  # wanted items that are compared by their full vectors
_BATCH: Final = 65_536
_FAULTS: Final = (RuntimeError, ValueError, OSError, LookupError, pa.ArrowException)


class LanceDb:
    """A table of items, and one of a single row that records the export."""

    def __init__(self, place: EnginePlace) -> None:
        self._place = place
        self._state_name = f"{place.collection}-state"
        self._database: Any = None
        self._table: Any = None
        self._has_index = False

    @property
    def place(self) -> str:
        """The engine, its address and the collection."""
        return str(self._place)

    def _connect(self) -> Any:
        if self._database is None:
            self._database = lancedb.connect(self._place.uri)
        return self._database

    def _has_table(self, name: str) -> bool:
        return name in self._connect().list_tables().tables

    def _open(self) -> Any:
        if self._table is None:
            if not self._has_table(self._place.collection):
                raise EngineError(f"{self.place} holds no export", "run 'helix export --to'")
            self._table = self._connect().open_table(self._place.collection)
            self._note_index()
        return self._table

    def _note_index(self) -> None:
        self._has_index = any(index.columns == ["vector"] for index in self._table.list_indices())

    def read_state(self) -> EngineState | None:
        """Read the state; the newest version of the table answers from here on."""
        with convert_errors(self.place, _FAULTS):
            if not self._has_table(self._state_name):
                return None
            rows = self._connect().open_table(self._state_name).to_arrow()["state"].to_pylist()
            if self._table is not None:
                self._table.checkout_latest()
                self._note_index()
            return read_described(orjson.loads(rows[0]) if rows else None, self.place)

    def write_state(self, state: EngineState) -> None:
        """Replace the state."""
        rows = pa.table({"state": [orjson.dumps(state._asdict()).decode()]})
        with convert_errors(self.place, _FAULTS):
            self._connect().create_table(self._state_name, rows, mode="overwrite")

    def prepare(self, dim: int) -> None:
        """Make the table."""
        schema = FIELDS.append(pa.field("vector", pa.list_(pa.float32(), dim)))
        with convert_errors(self.place, _FAULTS):
            self._connect().create_table(self._place.collection, schema=schema, exist_ok=True)

    def clear(self) -> None:
        """Remove both tables."""
        with convert_errors(self.place, _FAULTS):
            for name in (self._state_name, self._place.collection):
                self._connect().drop_table(name, ignore_missing=True)
        self._table = None

    def list_digests(self) -> Iterator[pa.RecordBatch]:
        """Yield ids and digests."""
        with convert_errors(self.place, _FAULTS):
            yield from self._open().search().select(["id", "digest"]).to_batches(_BATCH)

    def write(self, batch: pa.RecordBatch) -> None:
        """Merge items by their ids."""
        with convert_errors(self.place, _FAULTS):
            merge = self._open().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_batches([batch]).cast(self._open().schema))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete items."""
        with convert_errors(self.place, _FAULTS):
            self._open().delete(_write_list("id", ids))

    def finish(self) -> None:
        """Bring the indexes up to date, and make them where the table has grown large enough."""
        with convert_errors(self.place, _FAULTS):
            table = self._open()
            rows, known = table.count_rows(), {index.columns[0] for index in table.list_indices()}
            if rows >= INDEXED:
                wanted: dict[str, Any] = {"id": BTree()}
                wanted |= {name: LabelList() if name == "readers" else Bitmap() for name in KEYWORDS}
                wanted |= {name: BTree() for name in NUMBERS}
                wanted["vector"] = HnswSq(distance_type="dot", num_partitions=max(1, rows // _PARTITION))
                for name in wanted.keys() - known:
                    table.create_index(name, config=wanted[name])
            table.optimize()
            self._note_index()

    def search(self, vector: F32, n: int, conditions: Sequence[Condition]) -> U64:
        """Search with the filter applied before."""
        with convert_errors(self.place, _FAULTS):
            query = self._open().search(vector, vector_column_name="vector").distance_type("dot").limit(n)
            if self._has_index:
                query = query.ef(_EFFORT * n).refine_factor(_REFINE)
            if conditions:
                query = query.where(" AND ".join(map(_write_condition, conditions)), prefilter=True)
            return parse_keys(query.select(["id"]).to_arrow()["id"].to_pylist())

    def close(self) -> None:
        """Forget the tables."""
        self._table = self._database = None


def _write_condition(condition: Condition) -> str:
    """Return a condition in SQL."""
    if isinstance(condition, AnyOf):
        if condition.field == "readers":
            values = ", ".join(map(_quote, condition.values))
            return f"array_has_any(readers, [{values}])"
        return _write_list(condition.field, condition.values)
    ends = ((">=", condition.least), ("<=", condition.most))
    return " AND ".join(f"{condition.field} {sign} {end}" for sign, end in ends if end is not None) or "true"


def _write_list(field: str, values: Sequence[str]) -> str:
    return f"{field} IN ({', '.join(map(_quote, values))})"


def _quote(value: str) -> str:
    return "'{}'".format(value.replace("'", "''"))
