"""The head of the ranker as nodes of an ONNX graph, after a BERT that gives token vectors.

It computes what `pipelines.training.ranker.network.read_pairs` does: how well the tokens of question and item agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from helix.encoders.onnx_export import read_opset
from helix.errors import EncoderError
from helix.types import F32

TENSORS: Final = ("first.weight", "first.bias", "weigh.weight", "weigh.bias", "scales.weight")
"""Tensors of a head by name: float32[1, width], [1], [1, width], [1], [1, 2]."""

OUTPUT: Final = "logits"

LEAST_OPSET: Final = 18

_CLS, _SEP = 101, 102  # of BERT's vocabulary
_TINY: Final = 1e-12


class _Nodes:
    """Nodes of a head, each named after what it computes."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"head.{name}"))
        return f"head.{name}"

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [f"head.{name}"], **attributes))
        return f"head.{name}"

    def reduce(self, op: str, name: str, of: str, axis: int, keepdims: int = 0) -> str:
        return self.add(op, name, of, self.constant(f"{name}.axes", [axis], np.int64), keepdims=keepdims)

    def unsqueeze(self, name: str, of: str, axis: int) -> str:
        return self.add("Unsqueeze", name, of, self.constant(f"{name}.axes", [axis], np.int64))


def append_head(model: Any, tensors: Mapping[str, F32]) -> None:
    """Append a head to a graph of `input_ids`, `attention_mask`, `token_type_ids` → token vectors.

    Its only output becomes `logits`, float32[n, 1].

    Raises:
        EncoderError: the graph's operators are older than version 18, whose reductions take axes in another form.
    """
    from onnx import TensorProto, helper

    if (opset := read_opset(model)) < LEAST_OPSET:
        raise EncoderError(f"a graph of operators of version {opset}, {LEAST_OPSET} is needed", "export it again")
    graph = model.graph
    hidden = graph.output[0].name
    nodes = _Nodes()
    width = tensors["first.weight"].shape[1]
    asked, given = _find_words(nodes)
    alike = _find_best(nodes, hidden, given)
    weight = _weigh(nodes, hidden, asked, tensors)
    tokens = nodes.reduce("ReduceSum", "tokens", nodes.add("Mul", "weighed", weight, alike), 1, keepdims=1)
    means = _compare_means(nodes, hidden, asked, given)
    scale, other = (nodes.constant(f"scale{i}", tensors["scales.weight"][:, i]) for i in range(2))
    agree = nodes.add(
        "Add", "agree", nodes.add("Mul", "by_tokens", tokens, scale), nodes.add("Mul", "by_means", means, other)
    )
    at, matrix = nodes.constant("zero", 0, np.int64), nodes.constant("first", tensors["first.weight"].reshape(width, 1))
    first = nodes.add("MatMul", "first_product", nodes.add("Gather", "first_token", hidden, at, axis=1), matrix)
    first = nodes.add("Add", "first_biased", first, nodes.constant("first_bias", tensors["first.bias"]))
    graph.node.extend([*nodes.nodes, helper.make_node("Add", [agree, first], [OUTPUT])])
    graph.initializer.extend(nodes.constants)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch_size", 1]))


def _find_words(nodes: _Nodes) -> Sequence[str]:
    """Return which tokens are words of the question, and of the item: bool[n, t] each."""
    one, zero = nodes.constant("one", 1, np.int64), nodes.constant("nothing", 0, np.int64)
    present = nodes.add("Greater", "present", "attention_mask", zero)
    marks = [
        nodes.add("Equal", f"is_{name}", "input_ids", nodes.constant(name, value, np.int64))
        for name, value in (("cls", _CLS), ("sep", _SEP))
    ]
    words = nodes.add("And", "words", present, nodes.add("Not", "no_mark", nodes.add("Or", "mark", *marks)))
    second = nodes.add("Equal", "second", "token_type_ids", one)
    return nodes.add("And", "asked", words, nodes.add("Not", "is_first", second)), nodes.add(
        "And", "given", words, second
    )


def _find_best(nodes: _Nodes, hidden: str, given: str) -> str:
    """Return the best cosine of each token with one of the item: float32[n, t]."""
    unit = nodes.add("Div", "unit", hidden, _measure(nodes, "length", hidden, 2))
    turned = nodes.add("Transpose", "turned", unit, perm=[0, 2, 1])
    alike = nodes.add("MatMul", "alike", unit, turned)
    among = nodes.add("Where", "among", nodes.unsqueeze("given_row", given, 1), alike, nodes.constant("least", -1.0))
    return nodes.reduce("ReduceMax", "best", among, 2)


def _measure(nodes: _Nodes, name: str, vectors: str, axis: int) -> str:
    """Return the length of vectors, above 0, with the axis kept."""
    squares = nodes.reduce(
        "ReduceSum", f"{name}_squares", nodes.add("Mul", f"{name}_square", vectors, vectors), axis, 1
    )
    return nodes.add("Max", name, nodes.add("Sqrt", f"{name}_root", squares), nodes.constant(f"{name}_tiny", _TINY))


def _weigh(nodes: _Nodes, hidden: str, asked: str, tensors: Mapping[str, F32]) -> str:
    """Return the weights of the question's tokens, which sum to 1: float32[n, t]."""
    matrix = nodes.constant("weigh", tensors["weigh.weight"].reshape(-1, 1))
    product = nodes.add("MatMul", "weigh_product", hidden, matrix)
    biased = nodes.add("Add", "weigh_biased", product, nodes.constant("weigh_bias", tensors["weigh.bias"]))
    flat = nodes.add("Squeeze", "weigh_flat", biased, nodes.constant("weigh_axes", [2], np.int64))
    chosen = nodes.add("Where", "weigh_asked", asked, flat, nodes.constant("never", -1e4))
    return nodes.add("Softmax", "weight", chosen, axis=1)


def _compare_means(nodes: _Nodes, hidden: str, asked: str, given: str) -> str:
    """Return the cosine of the two means: float32[n, 1]; of sums, which point the same way."""
    sums = []
    for name, chosen in (("asked", asked), ("given", given)):
        mask = nodes.unsqueeze(f"{name}_column", nodes.add("Cast", f"{name}_float", chosen, to=1), 2)
        sums.append(nodes.reduce("ReduceSum", f"{name}_sum", nodes.add("Mul", f"{name}_only", hidden, mask), 1))
    units = [
        nodes.add("Div", f"{name}_unit", one, _measure(nodes, f"{name}_length", one, 1))
        for name, one in zip(("asked", "given"), sums, strict=True)
    ]
    return nodes.reduce("ReduceSum", "means", nodes.add("Mul", "mean_product", *units), 1, keepdims=1)
