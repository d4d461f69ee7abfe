"""Files of a store with their bytes, as stored and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq


def read_all(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every file with its bytes, in order; not the pin of a reader that goes meanwhile."""
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        try:
            yield path, path.read_bytes()
        except FileNotFoundError:
            assert path.parent.name == "pins", path


def iterate_leaves(value: Any) -> Iterator[bytes]:
    """Yield every value of an Arrow array: text as UTF-8, numbers as eight little-endian bytes."""
    if isinstance(value, pa.ChunkedArray):
        for chunk in value.chunks:
            yield from iterate_leaves(chunk)
    elif pa.types.is_list(value.type):
        yield from iterate_leaves(value.flatten())
    elif pa.types.is_dictionary(value.type):
        yield from iterate_leaves(value.dictionary)  # also entries no row refers to
    elif pa.types.is_integer(value.type):
        yield value.fill_null(0).to_numpy(zero_copy_only=False).astype("<u8").tobytes()
    else:
        yield "\0".join(str(entry) for entry in value.to_pylist()).encode()


def decode(path: Path, data: bytes) -> bytes:
    """Return the bytes of a file, and its decoded values where a format may hide them."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        table = file.read()
        data += b"".join(part for name in table.schema.names for part in iterate_leaves(table[name]))
        data += str(file.metadata).encode() + b"".join(
            str(file.metadata.row_group(i).column(j).statistics).encode()
            for i in range(file.metadata.num_row_groups)
            for j in range(file.metadata.num_columns)
        )
    elif path.suffix == ".arrow":
        table = pa.ipc.open_file(path).read_all()
        data += b"".join(part for name in table.schema.names for part in iterate_leaves(table[name]))
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            data += b"".join(arrays[name].tobytes() for name in arrays.files)
    return data
