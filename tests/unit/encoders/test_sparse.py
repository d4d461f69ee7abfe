"""Sparse encoders: tiny real models, exported and compared with sentence-transformers itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli.main import main
from helix.encoders import sparse, sparse_export
from helix.encoders.onnx_export import choose_precision
from helix.encoders.sparse import (
    DocumentEncoder,
    SparseSpec,
    digest_weights,
    find_sparse_encoder,
    identify_weights,
    load_spec,
    open_query,
    select_heaviest,
)
from helix.errors import EncoderError
from helix.settings import load
from tests.support import tiny_sparse
from tests.support.tiny_sparse import VOCABULARY, read_export, splade, term

TEXTS = [
    "the car is in the garage",
    "",
    "walnut bread . walnut bread",
    "unheard words alone",
    "olive oil " * 60,  # longer than the window
    "Priya booked a flight",
]

Exported = tuple[Path, SparseSpec]

MODELS: dict[str, Callable[[Path, str], Path]] = {
    "splade": splade,
    "sum twice": partial(splade, pooling="sum", activation="log1p_relu"),
    "no modules": tiny_sparse.masked_model,
    "inference-free": tiny_sparse.inference_free,
    "prompts": partial(splade, prompts={"query": "car ", "document": "olive "}),
}


def export(source: Path, target: Path, precision: str = "fp32") -> Exported:
    target.mkdir()
    return target, sparse_export.export_sparse_encoder(source, target, "tiny", precision=precision)


def damage(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SPLADE of random weights. Read it only."""
    return splade(tmp_path_factory.mktemp("source") / "model", "random")


@pytest.fixture(scope="module")
def plain(source: Path) -> Exported:
    """Its export in fp32. Read it only."""
    return export(source, source.parent / "plain")


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_gives_the_models_weights(tmp_path: Path, name: str) -> None:
    from sentence_transformers import SparseEncoder

    kind = "inference-free" if name == "inference-free" else "splade"
    source = MODELS[name](tmp_path / "model", "random")
    folder, spec = export(source, tmp_path / "export")
    assert (spec.kind, sparse_export.sparse_kind(source), spec.precision) == (kind, kind, "fp32")
    assert len(VOCABULARY) == len(set(VOCABULARY))
    model = SparseEncoder(str(source), device="cpu")
    documents, queries = DocumentEncoder(folder, 1), open_query(folder, 1)
    expected = model.encode_document(TEXTS, convert_to_sparse_tensor=False).numpy()
    assert np.abs(documents.weights(TEXTS) - expected).max() < 1e-4
    assert expected.max() > 0.5
    # The table's tokenizer rejects an empty text.
    texts = [text for text in TEXTS if text or kind == "splade"]
    rows = [model.encode_query(text, convert_to_sparse_tensor=False).numpy() for text in texts]
    encoded = [*documents.encode(TEXTS), *map(queries.encode, texts)]
    for weights, row in zip(encoded, [*expected, *rows], strict=True):
        assert weights.terms.tolist() == np.flatnonzero(row).tolist()
        assert weights.weights == pytest.approx(row[row > 0], abs=1e-4)
        assert (weights.terms.dtype, weights.weights.dtype) == (np.uint32, np.float32)
    if kind == "inference-free":
        assert queries.encode("").terms.tolist() == []


def test_a_word_expands_as_the_model_says(known_splade: Path, known_inference_free: Path) -> None:
    (document,) = DocumentEncoder(read_export(known_splade), 1).encode(["the car"])
    weights = dict(zip(document.terms.tolist(), document.weights.tolist(), strict=True))
    assert set(weights) == {term("car"), term("automobile"), term("engine")}
    assert weights[term("car")] == pytest.approx(np.log1p(tiny_sparse.OWN), abs=0.05)
    assert weights[term("automobile")] == pytest.approx(np.log1p(3.0), abs=0.05)
    query = open_query(read_export(known_inference_free), 1).encode("the car , the automobile")
    assert query.terms.tolist() == sorted(map(term, ("car", "automobile", "the", ",")))  # a repeated word counts once
    assert dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))[term("automobile")] == 1.5


def test_int8_is_close_and_chosen_if_it_is_better(tmp_path: Path, source: Path, plain: Exported) -> None:
    folder, spec = export(source, tmp_path / "int8", "int8")
    assert spec.precision == "int8"
    first, second = (DocumentEncoder(each, 1).weights(TEXTS) for each in (folder, plain[0]))
    cosine = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert spec.measured["agreement"] > 0.9
    assert cosine.min() > 0.9
    assert not np.array_equal(first, second)
    for agreement, int8, fp32, expected in ((0.99, 1, 2, "int8"), (0.97, 1, 2, "fp32"), (1, 2, 1, "fp32")):
        figures = {"agreement": agreement, "int8_seconds": int8, "fp32_seconds": fp32}
        assert choose_precision(figures, sparse_export.LEAST_AGREEMENT) == expected, figures


def test_a_graph_with_other_weights_is_refused(tmp_path: Path, source: Path, plain: Exported) -> None:
    from sentence_transformers import SparseEncoder

    folder, spec = plain
    assert sparse_export.check_graph(spec, folder, SparseEncoder(str(source), device="cpu")) == spec
    other = splade(tmp_path / "other", "random", activation="log1p_relu")
    with pytest.raises(EncoderError, match=r"tiny is off by \d\.\d+ from the model"):
        sparse_export.check_graph(spec, folder, SparseEncoder(str(other), device="cpu"))


def test_a_question_of_many_terms_is_cut_to_the_heaviest(
    tmp_path: Path, source: Path, plain: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_query(plain[0], 1).encode(TEXTS[0])
    assert len(whole.terms) > 3
    monkeypatch.setattr(sparse, "QUERY_TERMS", 3)
    monkeypatch.setattr(sparse, "DOCUMENT_TERMS", 2)
    folder, _ = export(source, tmp_path / "cut")  # no error of the graph
    assert sorted(open_query(folder, 1).encode(TEXTS[0]).weights) == sorted(whole.weights)[-3:]
    (document,) = DocumentEncoder(folder, 1).encode(TEXTS[:1])
    assert sorted(document.weights) == sorted(whole.weights)[-2:]


def test_a_roberta_reads_no_token_without_a_position(tmp_path: Path) -> None:
    """Its positions count from the padding's id + 1; its tokenizer counts all of them."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
    from transformers import RobertaConfig, RobertaForMaskedLM

    plain = tiny_sparse.masked_model(tmp_path / "plain", "random", length=24)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    size |= {"vocab_size": len(VOCABULARY), "max_position_embeddings": 24, "type_vocab_size": 2, "pad_token_id": 0}
    RobertaForMaskedLM(RobertaConfig(**size)).eval().save_pretrained(plain)
    modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules, device="cpu").save_pretrained(str(tmp_path / "model"), create_model_card=False)
    folder, spec = export(tmp_path / "model", tmp_path / "export")
    assert spec.max_tokens == 23
    assert DocumentEncoder(folder, 1).weights(["olive oil " * 60]).any()


def test_a_model_of_another_kind_is_named(tmp_path: Path) -> None:
    csr = tiny_sparse.auto_encoder(tmp_path / "csr")
    plain = tiny_sparse.masked_model(tmp_path / "plain")
    config = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    free = tiny_sparse.inference_free(tmp_path / "free")
    routes = json.loads((free / "router_config.json").read_text())
    routes["structure"]["query"] = routes["structure"]["document"]
    (free / "router_config.json").write_text(json.dumps(routes))
    for folder, message in (
        (csr, r"csr is made of Transformer \+ Pooling \+ SparseAutoEncoder and is no sparse"),
        (plain, "plain is BertModel, not one for masked language modelling"),
        (free, r"document: Transformer \+ SpladePooling, query: Transformer \+ SpladePooling"),
    ):
        with pytest.raises(EncoderError, match=message):
            sparse_export.sparse_kind(folder)


@pytest.mark.parametrize("place", ["modules.json", "router_config.json"])
def test_code_of_a_model_never_runs(tmp_path: Path, known_inference_free: Path, place: str) -> None:
    """sentence-transformers would import it: it trusts a local folder."""
    source = tmp_path / "model"
    shutil.copytree(known_inference_free, source)
    (source / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Module: ...\n")
    content = json.loads((source / place).read_text())
    if place == "modules.json":
        content[0]["type"] = "theirs.Module"
    else:
        content["types"] = dict.fromkeys(content["types"], "theirs.Module")
    (source / place).write_text(json.dumps(content))
    with pytest.raises(EncoderError, match=r"brings code of its own \(theirs\.Module\), which Helix does not run"):
        export(source, tmp_path / "export")
    assert not (tmp_path / "ran").exists()


def test_the_heaviest_terms_are_selected() -> None:
    weights = np.array([0.5, 0, 2, 1, 1, -3, 1], np.float32)
    three = select_heaviest(weights, 3)
    assert three.terms.tolist() == [2, 3, 4]  # ties keep the first
    assert three.weights.tolist() == [2, 1, 1]
    assert select_heaviest(weights, 99).terms.tolist() == [0, 2, 3, 4, 6]
    assert select_heaviest(weights[5:6], 3).terms.tolist() == []


def test_damaged_exports_are_named(tmp_path: Path, known_inference_free: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(read_export(known_inference_free), folder)
    spec = load_spec(folder, query=True)
    assert load_spec(folder, query=False) == spec
    for name, query in (("model.onnx", False), ("query_weights.npy", True), ("query_tokenizer.json", True)):
        broken = tmp_path / name
        shutil.copytree(folder, broken)
        damage(broken / name, -9)
        with pytest.raises(EncoderError, match=f"sparse encoder changed: .*{name} has sha256"):
            load_spec(broken, query=query)
        assert load_spec(broken, query=not query) == spec  # the other side is undamaged
        (broken / name).unlink()
        with pytest.raises(EncoderError, match=f"sparse encoder missing: .*{name}"):
            load_spec(broken, query=query)
    content = json.loads((folder / sparse.SPEC).read_text())
    for change, message in (
        ({"format": 99}, "of format 99, not 1"),
        ({"max_tokens": 5}, "is not what was exported"),
        ({"colour": "red"}, "unreadable"),
    ):
        (folder / sparse.SPEC).write_text(json.dumps({**content, **change}))
        with pytest.raises(EncoderError, match=message):
            open_query(folder)


@pytest.mark.usefixtures("exports_here")
def test_an_encoder_is_listed_exported_once_and_found_by_folder_and_name(
    tmp_path: Path, known_splade: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, models, name = tmp_path / "cache", tmp_path / "models", "Splade_PP_en_v1"
    for variable, value in (("CACHE", cache), ("MODELS", models), ("SPARSE_ENCODER", name)):
        monkeypatch.setenv(f"HELIX_{variable}", str(value))
    settings = load()
    with pytest.raises(EncoderError, match=r"no sparse encoder 'tiny': it is neither a folder .*in the models folder"):
        find_sparse_encoder("tiny", settings)
    shutil.copytree(known_splade, models / name)

    def read_output(*command: str) -> Any:
        assert main(["models", *command, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    row = next(row for row in read_output() if row["name"] == name)
    assert (row["use"], row["kind"], row["licence"], row["default"]) == ("sparse", "splade", "Apache-2.0", True)
    source = find_sparse_encoder(name, settings)
    assert (source.name, source.origin) == (name, "models folder")
    assert not sparse_export.is_sparse_encoder_cached(source, cache)
    made = read_output("export", name)
    assert (made["kind"], made["setting"]) == ("splade", f"HELIX_SPARSE_ENCODER={name}")
    rows = {row["name"]: row for row in read_output()}
    assert rows[name]["exported"] == made["folder"]
    assert rows["opensearch-neural-sparse-encoding-doc-v3-distill"]["folder"] is None
    folder = Path(made["folder"])
    spec = load_spec(folder, query=False)
    assert sparse_export.is_sparse_encoder_cached(source, cache)
    assert sparse_export.cache_sparse_encoder(source, cache) == folder
    again = find_sparse_encoder(str(folder), settings)  # an exported folder will do
    assert sparse_export.cache_sparse_encoder(again, tmp_path / "elsewhere") == folder
    assert digest_weights(folder) == spec.weights_sha256
    assert identify_weights(digest_weights(source.folder)) == identify_weights(spec.weights_sha256)
    # A changed weight is another model.
    damage(source.folder / "model.safetensors")
    assert identify_weights(digest_weights(source.folder)) != identify_weights(spec.weights_sha256)
    assert not sparse_export.is_sparse_encoder_cached(source, cache)


def test_a_question_needs_neither_torch_nor_transformers(known_splade: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from helix.encoders.sparse import open_query\n"
        f"query = open_query(Path({str(read_export(known_splade))!r}), 1).encode('car')\n"
        "assert len(query.terms) == 3, query\n"
        "assert not {'torch', 'transformers', 'sentence_transformers', 'onnx'} & {m.split('.')[0] for m in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pooling_follows_the_logits_of_older_graphs(tmp_path: Path) -> None:
    """Until opset 18 the axes of a maximum are an attribute: by hand, a graph whose logits are its input."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    logits = np.array([[[1, -2, 0.5], [3, -1, 0], [9, 9, 9]]], np.float32)
    feed = {"given": logits, "attention_mask": np.array([[1, 1, 0]], np.int64)}
    given, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "t", 3]) for n in ("given", "logits"))
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["b", "t"])
    graph = helper.make_graph([helper.make_node("Identity", ["given"], ["logits"])], "g", [given, mask], [out])
    path = tmp_path / "model.onnx"
    for opset, (strategy, first) in product((17, 18), (("max", np.log(4)), ("sum", np.log(2) + np.log(4)))):
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
        sparse_export.pool_graph(path, strategy, "relu")
        (pooled,) = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feed)
        assert pooled.tolist() == [pytest.approx([first, 0, np.log(1.5)])]
