"""Tiny real sentence encoders of random weights, and the tokenizer that the tiny models share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORDS = ("walnut", "bread", "olive", "oil", "salt", "and", "more", "with", *"abcdefghijklmnopqrstuvwxyz,")


def word_tokenizer(
    vocabulary: Sequence[str], special: str = "[CLS] [PAD] [SEP] [UNK] [MASK]", bert: bool = True, **options: Any
) -> Any:
    """A tokenizer of whole words, lower-cased, for transformers.

    Args:
        vocabulary: words by id, special tokens included.
        special: begin, padding, end, unknown, and mask if there is one.
        bert: split as BERT does; else at white space and punctuation.
        options: of PreTrainedTokenizerFast.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate(vocabulary)}
    begin, pad, end, unknown, *mask = special.split()
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=unknown))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if bert else pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(begin, ids[begin]), (end, ids[end])],
    )
    if mask:
        options["mask_token"] = mask[0]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, unk_token=unknown, cls_token=begin, sep_token=end, **options
    )


def tiny_bert(folder: Path, hidden: int = 32) -> Path:
    """A sentence encoder of word pieces in the layout of sentence-transformers, made without it in seconds."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "walnut", "bread"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    config = BertConfig(
        vocab_size=len(words), hidden_size=hidden, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128,
    )  # fmt: skip
    folder.mkdir(parents=True)
    BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    return folder


def _save_transformer(plain: Path, kind: str, positions: int, **more: Any) -> Path:
    """Save a small transformer with its tokenizer; `kind` is bert, xlm-roberta or qwen3."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    roberta = kind == "xlm-roberta"
    special = "<s> <pad> </s> <unk>" if roberta else "[CLS] [PAD] [SEP] [UNK]"
    vocabulary = (*(special.split() if roberta else ("[PAD]", "[UNK]", "[CLS]", "[SEP]")), *WORDS)
    shape: dict[str, Any] = {
        "vocab_size": len(vocabulary), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": positions, "pad_token_id": int(roberta),
        "initializer_range": 0.3, **more,
    }  # fmt: skip
    if kind == "qwen3":
        shape |= {"num_key_value_heads": 2, "head_dim": 16}
    AutoModel.from_config(AutoConfig.for_model(kind, **shape)).save_pretrained(plain)
    word_tokenizer(vocabulary, special, bert=False).save_pretrained(plain)
    return plain


def sentence_encoder(
    folder: Path,
    kind: str = "bert",
    *,
    pooling: str = "mean",
    normalise: bool = True,
    prompts: dict[str, str] | None = None,
    positions: int = 66,
) -> Path:
    """A folder that SentenceTransformer saved; `kind` is bert, xlm-roberta or qwen3."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    plain = _save_transformer(folder.parent / f"{folder.name}-plain", kind, positions)
    modules = [Transformer(str(plain)), Pooling(64, pooling_mode=pooling), *([Normalize()] if normalise else [])]
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    return folder


LAYOUTS = ("cls-dense", "no-normalise", "joined", "layers", "square-root", "norm-twice", "subfolder", "static")
"""Lists of modules that Helix does not know."""


def sentence_pipeline(folder: Path, layout: str, prompts: dict[str, str] | None = None) -> Path:
    """Save a folder of two layers of 32 and other modules with SentenceTransformer.

    `layout` is one of LAYOUTS, or cnn or lstm.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as library

    torch.manual_seed(1)
    shape = {"hidden_size": 32, "intermediate_size": 64, "output_hidden_states": layout == "layers"}
    plain = str(_save_transformer(folder.parent / f"{folder.name}-plain", "bert", 66, **shape))

    def weighted_layers() -> Any:
        weights = torch.nn.Parameter(torch.tensor([5.0, 0.1]))
        return library.WeightedLayerPooling(32, num_hidden_layers=2, layer_start=1, layer_weights=weights)

    def layer_norm() -> Any:
        module = library.LayerNorm(32)
        torch.nn.init.normal_(module.norm.weight, 1.0, 0.5)
        return module

    rest = {
        "cls-dense": lambda: [library.Pooling(32, "cls"), library.Dense(32, 16), library.Normalize()],
        "no-normalise": lambda: [
            library.Pooling(32, "max"),
            library.Dense(32, 24, activation_function=torch.nn.GELU()),
        ],
        "joined": lambda: [library.Pooling(32, ("cls", "max", "lasttoken", "weightedmean"))],
        "layers": lambda: [weighted_layers(), library.Pooling(32, "mean")],
        "square-root": lambda: [library.Pooling(32, "mean_sqrt_len_tokens"), library.Dropout(0.5), layer_norm()],
        "norm-twice": lambda: [library.Pooling(32), library.Normalize(), library.Dense(32, 32), library.Normalize()],
        "subfolder": lambda: [library.Pooling(32, "mean")],
        "cnn": lambda: [library.CNN(32, 16), library.Pooling(48, "mean")],
        "lstm": lambda: [library.LSTM(32, 16), library.Pooling(32, "mean")],
        "static": lambda: [library.Dense(32, 16)],
    }[layout]()
    first = library.Transformer(plain)
    if layout == "static":
        first = library.StaticEmbedding(first.tokenizer, embedding_dim=32)
    SentenceTransformer(modules=[first, *rest], prompts=prompts, device="cpu").save(
        str(folder), create_model_card=False
    )
    if layout == "subfolder":
        _move_transformer(folder)
    return folder


def _move_transformer(folder: Path) -> None:
    """Move the transformer into a folder of its own, as older releases saved it."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(folder / "0_Transformer" / path.name)
