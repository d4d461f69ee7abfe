"""Cross-encoders in ONNX Runtime: question and passage → a score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from helix.encoders.rerank_model import BATCH, load_spec
from helix.encoders.session import TOKEN_CHARS, OnnxSession, batch_by_length, open_tokenizer, pad_tokens
from helix.types import F32


class CrossEncoder:
    """A network that reads question and passage together (Nogueira & Cho 2019). Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Open an exported folder.

        Raises:
            EncoderError: a file is missing or changed, or it is no cross-encoder.
        """
        self.spec = load_spec(folder, "cross")
        self._session = OnnxSession(
            folder / "model.onnx", threads, "reranker", "run 'helix models export' again", "take another reranker"
        )
        tokenizer = folder / "tokenizer.json"
        self._tokenizer = open_tokenizer(tokenizer, self.spec.max_tokens, strategy="only_second")
        # Only the passage is cut, so a question may fill half of the window.
        self._question_tokenizer = open_tokenizer(tokenizer, self.spec.max_tokens // 2)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.spec.name

    def score(self, query: str, texts: Sequence[str]) -> F32:
        """Score how well each text answers: float32[n] in [0, 1], the sigmoid of the network's logit.

        The same texts give the same scores; among other texts a score differs slightly, as int8 activations share one
        range in a batch.
        """
        question = self._cut_question(query)
        pairs = [(question, text[: TOKEN_CHARS * self.spec.max_tokens]) for text in texts]
        entries = self._tokenizer.encode_batch_fast(pairs)
        tokens = [np.array(entry.ids, np.int32) for entry in entries]
        logits = np.empty(len(tokens), np.float64)
        for positions in batch_by_length(tokens, BATCH):
            feed = pad_tokens([tokens[i] for i in positions], self.spec.pad)
            for row, i in enumerate(positions.tolist()):
                feed["token_type_ids"][row, : len(tokens[i])] = entries[i].type_ids
            logits[positions] = self._session.run(feed)[:, 0]
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))), np.float32)

    def _cut_question(self, query: str) -> str:
        """Cut a question to half of the window."""
        text = query[: TOKEN_CHARS * self.spec.max_tokens]
        entry = self._question_tokenizer.encode(text, add_special_tokens=False)
        return text[: entry.offsets[-1][1]] if entry.overflowing else text
