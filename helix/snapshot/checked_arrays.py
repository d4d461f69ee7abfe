"""Maps files of the store into memory and checks their dtype and shape before use.

Address arithmetic, here and in C, relies on dtype, shape and size. So the reader states what it expects, and a file
that differs is damaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from helix.errors import StoreError
from helix.snapshot.mapped_files import map_read_only
from helix.types import AnyArray

Axis = int | str
"""The length of an axis: a number, the name of a size ("n"), or one more than a named size ("n + 1")."""


class ArrayKind(NamedTuple):
    """The dtype and shape of an array file. Arrays that name the same size must agree on it."""

    dtype: Any
    shape: tuple[Axis, ...]
    below: Axis | None = None  # exclusive bound of its numbers


_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][a-z][0-9]{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,19}, ?)*[0-9]{0,19})\), \} *\n",
    re.DOTALL,
)
"""NumPy format 1.0 as NumPy writes it (numpy.lib.format)."""

_ALIGNED: Final = 64  # bytes: NumPy starts an array's data at a multiple of it

REMEDY: Final = (
    "restore it from a backup or another copy of the store ('helix pull'), or return to an earlier generation with "
    "'helix rollback'; 'helix verify' names everything that is damaged"
)
"""Remedy for a damaged file."""


def make_damage_error(path: Path, why: str) -> StoreError:
    """Return the error for a file that differs from its manifest."""
    return StoreError(f"{path} is damaged: {why}", REMEDY)


def map_npy(path: Path, kind: ArrayKind, sizes: dict[str, int] | None = None) -> AnyArray:
    """Map a .npy file, read-only.

    NumPy's memmap holds a file descriptor for each array, and a store has thousands; Arrow's map holds none.

    Args:
        kind: required dtype and shape.
        sizes: known named sizes; new ones are added.

    Raises:
        StoreError: the file is missing, damaged or of another kind.
    """
    buffer = map_file(path)
    head = buffer.slice(0, min(buffer.size, 1024)).to_pybytes()
    header = _HEADER.match(head)
    start = 10 + int.from_bytes(head[8:10], "little")
    if not header or header.end() != start or start % _ALIGNED:
        raise make_damage_error(path, "it has no header of a .npy file")
    dtype = np.dtype(kind.dtype)
    if header[1].decode() != dtype.str:
        raise make_damage_error(path, f"it holds {header[1].decode()}, not {dtype.str}")
    shape = tuple(int(each) for each in header[2].split(b",") if each.strip())
    check_shape(path, shape, kind.shape, {} if sizes is None else sizes)
    count = math.prod(shape)
    if start + count * dtype.itemsize != buffer.size:
        needed = start + count * dtype.itemsize
        raise make_damage_error(path, f"it has {buffer.size} bytes, but {needed} belong to {list(shape)}")
    array = np.frombuffer(buffer, dtype, count, start) if count else np.empty(0, dtype)
    return array.reshape(shape)


def map_arrays(
    folder: Path,
    kinds: Mapping[str, ArrayKind],
    offsets: Mapping[str, str],
    sizes: dict[str, int] | None = None,
) -> dict[str, AnyArray]:
    """Map arrays of a folder that belong together.

    Args:
        kinds: kind of each array, by name.
        offsets: names of offset arrays, each with the array it spans completely.
        sizes: known named sizes.

    Raises:
        StoreError: a file is missing, damaged or of another kind, or two do not fit together.
    """
    sizes = {} if sizes is None else sizes
    arrays = {name: map_npy(folder / f"{name}.npy", kind, sizes) for name, kind in kinds.items()}
    for name, through in offsets.items():
        if name in arrays and through in arrays:
            ends, size = arrays[name], len(arrays[through])
            if ends[0] != 0 or ends[-1] != size or (ends[1:] < ends[:-1]).any():
                raise make_damage_error(folder / f"{name}.npy", f"it does not span the {size} entries of {through}")
    for name, array in arrays.items():
        below = kinds[name].below
        if below is not None:
            check_below(folder / f"{name}.npy", array, below if isinstance(below, int) else sizes[below])
    return arrays


def check_below(path: Path, places: AnyArray, most: int) -> None:
    """Check that all numbers are below `most`.

    Raises:
        StoreError: one is not.
    """
    if places.size and places.max() >= most:
        raise make_damage_error(path, f"it holds {places.max()}, which is not below {most}")


def check_shape(path: Path, shape: Sequence[int], wanted: Sequence[Axis], sizes: dict[str, int]) -> None:
    """Check a shape against the wanted one, and add sizes that it is the first to name.

    Raises:
        StoreError: they differ.
    """
    if len(shape) != len(wanted):
        raise make_damage_error(path, f"it has {len(shape)} dimensions, not {len(wanted)}")
    expected = [
        axis if isinstance(axis, int) else _resolve_size(axis, length, sizes)
        for length, axis in zip(shape, wanted, strict=True)
    ]
    if list(shape) != expected:
        raise make_damage_error(path, f"its shape is {list(shape)}, not {expected}")


def _resolve_size(axis: str, length: int, sizes: dict[str, int]) -> int:
    """Return the required length of an axis; a new name takes the actual length."""
    name, _, more = axis.partition(" + ")
    return sizes.setdefault(name, max(0, length - int(more or 0))) + int(more or 0)


def map_ipc(path: Path, schema: pa.Schema, *, optional: Sequence[str] = (), full: bool = False) -> list[pa.RecordBatch]:
    """Map the record batches of an Arrow file.

    Args:
        schema: required names and types, in any order.
        optional: names that an earlier format lacks.
        full: check every offset and code, not only buffer sizes; needed for columns that Arrow computes with.

    Raises:
        StoreError: the file is missing or damaged.
    """
    try:
        reader = pa.ipc.open_file(map_file(path))
        names = _check_names(path, reader.schema, schema, optional)
        batches = [reader.get_batch(i).select(names) for i in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=full)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise make_damage_error(path, str(error)) from None
    return batches or [pa.RecordBatch.from_pylist([], schema=pa.schema([reader.schema.field(name) for name in names]))]


def _check_names(path: Path, actual: pa.Schema, wanted: pa.Schema, optional: Sequence[str]) -> list[str]:
    """Check the columns that are read. Return their names in the file's order."""
    types: Mapping[str, pa.DataType] = {field.name: field.type for field in actual}
    if len(types) != len(actual):
        raise make_damage_error(path, "it names a column twice")
    for field in wanted:
        if field.name not in types and field.name not in optional:
            raise make_damage_error(path, f"it has no column {field.name!r}")
        if types.get(field.name, field.type) != field.type:
            raise make_damage_error(path, f"its column {field.name!r} holds {types[field.name]}, not {field.type}")
    return [name for name in actual.names if name in wanted.names]


def map_file(path: Path) -> pa.Buffer:
    """Map a whole file. A pipe or a device is refused at once.

    Raises:
        StoreError: the file is missing or not regular.
    """
    if not path.is_file():
        raise make_damage_error(path, "it is no regular file" if path.exists() else "the file is missing")
    try:
        return map_read_only(path)
    except FileNotFoundError:
        raise make_damage_error(path, "the file is missing") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise make_damage_error(path, str(error)) from None
