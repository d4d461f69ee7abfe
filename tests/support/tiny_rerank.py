"""Tiny real rerankers, made with torch in the folder given: ColBERT in both of its layouts, and cross-encoders."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

from tests.support.tiny_encoder import word_tokenizer

WORDS = ("walnut", "bread", "olive", "oil", "salt", "and", "more", "with", "who", "bakes", "the", "a", "?", ".", ",")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]")
DIM = 16
QUESTION = "who bakes walnut bread?"
TEXTS = ["walnut bread", "", "olive oil, salt and more.", "walnut walnut walnut", "bread with olive oil"]
INT8_ERROR = 0.05  # of a score; the kernels of processors round differently


def _tokenizer(extra: tuple[str, ...] = ()) -> Any:
    tokenizer = word_tokenizer((*SPECIAL, *WORDS), model_max_length=64)
    tokenizer.add_tokens(list(extra))
    return tokenizer


def _config(size: int, **given: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=given.pop("layers", 2), num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64, pad_token_id=0, initializer_range=0.3, **given,
    )  # fmt: skip


def colbert(folder: Path, layout: str = "stanford", **options: Any) -> Path:
    """A ColBERT of random weights.

    Args:
        folder: where it goes.
        layout: stanford (`linear.weight` among the weights, artifact.metadata) or pylate (modules, 1_Dense).
        options: go into the layout's own configuration.
    """
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import BertModel

    torch.manual_seed(0)
    tokenizer = _tokenizer(("[Q] ", "[D] ") if layout == "pylate" else ())
    model = BertModel(_config(len(tokenizer)), add_pooling_layer=False)
    linear = torch.randn(DIM, 32) / 6
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if layout == "stanford":
        weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
        save_file({**weights, "linear.weight": linear}, folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
        metadata = {"query_maxlen": 12, "doc_maxlen": 24, "dim": DIM, "query_token_id": "[unused0]", **options}
        (folder / "artifact.metadata").write_text(json.dumps(metadata))
        return folder
    parts = [("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense")]
    (folder / "modules.json").write_text(
        json.dumps([{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(parts)])
    )
    (folder / "1_Dense").mkdir()
    dense = {"in_features": 32, "out_features": DIM, "bias": False}
    dense["activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "1_Dense" / "config.json").write_text(json.dumps(dense))
    save_file({"linear.weight": linear}, folder / "1_Dense" / "model.safetensors")
    config = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 12, "document_length": 24}
    config |= {"skiplist_words": list(string.punctuation), **options}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return folder


def cross(folder: Path, kind: str = "random", labels: int = 1) -> Path:
    """A cross-encoder.

    Args:
        folder: where it goes.
        kind: random; walnut: the score grows with the share of "walnut" in the pair; constant.
        labels: logits it gives.
    """
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(1)
    tokenizer = _tokenizer()
    config = _config(len(tokenizer), num_labels=labels, layers=1 if kind == "walnut" else 2)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        if kind == "walnut":
            _notice(model, tokenizer.convert_tokens_to_ids("walnut"))
        if kind == "constant":
            model.classifier.weight.zero_()
            model.classifier.bias.fill_(0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _notice(model: Any, word: int) -> None:
    """Give one word a direction of its own: attention averages all tokens, and the logit reads that direction."""
    import torch

    bert = model.bert
    layer = bert.encoder.layer[0]
    for table in (bert.embeddings.position_embeddings, bert.embeddings.token_type_embeddings):
        table.weight.zero_()
    words = bert.embeddings.word_embeddings.weight
    words[:, 0] = 0
    words[word] = 0
    words[word, 0] = 3
    own = layer.attention.self
    for silent in (own.query, own.key, layer.output.dense):
        silent.weight.zero_()
    for passing in (own.value, layer.attention.output.dense, bert.pooler.dense):
        passing.weight.copy_(torch.eye(32))
    model.classifier.weight.zero_()
    model.classifier.weight[0, 0] = 4
    model.classifier.bias.fill_(-1)


def export(source: Path, target: Path, precision: str) -> Path:
    from helix.encoders.rerank_export import export_reranker

    target.mkdir()
    export_reranker(source, target, source.name, precision=precision)
    return target
