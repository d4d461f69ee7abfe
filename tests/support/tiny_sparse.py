"""Tiny real sparse encoders, made with sentence-transformers: SPLADE and inference-free, random or of known weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.caching import EXPORTING, cache_folder
from tests.support.tiny_encoder import word_tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "car", "automobile", "engine", "repair", "garage", "bread", "bakery", "walnut", "olive", "oil", "flight", "plane",
    "goa", "march", "priya", "booked", "queue", "timeout", "worker", "lost", "manifest", "store", "rain", "skis",
    "marco", "phone", "the", "a", "is", "in", "who", "has", "where", "was", "my", "?", ".", ",",
)  # fmt: skip
STOP = ("the", "a", "is", "in", "who", "has", "where", "was", "my", "?", ".", ",")

EXPANSIONS: Mapping[str, Mapping[str, float]] = {
    "car": {"automobile": 3.0, "engine": 1.0},
    "bread": {"bakery": 2.0},
    "flight": {"plane": 2.5},
}
"""Logits that a word gives to other words; it gives OWN to itself, and a stop word gives none."""

OWN = 4.0
VOCABULARY = (*SPECIAL, *WORDS)


def term(word: str) -> int:
    """Return a word's id in the vocabulary."""
    return VOCABULARY.index(word)


def read_export(source: Path) -> Path:
    """Return the export of a model of this module in float32, which keeps its weights; an earlier run may have made it.

    Read it only.
    """

    def make(folder: Path) -> None:
        from helix.encoders.sparse_export import export_sparse_encoder

        folder.mkdir()
        export_sparse_encoder(source, folder, source.name, precision="fp32")

    sources = ("helix/encoders/*.py", "tests/support/tiny_sparse.py", "tests/support/tiny_encoder.py")
    return cache_folder(f"{source.name}-fp32", make, EXPORTING, sources)


def masked_model(folder: Path, kind: str = "known", length: int = 64) -> Path:
    """A BertForMaskedLM with its tokenizer: `known` gives EXPANSIONS, `random` has random weights."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    size = len(VOCABULARY)
    width = size + size % 2 if kind == "known" else 32
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=size, hidden_size=width, num_hidden_layers=1 if kind == "known" else 2, num_attention_heads=2,
            intermediate_size=16 if kind == "known" else 64, max_position_embeddings=length, pad_token_id=0,
            initializer_range=0.3, hidden_act="relu", tie_word_embeddings=False,
        )
    ).eval()  # fmt: skip
    if kind == "known":
        _know(model, width)
    model.save_pretrained(folder)
    word_tokenizer(VOCABULARY, model_max_length=length).save_pretrained(folder)
    return folder


def _know(model: Any, width: int) -> None:
    """Give each token its own direction, which no layer changes; the head reads its expansions from that."""
    import torch

    bert, head = model.bert, model.cls.predictions
    layer = bert.encoder.layer[0]
    with torch.no_grad():
        for table in (bert.embeddings.position_embeddings, bert.embeddings.token_type_embeddings):
            table.weight.zero_()
        bert.embeddings.word_embeddings.weight.copy_(torch.eye(len(VOCABULARY), width))
        for silent in (layer.attention.output.dense, layer.output.dense):
            silent.weight.zero_()
            silent.bias.zero_()
        head.transform.dense.weight.copy_(torch.eye(width))
        head.transform.dense.bias.zero_()
        head.decoder.weight.zero_()
        head.decoder.bias.zero_()
        # A layer norm turns one direction into this, the second time without negative values.
        peak = (width - 1) ** 0.5
        for word in WORDS:
            if word not in STOP:
                for other, logit in {word: OWN, **EXPANSIONS.get(word, {})}.items():
                    head.decoder.weight[term(other), term(word)] = logit / peak


def splade(folder: Path, kind: str = "known", pooling: str = "max", activation: str = "relu", **given: Any) -> Path:
    """A SPLADE model, saved by SparseEncoder.

    Args:
        folder: where it goes.
        kind: of `masked_model`.
        pooling, activation: of SpladePooling.
        given: to SparseEncoder.
    """
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(modules=_documents(folder, kind, pooling, activation), device="cpu", **given)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def _documents(folder: Path, kind: str, pooling: str, activation: str) -> list[Any]:
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    plain = masked_model(folder.with_name(f"{folder.name}-masked"), kind)
    return [
        Transformer(str(plain), transformer_task="fill-mask"),
        SpladePooling(pooling_strategy=pooling, activation_function=activation),  # type: ignore[arg-type]
    ]


WEIGHTS = {"car": 2.0, "automobile": 1.5, "bakery": 3.0, "plane": 2.0, "the": 0.01}
"""Weights of a question's words in the inference-free known model; other words get 1, special tokens 0."""


def inference_free(folder: Path, kind: str = "known", activation: str = "log1p_relu") -> Path:
    """A model that looks questions up in a table, saved by SparseEncoder."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    documents = _documents(folder, kind, "max", activation)
    weight = torch.ones(len(VOCABULARY))
    if kind == "known":  # a random one weighs special tokens as well: a question must have none
        weight[: len(SPECIAL)] = 0
    for word, value in WEIGHTS.items():
        weight[term(word)] = value
    static = SparseStaticEmbedding(
        tokenizer=word_tokenizer(VOCABULARY, model_max_length=64), weight=weight, frozen=True
    )
    router = Router.for_query_document(query_modules=[static], document_modules=documents)
    SparseEncoder(modules=[router], device="cpu").save_pretrained(str(folder), create_model_card=False)
    return folder


def auto_encoder(folder: Path) -> Path:
    """A CSR model: dense vectors through a sparse auto-encoder, without a vocabulary of words."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

    plain = masked_model(folder.with_name(f"{folder.name}-masked"), "random")
    modules = [Transformer(str(plain)), Pooling(32), SparseAutoEncoder(input_dim=32, hidden_dim=64, k=8)]
    SparseEncoder(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)
    return folder
