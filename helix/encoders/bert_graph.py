"""BERT (Devlin et al. 2019) as an ONNX graph, written from its tensors; torch is not needed.

A matrix in int8 is multiplied by activations whose range is measured at run time ("dynamic" quantising). Queries, keys
and values are one product. Attention and products are operators of ONNX Runtime
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from helix.encoders.int8 import Int8Rows, Matrix, join_rows, narrow_rows, quantise_rows, to_float
from helix.encoders.onnx_file import FLOAT32, INT32, MICROSOFT, GraphWriter
from helix.errors import EncoderError
from helix.types import F32, AnyArray

INPUTS: Final = ("input_ids", "attention_mask")
"""int64[texts, longest] each; the mask is 1 for a token, padding is at the end."""

_EXPECTED: Final = {"model_type": "bert", "hidden_act": "gelu"}

_TABLES: Final = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
_IN_FLOAT: Final = ("pooler.", "embeddings.position_ids", *_TABLES)
_NARROWING: Final = "output.dense.weight"
_ATTENTION: Final = "attention.output.dense.weight"


def list_forms(precision: str) -> tuple[str, ...]:
    """List the forms to try for a precision, the fastest first."""
    return ("int8", "mixed") if precision == "int8" else (precision,)


def prepare_tensors(tensors: Mapping[str, Matrix], form: str, *, seven_bits: bool) -> dict[str, Matrix]:
    """Return the tensors of a form: fp32, int8, or mixed, where the feed-forward output stays in float32.

    Args:
        seven_bits: for a processor on which products of eight bits saturate.
    """
    return {name: _prepare(name, tensor, form, seven_bits) for name, tensor in tensors.items()}


def _prepare(name: str, tensor: Matrix, form: str, seven_bits: bool) -> Matrix:
    spared = form == "mixed" and name.endswith(_NARROWING) and not name.endswith(_ATTENTION)
    if form == "fp32" or spared:
        return to_float(tensor)
    if not isinstance(tensor, Int8Rows):
        if tensor.ndim != 2 or name.startswith(_IN_FLOAT):
            return tensor
        tensor = quantise_rows(tensor)
    is_table = name.startswith("embeddings.")  # is looked up, not multiplied
    return narrow_rows(tensor) if seven_bits and not is_table else tensor


def build_bert(tensors: Mapping[str, Matrix], config: Mapping[str, Any]) -> bytes:
    """Return the bytes of an ONNX file that gives the token vectors, float32[texts, longest, width].

    Args:
        tensors: by the names of transformers' BertModel, a matrix as float32 or in int8.
        config: the model's config.json.

    Raises:
        EncoderError: the model is no plain BERT, or lacks a tensor.
    """
    for key, value in _EXPECTED.items():
        if config.get(key) != value:
            raise EncoderError(f"the model has {key} {config.get(key)!r}, not {value!r}", "take another encoder")
    try:
        return _Bert(tensors, config).build()
    except KeyError as error:
        raise EncoderError(f"the model lacks the weights {error}", "fetch the model again") from None


class _Bert:
    """The graph of one model while it is built."""

    def __init__(self, tensors: Mapping[str, Matrix], config: Mapping[str, Any]) -> None:
        self.tensors, self.config, self.graph = tensors, config, GraphWriter()
        self.heads, self.width = int(config["num_attention_heads"]), int(config["hidden_size"])

    def build(self) -> bytes:
        """Return the bytes of the file."""
        length = self._node("ReduceSum", INPUTS[1], self._add_constant(np.array([1])), keepdims=0)
        lengths = self._node("Cast", length, to=INT32)
        hidden = self._add_embeddings()
        for i in range(int(self.config["num_hidden_layers"])):
            hidden = self._add_layer(f"encoder.layer.{i}.", hidden, lengths)
        shape = ("texts", "longest")
        return self.graph.format_model(dict.fromkeys(INPUTS, shape), hidden, (*shape, self.width))

    def _add_embeddings(self) -> str:
        """Add the sum of a token's, a position's and the first type's vector."""
        words = self.tensors["embeddings.word_embeddings.weight"]
        ids = INPUTS[0]
        if isinstance(words, Int8Rows):
            codes = self._node("Cast", self._node("Gather", self._add_constant(words.codes), ids), to=FLOAT32)
            found = self._node("Mul", codes, self._node("Gather", self._add_constant(words.scale[:, None]), ids))
        else:
            found = self._node("Gather", self._add_constant(words), ids)
        positions, types = (to_float(self.tensors[name]) for name in _TABLES)
        longest = self._node("Slice", self._node("Shape", ids), *(self._add_constant(np.array([i])) for i in (1, 2)))
        table = self._add_constant(np.asarray(positions + types[0], np.float32))
        places = self._node("Slice", table, self._add_constant(np.array([0])), longest)
        return self._normalise(self._node("Add", found, places), "embeddings.LayerNorm")

    def _add_layer(self, name: str, hidden: str, lengths: str) -> str:
        attended = self._multiply(
            self._attend(f"{name}attention.self.", hidden, lengths), f"{name}attention.output.dense"
        )
        hidden = self._normalise(self._node("Add", attended, hidden), f"{name}attention.output.LayerNorm")
        inner = self.graph.add_node("Gelu", self._multiply(hidden, f"{name}intermediate.dense"), domain=MICROSOFT)
        out = self._multiply(inner, f"{name}output.dense")
        return self._normalise(self._node("Add", out, hidden), f"{name}output.LayerNorm")

    def _attend(self, name: str, hidden: str, lengths: str) -> str:
        """Add attention, whose queries, keys and values are one product."""
        parts = ("query", "key", "value")
        matrix = join_rows([self.tensors[f"{name}{part}.weight"] for part in parts])
        bias = self._add_constant(np.concatenate([self._read_vector(f"{name}{part}.bias") for part in parts]))
        options: dict[str, Any] = {"domain": MICROSOFT, "num_heads": self.heads}
        if not isinstance(matrix, Int8Rows):
            return self.graph.add_node("Attention", hidden, self._add_transposed(matrix), bias, lengths, **options)
        codes, scale, zero = self.graph.add_nodes("DynamicQuantizeLinear", 3, hidden)
        weights = (self._add_transposed(matrix.codes), bias, scale, self._add_constant(matrix.scale), lengths, zero)
        zeros = self._add_constant(np.zeros(len(matrix.scale), np.int8))
        return self.graph.add_node("QAttention", codes, *weights, zeros, **options)

    def _multiply(self, hidden: str, name: str) -> str:
        """Add a product with a matrix, and its bias."""
        matrix, bias = self.tensors[f"{name}.weight"], self._add_constant(self._read_vector(f"{name}.bias"))
        if not isinstance(matrix, Int8Rows):
            return self._node("Add", self._node("MatMul", hidden, self._add_transposed(matrix)), bias)
        weights = (self._add_transposed(matrix.codes), self._add_constant(matrix.scale))
        return self.graph.add_node("DynamicQuantizeMatMul", hidden, *weights, "", bias, domain=MICROSOFT)

    def _normalise(self, hidden: str, name: str) -> str:
        """Add a layer norm."""
        factors = [self._add_constant(self._read_vector(f"{name}.{part}")) for part in ("weight", "bias")]
        return self._node("LayerNormalization", hidden, *factors, axis=-1, epsilon=float(self.config["layer_norm_eps"]))

    def _read_vector(self, name: str) -> F32:
        return to_float(self.tensors[name])

    def _add_transposed(self, matrix: AnyArray) -> str:
        return self._add_constant(np.ascontiguousarray(matrix.T))

    def _add_constant(self, array: AnyArray) -> str:
        return self.graph.add_constant(array)

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.graph.add_node(kind, *inputs, **attributes)
