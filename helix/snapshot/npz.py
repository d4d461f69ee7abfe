"""Reads small `.npz` files, with checks of each array's size and dtype."""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from helix.snapshot.checked_arrays import make_damage_error
from helix.types import AnyArray

NpzKind = tuple[type[np.generic], int]  # dtype and number of dimensions

_FAULTS: Final = (
    *(OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, NotImplementedError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error, OverflowError, RecursionError),
)


def read_npz(path: Path, kinds: Mapping[str, NpzKind], optional: Collection[str] = ()) -> dict[str, AnyArray]:
    """Read the named arrays of a file that `numpy.savez` wrote.

    Args:
        kinds: dtype and number of dimensions of each array.
        optional: arrays that earlier releases did not write; they may be absent.

    Raises:
        StoreError: the file is missing or damaged, or an array is compressed or of another kind.
    """
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            wanted = {name: kind for name, kind in kinds.items() if name not in optional or f"{name}.npy" in present}
            return {name: _read(archive, f"{name}.npy", kind, size) for name, kind in wanted.items()}
    except FileNotFoundError:
        raise make_damage_error(path, "the file is missing") from None
    except _FAULTS as error:
        raise make_damage_error(path, str(error)) from None


def _read(archive: zipfile.ZipFile, name: str, kind: NpzKind, size: int) -> AnyArray:
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:  # an uncompressed member cannot grow
        raise ValueError(f"{name} is compressed, or larger than the file")
    data = archive.read(member)
    head = io.BytesIO(data)
    np.lib.format.read_magic(head)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    wanted, dimensions = kind
    if dtype != np.dtype(wanted) or len(shape) != dimensions or fortran:
        raise ValueError(f"{name} is {dtype.str}{list(shape)}, not {np.dtype(wanted).str} of {dimensions} dimensions")
    body, count = data[head.tell() :], 1
    for each in shape:
        count *= int(each)
    if count < 0 or count * dtype.itemsize != len(body):
        raise ValueError(f"{name} has {len(body)} bytes for {list(shape)} of {dtype.str}")
    return np.frombuffer(body, dtype).reshape(shape)
