"""Questions that an item answers, to be indexed with it (Nogueira et al. 2019, "Document Expansion by Query
Prediction"). Sampled among the ten likeliest tokens, as docTTTTTquery does (Nogueira & Lin 2019).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.encoders.seq2seq import INPUT_TOKENS, TOP_K, Network
from helix.errors import UsageError
from helix.types import F32, I64

SEED: Final = 42

LEAST: Final = 0.3
"""Cosine under which a question is not about its item. With all-MiniLM it keeps 98 % of SQuAD's question–sentence pairs
and 1 % of random ones; 97 % of FairytaleQA's question–section pairs and 46 % of random ones, many of one tale."""

_BATCH_TOKENS: Final = 1024
"""Of the padded inputs of one batch: what the samples attend to is the largest part of the memory."""

_BATCH: Final = 32


class Generator:
    """Writes questions for texts. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, n: int = 3, max_tokens: int = 24, seed: int = SEED) -> None:
        """Open a folder made by `helix.encoders.seq2seq_export.cache_seq2seq`.

        Args:
            folder: the exported model.
            threads: batches worked on at once; 0: as many as cores, at most 2.
            n: questions a text, at most.
            max_tokens: tokens of a question, at most.
            seed: another one gives other questions.

        Raises:
            EncoderError: a file of the model is missing or damaged.
            UsageError: `n` or `max_tokens` is below one.
        """
        if n < 1 or max_tokens < 1:
            raise UsageError(f"doc2query of {n} questions of {max_tokens} tokens", "give at least one of each")
        # Two batches on a thread each take two thirds of the time of one after the other on two threads.
        self._network, self._threads = Network(folder, 1), threads or min(2, os.cpu_count() or 1)
        self._n, self._max_tokens, self._seed = n, max_tokens, seed

    @property
    def name(self) -> str:
        """Of the model."""
        return self._network.spec.name

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits over everything a result follows from: the model's files and the constants."""
        parts = (self._network.spec.fingerprint, self._n, self._max_tokens, self._seed, TOP_K, INPUT_TOKENS)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def queries(self, texts: Sequence[str]) -> list[list[str]]:
        """Questions for each text: at most `n`, distinct, none for a blank text; only its first 256 tokens are read.

        A text's questions follow from the text and the seed. What else is in the call changes its arithmetic in the
        last bits only (padding changes the order of sums), which changes a sampled token about never, but may. The
        same texts in another order give the same batches, and with them the very same questions.
        """
        distinct = list(dict.fromkeys(texts))
        tokens = dict(zip(distinct, self._network.tokens(distinct), strict=True))
        found: dict[str, list[str]] = {text: [] for text in distinct}
        ordered = sorted((text for text in distinct if tokens[text]), key=lambda text: (len(tokens[text]), text))
        batches = list(_batches(ordered, [len(tokens[text]) for text in ordered]))
        batches.reverse()  # a long one that begins last would keep one thread waiting
        with ThreadPoolExecutor(self._threads) as pool:
            written = pool.map(lambda batch: self._write([tokens[text] for text in batch], batch), batches)
            for batch, asked in zip(batches, written, strict=True):
                found.update(zip(batch, asked, strict=True))
        return [list(found[text]) for text in texts]

    def _write(self, tokens: Sequence[Sequence[int]], batch: Sequence[str]) -> list[list[str]]:
        """The questions of one batch."""
        draws = np.concatenate([_draws(text, self._seed, self._n, self._max_tokens) for text in batch])
        written = self._network.text(self._network.decode(tokens, self._n, self._max_tokens, _sampler(draws)))
        return [_distinct(written[i : i + self._n]) for i in range(0, len(written), self._n)]


def keep_near(
    queries: Sequence[Sequence[str]],
    items: F32,
    encode: Callable[[Sequence[str]], F32],
    least: float = LEAST,
) -> list[list[str]]:
    """Drop the questions that are not about their item (after Gospodinov et al. 2023, "Doc2Query--").

    Args:
        queries: of each item.
        items: float32[n, d], the items' embeddings.
        encode: texts → float32[m, d], of the same encoder; called once, with distinct texts, or not at all.
        least: cosine under which a question goes.

    Returns:
        The questions that stay, of each item, in their order.

    Raises:
        UsageError: there are not as many lists of questions as items.
    """
    if len(queries) != len(items):
        raise UsageError(f"questions of {len(queries)} items, embeddings of {len(items)}", "give one list an item")
    place = {query: i for i, query in enumerate(dict.fromkeys(query for given in queries for query in given))}
    if not place:
        return [[] for _ in queries]
    vectors, targets = _unit(encode(list(place))), _unit(items)
    return [
        [query for query in given if float(vectors[place[query]] @ target) >= least]
        for given, target in zip(queries, targets, strict=True)
    ]


def _unit(vectors: F32) -> F32:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


def _batches(texts: Sequence[str], lengths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Cut texts, shortest first, so that a padded batch keeps to its tokens."""
    start = 0
    for i, length in enumerate(lengths):
        if i > start and (i - start == _BATCH or (i - start + 1) * length > _BATCH_TOKENS):
            yield texts[start:i]
            start = i
    if texts:
        yield texts[start:]


def _draws(text: str, seed: int, n: int, steps: int) -> npt.NDArray[np.float64]:
    """Uniform numbers of a text, float64[n, steps] in [0, 1): its own, whatever batch it is in."""
    digest = hashlib.blake2b(f"{seed}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).random((n, steps))


def _sampler(draws: npt.NDArray[np.float64]) -> Callable[[int, I64, F32, I64], I64]:
    """Chooses by inverting each row's distribution over its best tokens at its own draw: float64[rows, steps]."""

    def choose(step: int, rows: I64, logits: F32, tokens: I64) -> I64:
        weights = np.exp(logits.astype(np.float64) - logits[:, :1])  # the best one is first
        edges = np.cumsum(weights, axis=1)
        above = (edges <= draws[rows, step, None] * edges[:, -1:]).sum(1)
        return np.asarray(tokens[np.arange(len(rows)), np.minimum(above, tokens.shape[1] - 1)], np.int64)

    return choose


def _distinct(queries: Sequence[str]) -> list[str]:
    """Without blanks and without those that differ in case and spacing only."""
    clean = (" ".join(query.split()) for query in queries)
    return list({query.casefold(): query for query in reversed(list(clean)) if query}.values())[::-1]
