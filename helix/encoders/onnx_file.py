"""ONNX files written with the standard library and NumPy: nodes, constants, inputs and outputs of one graph.

Field numbers and types are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), in the wire
format of protocol buffers. The onnx package would do the same for 30 MB more.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from helix.types import AnyArray

OPSET: Final = 17
"""Version of ONNX's own operators: the first that has LayerNormalization."""

MICROSOFT: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_IR_VERSION: Final = 8  # of the file, with opset 17
_TYPES: Final = {
    np.dtype(np.float32): 1,
    np.dtype(np.uint8): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.int32): 6,
    np.dtype(np.int64): 7,
}
FLOAT32, INT32, INT64 = (_TYPES[np.dtype(each)] for each in (np.float32, np.int32, np.int64))
_AS_FLOAT, _AS_INT, _AS_INTS = 1, 2, 7  # kinds of attributes

Attribute = float | int | Sequence[int]
Shape = Sequence[str | int]


class GraphWriter:
    """A graph that grows node by node; every result has a name, which later nodes take as an input."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def add_constant(self, array: AnyArray) -> str:
        """Add a constant; return its name."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(_format_tensor(name, array))
        return name

    def add_node(self, kind: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Add a node with one result; return the result's name. An input that is left out has the name ''."""
        return self.add_nodes(kind, 1, *inputs, domain=domain, **attributes)[0]

    def add_nodes(
        self, kind: str, results: int, *inputs: str, domain: str = "", **attributes: Attribute
    ) -> tuple[str, ...]:
        """Add a node; return the names of its results."""
        name = f"{kind}_{len(self._nodes)}"
        outputs = tuple(f"{name}_{i}" for i in range(results))
        self._nodes.append(
            b"".join(_text(1, each) for each in inputs)
            + b"".join(_text(2, each) for each in outputs)
            + _text(3, name)
            + _text(4, kind)
            + b"".join(_block(5, _format_attribute(key, value)) for key, value in attributes.items())
            + (_text(7, domain) if domain else b"")
        )
        return outputs

    def format_model(self, inputs: dict[str, Shape], output: str, shape: Shape) -> bytes:
        """Return the bytes of the file.

        Args:
            inputs: name → shape, each of int64; a dimension of any length has a name.
            output: the result that the graph gives, float32.
            shape: of that.
        """
        graph = b"".join(_block(1, node) for node in self._nodes) + _text(2, "encoder")
        graph += b"".join(_block(5, constant) for constant in self._constants)
        graph += b"".join(_block(11, _format_value(name, INT64, each)) for name, each in inputs.items())
        graph += _block(12, _format_value(output, FLOAT32, shape))
        operators = _block(8, _number(2, OPSET)) + _block(8, _text(1, MICROSOFT) + _number(2, 1))
        return _number(1, _IR_VERSION) + _text(2, "helix") + _block(7, graph) + operators


def _format_tensor(name: str, array: AnyArray) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, _TYPES[array.dtype]) + _text(8, name) + _block(9, np.ascontiguousarray(array).tobytes())


def _format_attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _AS_FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _AS_INT)
    return _text(1, name) + b"".join(_number(8, each) for each in value) + _number(20, _AS_INTS)


def _format_value(name: str, dtype: int, shape: Shape) -> bytes:
    dims = [_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape]
    tensor = _number(1, dtype) + _block(2, b"".join(_block(1, dim) for dim in dims))
    return _text(1, name) + _block(2, _block(1, tensor))


def _varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; negative ones in two's complement of 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, value: str) -> bytes:
    return _block(field, value.encode())
