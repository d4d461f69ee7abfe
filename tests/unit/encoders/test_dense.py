"""The default encoder: exported once with optimum, quantised, checked, and compared with its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder, load_spec
from helix.encoders.dense_export import cache_encoder
from helix.encoders.token_counter import EstimatedCounter, TokenCounter
from helix.errors import EncoderError
from helix.settings import Settings
from tests.support.tiny_encoder import tiny_bert

TEXTS = [
    "I told Priya we can do March for vacation",
    "sqlite3.OperationalError: database is locked",
    "Looking at flights to Goa for next month",
    "The worker acknowledges a task only after the envelope is published.",
    "thanks",
]


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return cache_encoder(registry.choose_encoder(Settings()), cache)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder(folder)


def test_int8_stays_close_to_the_published_weights(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    weights = registry.choose_encoder(Settings())
    exact = SentenceTransformer(str(weights.folder), device="cpu").encode(TEXTS, normalize_embeddings=True)
    ours = encoder.passages(TEXTS)
    assert np.linalg.norm(ours, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    cosine = (exact * ours).sum(axis=1)
    assert cosine[:4].min() > 0.97
    assert cosine.min() > 0.9  # one short word: activation ranges are of the whole batch
    assert (ours[0] @ ours[1:].T).argmax() == (exact[0] @ exact[1:].T).argmax() == 1  # vacation → flights


def test_passages_come_back_in_the_order_given(encoder: Encoder) -> None:
    one_by_one = np.stack([encoder.passages([text])[0] for text in TEXTS])
    batched = encoder.passages([*TEXTS, TEXTS[0]], batch=2)
    assert (batched[:-1] @ one_by_one.T).argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
    assert (batched[:-1] * one_by_one).sum(axis=1).min() > 0.9
    assert (batched[0] == batched[-1]).all()
    assert encoder.passages([]).shape == (0, encoder.dim)


def test_an_export_is_cached(folder: Path, cache: Path) -> None:
    before = (folder / "model.onnx").stat().st_mtime_ns
    assert cache_encoder(registry.choose_encoder(Settings()), cache) == folder
    assert (folder / "model.onnx").stat().st_mtime_ns == before


def test_a_changed_or_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "encoder"
    shutil.copytree(folder, broken)
    data = bytearray((broken / "model.onnx").read_bytes())
    data[100_000] ^= 1
    (broken / "model.onnx").write_bytes(data)
    with pytest.raises(EncoderError, match=r"encoder changed: .*model\.onnx"):
        load_spec(broken)
    (broken / "model.onnx").unlink()
    with pytest.raises(EncoderError, match=r"encoder missing: .*model\.onnx"):
        load_spec(broken)
    with pytest.raises(EncoderError, match="encoder mismatch"):
        load_spec(folder, expect="0" * 16)


def test_tokens_are_counted_without_a_cut(folder: Path) -> None:
    assert TokenCounter(folder)(["hello world", "", "word " * 1000]) == [2, 0, 1000]
    assert EstimatedCounter()(["12345678", "123456789", ""]) == [2, 3, 0]


def test_bge_is_preferred_if_its_weights_are_available(tmp_path: Path) -> None:
    settings = Settings(models=str(tmp_path))
    assert registry.choose_encoder(settings).model.name == "all-MiniLM-L6-v2"
    tiny_bert(tmp_path / "bge-small-en-v1.5")
    chosen = registry.choose_encoder(settings)
    assert (chosen.model.name, chosen.origin) == ("bge-small-en-v1.5", "models folder")
    assert chosen.model.query_prefix.startswith("Represent this sentence")


def test_a_folder_of_the_user_works_from_end_to_end(tmp_path: Path, run_helix) -> None:
    folder = tiny_bert(tmp_path / "my-encoder")
    (tmp_path / "note.md").write_text("# Pantry\n\nwalnut bread")
    store = tmp_path / "store"
    done = run_helix("ingest", tmp_path / "note.md", "--store", store, HELIX_ENCODER=str(folder))
    assert done.returncode == 0, done.stderr
    assert "encoder: my-encoder from the path" in done.stderr
    answer = json.loads(run_helix("recall", "walnut bread", "--store", store, "--json").stdout)
    assert answer["degraded"] == []
    assert answer["items"][0]["text"] == "walnut bread"
    spec = json.loads(next(store.glob("encoders/*/encoder.json")).read_text())
    assert (spec["name"], spec["dim"], spec["pooling"]) == ("my-encoder", 32, "cls")
    # Another encoder never enters the same lineage.
    (tmp_path / "more.md").write_text("# More\n\nparsley")
    other = run_helix("ingest", tmp_path / "more.md", "--store", store, HELIX_ENCODER="all-MiniLM-L6-v2")
    assert other.returncode == 4
    assert "was built with my-encoder" in other.stderr
    assert run_helix("ingest", tmp_path / "more.md", "--store", store).returncode == 0


def test_packaged_weights_have_to_be_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    package, _ = registry.PACKAGED["all-MiniLM-L6-v2"]
    monkeypatch.setitem(registry.PACKAGED, "all-MiniLM-L6-v2", (package, "0" * 64))
    with pytest.raises(EncoderError, match="are not the published ones"):
        registry.choose_encoder(Settings())


def test_missing_and_unknown_encoders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PACKAGED", {})
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EncoderError, match="no weights found"):
        registry.choose_encoder(Settings())
    with pytest.raises(EncoderError, match="neither a known model nor a folder"):
        registry.choose_encoder(Settings(encoder="nope"))


def test_weights_in_the_hubs_cache_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    tiny_bert(tmp_path / "models--BAAI--bge-small-en-v1.5" / "snapshots" / "abc")
    assert registry.choose_encoder(Settings()).origin == "hub cache"


def test_a_failed_pull_names_the_remedy_and_models_lists_the_default(tmp_path: Path, run_helix) -> None:
    done = run_helix("models", "pull", "bge-small-en-v1.5", HELIX_MODELS=str(tmp_path))
    assert done.returncode == 4
    assert "cannot be downloaded" in done.stderr
    listed = json.loads(run_helix("models", "--json").stdout)
    assert {row["name"] for row in listed} >= {"bge-small-en-v1.5", "all-MiniLM-L6-v2"}
    assert [row["name"] for row in listed if row["default"]] == ["all-MiniLM-L6-v2"]
