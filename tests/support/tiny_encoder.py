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


def sentence_encoder(
    folder: Path,
    kind: str = "bert",
    *,
    pooling: str = "mean",
    normalise: bool = True,
    prompts: dict[str, str] | None = None,
    positions: int = 66,
) -> Path:
    """A folder that SentenceTransformer saved; `kind` is bert or xlm-roberta."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    roberta = kind == "xlm-roberta"
    special = "<s> <pad> </s> <unk>" if roberta else "[CLS] [PAD] [SEP] [UNK]"
    vocabulary = (*(special.split() if roberta else ("[PAD]", "[UNK]", "[CLS]", "[SEP]")), *WORDS)
    shape: dict[str, Any] = {
        "vocab_size": len(vocabulary), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": positions, "pad_token_id": int(roberta),
        "initializer_range": 0.3,
    }  # fmt: skip
    model = XLMRobertaModel(XLMRobertaConfig(**shape)) if roberta else BertModel(BertConfig(**shape))
    plain = folder.parent / f"{folder.name}-plain"
    model.save_pretrained(plain)
    word_tokenizer(vocabulary, special, bert=False).save_pretrained(plain)
    modules = [Transformer(str(plain)), Pooling(64, pooling_mode=pooling), *([Normalize()] if normalise else [])]
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder))
    return folder
