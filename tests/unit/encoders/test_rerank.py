"""Rerankers: the blend and its guard rail by hand; tiny real models, exported and held against torch's own answer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.encoders import registry, rerank
from helix.encoders.cross import CrossEncoder
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.late import open_late, reuse_encoder
from helix.encoders.rerank import Rerankers
from helix.encoders.rerank_export import cache_reranker, export_reranker, reranker_kind
from helix.encoders.token_counter import TokenCounter
from helix.errors import EncoderError, UsageError
from helix.settings import Settings
from helix.stages.rerank import MOST, check_top, maxsim, maxsims, unusable
from helix.stages.rerank import rerank as blend
from tests.support import tiny_rerank

QUESTION = "who bakes walnut bread?"
TEXTS = ["walnut bread", "", "olive oil, salt and more.", "walnut walnut walnut", "bread with olive oil"]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ------------------------------------------------------------ the stage


def test_maxsim_by_hand() -> None:
    query = f32(1, 0, 0, 1).reshape(2, 2)
    passage = f32(0.6, 0.8, 1, 0, -1, 0).reshape(3, 2)
    assert maxsim(query, passage) == pytest.approx((1 + 0.8) / 2)
    assert maxsim(query, passage[2:]) == pytest.approx((-1 + 0) / 2)
    assert maxsim(query[:0], passage) == maxsim(query, passage[:0]) == 0
    found = maxsims(query, [passage, passage[2:]])
    assert found.dtype == np.float32
    assert found == pytest.approx([0.9, -0.5])


def test_more_than_thirty_are_refused_with_the_reason() -> None:
    check_top(1)
    check_top(MOST)
    with pytest.raises(UsageError, match=r"forward pass .* all-support@10 from \.907 to \.467; give at most 30"):
        check_top(31)
    with pytest.raises(UsageError, match="rerank 0 items"):
        check_top(0)
    with pytest.raises(UsageError, match="at most 30"):
        blend(np.linspace(1, 0, 50, dtype=np.float32), np.linspace(0, 1, 31, dtype=np.float32), 0.5)


def test_the_blend_by_hand() -> None:
    final = f32(0.9, 0.7, 0.5, 0.4, 0.1)
    # f = 1, .5, 0 and s = 0, .5, 1; between .5 and .9.
    assert blend(final, f32(1, 2, 3), 0.25) == pytest.approx([0.8, 0.7, 0.6, 0.4, 0.1])
    assert blend(final, f32(1, 2, 3), 1) == pytest.approx([0.5, 0.7, 0.9, 0.4, 0.1])
    assert (blend(final, f32(1, 2, 3), 0) == final).all()
    assert blend(final, f32(-5, 0, 5, 5, 5), 1) == pytest.approx([0.1, 0.5, 0.9, 0.9, 0.9])  # all of them
    assert (final == f32(0.9, 0.7, 0.5, 0.4, 0.1)).all()  # what was given is left alone


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0])
def test_nothing_passes_the_border_of_the_top_whatever_the_scores(weight: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 60))
        m = int(rng.integers(1, min(n, MOST) + 1))
        # Few different values: ties inside, outside and across the border.
        final = np.sort(rng.integers(0, int(rng.integers(1, 8)), n).astype(np.float32) / 7)[::-1].copy()
        new = blend(final, rng.normal(size=m).astype(np.float32), weight)
        assert new.dtype == np.float32
        assert (new[m:] == final[m:]).all()
        if 1 < m < n:
            assert new[:m].min() > new[m:].max()
        assert new.max() <= final[0] + 2e-4


def test_equals_are_told_apart_by_the_reranker() -> None:
    new = blend(f32(0.5, 0.5, 0.5, 0.5), f32(1, 3, 2), 0.5)
    assert np.argsort(-new).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([0.5, 0.5, 0.5], r"all 3 rerank scores are the same \(0\.5\)"),
        ([0.5, np.nan, 0.7], "1 of 3 rerank scores are not finite"),
        ([np.inf, 0.1, -np.inf], "2 of 3 rerank scores are not finite"),
        ([], "there are no rerank scores"),
    ],
)
def test_scores_that_say_nothing_leave_the_order_and_say_so(scores: list[float], said: str) -> None:
    final = f32(0.9, 0.7, 0.5, 0.4)
    assert re.search(said, unusable(f32(*scores)))
    assert (blend(final, f32(*scores), 1) == final).all()
    assert unusable(f32(0.1, 0.2)) == ""


def test_wrong_use_is_named() -> None:
    with pytest.raises(UsageError, match=r"a rerank weight of 1\.5"):
        blend(f32(1, 0), f32(0, 1), 1.5)
    with pytest.raises(UsageError, match="3 rerank scores for 2 items"):
        blend(f32(1, 0), f32(0, 1, 2), 0.5)


# ------------------------------------------------------------ late interaction


def made(source: Path, target: Path, precision: str) -> Path:
    target.mkdir()
    export_reranker(source, target, source.name, precision=precision)
    return target


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources, and each of them exported beside it."""
    root = tmp_path_factory.mktemp("rerankers")
    for layout in ("stanford", "pylate"):
        tiny_rerank.colbert(root / layout, layout)
        made(root / layout, root / f"{layout}-fp32", "fp32")
    made(root / "stanford", root / "stanford-int8", "int8")
    for kind in ("random", "walnut", "constant"):
        tiny_rerank.cross(root / kind, kind)
        made(root / kind, root / f"{kind}-int8", "int8")
    made(root / "random", root / "random-fp32", "fp32")
    return root


def torch_colbert(folder: Path, text: str, marker: str, query: bool, attend: bool = False) -> np.ndarray:
    """As the authors' code does it: a placeholder where the marker goes, [MASK] over the padding."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    length = {"padding": "max_length", "max_length": 12} if query else {"max_length": 24}
    given = tokenizer(f". {text}", truncation=True, return_tensors="pt", **length)
    ids, mask = given["input_ids"], given["attention_mask"]
    ids[:, 1] = tokenizer.convert_tokens_to_ids(marker)
    ids[ids == tokenizer.pad_token_id] = tokenizer.mask_token_id
    dense = folder / "1_Dense" / "model.safetensors"
    linear = load_file(dense if dense.is_file() else folder / "model.safetensors")["linear.weight"]
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(folder)(ids, torch.ones_like(mask) if attend else mask)[0][0] @ linear.T
    if not query:
        hidden = hidden[[token not in ("?", ".", ",") for token in tokenizer.convert_ids_to_tokens(ids[0])]]
    return torch.nn.functional.normalize(hidden, dim=1).numpy()


@pytest.mark.parametrize(
    ("layout", "asks", "tells"), [("stanford", *tiny_rerank.SPECIAL[5:]), ("pylate", "[Q] ", "[D] ")]
)
def test_token_vectors_are_those_of_torch(models: Path, layout: str, asks: str, tells: str) -> None:
    encoder = open_late(models / f"{layout}-fp32")
    assert (encoder.name, encoder.dim) == (layout, tiny_rerank.DIM)
    long = "walnut bread with olive oil and more salt " * 8
    for text in (QUESTION, "", long):
        found = encoder.query(text)
        assert found.shape == (12, tiny_rerank.DIM)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, torch_colbert(models / layout, text, asks, query=True), atol=1e-4)
    texts = [*TEXTS, long]
    for text, found in zip(texts, encoder.passages(texts), strict=True):
        np.testing.assert_allclose(found, torch_colbert(models / layout, text, tells, query=False), atol=1e-4)
    assert len(encoder.passages([long])[0]) == 24
    assert encoder.passages([]) == []


def test_int8_stays_close(models: Path) -> None:
    exact, small = open_late(models / "stanford-fp32"), open_late(models / "stanford-int8")
    assert 0 < np.abs(small.query(QUESTION) - exact.query(QUESTION)).max() < 0.1
    for one, other in zip(exact.passages(TEXTS), small.passages(TEXTS), strict=True):
        assert (one * other).sum(axis=1).min() > 0.95
        assert np.linalg.norm(other, axis=1) == pytest.approx(np.ones(len(other)), abs=1e-5)
    query = exact.query(QUESTION)
    np.testing.assert_allclose(
        maxsims(query, small.passages(TEXTS)), maxsims(query, exact.passages(TEXTS)), atol=0.02, rtol=0
    )


def test_what_the_configuration_says_is_done(tmp_path: Path, models: Path) -> None:
    usual = open_late(models / "stanford-fp32")
    attends = tiny_rerank.colbert(tmp_path / "a", attend_to_mask_tokens=True, mask_punctuation=False)
    encoder = open_late(made(attends, tmp_path / "a-x", "fp32"))
    expected = torch_colbert(attends, QUESTION, "[unused0]", query=True, attend=True)
    np.testing.assert_allclose(encoder.query(QUESTION), expected, atol=1e-4)
    assert np.abs(encoder.query(QUESTION) - usual.query(QUESTION)).max() > 0.01
    assert [len(v) for v in encoder.passages(["bread, salt."])] == [7]
    assert [len(v) for v in usual.passages(["bread, salt."])] == [5]
    bare = tiny_rerank.colbert(tmp_path / "b", "pylate", do_query_expansion=False, skiplist_words=["walnut"])
    encoder = open_late(made(bare, tmp_path / "b-x", "fp32"))
    assert len(encoder.query("walnut bread")) == 5  # [CLS] [Q] walnut bread [SEP]
    assert [len(v) for v in encoder.passages(["walnut, bread"])] == [5]  # [CLS] [D] , bread [SEP]


@pytest.mark.parametrize(("layout", "other"), [("stanford", "pytorch_model.bin"), ("pylate", "0_Transformer")])
def test_other_places_of_the_weights(tmp_path: Path, models: Path, layout: str, other: str) -> None:
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / layout
    shutil.copytree(models / layout, folder)
    if other == "0_Transformer":
        (folder / other).mkdir()
        for path in [path for path in folder.iterdir() if path.is_file()]:
            if path.name not in ("modules.json", "config_sentence_transformers.json"):
                path.rename(folder / other / path.name)
        modules = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps([{**modules[0], "path": other}, modules[1]]))
    else:
        torch.save(load_file(folder / "model.safetensors"), folder / other)
        (folder / "model.safetensors").unlink()
    assert rerank.find(str(folder), Settings()).folder == folder
    assert reranker_kind(folder) == "late"
    encoder, usual = open_late(made(folder, tmp_path / "x", "fp32")), open_late(models / f"{layout}-fp32")
    np.testing.assert_allclose(encoder.query(QUESTION), usual.query(QUESTION), atol=1e-5)
    assert replace(encoder_spec(tmp_path / "x"), weights_sha256="", fingerprint="", files={}) == replace(
        encoder_spec(models / f"{layout}-fp32"), weights_sha256="", fingerprint="", files={}
    )


def encoder_spec(folder: Path) -> rerank.Spec:
    return rerank.load_spec(folder, "late")


@pytest.fixture(scope="module")
def default(cache: Path) -> Encoder:
    return Encoder(cache_encoder(registry.choose_encoder(Settings()), cache))


def test_the_default_encoders_own_tokens(default: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    late = reuse_encoder(default)
    texts = [
        "I told Priya we can do March for vacation",
        "The worker acknowledges a task only after the envelope is published.",
        "thanks",
    ]
    found = late.passages(texts)
    assert [len(vectors) for vectors in found] == TokenCounter(default.folder)(texts)  # no special tokens
    assert all(vectors.shape[1] == late.dim == 384 for vectors in found)
    assert np.linalg.norm(np.concatenate(found), axis=1) == pytest.approx(1, abs=1e-5)
    theirs = SentenceTransformer(str(registry.choose_encoder(Settings()).folder), device="cpu")
    exact = theirs.encode(texts[0], output_value="token_embeddings").numpy()[1:-1]
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    assert (found[0] * exact).sum(axis=1).min() > 0.9
    for question, best in (("when is the holiday with Priya", 0), ("when is a job acknowledged", 1)):
        scores = maxsims(late.query(question), found)
        assert scores.argmax() == best
        assert -1 <= scores.min() < scores.max() <= 1
    assert late.query("").shape == (0, 384)


def test_a_prefix_is_no_part_of_the_question(default: Encoder) -> None:
    plain = reuse_encoder(default).query("walnut bread")
    other = Encoder(default.folder)
    other.spec = replace(default.spec, query_prefix="Represent this sentence: ")
    prefixed = reuse_encoder(other).query("walnut bread")
    assert prefixed.shape == plain.shape
    assert np.abs(prefixed - plain).max() > 0.01  # it is read, though
    assert len(reuse_encoder(other).passages(["walnut bread"])[0]) == len(plain)


def test_a_model_that_pools_by_itself_has_no_token_vectors() -> None:
    odd: Any = SimpleNamespace(
        tokens=lambda texts: [np.array([1, 2], np.int32) for _ in texts],
        feed=lambda tokens: {},
        hidden=lambda feed: np.zeros((1, 8), np.float32),
        spec=SimpleNamespace(name="odd"),
    )
    with pytest.raises(EncoderError, match="odd pools its token vectors by itself"):
        reuse_encoder(odd)


# ------------------------------------------------------------ cross-encoder


def torch_scores(folder: Path, query: str, texts: list[str]) -> np.ndarray:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer([query] * len(texts), texts, padding=True, truncation="only_second", return_tensors="pt")
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(folder)(**given).logits
    assert logits.shape == (len(texts), 1)
    return torch.sigmoid(logits[:, 0]).numpy()


def test_scores_are_those_of_torch(models: Path) -> None:
    long = "walnut bread with olive oil and more salt " * 20
    texts = [*TEXTS, long]
    exact = torch_scores(models / "random", QUESTION, texts)
    assert exact.max() - exact.min() > 0.1  # else any score would do
    plain = CrossEncoder(models / "random-fp32").score(QUESTION, texts)
    assert plain.dtype == np.float32
    np.testing.assert_allclose(plain, exact, atol=1e-4)
    encoder = CrossEncoder(models / "random-int8")
    assert encoder.spec.quantising == "dynamic int8, per channel"
    np.testing.assert_allclose(encoder.score(QUESTION, texts), exact, atol=0.02)
    assert (encoder.score(QUESTION, texts) == encoder.score(QUESTION, texts)).all()
    assert encoder.score(QUESTION, []).shape == (0,)


def test_a_known_answer(models: Path) -> None:
    texts = ["walnut walnut walnut", "bread with olive oil", "walnut bread and olive oil", "walnut walnut salt"]
    scores = CrossEncoder(models / "walnut-int8").score("who bakes bread?", texts)
    assert np.argsort(-scores).tolist() == [0, 3, 2, 1]
    np.testing.assert_allclose(scores, torch_scores(models / "walnut", "who bakes bread?", texts), atol=0.02)


def test_long_questions_and_texts_are_cut_in_no_time(models: Path) -> None:
    encoder = CrossEncoder(models / "random-fp32")
    words = "bread olive " * 16  # half of the window of 64
    began = time.perf_counter()
    long = encoder.score(words + "salt " * 500, ["walnut", "walnut " * 200])
    np.testing.assert_allclose(long, encoder.score(words, ["walnut", "walnut " * 200]), atol=1e-5)
    assert np.isfinite(encoder.score("x" * 1_000_000, ["y" * 1_000_000, "z " * 500_000])).all()
    late = open_late(models / "stanford-fp32")
    assert len(late.query("x" * 1_000_000)) == 12
    assert len(late.passages(["z " * 500_000])[0]) == 24
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize("kind", ["random", "constant"])
def test_a_useless_reranker_leaves_the_same_items_on_top(models: Path, kind: str) -> None:
    texts = [f"{word} {other}" for word in tiny_rerank.WORDS[:8] for other in ("bread", "salt", "oil and olive", "?")]
    final = np.linspace(0.9, 0.1, len(texts), dtype=np.float32)
    scores = CrossEncoder(models / f"{kind}-int8").score(QUESTION, texts[:20])
    new = blend(final, scores, 1)
    assert set(np.argsort(-new, kind="stable")[:20].tolist()) == set(range(20))
    assert (np.argsort(-new, kind="stable")[20:] == np.arange(20, len(texts))).all()
    if kind == "constant":
        assert (new == final).all()
        assert "are the same" in unusable(scores)
    else:
        assert np.argsort(-new)[:20].tolist() != list(range(20))


# ------------------------------------------------------------ finding, exporting, opening


def test_an_exported_reranker_is_found_by_its_source_and_by_its_folder(models: Path, tmp_path: Path, run_helix) -> None:
    weights = tmp_path / "models" / "my-cross"
    shutil.copytree(models / "walnut", weights)
    here = {"HELIX_CACHE": str(tmp_path / "cache"), "HELIX_MODELS": str(tmp_path / "models")}
    settings = Settings(cache=here["HELIX_CACHE"], models=here["HELIX_MODELS"])
    assert Rerankers(settings).cross is Rerankers(settings).late is None  # off by default
    named = replace(settings, cross_encoder="my-cross")
    with pytest.raises(EncoderError, match=r"my-cross is not exported: its weights are in .*models export my-cross"):
        _ = Rerankers(named).cross
    done = run_helix("models", "export", "my-cross", "--json", **here)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["name"], said["kind"], said["setting"]) == ("my-cross", "cross", "HELIX_CROSS_ENCODER=my-cross")
    rerankers = Rerankers(named)
    assert rerankers.cross is not None
    assert rerankers.cross is rerankers.cross  # opened once
    assert rerankers.late is None
    expected = CrossEncoder(models / "walnut-int8").score(QUESTION, TEXTS)
    for name in ("my-cross", str(weights), said["folder"]):
        if name == str(weights):  # another name, so another folder in the cache
            cache_reranker(rerank.find(name, settings), Path(settings.cache))
        found = Rerankers(replace(settings, cross_encoder=name)).cross
        assert found is not None
        assert (found.score(QUESTION, TEXTS) == expected).all()
    written = (Path(said["folder"]) / "model.onnx").stat().st_mtime_ns
    assert cache_reranker(rerank.find("my-cross", settings), Path(settings.cache)) == Path(said["folder"])
    assert (Path(said["folder"]) / "model.onnx").stat().st_mtime_ns == written  # kept
    listed = json.loads(run_helix("models", "--json", **here, HELIX_CROSS_ENCODER="my-cross").stdout)
    row = next(row for row in listed if row["name"] == "my-cross")
    assert (row["use"], row["origin"], row["exported"]) == ("rerank cross", "models folder", said["folder"])
    assert row["default"]
    # Other weights under the same name are another reranker, not the one that was exported.
    tiny_rerank.cross(weights, "random")
    with pytest.raises(EncoderError, match="is not exported"):
        _ = Rerankers(named).cross


def test_hub_names_are_looked_for_in_the_hubs_cache(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--cross-encoder--ms-marco-MiniLM-L-6-v2" / "snapshots" / "abc"
    shutil.copytree(models / "walnut", place)
    for name in ("ms-marco-MiniLM-L-6-v2", "cross-encoder/ms-marco-MiniLM-L-6-v2"):
        found = rerank.find(name, Settings())
        assert (found.folder, found.origin, found.licence) == (place, "hub cache", "Apache-2.0")
    with pytest.raises(EncoderError, match="no reranker 'other/ms-marco-MiniLM-L-6-v2'"):
        rerank.find("other/ms-marco-MiniLM-L-6-v2", Settings())


def test_damage_and_the_wrong_kind_are_named(models: Path, tmp_path: Path) -> None:
    with pytest.raises(
        EncoderError, match=r"is a cross-encoder, not a late-interaction encoder; .*HELIX_CROSS_ENCODER"
    ):
        _ = Rerankers(Settings(late_encoder=str(models / "walnut-int8"))).late
    with pytest.raises(EncoderError, match=r"is a late-interaction encoder, not a cross-encoder; .*HELIX_LATE_ENCODER"):
        _ = Rerankers(Settings(cross_encoder=str(models / "stanford-int8"))).cross
    broken = tmp_path / "broken"
    shutil.copytree(models / "walnut-int8", broken)
    data = bytearray((broken / "model.onnx").read_bytes())
    data[1000] ^= 1
    (broken / "model.onnx").write_bytes(data)
    rerankers = Rerankers(Settings(cross_encoder=str(broken)))
    with pytest.raises(EncoderError, match=r"reranker changed: .*model\.onnx has sha256"):
        _ = rerankers.cross
    shutil.copy(models / "walnut-int8" / "model.onnx", broken)
    assert rerankers.cross is not None  # what was mended is taken
    said = json.loads((broken / "reranker.json").read_text())
    (broken / "reranker.json").write_text(json.dumps({**said, "max_tokens": 32}))
    with pytest.raises(EncoderError, match="is not what was exported"):
        rerank.load_spec(broken, "cross")
    (broken / "reranker.json").write_text(json.dumps({**said, "format": 99}))
    with pytest.raises(EncoderError, match="reranker of format 99, not 1"):
        rerank.load_spec(broken, "cross")
    (broken / "reranker.json").write_text("{")
    with pytest.raises(EncoderError, match=r"reranker unreadable: .*reranker\.json"):
        rerank.load_spec(broken, "cross")
    (broken / "tokenizer.json").unlink()
    (broken / "reranker.json").write_text(json.dumps(said))
    with pytest.raises(EncoderError, match=r"reranker missing: .*tokenizer\.json"):
        rerank.load_spec(broken, "cross")


def test_what_is_no_reranker_is_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="gives 3 logits, where a cross-encoder gives one"):
        reranker_kind(tiny_rerank.cross(tmp_path / "three", labels=3))
    folder = tmp_path / "plain"
    shutil.copytree(registry.choose_encoder(Settings()).folder, folder)
    (folder / "modules.json").unlink(missing_ok=True)
    with pytest.raises(EncoderError, match=r"no cross-encoder .* and has no projection \(linear\.weight\)"):
        reranker_kind(folder)
    dense = tmp_path / "pylate"
    shutil.copytree(models / "pylate", dense)
    said = json.loads((dense / "1_Dense" / "config.json").read_text())
    for odd in ({"bias": True}, {"activation_function": "torch.nn.modules.activation.Tanh"}, {"use_residual": True}):
        (dense / "1_Dense" / "config.json").write_text(json.dumps({**said, **odd}))
        with pytest.raises(EncoderError, match="more than a matrix"):
            made(dense, tmp_path / "-".join(odd), "fp32")
    unmarked = tiny_rerank.colbert(tmp_path / "unmarked", query_token_id="[nowhere]")
    with pytest.raises(EncoderError, match=r"'\[nowhere\]', which is not in its vocabulary"):
        made(unmarked, tmp_path / "unmarked-x", "fp32")
    modules = json.loads((dense / "modules.json").read_text())
    pooling = {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
    (dense / "modules.json").write_text(json.dumps([*modules, pooling]))
    with pytest.raises(EncoderError, match="a module of the kind Pooling"):
        reranker_kind(dense)
    with pytest.raises(EncoderError, match="no reranker 'nope'"):
        rerank.find("nope", Settings())


def test_threads_share_one_reranker(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def slow(folder: Path, threads: int) -> CrossEncoder:
        opened.append(folder)
        time.sleep(0.05)
        return CrossEncoder(folder, threads)

    monkeypatch.setattr(rerank, "CrossEncoder", slow)
    rerankers = Rerankers(Settings(cross_encoder=str(models / "random-int8"), threads=1))
    scores: list[list[float]] = []

    def ask() -> None:
        found = rerankers.cross
        assert found is not None
        scores.append(found.score(QUESTION, TEXTS).tolist())

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert len(scores) == 6
    assert all(each == scores[0] for each in scores)


def test_the_query_side_needs_neither_torch_nor_transformers(models: Path) -> None:
    code = f"""
import sys
from helix.encoders.rerank import Rerankers
from helix.settings import Settings
import helix.stages.rerank
cross, late = {str(models / "random-int8")!r}, {str(models / "stanford-int8")!r}
found = Rerankers(Settings(cross_encoder=cross, late_encoder=late))
assert found.cross.score("bread", ["walnut"]).shape == (1,)
assert found.late.query("bread").shape == (12, 16)
heavy = {{"torch", "transformers", "optimum", "onnx", "sklearn", "helix.encoders.dense_export"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
