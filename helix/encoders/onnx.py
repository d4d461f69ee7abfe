"""An exported encoder in ONNX Runtime: texts → unit vectors. Needs onnxruntime and tokenizers only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from helix.errors import EncoderError
from helix.types import F32

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILES = ("model.onnx", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class Spec:
    """encoder.json: what the folder holds. `fingerprint` names the lineage's encoder."""

    name: str
    dim: int
    pooling: str
    query_prefix: str
    passage_prefix: str
    max_tokens: int
    quantising: str
    weights_sha256: str
    files: Mapping[str, str]  # name → sha256
    fingerprint: str


def fingerprint(files: Mapping[str, str]) -> str:
    """Sixteen hex digits over the files' digests."""
    return hashlib.sha256("".join(f"{name}:{files[name]}\n" for name in FILES).encode()).hexdigest()[:16]


def load_spec(folder: Path, expect: str | None = None) -> Spec:
    """Read and check an encoder folder.

    Args:
        folder: holds encoder.json, model.onnx and tokenizer.json.
        expect: the fingerprint the lineage was built with.

    Raises:
        EncoderError: a file is missing or changed, or the encoder is another one.
    """
    remedy = "restore the folder from a backup or another node, or rebuild the store with 'helix ingest'"
    path = folder / "encoder.json"
    if not path.is_file():
        raise EncoderError(f"encoder missing: {path} does not exist", remedy)
    try:
        spec = Spec(**orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise EncoderError(f"encoder unreadable: {path}: {error}", remedy) from None
    for name in FILES:
        file = folder / name
        if not file.is_file():
            raise EncoderError(f"encoder missing: {file} does not exist", remedy)
        with file.open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        if found != spec.files.get(name):
            raise EncoderError(f"encoder changed: {file} has sha256 {found[:12]}…, not the recorded one", remedy)
    if fingerprint(spec.files) != spec.fingerprint or (expect and spec.fingerprint != expect):
        raise EncoderError(
            f"encoder mismatch: {folder} is {spec.fingerprint}, the store was built with {expect}", remedy
        )
    return spec


class Encoder:
    """One ONNX session and its tokenizer. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, expect: str | None = None) -> None:
        import onnxruntime as ort
        from tokenizers import Tokenizer

        self.folder = folder
        self.spec = load_spec(folder, expect)
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.spec.max_tokens)
        options = ort.SessionOptions()
        # ONNX Runtime ignores OMP_NUM_THREADS and container quotas: say it.
        options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session: Any = ort.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.spec.dim

    def query(self, text: str) -> F32:
        """Embed one query: float32[dim], unit length, full precision."""
        return np.asarray(self._run([self.spec.query_prefix + text])[0])

    def queries(self, texts: Sequence[str]) -> F32:
        """Embed many queries, as for training: float32[n, dim]. Batched, so a hair off `query` under int8."""
        return self._batched([self.spec.query_prefix + text for text in texts], 32, None)

    def passages(self, texts: Sequence[str], batch: int = 32, progress: Callable[[int], None] | None = None) -> F32:
        """Embed passages: float32[n, dim], unit length, in the order given."""
        return self._batched([self.spec.passage_prefix + text for text in texts], batch, progress)

    def _batched(self, texts: Sequence[str], batch: int, progress: Callable[[int], None] | None) -> F32:
        """Equal texts are computed once; batches are cut from the texts sorted by length, for little padding."""
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        out = np.empty((len(place), self.dim), np.float32)
        by_length = sorted(place, key=len)
        for start in range(0, len(by_length), batch):
            chosen = by_length[start : start + batch]
            out[[place[text] for text in chosen]] = self._run(chosen)
            if progress:
                progress(len(chosen))
        return out[[place[text] for text in texts]]

    def _run(self, texts: Sequence[str]) -> F32:
        encodings = self._tokenizer.encode_batch(list(texts))
        width = max(1, max(len(encoding.ids) for encoding in encodings))
        ids = np.zeros((len(texts), width), np.int64)
        mask = np.zeros((len(texts), width), np.int64)
        for i, encoding in enumerate(encodings):
            ids[i, : len(encoding.ids)] = encoding.ids
            mask[i, : len(encoding.ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, {name: feed[name] for name in self._inputs})[0]
        if hidden.ndim == 2:  # the export pools already
            pooled = hidden
        elif self.spec.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            weights = mask[:, :, None].astype(np.float32)
            pooled = (hidden * weights).sum(1) / np.maximum(weights.sum(1), 1)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        return np.asarray(pooled / np.maximum(norms, 1e-12), np.float32)


class TokenCounter:
    """Counts word pieces the way the encoder does, without special tokens and without truncation."""

    name = "wordpiece"

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [len(entry.ids) for entry in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]


class EstimatedCounter:
    """The counter of last resort: a token is about four characters of English; rounded up."""

    name = "estimate"

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, estimated."""
        return [-(-len(text) // 4) for text in texts]
