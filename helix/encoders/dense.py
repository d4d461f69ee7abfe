"""An exported encoder in ONNX Runtime: texts → unit vectors. Needs onnxruntime and tokenizers only."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from helix.errors import EncoderError
from helix.native import Pieces, count_pieces, pieces
from helix.types import F32, I64

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILES = ("model.onnx", "tokenizer.json")

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_RUN_TOKENS = 1_024  # of one ONNX run, padding and all: what fits the cache; 512 to 4,096 are within 10 % of it
_WINDOW = 2_048  # texts tokenised at a time, while those before them are embedded

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Spec:
    """encoder.json: what the folder holds. `fingerprint` names the lineage's encoder.

    The fields with a default are not in older folders, and mean there what their default says.
    """

    name: str
    dim: int
    pooling: str  # mean | cls | last | max
    query_prefix: str
    passage_prefix: str
    max_tokens: int  # that are embedded
    quantising: str
    weights_sha256: str
    files: Mapping[str, str]  # name → sha256
    fingerprint: str
    context: int = 0  # tokens the model was made for; 0: not recorded
    matryoshka: Sequence[int] = ()
    centred: bool = False  # a layer norm without weights goes before the cut to `dim` and the unit length
    lower: bool = False
    pad: int = 0  # token that fills a batch
    recipe: str = ""  # digest of what makes vectors of the files; "": not recorded


def recipe(values: Mapping[str, Any]) -> str:
    """Sixteen hex digits over all that a vector depends on beside the files: two recipes are two encoders."""
    names = ("dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "centred", "lower", "pad")
    return hashlib.sha256(orjson.dumps([values[name] for name in names])).hexdigest()[:16]


def fingerprint(files: Mapping[str, str], made: str = "") -> str:
    """Sixteen hex digits over the files' digests and the recipe, where there is one."""
    whole = "".join(f"{name}:{files[name]}\n" for name in FILES) + made
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


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
    if spec.recipe and spec.recipe != recipe({field.name: getattr(spec, field.name) for field in fields(Spec)}):
        raise EncoderError(f"encoder changed: {path} is not what was exported", remedy)
    if fingerprint(spec.files, spec.recipe) != spec.fingerprint or (expect and spec.fingerprint != expect):
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
        if unknown := self._inputs - set(_INPUTS):
            raise EncoderError(f"{folder / 'model.onnx'} wants {', '.join(sorted(unknown))}", "export it for encoding")

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.spec.dim

    def query(self, text: str) -> F32:
        """Embed one query: float32[dim], unit length, full precision."""
        return np.asarray(self._run(self.tokens([self.spec.query_prefix + text]))[0])

    def queries(self, texts: Sequence[str]) -> F32:
        """Embed many queries, as for training: float32[n, dim]. Batched, so a hair off `query` under int8."""
        return self._embedded([self.spec.query_prefix + text for text in texts], 32, None)

    def passages(self, texts: Sequence[str], batch: int = 32, progress: Callable[[int], None] | None = None) -> F32:
        """Embed passages: float32[n, dim], unit length, in the order given.

        The same texts give the same bytes, in whatever order and however often each is there. Among other texts a
        text's vector is a hair another one: int8 activations share one range in a batch.

        Args:
            batch: texts of one ONNX run at most; long ones are fewer.
            progress: called with the number of different texts embedded since the last call.
        """
        return self._embedded([self.spec.passage_prefix + text for text in texts], batch, progress)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """The token ids of each text, cut to the window: int32[≤ max_tokens] each."""
        given = [text.lower() for text in texts] if self.spec.lower else list(texts)
        if len(given) == 1:  # a question: another thread that took the interpreter's lock meanwhile would keep it long
            return [np.array(self._tokenizer.encode(given[0]).ids, np.int32)]
        return [np.array(entry.ids, np.int32) for entry in self._tokenizer.encode_batch_fast(given)]

    def feed(self, tokens: Sequence[Tokens]) -> dict[str, I64]:
        """The inputs of one ONNX run: int64[n, longest] each, padded at the end."""
        lengths = np.array([len(ids) for ids in tokens])
        mask = np.arange(max(1, lengths.max())) < lengths[:, None]
        ids = np.full(mask.shape, self.spec.pad, np.int64)
        ids[mask] = np.concatenate(tokens)
        given = {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(ids)}
        return {name: given[name] for name in self._inputs}

    def hidden(self, feed: Mapping[str, I64]) -> F32:
        """One ONNX run: float32[n, longest, width], or float32[n, width] where the model pools by itself."""
        return np.asarray(self._session.run(None, feed)[0])

    def _embedded(self, texts: Sequence[str], batch: int, progress: Callable[[int], None] | None) -> F32:
        """Equal texts are computed once. While a window is embedded, the next one is tokenised beside it."""
        different = sorted(set(texts))
        out = np.empty((len(different), self.dim), np.float32)
        windows = [different[start : start + _WINDOW] for start in range(0, len(different), _WINDOW)]
        with ThreadPoolExecutor(1, "tokenise") as beside:
            coming = beside.submit(self.tokens, windows[0]) if windows else None
            for number in range(len(windows)):
                tokens = coming.result() if coming else []
                coming = beside.submit(self.tokens, windows[number + 1]) if number + 1 < len(windows) else None
                for chosen in runs(tokens, batch):
                    out[number * _WINDOW + chosen] = self._run([tokens[i] for i in chosen])
                    if progress:
                        progress(len(chosen))
        place = {text: i for i, text in enumerate(different)}
        return out[[place[text] for text in texts]]

    def _run(self, tokens: Sequence[Tokens]) -> F32:
        feed = self.feed(tokens)
        return pooled(self.hidden(feed), feed["attention_mask"], self.spec)


def runs(tokens: Sequence[Tokens], batch: int) -> Iterator[I64]:
    """Positions of the texts of each ONNX run, int64[≤ batch]: texts of nearly one length, for little padding."""
    lengths = np.array([len(ids) for ids in tokens], np.int64)
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        here = lengths[order[start : start + batch]]
        fits = np.arange(1, len(here) + 1) * here <= _RUN_TOKENS  # ascending lengths: true, then false
        end = start + max(1, int(np.count_nonzero(fits)))
        yield order[start:end]
        start = end


def pooled(hidden: F32, mask: I64, spec: Spec) -> F32:
    """Token vectors → one unit vector a text: float32[n, dim].

    Args:
        hidden: float32[n, longest, width], or float32[n, width]: pooled already.
        mask: int64[n, longest], 1 where there is a token; padding is at the end.
    """
    last = np.maximum(mask.sum(1), 1) - 1
    if hidden.ndim == 2:
        whole = hidden
    elif spec.pooling == "cls":
        whole = hidden[:, 0]
    elif spec.pooling == "last":
        whole = hidden[np.arange(len(hidden)), last]
    elif spec.pooling == "max":
        whole = np.where(mask[:, :, None] > 0, hidden, np.float32(-np.inf)).max(1)
    else:
        whole = (mask[:, None, :].astype(np.float32) @ hidden)[:, 0] / (last + 1)[:, None].astype(np.float32)
    if spec.centred:  # of the layer norm, the unit length leaves only this
        whole = whole - whole.mean(1, keepdims=True)
    whole = whole[:, : spec.dim]
    norms = np.asarray(np.linalg.norm(whole, axis=1, keepdims=True))
    return np.asarray(whole / np.maximum(norms, 1e-12), np.float32)


def raw_rate(encoder: Encoder, texts: Sequence[str], batch: int = 32) -> float:
    """Passages a second of the bare ONNX session, tokenised, sorted and padded before: what no caller can exceed."""
    tokens = encoder.tokens([encoder.spec.passage_prefix + text for text in texts])
    feeds = [encoder.feed([tokens[i] for i in chosen]) for chosen in runs(tokens, batch)]
    start = time.perf_counter()
    for feed in feeds:
        encoder.hidden(feed)
    return len(texts) / max(time.perf_counter() - start, 1e-9)


class TokenCounter:
    """Counts word pieces the way the encoder does, without special tokens and without truncation."""

    name = "wordpiece"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tokenizer.json"
        said = orjson.loads(self._path.read_bytes())
        self._pieces = _pieces(said) if _splits_at_white_space(said) else None
        self._known: dict[str, int] = {}

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        if self._pieces is None:
            return [self._counted(text) for text in texts]
        tokens, left = count_pieces(texts, self._pieces)
        for i, chunk in left:
            tokens[i] += self._size(chunk)
        return tokens

    def _size(self, chunk: str) -> int:
        """Tokens of what stands between white space and is not plain; long ones hardly come back and are not kept."""
        size = self._known.get(chunk)
        if size is None:
            size = self._counted(chunk)
            if len(self._known) >= _KEPT_CHUNKS:
                self._known = {}
            if len(chunk) <= _KEPT_LETTERS:
                self._known[chunk] = size
        return size

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """For what the vocabulary alone does not tell; to load it takes longer than a cold recall has for counting."""
        from tokenizers import Tokenizer

        found: Tokenizer = Tokenizer.from_file(str(self._path))
        found.no_padding()
        found.no_truncation()
        return found

    def _counted(self, text: str) -> int:
        """The same by the tokenizer itself."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))


_KEPT_CHUNKS: Final = 1 << 14
_KEPT_LETTERS: Final = 32


def _splits_at_white_space(said: Mapping[str, Any]) -> bool:
    """Whether a text has as many tokens as its parts between white space together: BERT's does, byte pairs do not.

    Args:
        said: a tokenizer.json.
    """
    kind = {name: (said.get(name) or {}).get("type") for name in ("pre_tokenizer", "normalizer", "model")}
    bert = kind["pre_tokenizer"] == "BertPreTokenizer" and kind["normalizer"] in (None, "BertNormalizer")
    return bert and kind["model"] == "WordPiece" and not any(len(added.split()) > 1 for added in _added(said))


def _added(said: Mapping[str, Any]) -> list[str]:
    return [token["content"] for token in said["added_tokens"]]


def _pieces(said: Mapping[str, Any]) -> Pieces:
    """The vocabulary of a word piece model, as the kernel counts by it: several times as fast as the tokenizer."""
    model, normalizer = said["model"], said["normalizer"]
    prefix = model["continuing_subword_prefix"]
    plain = [piece for piece in model["vocab"] if piece.isascii()]
    inner = [piece.removeprefix(prefix) for piece in plain if piece.startswith(prefix)]
    return pieces(
        [piece for piece in plain if piece.isalnum()],
        [piece for piece in inner if piece.isalnum()],
        _added(said),
        lower=normalizer is not None and normalizer["lowercase"],
        most=model["max_input_chars_per_word"],
    )


class EstimatedCounter:
    """The counter of last resort: a token is about four characters of English; rounded up."""

    name = "estimate"

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, estimated."""
        return [-(-len(text) // 4) for text in texts]
