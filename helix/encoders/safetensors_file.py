"""Files of named tensors in the safetensors format, read and written with NumPy alone.

A file is the length of its header (uint64, little-endian), the header as JSON, and the data. The header has each
tensor's type, shape and place in the data (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.errors import EncoderError
from helix.types import AnyArray

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I8": np.dtype("i1"),
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_LENGTH: Final = 8  # bytes of the header's length
_METADATA: Final = "__metadata__"


def read_tensors(path: Path) -> dict[str, AnyArray]:
    """Map the tensors of a file by name, read-only and without copies.

    Raises:
        EncoderError: the file is missing, cut short, no safetensors file, or has a tensor of an unknown type.
    """
    try:
        data = np.memmap(path, np.uint8, "r")
        end = _LENGTH + int.from_bytes(data[:_LENGTH].tobytes(), "little")
        header: dict[str, dict[str, Any]] = orjson.loads(data[_LENGTH:end].tobytes())
        return {name: _read_tensor(data[end:], entry) for name, entry in header.items() if name != _METADATA}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EncoderError(f"{path} is no readable safetensors file: {error}", "fetch the model again") from None


def _read_tensor(data: AnyArray, entry: Mapping[str, Any]) -> AnyArray:
    dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if end - start != dtype.itemsize * math.prod(shape) or not 0 <= start <= end <= len(data):
        raise ValueError(f"a tensor of shape {shape} does not end at {end}")
    return data[start:end].view(dtype).reshape(shape)


def write_tensors(path: Path, tensors: Mapping[str, AnyArray]) -> None:
    """Write tensors by name; the data are in the order of the names, so equal tensors give equal files."""
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}
    at = 0
    for name in sorted(tensors):
        size = tensors[name].nbytes
        header[name] = {
            "dtype": _NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _LENGTH)  # data begin at a multiple of eight bytes
    with path.open("wb") as file:
        file.write(len(text).to_bytes(_LENGTH, "little") + text)
        for name in sorted(tensors):
            file.write(np.ascontiguousarray(tensors[name]).tobytes())
