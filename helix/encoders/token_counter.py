"""Counters of tokens for budgets: word pieces as the encoder has them, or an estimate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import orjson

from helix.encoders.session import open_tokenizer
from helix.native.pieces import Vocabulary, build_vocabulary, count_pieces

_CACHED_CHUNKS: Final = 1 << 17
_CACHED_CHARS: Final = 32  # longer chunks hardly come back

_SPACE: Final = "\u2581"  # SentencePiece's mark of a blank
_ODD_SPACE: Final = "[\x1c-\x1f\x85]"  # blanks to Python, none to SentencePiece


class TokenCounter:
    """Counter of the encoder's word pieces, without special tokens, a cut, or blanks at the ends of a text."""

    name = "wordpiece"

    def __init__(self, folder: Path, tokenizer: Any = None) -> None:
        """Read an encoder's folder.

        Args:
            tokenizer: the encoder's, if it is open: one of a large vocabulary takes 300 MB. It may cut.
        """
        self._given = tokenizer
        self._path = folder / "tokenizer.json"
        rules = orjson.loads(self._path.read_bytes())
        self._pieces = _read_pieces(rules) if _is_bert(rules) else None
        self._whole = _find_whole(rules) if not self._pieces and _is_sentence_piece(rules) else None
        self._sizes: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text."""
        if self._whole:
            return [self._count(text) if self._whole.search(text) else self._add_up(text) for text in texts]
        if self._pieces is None:
            return [self._count(text) for text in texts]
        tokens, left = count_pieces(texts, self._pieces)
        for i, chunk in left:
            tokens[i] += self._count_chunk(chunk)
        return tokens

    def _add_up(self, text: str) -> int:
        known = self._sizes
        return sum([known.get(chunk) or self._count_chunk(chunk) for chunk in text.split()])

    def _count_chunk(self, chunk: str) -> int:
        """Count the tokens of a chunk between white space by the tokenizer; short chunks are cached."""
        size = self._sizes.get(chunk)
        if size is None:
            size = self._count(chunk)
            if len(self._sizes) >= _CACHED_CHUNKS:
                self._sizes.clear()
            if len(chunk) <= _CACHED_CHARS:
                self._sizes[chunk] = size
        return size

    @cached_property
    def _tokenizer(self) -> Any:
        """The full tokenizer; one of its own is opened late: it takes longer than a cold recall has for counting."""
        return self._given or open_tokenizer(self._path)

    def _count(self, text: str) -> int:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return len(found) + sum(map(len, found.overflowing))


def _is_bert(tokenizer: Mapping[str, Any]) -> bool:
    """Return whether these are BERT's word pieces; the parts between white space have as many tokens as the text."""
    kind = {name: (tokenizer.get(name) or {}).get("type") for name in ("pre_tokenizer", "normalizer", "model")}
    bert = kind["pre_tokenizer"] == "BertPreTokenizer" and kind["normalizer"] in (None, "BertNormalizer")
    joined = any(len(added.split()) > 1 for added in _read_added_tokens(tokenizer))
    return bert and kind["model"] == "WordPiece" and not joined


def _is_sentence_piece(tokenizer: Mapping[str, Any]) -> bool:
    """Return whether this is a SentencePiece model whose pieces hold no blank but the one before a word.

    The parts between white space then have as many tokens as the text (Kudo 2018, "Subword regularization"): the best
    path through a text is that through each of its words.
    """
    pre, model = tokenizer.get("pre_tokenizer") or {}, tokenizer["model"]
    marked = pre.get("type") == "Metaspace" and pre.get("prepend_scheme") == "always"
    return marked and model["type"] == "Unigram" and not any(_SPACE in piece[1:] for piece, _ in model["vocab"])


def _find_whole(tokenizer: Mapping[str, Any]) -> re.Pattern[str]:
    """Return what a text must not hold to be counted by its parts."""
    return re.compile("|".join([_ODD_SPACE, *map(re.escape, _read_added_tokens(tokenizer))]))


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
