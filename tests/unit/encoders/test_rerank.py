"""Rerankers: tiny real models, exported and compared with torch's own answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.cli.main import main
from helix.encoders import registry, rerank
from helix.encoders.rerank import SPEC, CrossEncoder, Rerankers, find_reranker, load_spec, open_late
from helix.encoders.rerank_export import cache_reranker, reranker_kind
from helix.encoders.spec import shorten
from helix.errors import EncoderError
from helix.settings import Settings
from helix.stages.rerank import explain_unusable
from helix.stages.rerank import rerank as blend
from tests.support import tiny_rerank
from tests.support.tiny_rerank import QUESTION, TEXTS, export


def score_by_torch(folder: Path, query: str, texts: list[str]) -> np.ndarray:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer([query] * len(texts), texts, padding=True, truncation="only_second", return_tensors="pt")
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(folder)(**given).logits
    assert logits.shape == (len(texts), 1)
    return torch.sigmoid(logits[:, 0]).numpy()


def test_scores_are_those_of_torch(models: Path) -> None:
    texts = [*TEXTS, "walnut bread with olive oil and more salt " * 20]
    exact = score_by_torch(models / "random", QUESTION, texts)
    assert exact.max() - exact.min() > 0.1  # else any score would do
    plain = CrossEncoder(models / "random-fp32").score(QUESTION, texts)
    assert plain.dtype == np.float32
    np.testing.assert_allclose(plain, exact, atol=1e-4)
    encoder = CrossEncoder(models / "random-int8")
    assert encoder.spec.quantising == "dynamic int8, per channel"
    np.testing.assert_allclose(encoder.score(QUESTION, texts), exact, atol=tiny_rerank.INT8_ERROR)
    assert (encoder.score(QUESTION, texts) == encoder.score(QUESTION, texts)).all()
    assert encoder.score(QUESTION, []).shape == (0,)


def test_a_known_answer(models: Path) -> None:
    texts = ["walnut walnut walnut", "bread with olive oil", "walnut bread and olive oil", "walnut walnut salt"]
    scores = CrossEncoder(models / "walnut-int8").score("who bakes bread?", texts)
    assert np.argsort(-scores).tolist() == [0, 3, 2, 1]
    np.testing.assert_allclose(
        scores, score_by_torch(models / "walnut", "who bakes bread?", texts), atol=tiny_rerank.INT8_ERROR
    )


def test_long_questions_and_texts_are_cut_quickly(models: Path) -> None:
    encoder, late = CrossEncoder(models / "random-fp32"), open_late(models / "stanford-fp32")
    words = "bread olive " * 16  # half of the window of 64
    texts = ["walnut", "walnut " * 200]
    began = time.process_time()
    np.testing.assert_allclose(encoder.score(words + "salt " * 500, texts), encoder.score(words, texts), atol=1e-5)
    assert np.isfinite(encoder.score("x" * 1_000_000, ["y" * 1_000_000, "z " * 500_000])).all()
    assert (len(late.query("x" * 1_000_000)), len(late.passages(["z " * 500_000])[0])) == (12, 24)
    assert time.process_time() - began < 10


def test_a_useless_reranker_leaves_the_same_items_on_top(models: Path) -> None:
    texts = [f"{word} {other}" for word in tiny_rerank.WORDS[:8] for other in ("bread", "salt", "oil and olive", "?")]
    final = np.linspace(0.9, 0.1, len(texts), dtype=np.float32)
    random, constant = (CrossEncoder(models / f"{k}-int8").score(QUESTION, texts[:20]) for k in ("random", "constant"))
    order = np.argsort(-blend(final, random, 1), kind="stable").tolist()
    assert set(order[:20]) == set(range(20))
    assert order[:20] != list(range(20))
    assert order[20:] == list(range(20, len(texts)))
    assert (blend(final, constant, 1) == final).all()
    assert "are the same" in explain_unusable(constant)


@pytest.mark.usefixtures("exports_here")
def test_an_exported_reranker_is_found_by_its_source_and_by_its_folder(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "models" / "my-cross"
    shutil.copytree(models / "walnut", weights)
    settings = Settings(cache=str(tmp_path / "cache"), models=str(tmp_path / "models"))
    for name, value in (("CACHE", settings.cache), ("MODELS", settings.models), ("CROSS_ENCODER", "my-cross")):
        monkeypatch.setenv(f"HELIX_{name}", value)
    assert Rerankers(settings).cross is Rerankers(settings).late is None  # off by default
    named = replace(settings, cross_encoder="my-cross")
    with pytest.raises(EncoderError, match=r"my-cross is not exported: its weights are in .*models export my-cross"):
        _ = Rerankers(named).cross
    assert main(["models", "export", "my-cross", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["name"], report["kind"], report["setting"]) == ("my-cross", "cross", "HELIX_CROSS_ENCODER=my-cross")
    rerankers = Rerankers(named)
    assert rerankers.cross is not None
    assert rerankers.cross is rerankers.cross  # opened once
    assert rerankers.late is None
    expected = CrossEncoder(models / "walnut-int8").score(QUESTION, TEXTS)
    cache_reranker(find_reranker(str(weights), settings), Path(settings.cache))  # another name, so another folder
    for name in ("my-cross", str(weights), report["folder"]):
        encoder = Rerankers(replace(settings, cross_encoder=name)).cross
        assert encoder is not None
        assert (encoder.score(QUESTION, TEXTS) == expected).all()
    graph = Path(report["folder"]) / "model.onnx"
    written = graph.stat().st_mtime_ns
    assert cache_reranker(find_reranker("my-cross", settings), Path(settings.cache)) == Path(report["folder"])
    assert graph.stat().st_mtime_ns == written  # cached
    assert main(["models", "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "my-cross")
    assert (row["use"], row["origin"], row["exported"]) == ("rerank cross", "models folder", report["folder"])
    assert row["default"]
    # Other weights under the same name are another reranker, which is not exported.
    tiny_rerank.cross(weights, "random")
    with pytest.raises(EncoderError, match="is not exported"):
        _ = Rerankers(named).cross


def test_hub_names_are_found_in_the_hubs_cache(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--cross-encoder--ms-marco-MiniLM-L-6-v2" / "snapshots" / "abc"
    shutil.copytree(models / "walnut", place)
    for name in ("ms-marco-MiniLM-L-6-v2", "cross-encoder/ms-marco-MiniLM-L-6-v2"):
        source = find_reranker(name, Settings())
        assert (source.folder, source.origin, source.licence) == (place, "hub cache", "Apache-2.0")
    for name in ("other/ms-marco-MiniLM-L-6-v2", "nope"):
        with pytest.raises(EncoderError, match=f"no reranker '{name}'"):
            find_reranker(name, Settings())


def test_damage_and_the_wrong_kind_are_named(models: Path, tmp_path: Path) -> None:
    late = Rerankers(Settings(late_encoder=str(models / "walnut-int8")))
    with pytest.raises(
        EncoderError, match=r"is a cross-encoder, not a late-interaction encoder; .*HELIX_CROSS_ENCODER"
    ):
        _ = late.late
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
    assert rerankers.cross is not None  # the repaired one is opened
    whole = (broken / "reranker.json").read_text()
    fields = json.loads(whole)
    for content, message in (
        (json.dumps({**fields, "max_tokens": 32}), "is not what was exported"),
        (json.dumps({**fields, "format": 99}), "reranker of format 99, not 1"),
        ("{", r"reranker unreadable: .*reranker\.json"),
    ):
        (broken / "reranker.json").write_text(content)
        with pytest.raises(EncoderError, match=message):
            load_spec(broken, "cross")
    (broken / "reranker.json").write_text(whole)
    (broken / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match=r"reranker missing: .*tokenizer\.json"):
        load_spec(broken, "cross")


def test_other_models_are_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="gives 3 logits, where a cross-encoder gives one"):
        reranker_kind(tiny_rerank.cross(tmp_path / "three", labels=3))
    folder = tmp_path / "plain"
    shutil.copytree(registry.choose_encoder(Settings()).folder, folder)
    (folder / "modules.json").unlink(missing_ok=True)
    with pytest.raises(EncoderError, match=r"no cross-encoder .* and has no projection \(linear\.weight\)"):
        reranker_kind(folder)
    pylate = tmp_path / "pylate"
    shutil.copytree(models / "pylate", pylate)
    config = pylate / "1_Dense" / "config.json"
    fields = json.loads(config.read_text())
    for odd in ({"bias": True}, {"activation_function": "torch.nn.modules.activation.Tanh"}, {"use_residual": True}):
        config.write_text(json.dumps({**fields, **odd}))
        with pytest.raises(EncoderError, match="more than a matrix"):
            export(pylate, tmp_path / "-".join(odd), "fp32")
    unmarked = tiny_rerank.colbert(tmp_path / "unmarked", query_token_id="[nowhere]")
    with pytest.raises(EncoderError, match=r"'\[nowhere\]', which is not in its vocabulary"):
        export(unmarked, tmp_path / "unmarked-x", "fp32")
    modules = json.loads((pylate / "modules.json").read_text())
    pooling = {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
    (pylate / "modules.json").write_text(json.dumps([*modules, pooling]))
    with pytest.raises(EncoderError, match="a module of the kind Pooling"):
        reranker_kind(pylate)


def test_threads_share_one_reranker(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def open_slowly(folder: Path, threads: int) -> CrossEncoder:
        opened.append(folder)
        time.sleep(0.05)
        return CrossEncoder(folder, threads)

    monkeypatch.setattr(rerank, "CrossEncoder", open_slowly)
    rerankers = Rerankers(Settings(cross_encoder=str(models / "random-int8"), threads=1))

    def score(_: int) -> list[float]:
        encoder = rerankers.cross
        assert encoder is not None
        return encoder.score(QUESTION, TEXTS).tolist()

    with ThreadPoolExecutor(6) as pool:
        scores = list(pool.map(score, range(6)))
    assert len(opened) == 1
    assert all(each == scores[0] for each in scores)


def test_the_query_side_needs_neither_torch_nor_transformers(models: Path) -> None:
    code = f"""
import sys
from helix.encoders.rerank import Rerankers
from helix.settings import Settings
import helix.stages.rerank
cross, late = {str(models / "random-int8")!r}, {str(models / "stanford-int8")!r}
rerankers = Rerankers(Settings(cross_encoder=cross, late_encoder=late))
assert rerankers.cross.score("bread", ["walnut"]).shape == (1,)
assert rerankers.late.query("bread").shape == (12, 16)
heavy = {{"torch", "transformers", "optimum", "onnx", "sklearn", "helix.encoders.onnx_export"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_export_of_before_a_field_was_added_is_still_valid(models: Path, tmp_path: Path) -> None:
    """Its fingerprint covers the fields that there were. Break: count unset later fields, and it is refused."""
    shutil.copytree(models / "walnut-int8", tmp_path / "old")
    written = json.loads((tmp_path / "old" / SPEC).read_text())
    later = ("ranking", "language", "turns_only")
    old = {name: value for name, value in written.items() if name not in later}
    fields = {name: value for name, value in old.items() if name != "fingerprint"}
    old["fingerprint"] = shorten(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
    (tmp_path / "old" / SPEC).write_text(json.dumps(old))
    assert load_spec(tmp_path / "old", "cross").ranking == 0
    (tmp_path / "old" / SPEC).write_text(json.dumps({**old, "ranking": 2.0}))
    with pytest.raises(EncoderError, match="reranker changed"):
        load_spec(tmp_path / "old", "cross")
