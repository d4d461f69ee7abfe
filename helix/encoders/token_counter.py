"""Counters of tokens for budgets: word pieces as the encoder has them, or an estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import orjson

from helix.encoders.session import open_tokenizer
from helix.native.pieces import Vocabulary, build_vocabulary, count_pieces

_CACHED_CHUNKS: Final = 1 << 14
_CACHED_CHARS: Final = 32  # longer chunks hardly come back


class TokenCounter:
    """Counter of the encoder's word pieces, without special tokens or a cut."""

    name = "wordpiece"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tokenizer.json"
        tokenizer = orjson.loads(self._path.read_bytes())
        self._pieces = _read_pieces(tokenizer) if _splits_at_white_space(tokenizer) else None
        self._sizes: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text."""
        if self._pieces is None:
            return [self._count(text) for text in texts]
        tokens, left = count_pieces(texts, self._pieces)
        for i, chunk in left:
            tokens[i] += self._count_chunk(chunk)
        return tokens

    def _count_chunk(self, chunk: str) -> int:
        """Count the tokens of a chunk between white space that the kernel cannot count; short chunks are cached."""
        size = self._sizes.get(chunk)
        if size is None:
            size = self._count(chunk)
            if len(self._sizes) >= _CACHED_CHUNKS:
                self._sizes = {}
            if len(chunk) <= _CACHED_CHARS:
                self._sizes[chunk] = size
        return size

    @cached_property
    def _tokenizer(self) -> Any:
        """The full tokenizer, opened late: it takes longer to load than a cold recall has for counting."""
        return open_tokenizer(self._path)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))


def _splits_at_white_space(tokenizer: Mapping[str, Any]) -> bool:
    """Return whether the parts between white space have as many tokens as the text: BERT's do, byte pairs do not."""
    kind = {name: (tokenizer.get(name) or {}).get("type") for name in ("pre_tokenizer", "normalizer", "model")}
    bert = kind["pre_tokenizer"] == "BertPreTokenizer" and kind["normalizer"] in (None, "BertNormalizer")
    joined = any(len(added.split()) > 1 for added in _read_added_tokens(tokenizer))
    return bert and kind["model"] == "WordPiece" and not joined


def _read_added_tokens(tokenizer: Mapping[str, Any]) -> list[str]:
    return [token["content"] for token in tokenizer["added_tokens"]]


def _read_pieces(tokenizer: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary of a word-piece model for the kernel, which counts several times as fast."""
    model, normalizer = tokenizer["model"], tokenizer["normalizer"]
    prefix = model["continuing_subword_prefix"]
    plain = [piece for piece in model["vocab"] if piece.isascii()]
    inner = [piece.removeprefix(prefix) for piece in plain if piece.startswith(prefix)]
    return build_vocabulary(
        [piece for piece in plain if piece.isalnum()],
        [piece for piece in inner if piece.isalnum()],
        _read_added_tokens(tokenizer),
        lower=normalizer is not None and normalizer["lowercase"],
        most=model["max_input_chars_per_word"],
    )


class EstimatedCounter:
    """The fallback counter: a token is about four characters of English, rounded up."""

    name = "estimate"

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the estimated tokens of each text."""
        return [-(-len(text) // 4) for text in texts]
