"""The ranker's head in ONNX computes what it was trained as."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from helix.encoders.pair_head import TENSORS, append_head
from helix.errors import EncoderError

torch = pytest.importorskip("torch", reason="the head is trained with torch")

from pipelines.training.ranker import network  # noqa: E402

WIDTH = 6


def make_graph(opset: int = 18) -> onnx.ModelProto:
    """A graph whose token vectors are rows of a table by their ids."""
    table = np.random.default_rng(0).normal(size=(200, WIDTH)).astype(np.float32)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", "t", WIDTH])
    node = helper.make_node("Gather", ["table", "input_ids"], ["vectors"])
    graph = helper.make_graph([node], "table", inputs, [output], [numpy_helper.from_array(table, "table")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_the_head_scores_as_the_network_that_was_trained() -> None:
    torch.manual_seed(0)
    head = network.make_head(WIDTH)
    for one in head.parameters():
        torch.nn.init.normal_(one)
    model = make_graph()
    table = torch.from_numpy(numpy_helper.to_array(model.graph.initializer[0]).copy())
    append_head(model, {name: one.detach().numpy() for name, one in head.named_parameters()})
    assert {name for name, _ in head.named_parameters()} == set(TENSORS)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    ids = np.array([[101, 5, 6, 102, 7, 8, 9, 102], [101, 5, 102, 9, 102, 0, 0, 0]], np.int64)
    mask = (ids > 0).astype(np.int64)
    types = np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0]], np.int64)
    found = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": types})[0]
    assert found.shape == (2, 1)
    batch = network.PairBatch(*map(torch.from_numpy, (ids, mask, types)))
    expected = network.read_pairs(table[batch.input_ids], batch, head).detach().numpy()
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-4, atol=1e-4)


def test_older_operators_are_refused() -> None:
    with pytest.raises(EncoderError, match="version 17, 18 is needed"):
        append_head(make_graph(17), {})
