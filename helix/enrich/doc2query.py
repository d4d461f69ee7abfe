"""Questions that an item answers, generated to be indexed with it (doc2query).

The method is of Nogueira et al. 2019, "Document Expansion by Query Prediction". Tokens are sampled among the ten
likeliest, as in docTTTTTquery (Nogueira & Lin 2019).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.seq2seq import INPUT_TOKENS, TOP_K, Network
from helix.errors import UsageError
from helix.types import F32, F64, I64

SEED: Final = 42

MIN_COSINE: Final = 0.3
"""Cosine below which a question is not about its item. With all-MiniLM it accepts 98 % of SQuAD's question–sentence
pairs and 1 % of random ones; 97 % of FairytaleQA's question–section pairs and 46 % of random ones, many of one tale."""

_BATCH_TOKENS: Final = 1024
"""Tokens of one padded batch; the attention over its inputs takes most of the memory."""

_BATCH: Final = 32
"""Texts."""


class Generator:
    """Writer of questions for texts. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, n: int = 3, max_tokens: int = 24, seed: int = SEED) -> None:
        """Open a folder made by `helix.encoders.seq2seq_export.cache_seq2seq`.

        Args:
            folder: the exported model.
            threads: parallel batches; 0: one per core, at most 2.
            n: questions per text, at most.
            max_tokens: tokens of a question, at most.
            seed: of the samples.

        Raises:
            EncoderError: a file of the model is missing or damaged.
            UsageError: `n` or `max_tokens` is below one.
        """
        if n < 1 or max_tokens < 1:
            raise UsageError(f"doc2query of {n} questions of {max_tokens} tokens", "give at least one of each")
        # Two batches on one thread each take two thirds of the time of one batch after the other on two threads.
        self._network, self._threads = Network(folder, 1), threads or min(2, os.cpu_count() or 1)
        self._n, self._max_tokens, self._seed = n, max_tokens, seed

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._network.spec.name

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits over everything that decides a result: the model's files and the constants."""
        parts = (self._network.spec.fingerprint, self._n, self._max_tokens, self._seed, TOP_K, INPUT_TOKENS)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def write_questions(self, texts: Sequence[str]) -> list[list[str]]:
        """Write at most `n` distinct questions for each text, none for a blank one; only its first 256 tokens are read.

        A text's questions depend on the text and the seed. The other texts of a call change the last bits of the
        arithmetic (padding changes the order of sums), which very rarely changes a sampled token. The same texts in
        another order give the same batches, and so the same questions.
        """
        distinct = list(dict.fromkeys(texts))
        tokens = dict(zip(distinct, self._network.tokens(distinct), strict=True))
        questions: dict[str, list[str]] = {text: [] for text in distinct}
        ordered = sorted((text for text in distinct if tokens[text]), key=lambda text: (len(tokens[text]), text))
        batches = list(_split_batches(ordered, [len(tokens[text]) for text in ordered]))
        batches.reverse()  # a long batch that begins last would leave a thread idle
        with ThreadPoolExecutor(self._threads) as pool:
            written = pool.map(lambda batch: self._write([tokens[text] for text in batch], batch), batches)
            for batch, of_batch in zip(batches, written, strict=True):
                questions.update(zip(batch, of_batch, strict=True))
        return [list(questions[text]) for text in texts]

    def _write(self, tokens: Sequence[Sequence[int]], batch: Sequence[str]) -> list[list[str]]:
        """Write the questions of one batch."""
        draws = np.concatenate([_draw(text, self._seed, self._n, self._max_tokens) for text in batch])
        written = self._network.text(self._network.decode(tokens, self._n, self._max_tokens, _make_sampler(draws)))
        return [_drop_repeats(written[i : i + self._n]) for i in range(0, len(written), self._n)]


def keep_near(
    queries: Sequence[Sequence[str]],
    items: F32,
    encode: Callable[[Sequence[str]], F32],
    least: float = MIN_COSINE,
) -> list[list[str]]:
    """Drop the questions that are not about their item (after Gospodinov et al. 2023, "Doc2Query--").

    Args:
        queries: the questions of each item.
        items: float32[n, d], the items' embeddings.
        encode: texts → float32[m, d], of the same encoder; called at most once, with distinct texts.
        least: cosine below which a question is dropped.

    Returns:
        The remaining questions of each item, in their order.

    Raises:
        UsageError: the numbers of question lists and items differ.
    """
    if len(queries) != len(items):
        raise UsageError(f"questions of {len(queries)} items, embeddings of {len(items)}", "give one list an item")
    place = {query: i for i, query in enumerate(dict.fromkeys(query for of_item in queries for query in of_item))}
    if not place:
        return [[] for _ in queries]
    vectors, targets = _normalise(encode(list(place))), _normalise(items)
    return [
        [query for query in of_item if float(vectors[place[query]] @ target) >= least]
        for of_item, target in zip(queries, targets, strict=True)
    ]


def _normalise(vectors: F32) -> F32:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


def _split_batches(texts: Sequence[str], lengths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Split texts, shortest first, into batches within the padded token limit."""
    start = 0
    for i, length in enumerate(lengths):
        if i > start and (i - start == _BATCH or (i - start + 1) * length > _BATCH_TOKENS):
            yield texts[start:i]
            start = i
    if texts:
        yield texts[start:]


def _draw(text: str, seed: int, n: int, steps: int) -> F64:
    """Draw the uniform numbers of a text, float64[n, steps] in [0, 1), independent of its batch."""
    digest = hashlib.blake2b(f"{seed}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).random((n, steps))


def _make_sampler(draws: F64) -> Callable[[int, I64, F32, I64], I64]:
    """Return a sampler that inverts each row's distribution over its best tokens at its draw, float64[rows, steps]."""

    def choose(step: int, rows: I64, logits: F32, tokens: I64) -> I64:
        weights = np.exp(logits.astype(np.float64) - logits[:, :1])  # the best one is first
        edges = np.cumsum(weights, axis=1)
        above = (edges <= draws[rows, step, None] * edges[:, -1:]).sum(1)
        return np.asarray(tokens[np.arange(len(rows)), np.minimum(above, tokens.shape[1] - 1)], np.int64)

    return choose


def _drop_repeats(queries: Sequence[str]) -> list[str]:
    """Return the queries without blank ones and those that differ in case and spacing only."""
    clean = (" ".join(query.split()) for query in queries)
    return list({query.casefold(): query for query in reversed(list(clean)) if query}.values())[::-1]
