"""Late-interaction encoders: tiny real models, exported and compared with torch's own token vectors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.rerank import find_reranker, load_spec, open_late, reuse_encoder
from helix.encoders.rerank_export import reranker_kind
from helix.encoders.token_counter import TokenCounter
from helix.errors import EncoderError
from helix.settings import Settings
from helix.stages.rerank import maxsims
from tests.support import tiny_rerank
from tests.support.tiny_rerank import QUESTION, TEXTS, export


def embed_by_torch(folder: Path, text: str, marker: str, query: bool, attend: bool = False) -> np.ndarray:
    """As the authors' code does it: a placeholder in place of the marker, [MASK] over the padding."""
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
    ("layout", "query", "passage"), [("stanford", *tiny_rerank.SPECIAL[5:]), ("pylate", "[Q] ", "[D] ")]
)
def test_token_vectors_are_those_of_torch(models: Path, layout: str, query: str, passage: str) -> None:
    encoder = open_late(models / f"{layout}-fp32")
    assert (encoder.name, encoder.dim) == (layout, tiny_rerank.DIM)
    long = "walnut bread with olive oil and more salt " * 8
    for text in (QUESTION, "", long):
        vectors = encoder.query(text)
        assert (vectors.shape, vectors.dtype) == ((12, tiny_rerank.DIM), np.float32)
        np.testing.assert_allclose(vectors, embed_by_torch(models / layout, text, query, query=True), atol=1e-4)
    texts = [*TEXTS, long]
    for text, vectors in zip(texts, encoder.passages(texts), strict=True):
        np.testing.assert_allclose(vectors, embed_by_torch(models / layout, text, passage, query=False), atol=1e-4)
    assert (len(encoder.passages([long])[0]), encoder.passages([])) == (24, [])


def test_int8_stays_close(models: Path) -> None:
    exact, small = open_late(models / "stanford-fp32"), open_late(models / "stanford-int8")
    query = exact.query(QUESTION)
    assert 0 < np.abs(small.query(QUESTION) - query).max() < 0.1
    for first, second in zip(exact.passages(TEXTS), small.passages(TEXTS), strict=True):
        assert (first * second).sum(axis=1).min() > 0.95
        assert np.linalg.norm(second, axis=1) == pytest.approx(np.ones(len(second)), abs=1e-5)
    scores = [maxsims(query, each.passages(TEXTS)) for each in (small, exact)]
    np.testing.assert_allclose(*scores, atol=tiny_rerank.INT8_ERROR, rtol=0)


def test_the_configuration_is_followed(tmp_path: Path, models: Path) -> None:
    usual = open_late(models / "stanford-fp32")
    attending = tiny_rerank.colbert(tmp_path / "a", attend_to_mask_tokens=True, mask_punctuation=False)
    encoder = open_late(export(attending, tmp_path / "a-x", "fp32"))
    expected = embed_by_torch(attending, QUESTION, "[unused0]", query=True, attend=True)
    np.testing.assert_allclose(encoder.query(QUESTION), expected, atol=1e-4)
    assert np.abs(encoder.query(QUESTION) - usual.query(QUESTION)).max() > 0.01
    assert [len(v) for v in encoder.passages(["bread, salt."])] == [7]
    assert [len(v) for v in usual.passages(["bread, salt."])] == [5]
    bare = tiny_rerank.colbert(tmp_path / "b", "pylate", do_query_expansion=False, skiplist_words=["walnut"])
    encoder = open_late(export(bare, tmp_path / "b-x", "fp32"))
    assert len(encoder.query("walnut bread")) == 5  # [CLS] [Q] walnut bread [SEP]
    assert [len(v) for v in encoder.passages(["walnut, bread"])] == [5]  # [CLS] [D] , bread [SEP]


@pytest.mark.parametrize(("layout", "place"), [("stanford", "pytorch_model.bin"), ("pylate", "0_Transformer")])
def test_weights_may_be_elsewhere_in_the_folder(tmp_path: Path, models: Path, layout: str, place: str) -> None:
    import torch
    from safetensors.torch import load_file

    folder = tmp_path / layout
    shutil.copytree(models / layout, folder)
    if place == "0_Transformer":
        (folder / place).mkdir()
        for path in [path for path in folder.iterdir() if path.is_file()]:
            if path.name not in ("modules.json", "config_sentence_transformers.json"):
                path.rename(folder / place / path.name)
        modules = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps([{**modules[0], "path": place}, modules[1]]))
    else:
        torch.save(load_file(folder / "model.safetensors"), folder / place)
        (folder / "model.safetensors").unlink()
    assert find_reranker(str(folder), Settings()).folder == folder
    assert reranker_kind(folder) == "late"
    exports = (export(folder, tmp_path / "x", "fp32"), models / f"{layout}-fp32")
    first, second = (open_late(path).query(QUESTION) for path in exports)
    np.testing.assert_allclose(first, second, atol=1e-5)
    specs = [replace(load_spec(path, "late"), weights_sha256="", fingerprint="", files={}) for path in exports]
    assert specs[0] == specs[1]


def test_the_default_encoders_own_tokens(cache: Path) -> None:
    from sentence_transformers import SentenceTransformer

    default = Encoder(cache_encoder(registry.choose_encoder(Settings()), cache))
    late = reuse_encoder(default)
    worker = "The worker acknowledges a task only after the envelope is published."
    texts = ["I told Priya we can do March for vacation", worker, "thanks"]
    passages = late.passages(texts)
    assert [len(vectors) for vectors in passages] == TokenCounter(default.folder)(texts)  # no special tokens
    assert all(vectors.shape[1] == late.dim == 384 for vectors in passages)
    assert np.linalg.norm(np.concatenate(passages), axis=1) == pytest.approx(1, abs=1e-5)
    library = SentenceTransformer(str(registry.find_trainable("all-MiniLM-L6-v2", Settings())), device="cpu")
    exact = library.encode(texts[0], output_value="token_embeddings").numpy()[1:-1]
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    assert (passages[0] * exact).sum(axis=1).min() > 0.9
    for question, best in (("when is the holiday with Priya", 0), ("when is a job acknowledged", 1)):
        scores = maxsims(late.query(question), passages)
        assert scores.argmax() == best
        assert -1 <= scores.min() < scores.max() <= 1
    assert late.query("").shape == (0, 384)
    # A prefix is no part of the question.
    plain, other = late.query("walnut bread"), Encoder(default.folder)
    other.spec = replace(default.spec, query_prefix="Represent this sentence: ")
    prefixed = reuse_encoder(other).query("walnut bread")
    assert prefixed.shape == plain.shape
    assert np.abs(prefixed - plain).max() > 0.01  # the model reads it, though
    assert len(reuse_encoder(other).passages(["walnut bread"])[0]) == len(plain)


def test_a_model_that_pools_by_itself_has_no_token_vectors() -> None:
    odd: Any = SimpleNamespace(
        tokens=lambda texts: [np.array([1, 2], np.int32) for _ in texts],
        feed=lambda tokens: {},
        run=lambda feed: np.zeros((1, 8), np.float32),
        spec=SimpleNamespace(name="odd"),
    )
    with pytest.raises(EncoderError, match="odd pools its token vectors by itself"):
        reuse_encoder(odd)
