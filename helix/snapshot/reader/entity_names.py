"""The names of all entities of a generation, read from Parquet when a list or a graph of them is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.segment.open import OpenSegment, read_table
from helix.types import I64, U8, U64


class EntityNames(NamedTuple):
    """Entities by hash, each once: e of them. A view must count them before it shows one."""

    key: U64  # [e], ascending
    kind: U8  # [e], position in `kinds`
    kinds: list[str]
    word: pa.StringArray  # [e], the normalised name
    name: pa.StringArray  # [e], as the segment writes it first in which most items name it
    paths: I64  # [p], the entities of the kind path, by `turned`
    turned: list[str]  # [p], ascending; see `turn_path`

    def find(self, keys: U64) -> I64:
        """Return the number of each entity, −1 for an unknown one: int64[len(keys)]."""
        if not len(self.key):
            return np.full(len(keys), -1, np.int64)
        found = np.minimum(self.key.searchsorted(keys), len(self.key) - 1)
        return np.where(self.key[found] == keys, found, -1)

    def select(self, numbers: I64) -> tuple[list[str], list[str], list[str]]:
        """Return (kinds, normalised names, names as written) of entities."""
        chosen = pa.array(numbers)
        kinds = [self.kinds[code] for code in self.kind[numbers].tolist()]
        return kinds, self.word.take(chosen).to_pylist(), self.name.take(chosen).to_pylist()


def read_entities(root: Path, segments: Sequence[OpenSegment]) -> EntityNames:
    """Read the entities of segments.

    Raises:
        StoreError: a file is damaged.
    """
    columns = ["kind", "key", "name", "hash", "items"]
    tables = [_read_table(root / "segments" / segment.id / "entities.parquet", columns) for segment in segments]
    empty = pa.table({name: pa.array([], pa.string()) for name in columns[:3]})
    table = pa.concat_tables(tables) if tables else empty.append_column("hash", pa.array([], pa.uint64()))
    table = table if tables else table.append_column("items", pa.array([], pa.int64()))
    key = np.asarray(table["hash"].to_numpy(), np.uint64)
    order = np.lexsort((-table["items"].to_numpy().astype(np.int64), key))
    first = order[np.append(True, key[order][1:] != key[order][:-1])[: len(order)]]
    chosen = table.take(pa.array(first)).combine_chunks()
    coded = _join(chosen["kind"]).dictionary_encode()
    kinds: list[str] = coded.dictionary.to_pylist()
    kind, word = coded.indices.to_numpy().astype(np.uint8), _join(chosen["key"])
    paths = np.flatnonzero(kind == kinds.index("path")) if "path" in kinds else np.empty(0, np.int64)
    turned = [turn_path(path) for path in word.take(pa.array(paths)).to_pylist()]
    sequence = sorted(range(len(turned)), key=turned.__getitem__)
    by_end = paths[np.array(sequence, np.int64)], [turned[at] for at in sequence]
    return EntityNames(key[first], kind, kinds, word, _join(chosen["name"]), *by_end)


def _read_table(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        return read_table(path, columns)
    except FileNotFoundError:
        raise make_damage_error(path, "the file is missing") from None


def turn_path(path: str) -> str:
    """Return a path with its last part first, each part closed by a slash."""
    return "/".join(reversed(path.strip("/").split("/"))) + "/"


def _join(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):  # of an empty table
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], column.type)
    return joined
