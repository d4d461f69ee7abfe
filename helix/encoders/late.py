"""Token vectors for late interaction, from an exported ColBERT or from a sentence encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helix.encoders.dense import Encoder
from helix.encoders.rerank_model import BATCH, load_spec
from helix.encoders.session import (
    TOKEN_CHARS,
    OnnxSession,
    Tokens,
    batch_by_length,
    open_tokenizer,
    pad_tokens,
    unit_rows,
)
from helix.errors import EncoderError
from helix.types import F32


@dataclass(frozen=True, slots=True)
class LateEncoder:
    """Texts → token vectors of unit length. Safe to share between threads.

    `query` gives float32[q, dim] for a question, `passages` one float32[t, dim] a text, in the order given.
    """

    name: str
    dim: int
    query: Callable[[str], F32]
    passages: Callable[[Sequence[str]], list[F32]]


def open_late(folder: Path, threads: int = 0) -> LateEncoder:
    """Open an exported ColBERT (Santhanam et al. 2022, "ColBERTv2").

    Markers come after the first token, questions are filled up with [MASK], punctuation is left out. Among other texts
    a text's vectors differ slightly: int8 activations share one range in a batch.

    Raises:
        EncoderError: a file is missing or changed, or it is no late-interaction encoder.
    """
    spec = load_spec(folder, "late")
    session = OnnxSession(
        folder / "model.onnx", threads, "reranker", "run 'helix models export' again", "take another reranker"
    )
    # Two tokenizers, as each holds one length; the marker takes one token.
    question_tokenizer = open_tokenizer(folder / "tokenizer.json", spec.query_tokens - 1)
    passage_tokenizer = open_tokenizer(folder / "tokenizer.json", spec.max_tokens - 1)
    skip = np.array(spec.skip, np.int32)

    def query(text: str) -> F32:
        ids = _mark(question_tokenizer.encode(text[: TOKEN_CHARS * spec.query_tokens]).ids, spec.query_marker)
        feed = pad_tokens([ids], spec.pad, spec.query_tokens if spec.expand else 1)
        if spec.expand:
            feed["input_ids"][0, len(ids) :] = spec.mask
            if spec.attend:
                feed["attention_mask"][:] = 1
        return unit_rows(session.run(feed)[0])

    def passages(texts: Sequence[str]) -> list[F32]:
        cut = [text[: TOKEN_CHARS * spec.max_tokens] for text in texts]
        tokens = [_mark(entry.ids, spec.passage_marker) for entry in passage_tokenizer.encode_batch_fast(cut)]
        retained = [~np.isin(ids, skip) for ids in tokens]
        return _embed_tokens(tokens, retained, lambda batch: session.run(pad_tokens(batch, spec.pad)))

    return LateEncoder(spec.name, spec.dim, query, passages)


def reuse_encoder(encoder: Encoder) -> LateEncoder:
    """Return a sentence encoder's token vectors without special tokens and prefixes.

    They are the fallback: the model was not trained for late interaction.

    Raises:
        EncoderError: the model gives one vector a text.
    """
    special = encoder.tokens([""])[0]
    hidden = encoder.run(encoder.feed([special]))
    if hidden.ndim != 3:
        raise EncoderError(
            f"{encoder.spec.name} pools its token vectors by itself and gives none for late interaction",
            "take another encoder, or name a ColBERT as HELIX_LATE_ENCODER",
        )

    def embed(texts: Sequence[str], prefix: str) -> list[F32]:
        cut = [prefix + text[: TOKEN_CHARS * encoder.spec.max_tokens] for text in texts]
        tokens = encoder.tokens(cut)
        lead = encoder.tokens([prefix])[0] if prefix else special[:0]
        retained = [~np.isin(ids, special) & (np.arange(len(ids)) >= _count_shared(ids, lead)) for ids in tokens]
        return _embed_tokens(tokens, retained, lambda batch: encoder.run(encoder.feed(batch)))

    return LateEncoder(
        encoder.spec.name,
        int(hidden.shape[2]),
        lambda text: embed([text], encoder.spec.query_prefix)[0],
        lambda texts: embed(texts, encoder.spec.passage_prefix),
    )


def _count_shared(first: Tokens, second: Tokens) -> int:
    """Count the tokens that two texts share at their start."""
    shorter = min(len(first), len(second))
    different = np.flatnonzero(first[:shorter] != second[:shorter])
    return int(different[0]) if len(different) else shorter


def _mark(ids: Sequence[int], marker: int) -> Tokens:
    return np.array([*ids[:1], marker, *ids[1:]], np.int32)


def _embed_tokens(
    tokens: Sequence[Tokens], retained: Sequence[Any], run: Callable[[Sequence[Tokens]], F32]
) -> list[F32]:
    """Return unit vectors of the retained tokens of each text; texts of similar length share a run."""
    out: dict[int, F32] = {}
    for positions in batch_by_length(tokens, BATCH):
        hidden = run([tokens[i] for i in positions])
        for i, rows in zip(positions.tolist(), hidden, strict=True):
            out[i] = unit_rows(rows[: len(tokens[i])][retained[i]])
    return [out[i] for i in range(len(tokens))]
