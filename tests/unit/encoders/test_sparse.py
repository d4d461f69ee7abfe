"""Sparse encoders: tiny real models, exported and held against what sentence-transformers itself gives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.encoders import sparse
from helix.encoders.onnx_export import choose_precision
from helix.encoders.sparse import (
    DocumentEncoder,
    SparseSpec,
    find_sparse_encoder,
    identify_weights,
    load_spec,
    open_query,
    select_heaviest,
)
from helix.encoders.sparse_export import (
    cache_sparse_encoder,
    check_graph,
    export_sparse_encoder,
    is_sparse_encoder_cached,
    pool_graph,
    sparse_kind,
)
from helix.errors import EncoderError
from helix.settings import Settings
from tests.support import tiny_sparse
from tests.support.tiny_sparse import VOCABULARY, term

TEXTS = [
    "the car is in the garage",
    "",
    "walnut bread . walnut bread",
    "unheard words alone",
    "olive oil " * 60,  # longer than the window
    "Priya booked a flight",
]

Make = Callable[[Path], Path]

MODELS: dict[str, tuple[str, Make]] = {
    "splade": ("splade", lambda folder: tiny_sparse.splade(folder, "random")),
    "sum": ("splade", lambda folder: tiny_sparse.splade(folder, "random", "sum")),
    "twice": ("splade", lambda folder: tiny_sparse.splade(folder, "random", activation="log1p_relu")),
    "sum twice": ("splade", lambda folder: tiny_sparse.splade(folder, "random", "sum", "log1p_relu")),
    "no modules": ("splade", lambda folder: tiny_sparse.masked(folder, "random")),
    "inference-free": ("inference-free", lambda folder: tiny_sparse.inference_free(folder, "random")),
    "prompts": (
        "splade",
        lambda folder: tiny_sparse.splade(folder, "random", prompts={"query": "car ", "document": "olive "}),
    ),
}


def made(folder: Path, source: Path, precision: str = "fp32") -> tuple[Path, SparseSpec]:
    folder.mkdir()
    return folder, export_sparse_encoder(source, folder, "tiny", precision=precision)


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_gives_what_the_model_gives(tmp_path: Path, name: str) -> None:
    from sentence_transformers import SparseEncoder

    kind, make = MODELS[name]
    source = make(tmp_path / "model")
    folder, spec = made(tmp_path / "made", source)
    assert (spec.kind, sparse_kind(source), spec.precision) == (kind, kind, "fp32")
    model = SparseEncoder(str(source), device="cpu")
    expected = model.encode_document(TEXTS, convert_to_sparse_tensor=False).numpy()
    documents = DocumentEncoder(folder, 1)
    assert np.abs(documents.weights(TEXTS) - expected).max() < 1e-4
    assert expected.max() > 0.5
    for found, row in zip(documents.encode(TEXTS), expected, strict=True):
        assert found.terms.tolist() == np.flatnonzero(row).tolist()
        assert found.weights == pytest.approx(row[row > 0], abs=1e-4)
    asked = open_query(folder, 1)
    texts = TEXTS if kind == "splade" else [text for text in TEXTS if text]  # the table's tokenizer takes no empty one
    for text in texts:
        row = model.encode_query(text, convert_to_sparse_tensor=False).numpy()
        found = asked.encode(text)
        assert found.terms.tolist() == np.flatnonzero(row).tolist()
        assert found.weights == pytest.approx(row[row > 0], abs=1e-4)
        assert (found.terms.dtype, found.weights.dtype) == (np.uint32, np.float32)
    if kind == "inference-free":
        assert asked.encode("").terms.tolist() == []


def test_a_word_expands_as_the_model_says(tmp_path: Path, known_splade: Path, known_inference_free: Path) -> None:
    folder, _ = made(tmp_path / "splade", known_splade)
    (found,) = DocumentEncoder(folder, 1).encode(["the car"])
    weights = dict(zip(found.terms.tolist(), found.weights.tolist(), strict=True))
    assert set(weights) == {term("car"), term("automobile"), term("engine")}
    assert weights[term("car")] == pytest.approx(np.log1p(tiny_sparse.OWN), abs=0.05)
    assert weights[term("automobile")] == pytest.approx(np.log1p(3.0), abs=0.05)
    folder, _ = made(tmp_path / "free", known_inference_free)
    asked = open_query(folder, 1).encode("the car , the automobile")
    assert asked.terms.tolist() == sorted(map(term, ("car", "automobile", "the", ",")))  # a repeated word counts once
    assert dict(zip(asked.terms.tolist(), asked.weights.tolist(), strict=True))[term("automobile")] == 1.5


def test_int8_is_close_and_taken_where_it_is_better(tmp_path: Path) -> None:
    source = tiny_sparse.splade(tmp_path / "model", "random")
    folder, spec = made(tmp_path / "made", source, "int8")
    assert spec.precision == "int8"
    plain, _ = made(tmp_path / "plain", source)
    one, other = DocumentEncoder(folder, 1).weights(TEXTS), DocumentEncoder(plain, 1).weights(TEXTS)
    cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert spec.measured["agreement"] > 0.9
    assert cosine.min() > 0.9
    assert not np.array_equal(one, other)
    assert choose_precision({"agreement": 0.99, "int8_seconds": 1.0, "fp32_seconds": 2.0}) == "int8"
    assert choose_precision({"agreement": 0.97, "int8_seconds": 1.0, "fp32_seconds": 2.0}) == "fp32"
    assert choose_precision({"agreement": 1.0, "int8_seconds": 2.0, "fp32_seconds": 1.0}) == "fp32"


def test_a_graph_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    source = tiny_sparse.splade(tmp_path / "model", "random")
    folder, spec = made(tmp_path / "made", source)
    assert check_graph(spec, folder, SparseEncoder(str(source), device="cpu")) == replace(spec)
    other = tiny_sparse.splade(tmp_path / "other", "random", activation="log1p_relu")
    with pytest.raises(EncoderError, match=r"tiny is off by \d\.\d+ from what the model gives"):
        check_graph(spec, folder, SparseEncoder(str(other), device="cpu"))


def test_a_question_of_many_terms_is_cut_to_the_heaviest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_sparse.splade(tmp_path / "model", "random")
    whole = open_query(made(tmp_path / "whole", source)[0], 1).encode(TEXTS[0])
    monkeypatch.setattr(sparse, "QUERY_TERMS", 3)
    monkeypatch.setattr(sparse, "DOCUMENT_TERMS", 2)
    folder, _ = made(tmp_path / "made", source)  # which is no error of the graph
    found = open_query(folder, 1).encode(TEXTS[0])
    assert len(whole.terms) > 3
    assert sorted(found.weights) == sorted(whole.weights)[-3:]
    (held,) = DocumentEncoder(folder, 1).encode(TEXTS[:1])
    assert sorted(held.weights) == sorted(whole.weights)[-2:]


def test_a_roberta_reads_no_token_it_has_no_position_for(tmp_path: Path) -> None:
    """Its positions count from the padding's id + 1; its tokenizer is told of all of them."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
    from transformers import RobertaConfig, RobertaForMaskedLM

    plain = tiny_sparse.masked(tmp_path / "plain", "random", length=24)
    config = RobertaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        type_vocab_size=2,
        pad_token_id=0,
    )
    RobertaForMaskedLM(config).eval().save_pretrained(plain)
    modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules, device="cpu").save_pretrained(str(tmp_path / "model"), create_model_card=False)
    folder, spec = made(tmp_path / "made", tmp_path / "model")
    assert spec.max_tokens == 23
    assert DocumentEncoder(folder, 1).weights(["olive oil " * 60]).any()


def test_a_model_of_another_kind_is_named(tmp_path: Path) -> None:
    source = tiny_sparse.auto_encoder(tmp_path / "csr")
    with pytest.raises(
        EncoderError, match=r"csr is made of Transformer \+ Pooling \+ SparseAutoEncoder and is no sparse"
    ):
        sparse_kind(source)
    config = json.loads((tiny_sparse.masked(tmp_path / "plain") / "config.json").read_text())
    (tmp_path / "plain" / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    with pytest.raises(EncoderError, match="plain is BertModel, not one for masked language modelling"):
        sparse_kind(tmp_path / "plain")
    free = tiny_sparse.inference_free(tmp_path / "free")
    said = json.loads((free / "router_config.json").read_text())
    said["structure"]["query"] = said["structure"]["document"]
    (free / "router_config.json").write_text(json.dumps(said))
    with pytest.raises(
        EncoderError, match=r"document: Transformer \+ SpladePooling, query: Transformer \+ SpladePooling"
    ):
        sparse_kind(free)


@pytest.mark.parametrize("place", ["modules.json", "router_config.json"])
def test_code_of_a_model_is_never_run(tmp_path: Path, place: str) -> None:
    """sentence-transformers would import it: a local folder is trusted there."""
    source = tiny_sparse.inference_free(tmp_path / "model")
    (source / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Module: ...\n")
    said = json.loads((source / place).read_text())
    if place == "modules.json":
        said[0]["type"] = "theirs.Module"
    else:
        said["types"] = dict.fromkeys(said["types"], "theirs.Module")
    (source / place).write_text(json.dumps(said))
    (tmp_path / "made").mkdir()
    with pytest.raises(EncoderError, match=r"brings code of its own \(theirs\.Module\), which Helix does not run"):
        export_sparse_encoder(source, tmp_path / "made", "tiny")
    assert not (tmp_path / "ran").exists()


def test_the_heaviest_are_kept() -> None:
    weights = np.array([0.5, 0, 2, 1, 1, -3, 1], np.float32)
    found = select_heaviest(weights, 3)
    assert found.terms.tolist() == [2, 3, 4]  # of equal ones the first
    assert found.weights.tolist() == [2, 1, 1]
    assert select_heaviest(weights, 99).terms.tolist() == [0, 2, 3, 4, 6]
    assert select_heaviest(weights[5:6], 3).terms.tolist() == []


def test_what_was_kept_is_checked(tmp_path: Path, known_inference_free: Path) -> None:
    folder, spec = made(tmp_path / "made", known_inference_free)
    assert load_spec(folder, query=True) == load_spec(folder, query=False) == spec
    for name, query in (("model.onnx", False), ("query_weights.npy", True), ("query_tokenizer.json", True)):
        broken = tmp_path / name
        shutil.copytree(folder, broken)
        data = bytearray((broken / name).read_bytes())
        data[-9] ^= 1
        (broken / name).write_bytes(data)
        with pytest.raises(EncoderError, match=f"sparse encoder changed: .*{name} has sha256"):
            load_spec(broken, query=query)
        assert load_spec(broken, query=not query) == spec  # the other side is whole
        (broken / name).unlink()
        with pytest.raises(EncoderError, match=f"sparse encoder missing: .*{name}"):
            load_spec(broken, query=query)
    said: dict[str, Any] = json.loads((folder / sparse.SPEC).read_text())
    for change, told in (
        ({"format": 99}, "of format 99, not 1"),
        ({"max_tokens": 5}, "is not what was exported"),
        ({"colour": "red"}, "unreadable"),
    ):
        (folder / sparse.SPEC).write_text(json.dumps({**said, **change}))
        with pytest.raises(EncoderError, match=told):
            open_query(folder)


def test_it_is_exported_once_and_found_by_folder_and_name(tmp_path: Path, known_splade: Path) -> None:
    settings = replace(Settings(), models=str(tmp_path / "models"), cache=str(tmp_path / "cache"))
    with pytest.raises(EncoderError, match=r"no sparse encoder 'tiny': it is neither a folder .*in the models folder"):
        find_sparse_encoder("tiny", settings)
    shutil.copytree(known_splade, tmp_path / "models" / "tiny")
    source = find_sparse_encoder("tiny", settings)
    assert (source.name, source.origin) == ("tiny", "models folder")
    assert not is_sparse_encoder_cached(source, tmp_path / "cache")
    folder = cache_sparse_encoder(source, tmp_path / "cache")
    spec = load_spec(folder, query=False)
    assert is_sparse_encoder_cached(source, tmp_path / "cache")
    assert cache_sparse_encoder(source, tmp_path / "cache") == folder
    again = find_sparse_encoder(str(folder), settings)  # an exported folder is as good
    assert (cache_sparse_encoder(again, tmp_path / "elsewhere"), sparse.digest_weights(folder)) == (
        folder,
        spec.weights_sha256,
    )
    assert identify_weights(sparse.digest_weights(source.folder)) == identify_weights(spec.weights_sha256)
    # A changed weight is another model.
    data = bytearray((source.folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (source.folder / "model.safetensors").write_bytes(data)
    assert identify_weights(sparse.digest_weights(source.folder)) != identify_weights(spec.weights_sha256)
    assert not is_sparse_encoder_cached(source, tmp_path / "cache")


def test_a_question_needs_neither_torch_nor_transformers(tmp_path: Path, known_splade: Path) -> None:
    folder, _ = made(tmp_path / "made", known_splade)
    code = (
        "import sys; from pathlib import Path; from helix.encoders.sparse import open_query\n"
        f"found = open_query(Path({str(folder)!r}), 1).encode('car')\n"
        "assert len(found.terms) == 3, found\n"
        "assert not {'torch', 'transformers', 'sentence_transformers', 'onnx'} & {m.split('.')[0] for m in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pooling_is_laid_behind_the_logits_of_older_graphs_too(tmp_path: Path) -> None:
    """Until opset 18 the axes of a maximum are an attribute: by hand, a graph whose logits are its input."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    logits = np.array([[[1, -2, 0.5], [3, -1, 0], [9, 9, 9]]], np.float32)
    mask = np.array([[1, 1, 0]], np.int64)
    for opset in (17, 18):
        shape = ["b", "t", 3]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["given"], ["logits"])],
            "g",
            [
                helper.make_tensor_value_info("given", TensorProto.FLOAT, shape),
                helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["b", "t"]),
            ],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
        )
        for strategy, expected in (
            ("max", [np.log(4), 0, np.log(1.5)]),
            ("sum", [np.log(2) + np.log(4), 0, np.log(1.5)]),
        ):
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
            onnx.save(model, tmp_path / "model.onnx")
            pool_graph(tmp_path / "model.onnx", strategy, "relu")
            session = ort.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
            (found,) = session.run(None, {"given": logits, "attention_mask": mask})
            assert found.tolist() == [pytest.approx(expected)]
    assert len(VOCABULARY) == len(set(VOCABULARY))
