"""Encoders of every shape: read from their folders, exported, and compared with sentence-transformers' own vectors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder, EncoderSpec, fingerprint_encoder, load_spec, measure_session, pool_tokens
from helix.encoders.dense_export import describe_encoder, export_encoder
from helix.encoders.onnx_export import PRECISIONS
from helix.encoders.registry import MODELS, Weights
from helix.encoders.session import batch_by_length
from helix.errors import EncoderError
from helix.settings import Settings
from helix.util.hashing import hash_file
from tests.support.tiny_encoder import WORDS, sentence_encoder

TEXTS = ["walnut bread", "a", "bread with olive oil and salt, and more bread", "Olive", "salt walnut olive bread oil"]


def export(source: Path, target: Path, precision: str = "fp32", weights: Weights | None = None) -> Encoder:
    target.mkdir(parents=True)
    export_encoder(weights or Weights(registry.describe_model(source), source, "path"), target, precision)
    return Encoder(target)


def embed_by_library(source: Path, texts: list[str], **options: Any) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(source), device="cpu").encode(texts, normalize_embeddings=True, **options)


def update(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The usual tiny encoder. Read it only."""
    return sentence_encoder(tmp_path_factory.mktemp("source") / "tiny")


@pytest.fixture(scope="module")
def plain(source: Path) -> Encoder:
    """Its export in fp32."""
    return export(source, source.parent / "fp32")


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("bert", "mean"), ("bert", "cls"), ("bert", "lasttoken"), ("bert", "max"), ("xlm-roberta", "cls")],
)
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, kind: str, pooling: str) -> None:
    source = sentence_encoder(tmp_path / "tiny", kind, pooling=pooling)
    exact = embed_by_library(source, TEXTS)
    plain = export(source, tmp_path / "fp32")
    assert plain.spec.quantising == PRECISIONS["fp32"]
    np.testing.assert_allclose(plain.passages(TEXTS), exact, atol=1e-4)
    np.testing.assert_allclose(plain.query(TEXTS[2]), exact[2], atol=1e-4)
    assert (exact @ exact.T - np.eye(len(TEXTS))).max() < 0.98  # else any vector would do
    if pooling in ("mean", "lasttoken") or kind == "xlm-roberta":  # pooling is no part of the graph
        small = export(source, tmp_path / "int8", "int8")
        assert (small.folder / "model.onnx").stat().st_size < (plain.folder / "model.onnx").stat().st_size / 2
        assert (small.passages(TEXTS) * exact).sum(1).min() > 0.97


def test_prompts_precede_the_texts(tmp_path: Path) -> None:
    prompts = {"query": "olive: ", "document": "salt: "}
    source = sentence_encoder(tmp_path / "tiny", prompts=prompts, normalise=False)
    encoder = export(source, tmp_path / "fp32")
    assert (encoder.spec.query_prefix, encoder.spec.passage_prefix) == ("olive: ", "salt: ")
    for vectors, prompt in ((encoder.queries(TEXTS), "olive: "), (encoder.passages(TEXTS), "salt: ")):
        np.testing.assert_allclose(vectors, embed_by_library(source, TEXTS, prompt=prompt), atol=1e-4)
    assert np.abs(encoder.queries(TEXTS) - encoder.passages(TEXTS)).max() > 0.01


def test_long_texts_are_cut_at_the_models_context(tmp_path: Path) -> None:
    source = sentence_encoder(tmp_path / "tiny", "xlm-roberta", positions=34)
    assert registry.describe_model(source).context == 32  # positions count from the padding's id + 1
    encoder = export(source, tmp_path / "fp32")
    long = "walnut " * 30 + "bread " * 100
    np.testing.assert_allclose(encoder.passages([long]), embed_by_library(source, ["walnut " * 30]), atol=1e-4)
    assert encoder.tokens([long])[0].shape == (32,)
    padded = encoder.feed(encoder.tokens(["walnut bread", "salt"]))
    assert padded["input_ids"][1].tolist() == [0, 8, 2, 1]  # this family's padding is 1
    assert padded["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_texts_are_lower_cased_if_the_folder_says_so(plain: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_a_folder_describes_its_model` reads the option."""
    from tokenizers.normalizers import Sequence

    monkeypatch.setattr(plain.tokenizer, "normalizer", Sequence([]))  # the tiny one's own lower-cases as well
    for lower in (True, False):
        monkeypatch.setattr(plain, "spec", replace(plain.spec, lower=lower))
        assert (plain.tokens(["OLIVE Oil"])[0].tolist() == plain.tokens(["olive oil"])[0].tolist()) is lower


def test_a_matryoshka_model_is_cut_in_everything(tmp_path: Path, source: Path, plain: Encoder) -> None:
    source = Path(shutil.copytree(source, tmp_path / "tiny"))
    update(source / "config.json", matryoshka_dimensions=[64, 32, 16])
    model = registry.describe_model(source)
    assert (model.dim, model.matryoshka) == (64, (32, 16))
    weights = registry.choose_encoder(Settings(encoder=f"{source}@16"))
    assert (weights.model.name, weights.model.dim, weights.model.width) == ("tiny@16", 16, 64)
    with pytest.raises(EncoderError, match="tiny has no vectors of 24 dimensions; it can be cut to 32, 16"):
        registry.choose_encoder(Settings(encoder=f"{source}@24"))
    short = export(source, tmp_path / "cut", weights=weights)
    expected = plain.passages(TEXTS)[:, :16]
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(short.passages(TEXTS), expected, atol=1e-5)
    assert short.dim == 16
    assert short.spec.fingerprint != plain.spec.fingerprint  # they never meet in one lineage


def test_centring_is_a_layer_norm() -> None:
    import torch

    rng = np.random.default_rng(0)
    hidden, mask = rng.normal(1, 1, (3, 5, 32)).astype(np.float32), np.ones((3, 5), np.int64)
    spec = EncoderSpec("x", 8, "mean", "", "", 256, "", "", {}, "", centred=True)
    normed = torch.nn.functional.layer_norm(torch.tensor(hidden).mean(1), (32,))[:, :8]
    expected = torch.nn.functional.normalize(normed, dim=1).numpy()
    np.testing.assert_allclose(pool_tokens(hidden, mask, spec), expected, atol=1e-5)
    assert np.abs(pool_tokens(hidden, mask, replace(spec, centred=False)) - expected).max() > 0.05


def test_an_architecture_of_no_library_is_taken_from_its_onnx_file_and_its_code_never_runs(
    tmp_path: Path, source: Path, plain: Encoder
) -> None:
    exact = embed_by_library(source, TEXTS)
    source = Path(shutil.copytree(source, tmp_path / "tiny"))
    code = {"AutoConfig": "odd.Config", "AutoModel": "odd.Model"}
    update(source / "config.json", auto_map=code, model_type="nomic_bert")
    (source / "odd.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(EncoderError, match="nomic_bert is in no library here, Helix runs no code that comes with"):
        export(source, tmp_path / "none", "int8")
    (source / "onnx").mkdir()
    shutil.copy(plain.folder / "model.onnx", source / "onnx")
    (source / "model.safetensors").unlink()
    assert registry.choose_encoder(Settings(encoder=str(source))).origin == "path"
    assert (export(source, tmp_path / "int8", "int8").passages(TEXTS) * exact).sum(1).min() > 0.97
    assert not (tmp_path / "ran").exists()


def write_configuration(folder: Path, **files: Any) -> Path:
    """Write configuration without weights; `a__b` is a/b.json."""
    usual = {"config": {"hidden_size": 64, "model_type": "bert", "max_position_embeddings": 512}}
    for name, content in (usual | files).items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


MODULES = [{"path": "", "type": "sentence_transformers.models.Transformer"}]


def list_types(*types: str) -> list[dict[str, str]]:
    """Return the content of a modules.json."""
    prefix = "sentence_transformers.models."
    named = [name if "." in name else f"{prefix}{name}" for name in types]
    return [{"path": f"{i}_{name}" if i else "", "type": name} for i, name in enumerate(named)]


def test_unsupported_and_unreadable_configurations_are_refused_by_name(tmp_path: Path) -> None:
    two = {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}
    prompted = {"prompts": {"query": "ask: "}}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"1_Pooling__config": {"pooling_mode": "weightedmean"}}, "weightedmean"),
        ({"1_Pooling__config": two}, r"pooling_mode_cls_token \+ pooling_mode_max_tokens .* without a modules.json"),
        ({"modules": list_types("Router")}, r"separate paths for questions and documents \(Router\)"),
        ({"modules": list_types("Transformer", "Asym")}, r"separate paths for questions and documents \(Asym\)"),
        ({"modules": list_types("BoW")}, r"without a tokenizer.json \(the first module is a BoW\)"),
        ({"modules": list_types("CLIPModel")}, "the first module is a CLIPModel"),
        ({"config_sentence_transformers": {"similarity_fn_name": "dot"}}, "similarity_fn_name: dot"),
        (
            {
                "modules": list_types("Transformer", "Pooling"),
                "1_sentence_transformers.models.Pooling__config": {"include_prompt": False},
                "config_sentence_transformers": prompted,
            },
            "a pooling without the prompt .*include_prompt",
        ),
    ]
    for i, (files, message) in enumerate(cases):
        with pytest.raises(EncoderError, match=f"{message}.* not supported"):
            registry.describe_model(write_configuration(tmp_path / str(i), **files))
    own = write_configuration(tmp_path / "own", modules=list_types("Transformer", "custom_st.Pooler"))
    with pytest.raises(EncoderError, match=r"module of its own \(custom_st.Pooler\); Helix runs no code"):
        registry.describe_model(own)
    folder = write_configuration(tmp_path / "odd", config={"model_type": "bert"})
    with pytest.raises(EncoderError, match="does not say how wide a vector is"):
        registry.describe_model(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(EncoderError, match=r"config\.json is unreadable"):
        registry.describe_model(folder)


def test_a_folder_describes_its_model(tmp_path: Path) -> None:
    folder = write_configuration(
        tmp_path / "odd",
        modules=[*MODULES, {"path": "pool", "type": "sentence_transformers.models.Pooling"}],
        pool__config={"pooling_mode": "lasttoken"},
        sentence_bert_config={"max_seq_length": 128, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"q": "ask: "}, "default_prompt_name": "q", "truncate_dim": 32},
    )
    model = registry.describe_model(folder)
    assert (model.pooling, model.context, model.lower, model.dim, model.width) == ("last", 128, True, 32, 64)
    assert (model.query_prefix, model.passage_prefix) == ("ask: ", "ask: ")
    wide = {"config": {"hidden_size": 8}, "sentence_bert_config": {"max_seq_length": 8192}}
    long = registry.describe_model(write_configuration(tmp_path / "long", **wide))
    assert (long.context, long.max_tokens) == (512, 256)


def test_registered_models_are_complete_and_cut_by_name() -> None:
    small = ["bge-small-en-v1.5", "all-MiniLM-L6-v2", "gte-small", "e5-small", "multilingual-e5-small"]
    large = [
        "all-mpnet-base-v2",
        "nomic-embed-text-v1.5",
        "bge-base-en-v1.5",
        "mxbai-embed-large-v1",
        "arctic-embed-l-v2.0",
    ]
    assert list(MODELS) == small + large
    for model in MODELS.values():
        assert model.pooling in registry.POOLINGS
        assert model.licence in ("MIT", "Apache-2.0")
        assert 0 < model.max_tokens <= registry.WINDOW <= model.context
        assert all(dims < model.dim for dims in model.matryoshka)
        for prefix in (model.query_prefix, model.passage_prefix):
            assert prefix == "" or prefix.endswith(": ")  # the text follows at once
    nomic = registry.cut_model(MODELS["nomic-embed-text-v1.5"], 256)
    assert (nomic.name, nomic.dim, nomic.width, nomic.matryoshka) == ("nomic-embed-text-v1.5@256", 256, 768, (128, 64))
    assert nomic.centred
    assert registry.cut_model(nomic, 256) == nomic
    with pytest.raises(EncoderError, match="it cannot be cut"):
        registry.cut_model(MODELS["bge-base-en-v1.5"], 256)


def test_a_model_is_found_by_its_onnx_file(tmp_path: Path) -> None:
    name = "nomic-embed-text-v1.5"
    folder, settings = write_configuration(tmp_path / name), Settings(models=str(tmp_path))
    assert registry.find_encoder(name, settings) is None
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").touch()
    weights = registry.find_encoder(name, settings)
    assert weights is not None
    assert weights.model is MODELS[name]
    chosen = registry.choose_encoder(replace(settings, encoder=f"{name}@128"))
    assert (chosen.model.dim, chosen.folder) == (128, folder)


def test_pull_fetches_the_weights_in_the_form_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    from pipelines.training import models

    fetched: dict[str, set[str]] = {}

    def download(hub: str, local_dir: object, allow_patterns: list[str]) -> None:
        fetched[hub] = set(allow_patterns)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    settings = Settings(models=str(tmp_path))
    for name in ("nomic-embed-text-v1.5", "gte-small"):
        models.pull_model(name, settings)
    assert list(fetched) == ["nomic-ai/nomic-embed-text-v1.5", "thenlper/gte-small"]
    first, second = fetched.values()
    assert first ^ second == {"onnx/model.onnx", "model.safetensors"}
    rows = {row["name"]: row for row in models.list_models(settings)}
    assert (rows["arctic-embed-l-v2.0"]["context"], rows["arctic-embed-l-v2.0"]["matryoshka"]) == (8192, [256])


def test_an_older_folder_is_read_with_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"graph")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    files = {name: hash_file(tmp_path / name) for name in ("model.onnx", "tokenizer.json")}
    old = {"name": "all-MiniLM-L6-v2", "dim": 384, "pooling": "mean", "query_prefix": "", "passage_prefix": ""}
    old |= {"max_tokens": 256, "quantising": "dynamic int8, per channel", "weights_sha256": "0" * 64}
    old |= {"files": files, "fingerprint": fingerprint_encoder(files)}
    (tmp_path / "encoder.json").write_bytes(orjson.dumps(old))
    spec = load_spec(tmp_path, expect=fingerprint_encoder(files))
    assert (spec.centred, spec.lower, spec.pad, spec.recipe) == (False, False, 0, "")


def test_a_changed_recipe_is_another_encoder(source: Path, plain: Encoder, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain.folder, tmp_path / "fp32"))
    update(folder / "encoder.json", pooling="cls")
    with pytest.raises(EncoderError, match=r"encoder changed: .*encoder\.json"):
        load_spec(folder)
    model = replace(registry.describe_model(source), query_prefix="ask: ")
    describe_encoder(folder, Weights(model, source, "path"), "fp32")
    assert load_spec(folder).fingerprint != plain.spec.fingerprint


def test_batches_hold_texts_of_similar_length_and_each_once() -> None:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(0.03, 700), 256)
    batches = list(batch_by_length([np.zeros(length, np.int32) for length in lengths], 32))
    assert sorted(np.concatenate(batches).tolist()) == list(range(700))
    for positions in batches:
        assert 1 <= len(positions) <= 32
        assert len(positions) == 1 or len(positions) * lengths[positions].max() <= 1_024
    padded = sum(len(positions) * lengths[positions].max() for positions in batches)
    assert padded < 1.1 * lengths.sum()
    assert list(batch_by_length([], 32)) == []
    assert [batch.tolist() for batch in batch_by_length([np.zeros(5_000, np.int32)] * 2, 32)] == [[0], [1]]


def test_the_same_texts_give_the_same_bytes_in_any_order(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over several windows: one is tokenised while another is embedded."""
    encoder = export(source, tmp_path / "int8", "int8")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(100)]
    monkeypatch.setattr("helix.encoders.dense._WINDOW", 16)
    counted: list[int] = []
    vectors = encoder.passages(texts, 8, counted.append)
    assert sum(counted) == len(set(texts))
    shuffled = rng.permutation(len(texts)).tolist()
    again = encoder.passages([texts[i] for i in [*shuffled, *shuffled[:7]]], 8)
    assert again[: len(texts)].tobytes() == vectors[shuffled].tobytes()
    alone = np.stack([encoder.passages([text])[0] for text in texts])
    assert (alone * vectors).sum(1).min() > 0.97  # int8 activations share a range in a batch


def test_a_fault_of_the_tokeniser_reaches_the_caller(plain: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix.encoders.dense._WINDOW", 8)
    tokens, calls = plain.tokens, []

    def fail(texts: list[str]) -> Any:
        calls.append(len(texts))
        if len(calls) == 2:
            raise MemoryError("out of tokens")
        return tokens(texts)

    monkeypatch.setattr(plain, "tokens", fail)
    with pytest.raises(MemoryError, match="out of tokens"):
        plain.passages([f"walnut {letter}" for letter in "abcdefghijklmnopqrst"])


def test_the_session_is_measured_on_the_same_work(plain: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    run = plain.run
    monkeypatch.setattr(plain, "run", lambda feed: runs.append(len(feed["input_ids"])) or run(feed))
    assert measure_session(plain, TEXTS, 2) > 0
    plain.passages(TEXTS, 2)
    assert runs == [2, 2, 1] * 2
