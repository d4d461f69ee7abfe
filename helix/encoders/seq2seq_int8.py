"""Quantising of a sequence-to-sequence graph to int8, with one scale a token in place of one a tensor.

As in Dettmers et al. 2022, "LLM.int8()", vector-wise quantisation. It is nearer to fp32 than ONNX Runtime's own dynamic
quantising, and a text's result does not depend on the rest of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from helix.encoders.onnx_export import read_opset
from helix.types import F32

_LEAST_EMBEDDING: Final = 1_000  # rows of a table that is quantised


def quantise_weights(model: Any, top: int) -> None:
    """Turn weights and their products into int8 with a scale a column, and embeddings with a scale a row, in place.

    Args:
        model: an ONNX model; its weights are initialisers of the outermost graph.
        top: largest absolute int8 weight: 127, or 63 if products of 8-bit pairs saturate (no VNNI).
    """
    from onnx import helper

    graph = _Int8Graph(model, top)
    for number, scope in enumerate(_list_scopes(model.graph)):
        nodes: list[Any] = []
        quantised: dict[str, str] = {}  # activation → prefix of its int8 form, shared by the products that read it
        for node in scope.node:
            prefix = f"q{number}_{len(nodes)}"
            if node.op_type == "MatMul" and node.input[1] in graph.weights:
                if node.input[0] not in quantised:
                    quantised[node.input[0]] = prefix
                    nodes += graph.quantise_rows(node.input[0], prefix)
                nodes += graph.multiply(node, quantised[node.input[0]], prefix)
            elif node.op_type == "Gather" and graph.is_embedding(node.input[0]):
                nodes += graph.look_up(node, prefix)
            else:
                nodes.append(node)
        del scope.node[:]
        scope.node.extend(nodes)
    graph.drop_unused()
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


class _Int8Graph:
    """The outermost graph of a model, with int8 copies of its weights."""

    def __init__(self, model: Any, top: int) -> None:
        self._graph, self._top = model.graph, top
        self.weights = {
            entry.name: entry for entry in self._graph.initializer if len(entry.dims) == 2 and entry.data_type == 1
        }
        self._added: set[str] = set()
        constants = {"q_share": np.float32(1 / 127), "q_least": np.float32(1e-9), "q_one": np.float32(1)}
        for name, value in {**constants, "q_zero": np.uint8(128), "q_axis": np.array([-1], np.int64)}.items():
            self._add(name, np.asarray(value))
        self._axes, self._attributes = (["q_axis"], {}) if read_opset(model) >= 18 else ([], {"axes": [-1]})

    def _add(self, name: str, value: npt.NDArray[Any]) -> None:
        from onnx import numpy_helper

        if name not in self._added:
            self._added.add(name)
            self._graph.initializer.append(numpy_helper.from_array(value, name))

    def _add_int8(self, name: str, axis: int, top: int) -> None:
        from onnx import numpy_helper

        if f"{name}_int8" not in self._added:
            values, scales = quantise_matrix(numpy_helper.to_array(self.weights[name]), axis, top)
            self._add(f"{name}_int8", values)
            self._add(f"{name}_scale", scales)

    def is_embedding(self, name: str) -> bool:
        """Return whether a name is a large table of rows."""
        return name in self.weights and self.weights[name].dims[0] > _LEAST_EMBEDDING

    def quantise_rows(self, source: str, prefix: str) -> list[Any]:
        """Return the nodes that quantise an activation with one scale a row."""
        from onnx import helper

        maximum = [f"{prefix}_abs", *self._axes]
        return [
            helper.make_node("Abs", [source], [f"{prefix}_abs"]),
            helper.make_node("ReduceMax", maximum, [f"{prefix}_max"], keepdims=1, **self._attributes),
            helper.make_node("Mul", [f"{prefix}_max", "q_share"], [f"{prefix}_share"]),
            helper.make_node("Max", [f"{prefix}_share", "q_least"], [f"{prefix}_scale"]),
            helper.make_node("Div", [source, f"{prefix}_scale"], [f"{prefix}_unit"]),
            helper.make_node("QuantizeLinear", [f"{prefix}_unit", "q_one", "q_zero"], [f"{prefix}_uint8"]),
        ]

    def multiply(self, node: Any, rows: str, prefix: str) -> list[Any]:
        """Return the nodes for a product of an activation, quantised under the prefix `rows`, and a weight."""
        from onnx import helper

        weight = node.input[1]
        self._add_int8(weight, 0, self._top)
        factors = [f"{rows}_uint8", f"{weight}_int8", "q_one", f"{weight}_scale", "q_zero"]
        return [
            helper.make_node("MatMulIntegerToFloat", factors, [f"{prefix}_product"], domain="com.microsoft"),
            helper.make_node("Mul", [f"{prefix}_product", f"{rows}_scale"], [node.output[0]]),
        ]

    def look_up(self, node: Any, prefix: str) -> list[Any]:
        """Return the nodes that read rows of an embedding."""
        from onnx import helper

        table, rows = node.input[:2]
        self._add_int8(table, 1, 127)
        return [
            helper.make_node("Gather", [f"{table}_int8", rows], [f"{prefix}_picked"]),
            helper.make_node("Gather", [f"{table}_scale", rows], [f"{prefix}_scale"]),
            helper.make_node("Cast", [f"{prefix}_picked"], [f"{prefix}_float"], to=1),
            helper.make_node("Mul", [f"{prefix}_float", f"{prefix}_scale"], [node.output[0]]),
        ]

    def drop_unused(self) -> None:
        """Drop the initialisers that no node reads."""
        read = {name for scope in _list_scopes(self._graph) for node in scope.node for name in node.input}
        used = [entry for entry in self._graph.initializer if entry.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(used)


def _list_scopes(graph: Any) -> Iterator[Any]:
    """Yield a graph and the branches inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _list_scopes(attribute.g)


def quantise_matrix(weight: F32, axis: int, top: int) -> tuple[npt.NDArray[np.int8], F32]:
    """Return symmetric int8 values with one scale a column (axis 0: float32[n]) or a row (axis 1: float32[k, 1])."""
    scales = np.maximum(np.abs(weight).max(axis, keepdims=axis == 1) / top, 1e-9).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales
