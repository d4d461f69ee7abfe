"""Exported graphs in ONNX Runtime, with their tokenizers and padded batches. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.errors import EncoderError
from helix.types import F32, I32, I64

Tokens = I32

TOKEN_CHARS: Final = 64
"""Characters of a text for each token that is read: spares the tokenizer a megabyte that would be cut."""

INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""Inputs that a graph may have."""

_RUN_TOKENS: Final = 1_024  # of one ONNX run with padding, which fits the cache; 512 to 4,096 are within 10 % of it


def open_session(path: Path, threads: int, noun: str, remedy: str) -> Any:
    """Open an ONNX graph as an InferenceSession; 0 threads are two, or one on a single core.

    Raises:
        EncoderError: the graph of this kind of model, `noun`, is damaged.
    """
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf, RuntimeException

    options = ort.SessionOptions()
    # ONNX Runtime ignores OMP_NUM_THREADS and the quotas of containers.
    options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph, InvalidProtobuf, RuntimeException) as error:
        raise EncoderError(f"{noun} unreadable: {path}: {error}", remedy) from None


class OnnxSession:
    """A graph that reads tokens and gives one array. Safe to share between threads."""

    def __init__(self, path: Path, threads: int, noun: str, remedy: str, other: str) -> None:
        """Open the graph; `remedy` is for a damaged one, `other` for one of another kind.

        Raises:
            EncoderError: the graph is damaged or has other inputs.
        """
        self._session = open_session(path, threads, noun, remedy)
        self.inputs = frozenset(entry.name for entry in self._session.get_inputs())
        if unknown := self.inputs - INPUTS:
            raise EncoderError(f"{path} wants {', '.join(sorted(unknown))}", other)

    def run(self, feed: Mapping[str, I64]) -> F32:
        """Return the first output of one ONNX run."""
        return np.asarray(self._session.run(None, {name: feed[name] for name in self.inputs})[0])


def open_tokenizer(path: Path, tokens: int | None = None, **options: Any) -> Any:
    """Open a tokenizer without padding that cuts to so many tokens, special ones included; None: no cut."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    if tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(tokens, **options)
    return tokenizer


def pad_tokens(tokens: Sequence[Tokens], pad: int, width: int = 1) -> dict[str, I64]:
    """Return the inputs of one ONNX run: int64[n, longest, at least `width`] each, padded at the end."""
    lengths = np.array([len(ids) for ids in tokens])
    mask = np.arange(max(width, lengths.max())) < lengths[:, None]
    ids = np.full(mask.shape, pad, np.int64)
    ids[mask] = np.concatenate(tokens)
    return {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(ids)}


def batch_by_length(tokens: Sequence[Tokens], batch: int) -> Iterator[I64]:
    """Yield the positions of the texts of each ONNX run, int64[≤ batch]: similar lengths, for little padding."""
    lengths = np.array([len(ids) for ids in tokens], np.int64)
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        ascending = lengths[order[start : start + batch]]
        fits = np.arange(1, len(ascending) + 1) * ascending <= _RUN_TOKENS  # true, then false
        end = start + max(1, int(np.count_nonzero(fits)))
        yield order[start:end]
        start = end


def unit_rows(vectors: F32) -> F32:
    """Scale each row of float32[n, d] to length 1; a row of zeros stays."""
    norms = np.asarray(np.linalg.norm(vectors, axis=1, keepdims=True))
    return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)
