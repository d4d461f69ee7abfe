"""Encoders of every shape: read from their folders, exported, and held against sentence-transformers' own vectors.

The models are real and tiny: random weights, made here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder, Spec, fingerprint, load_spec, pooled, raw_rate, runs
from helix.encoders.dense_export import PRECISIONS, describe, export
from helix.encoders.registry import MODELS, Weights
from helix.errors import EncoderError
from helix.settings import Settings

TEXTS = ["walnut bread", "a", "bread with olive oil and salt, and more bread", "Olive", "salt walnut olive bread oil"]
WORDS = ("walnut", "bread", "olive", "oil", "salt", "and", "more", "with", *"abcdefghijklmnopqrstuvwxyz,")


def tiny(folder: Path, kind: str = "bert", **wanted: Any) -> Path:
    """A sentence-transformers folder: `kind` of transformer, pooling=, normalise=, prompts=, positions=."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    roberta = kind == "xlm-roberta"
    special = ["<s>", "<pad>", "</s>", "<unk>"] if roberta else ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    begin, pad, end, unknown = special if roberta else (special[2], special[0], special[3], special[1])
    vocabulary = {word: i for i, word in enumerate((*special, *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(begin, vocabulary[begin]), (end, vocabulary[end])]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, unk_token=unknown, cls_token=begin, sep_token=end
    )
    shape = {
        "vocab_size": len(vocabulary),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": wanted.get("positions", 66),
        "pad_token_id": vocabulary[pad],
        "initializer_range": 0.3,  # vectors that differ from text to text
    }
    model = XLMRobertaModel(XLMRobertaConfig(**shape)) if roberta else BertModel(BertConfig(**shape))
    plain = folder.parent / f"{folder.name}-plain"
    model.save_pretrained(plain)
    fast.save_pretrained(plain)
    modules = [Transformer(str(plain)), Pooling(64, pooling_mode=wanted.get("pooling", "mean"))]
    if wanted.get("normalise", True):
        modules.append(Normalize())
    SentenceTransformer(modules=modules, prompts=wanted.get("prompts"), device="cpu").save(str(folder))
    return folder


def exported(source: Path, target: Path, precision: str) -> Encoder:
    target.mkdir(parents=True)
    weights = Weights(registry.describe(source), source, "path")
    export(source, target, precision)
    describe(target, weights, precision)
    return Encoder(target)


def theirs(source: Path, texts: list[str], **how: Any) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(source), device="cpu").encode(texts, normalize_embeddings=True, **how)


# ------------------------------------------------------------ vectors


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("bert", "mean"), ("bert", "cls"), ("bert", "lasttoken"), ("bert", "max"), ("xlm-roberta", "cls")],
)
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, kind: str, pooling: str) -> None:
    source = tiny(tmp_path / "tiny", kind, pooling=pooling)
    exact = theirs(source, TEXTS)
    plain = exported(source, tmp_path / "fp32", "fp32")
    assert plain.spec.quantising == PRECISIONS["fp32"]
    np.testing.assert_allclose(plain.passages(TEXTS), exact, atol=1e-4)
    np.testing.assert_allclose(plain.query(TEXTS[2]), exact[2], atol=1e-4)
    assert (exact @ exact.T - np.eye(len(TEXTS))).max() < 0.98  # else any vector would do
    small = exported(source, tmp_path / "int8", "int8")
    assert (small.folder / "model.onnx").stat().st_size < (plain.folder / "model.onnx").stat().st_size / 2
    assert (small.passages(TEXTS) * exact).sum(1).min() > 0.97


def test_prompts_go_before_the_texts(tmp_path: Path) -> None:
    source = tiny(tmp_path / "tiny", prompts={"query": "olive: ", "document": "salt: "}, normalise=False)
    encoder = exported(source, tmp_path / "fp32", "fp32")
    assert (encoder.spec.query_prefix, encoder.spec.passage_prefix) == ("olive: ", "salt: ")
    np.testing.assert_allclose(encoder.queries(TEXTS), theirs(source, TEXTS, prompt="olive: "), atol=1e-4)
    np.testing.assert_allclose(encoder.passages(TEXTS), theirs(source, TEXTS, prompt="salt: "), atol=1e-4)
    assert np.abs(encoder.queries(TEXTS) - encoder.passages(TEXTS)).max() > 0.01


def test_long_texts_are_cut_at_what_the_model_takes(tmp_path: Path) -> None:
    source = tiny(tmp_path / "tiny", "xlm-roberta", positions=34)
    assert registry.describe(source).context == 32  # positions count from the padding's id + 1
    encoder = exported(source, tmp_path / "fp32", "fp32")
    long = "walnut " * 30 + "bread " * 100
    np.testing.assert_allclose(encoder.passages([long]), theirs(source, ["walnut " * 30]), atol=1e-4)
    assert encoder.tokens([long])[0].shape == (32,)
    padded = encoder.feed(encoder.tokens(["walnut bread", "salt"]))
    assert padded["input_ids"][1].tolist() == [0, 8, 2, 1]  # this family's padding is 1
    assert padded["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_lower_case_where_the_folder_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers.normalizers import Sequence

    source = tiny(tmp_path / "tiny")
    said = json.loads((source / "sentence_bert_config.json").read_text())
    (source / "sentence_bert_config.json").write_text(json.dumps({**said, "do_lower_case": True}))
    encoder = exported(source, tmp_path / "fp32", "fp32")
    monkeypatch.setattr(encoder._tokenizer, "normalizer", Sequence([]))  # the tiny one's own lower-cases too
    assert encoder.tokens(["OLIVE Oil"])[0].tolist() == encoder.tokens(["olive oil"])[0].tolist()
    encoder.spec = replace(encoder.spec, lower=False)
    assert encoder.tokens(["OLIVE Oil"])[0].tolist() != encoder.tokens(["olive oil"])[0].tolist()


def test_a_matryoshka_model_is_cut_in_everything(tmp_path: Path) -> None:
    source = tiny(tmp_path / "tiny")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "matryoshka_dimensions": [64, 32, 16]}))
    model = registry.describe(source)
    assert (model.dim, model.matryoshka) == (64, (32, 16))
    settings = Settings(encoder=f"{source}@16")
    weights = registry.choose(settings)
    assert (weights.model.name, weights.model.dim, weights.model.width) == ("tiny@16", 16, 64)
    with pytest.raises(EncoderError, match="tiny has no vectors of 24 dimensions; it can be cut to 32, 16"):
        registry.choose(Settings(encoder=f"{source}@24"))
    whole = exported(source, tmp_path / "whole", "fp32")
    cut = tmp_path / "cut"
    cut.mkdir()
    export(source, cut, "fp32")
    describe(cut, weights, "fp32")
    short = Encoder(cut)
    expected = whole.passages(TEXTS)[:, :16]
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(short.passages(TEXTS), expected, atol=1e-5)
    assert short.dim == 16
    assert short.spec.fingerprint != whole.spec.fingerprint  # they never meet in one lineage


def test_centring_is_a_layer_norm() -> None:
    import torch

    rng = np.random.default_rng(0)
    hidden, mask = rng.normal(1, 1, (3, 5, 32)).astype(np.float32), np.ones((3, 5), np.int64)
    spec = Spec("x", 8, "mean", "", "", 256, "", "", {}, "", centred=True)
    normed = torch.nn.functional.layer_norm(torch.tensor(hidden).mean(1), (32,))[:, :8]
    expected = torch.nn.functional.normalize(normed, dim=1).numpy()
    np.testing.assert_allclose(pooled(hidden, mask, spec), expected, atol=1e-5)
    assert np.abs(pooled(hidden, mask, replace(spec, centred=False)) - expected).max() > 0.05


def test_an_architecture_without_a_library_is_taken_from_its_onnx_file_and_its_code_is_not_run(tmp_path: Path) -> None:
    source = tiny(tmp_path / "tiny")
    exact = theirs(source, TEXTS)
    graph = exported(source, tmp_path / "fp32", "fp32").folder / "model.onnx"
    config = json.loads((source / "config.json").read_text())
    code = {"auto_map": {"AutoConfig": "odd.Config", "AutoModel": "odd.Model"}, "model_type": "nomic_bert"}
    (source / "config.json").write_text(json.dumps({**config, **code}))
    (source / "odd.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(EncoderError, match="nomic_bert is in no library here, Helix runs no code that comes with"):
        exported(source, tmp_path / "none", "int8")
    (source / "onnx").mkdir()
    graph.rename(source / "onnx" / "model.onnx")
    (source / "model.safetensors").unlink()
    assert registry.choose(Settings(encoder=str(source))).origin == "path"
    assert (exported(source, tmp_path / "int8", "int8").passages(TEXTS) * exact).sum(1).min() > 0.97
    assert not (tmp_path / "ran").exists()


# ------------------------------------------------------------ folders that are refused


def bare(folder: Path, **files: Any) -> Path:
    """Configuration without weights; `a__b` is a/b.json."""
    given = {"config": {"hidden_size": 64, "model_type": "bert", "max_position_embeddings": 512}, **files}
    for name, content in given.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


PARTS = [{"path": "", "type": "sentence_transformers.models.Transformer"}]


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"1_Pooling__config": {"pooling_mode_mean_sqrt_len_tokens": True}}, "pooling_mode_mean_sqrt_len_tokens"),
        ({"1_Pooling__config": {"pooling_mode": "weightedmean"}}, "weightedmean"),
        (
            {"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}},
            r"pooling_mode_cls_token \+ pooling_mode_max_tokens",
        ),
        ({"1_Pooling__config": {"pooling_mode": "mean", "include_prompt": False}}, "include_prompt"),
        ({"modules": [*PARTS, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]}, r"Dense \(2_Dense"),
        ({"config_sentence_transformers": {"similarity_fn_name": "dot"}}, "similarity_fn_name: dot"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, files: dict[str, Any], named: str) -> None:
    with pytest.raises(EncoderError, match=f"{named}.* not supported"):
        registry.describe(bare(tmp_path / "odd", **files))


def test_unreadable_and_wanting_configurations_are_named(tmp_path: Path) -> None:
    folder = bare(tmp_path / "odd", config={"model_type": "bert"})
    with pytest.raises(EncoderError, match="does not say how wide a vector is"):
        registry.describe(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(EncoderError, match=r"config\.json is unreadable"):
        registry.describe(folder)


def test_what_a_folder_says(tmp_path: Path) -> None:
    parts = [*PARTS, {"path": "pool", "type": "sentence_transformers.models.Pooling"}]
    folder = bare(
        tmp_path / "odd",
        modules=parts,
        pool__config={"pooling_mode": "lasttoken"},
        sentence_bert_config={"max_seq_length": 128, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"q": "ask: "}, "default_prompt_name": "q", "truncate_dim": 32},
    )
    found = registry.describe(folder)
    assert (found.pooling, found.context, found.lower, found.dim, found.width) == ("last", 128, True, 32, 64)
    assert (found.query_prefix, found.passage_prefix) == ("ask: ", "ask: ")
    long = bare(tmp_path / "long", sentence_bert_config={"max_seq_length": 8192}, config={"hidden_size": 8})
    assert (registry.describe(long).context, registry.describe(long).max_tokens) == (512, 256)


# ------------------------------------------------------------ the table


def test_every_model_of_the_design_is_known() -> None:
    assert list(MODELS) == [
        "bge-small-en-v1.5",
        "all-MiniLM-L6-v2",
        "gte-small",
        "e5-small",
        "nomic-embed-text-v1.5",
        "bge-base-en-v1.5",
        "mxbai-embed-large-v1",
        "arctic-embed-l-v2.0",
    ]
    for model in MODELS.values():
        assert model.pooling in registry.POOLINGS
        assert model.licence in ("MIT", "Apache-2.0")
        assert 0 < model.max_tokens <= registry.WINDOW <= model.context
        assert all(dims < model.dim for dims in model.matryoshka)
        for prefix in (model.query_prefix, model.passage_prefix):
            assert prefix == "" or prefix.endswith(": ")  # the text follows at once


def test_a_known_matryoshka_model_is_cut_by_name() -> None:
    nomic = registry.cut(MODELS["nomic-embed-text-v1.5"], 256)
    assert (nomic.name, nomic.dim, nomic.width, nomic.matryoshka) == ("nomic-embed-text-v1.5@256", 256, 768, (128, 64))
    assert nomic.centred
    assert registry.cut(nomic, 256) == nomic
    with pytest.raises(EncoderError, match="it cannot be cut"):
        registry.cut(MODELS["bge-base-en-v1.5"], 256)


def test_a_model_is_found_by_its_onnx_file_too(tmp_path: Path) -> None:
    folder = bare(tmp_path / "nomic-embed-text-v1.5")
    settings = Settings(models=str(tmp_path))
    assert registry.find("nomic-embed-text-v1.5", settings) is None
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").touch()
    found = registry.find("nomic-embed-text-v1.5", settings)
    assert found is not None
    assert found.model is MODELS["nomic-embed-text-v1.5"]
    chosen = registry.choose(replace(settings, encoder="nomic-embed-text-v1.5@128"))
    assert (chosen.model.dim, chosen.folder) == (128, folder)


def test_pull_fetches_the_weights_in_the_form_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    from pipelines.training.models import known, pull

    asked: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda hub, local_dir, allow_patterns: asked.append((hub, allow_patterns))
    )
    settings = Settings(models=str(tmp_path))
    pull("nomic-embed-text-v1.5", settings)
    pull("gte-small", settings)
    (nomic, first), (gte, second) = asked
    assert (nomic, gte) == ("nomic-ai/nomic-embed-text-v1.5", "thenlper/gte-small")
    assert set(first) ^ set(second) == {"onnx/model.onnx", "model.safetensors"}
    rows = {row["name"]: row for row in known(settings)}
    assert (rows["arctic-embed-l-v2.0"]["context"], rows["arctic-embed-l-v2.0"]["matryoshka"]) == (8192, [256])


# ------------------------------------------------------------ encoder.json


def test_a_folder_exported_before_is_read(tmp_path: Path) -> None:
    """What later fields say by default is what such a folder meant."""
    (tmp_path / "model.onnx").write_bytes(b"graph")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    files = {name: registry.sha256(tmp_path / name) for name in ("model.onnx", "tokenizer.json")}
    old = {
        "name": "all-MiniLM-L6-v2",
        "dim": 384,
        "pooling": "mean",
        "query_prefix": "",
        "passage_prefix": "",
        "max_tokens": 256,
        "quantising": "dynamic int8, per channel",
        "weights_sha256": "0" * 64,
        "files": files,
        "fingerprint": fingerprint(files),
    }
    (tmp_path / "encoder.json").write_bytes(orjson.dumps(old))
    spec = load_spec(tmp_path, expect=fingerprint(files))
    assert (spec.centred, spec.lower, spec.pad, spec.recipe) == (False, False, 0, "")


def test_a_changed_recipe_is_another_encoder(tmp_path: Path) -> None:
    source = tiny(tmp_path / "tiny")
    folder = exported(source, tmp_path / "fp32", "fp32").folder
    path = folder / "encoder.json"
    written = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**written, "pooling": "cls"}))
    with pytest.raises(EncoderError, match=r"encoder changed: .*encoder\.json"):
        load_spec(folder)
    model = replace(registry.describe(source), query_prefix="ask: ")
    describe(folder, Weights(model, source, "path"), "fp32")
    assert load_spec(folder).fingerprint != written["fingerprint"]


# ------------------------------------------------------------ batches


def test_runs_hold_texts_of_nearly_one_length_and_each_once() -> None:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(0.03, 700), 256)
    tokens = [np.zeros(length, np.int32) for length in lengths]
    found = list(runs(tokens, 32))
    assert sorted(np.concatenate(found).tolist()) == list(range(700))
    for chosen in found:
        assert 1 <= len(chosen) <= 32
        assert len(chosen) == 1 or len(chosen) * lengths[chosen].max() <= 1_024
    padded = sum(len(chosen) * lengths[chosen].max() for chosen in found)
    assert padded < 1.1 * lengths.sum()
    assert list(runs([], 32)) == []
    assert [chosen.tolist() for chosen in runs([np.zeros(5_000, np.int32)] * 2, 32)] == [[0], [1]]


def test_the_same_texts_give_the_same_bytes_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over several windows, where one is tokenised while another is embedded."""
    encoder = exported(tiny(tmp_path / "tiny"), tmp_path / "int8", "int8")
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


def test_a_fault_of_the_tokeniser_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = exported(tiny(tmp_path / "tiny"), tmp_path / "fp32", "fp32")
    given = [f"walnut {letter}" for letter in "abcdefghijklmnopqrst"]
    monkeypatch.setattr("helix.encoders.dense._WINDOW", 8)
    tokens, calls = encoder.tokens, []

    def failing(texts: list[str]) -> Any:
        calls.append(len(texts))
        if len(calls) == 2:
            raise MemoryError("out of tokens")
        return tokens(texts)

    monkeypatch.setattr(encoder, "tokens", failing)
    with pytest.raises(MemoryError, match="out of tokens"):
        encoder.passages(given)


def test_the_raw_rate_is_of_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = exported(tiny(tmp_path / "tiny"), tmp_path / "fp32", "fp32")
    seen: list[int] = []
    hidden = encoder.hidden
    monkeypatch.setattr(encoder, "hidden", lambda feed: seen.append(len(feed["input_ids"])) or hidden(feed))
    assert raw_rate(encoder, TEXTS, 2) > 0
    assert seen == [2, 2, 1]
    seen.clear()
    encoder.passages(TEXTS, 2)
    assert seen == [2, 2, 1]
