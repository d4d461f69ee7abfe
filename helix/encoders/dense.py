"""A sentence encoder in ONNX Runtime: texts → unit vectors. Needs onnxruntime and tokenizers only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders.session import OnnxSession, Tokens, batch_by_length, open_tokenizer, pad_tokens, unit_rows
from helix.encoders.spec import FILES, check_files, read_spec, shorten
from helix.errors import EncoderError
from helix.types import F32, I64

SPEC: Final = "encoder.json"
_WINDOW: Final = 2_048  # texts of one tokeniser call; the batches before them are embedded meanwhile
_REMEDY: Final = "restore the folder from a backup or another node, or rebuild the store with 'helix ingest'"
_RECIPE: Final = ("dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "centred", "lower", "pad")
_MOVES: Final = ("centre", "shifts", "query_centre")  # part of the recipe of encoders that have them


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Content of encoder.json. `fingerprint` names the encoder of a lineage.

    Older folders lack the fields with a default; their encoders have these defaults.
    """

    name: str
    dim: int
    pooling: str  # mean | cls | last | max | whole: the graph gives the vector of a text
    query_prefix: str
    passage_prefix: str
    max_tokens: int  # of a text; the rest is cut
    quantising: str
    weights_sha256: str
    files: Mapping[str, str]  # name → sha256
    fingerprint: str
    context: int = 0  # tokens the model was made for; 0: not recorded
    matryoshka: Sequence[int] = ()
    centred: bool = False  # a layer norm without weights comes before the cut to `dim` and the unit length
    lower: bool = False
    pad: int = 0  # token that fills a batch
    centre: Sequence[float] = ()  # taken off the unit vector, which is scaled again; empty: nothing is
    shifts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    # by language: taken off the unit vector of a passage in it, which is scaled again
    query_centre: Sequence[float] = ()  # taken off the unit vector of a query, which is scaled again
    recipe: str = ""  # digest of the fields a vector depends on; "": not recorded
    agreement: Mapping[str, float] = field(
        default_factory=dict
    )  # least cosine with sentence-transformers, by precision


def digest_recipe(values: Mapping[str, Any]) -> str:
    """Return sixteen hex digits over the fields a vector depends on; another recipe is another encoder."""
    more = [values[name] for name in _MOVES if values.get(name)]
    return shorten(orjson.dumps([*(values[name] for name in _RECIPE), *more]))


def fingerprint_encoder(files: Mapping[str, str], recipe: str = "") -> str:
    """Return sixteen hex digits over the files' digests and the recipe, if recorded."""
    return shorten(("".join(f"{name}:{files[name]}\n" for name in FILES) + recipe).encode())


def load_spec(folder: Path, expect: str | None = None) -> EncoderSpec:
    """Read and check an encoder folder; `expect` is the fingerprint of the lineage's encoder.

    Raises:
        EncoderError: a file is missing or changed, or the encoder is another one.
    """
    path = folder / SPEC
    spec = read_spec(EncoderSpec, path, "encoder", _REMEDY)
    check_files(folder, FILES, spec.files, "encoder", _REMEDY)
    if spec.recipe and spec.recipe != digest_recipe({name: getattr(spec, name) for name in (*_RECIPE, *_MOVES)}):
        raise EncoderError(f"encoder changed: {path} is not what was exported", _REMEDY)
    if fingerprint_encoder(spec.files, spec.recipe) != spec.fingerprint or (expect and spec.fingerprint != expect):
        fault = f"encoder mismatch: {folder} is {spec.fingerprint}, the store was built with {expect}"
        raise EncoderError(fault, _REMEDY)
    return spec


class Encoder:
    """One ONNX session and its tokenizer. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, expect: str | None = None) -> None:
        """Open an exported folder; arguments and errors as in `load_spec`."""
        self.folder = folder
        self.spec = load_spec(folder, expect)
        self.tokenizer = open_tokenizer(folder / "tokenizer.json", self.spec.max_tokens)
        self._session = OnnxSession(folder / "model.onnx", threads, "encoder", _REMEDY, "export it for encoding")
        self._last: tuple[str, F32] | None = None
        self._centre = np.array(self.spec.centre, np.float32)
        self._query_centre = np.array(self.spec.query_centre, np.float32)
        self._shifts = {language: np.array(shift, np.float32) for language, shift in self.spec.shifts.items()}

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.spec.dim

    @property
    def joins_languages(self) -> bool:
        """True if vectors of texts in different languages can be compared."""
        return bool(self._shifts)

    def query(self, text: str) -> F32:
        """Embed one query: float32[dim], unit length, full precision."""
        return self.start_query(text)()

    def start_query(self, text: str) -> Callable[[], F32]:
        """Tokenise one query; return a function that embeds it. Only that one releases the interpreter's lock.

        The last query's vector is retained: one question to several stores is embedded once.
        """
        last = self._last
        if last is not None and last[0] == text:
            return lambda: last[1]
        feed = self.feed(self.tokens([self.spec.query_prefix + text]))

        def embed() -> F32:
            vector: F32 = np.asarray(_take_off(self._pool_run(feed), self._query_centre)[0])
            vector.setflags(write=False)
            self._last = text, vector
            return vector

        return embed

    def queries(self, texts: Sequence[str]) -> F32:
        """Embed many queries: float32[n, dim].

        Under int8 a vector differs slightly from that of `query`: activations share one range in a batch.
        """
        vectors = self._embed([self.spec.query_prefix + text for text in texts], 32, None)
        return _take_off(vectors, self._query_centre)

    def passages(
        self,
        texts: Sequence[str],
        batch: int = 32,
        progress: Callable[[int], None] | None = None,
        languages: Sequence[str] = (),
    ) -> F32:
        """Embed passages: float32[n, dim], unit length, in the order given.

        The same set of texts gives the same bytes, in any order and number. Among other texts a vector differs
        slightly: int8 activations share one range in a batch. An ONNX run has at most `batch` texts, fewer long ones.
        `progress` gets the number of distinct texts embedded since the last call.

        Args:
            languages: of the texts; an encoder of many languages takes off what its vectors tell of them.
        """
        vectors = self._embed([self.spec.passage_prefix + text for text in texts], batch, progress)
        return self._shift(vectors, languages) if self._shifts and languages else vectors

    def _shift(self, vectors: F32, languages: Sequence[str]) -> F32:
        nothing = np.zeros(self.dim, np.float32)
        shifts = [self._shifts.get(language, nothing) for language in languages]
        return unit_rows(vectors - np.array(shifts, np.float32).reshape(vectors.shape))

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the token ids of each text, cut to the window: int32[≤ max_tokens] each."""
        cased = [text.lower() for text in texts] if self.spec.lower else list(texts)
        if len(cased) == 1:  # a question: a batch call would lose the interpreter's lock to other threads for long
            return [np.array(self.tokenizer.encode(cased[0]).ids, np.int32)]
        return [np.array(entry.ids, np.int32) for entry in self.tokenizer.encode_batch_fast(cased)]

    def feed(self, tokens: Sequence[Tokens]) -> dict[str, I64]:
        """Return the inputs of one ONNX run: int64[n, longest] each, padded at the end."""
        return pad_tokens(tokens, self.spec.pad)

    def run(self, feed: Mapping[str, I64]) -> F32:
        """Return the output of one ONNX run: float32[n, longest, width], or float32[n, width] if pooled."""
        return self._session.run(feed)

    def _embed(self, texts: Sequence[str], batch: int, progress: Callable[[int], None] | None) -> F32:
        """Embed each distinct text once; a second thread tokenises the next window."""
        distinct = sorted(set(texts))
        out = np.empty((len(distinct), self.dim), np.float32)
        windows = [distinct[start : start + _WINDOW] for start in range(0, len(distinct), _WINDOW)]
        with ThreadPoolExecutor(1, "tokenise") as pool:
            pending = pool.submit(self.tokens, windows[0]) if windows else None
            for number in range(len(windows)):
                tokens = pending.result() if pending else []
                pending = pool.submit(self.tokens, windows[number + 1]) if number + 1 < len(windows) else None
                for positions in batch_by_length(tokens, batch):
                    out[number * _WINDOW + positions] = self._embed_run([tokens[i] for i in positions])
                    if progress:
                        progress(len(positions))
        rows = {text: i for i, text in enumerate(distinct)}
        return out[[rows[text] for text in texts]]

    def _embed_run(self, tokens: Sequence[Tokens]) -> F32:
        return self._pool_run(self.feed(tokens))

    def _pool_run(self, feed: Mapping[str, I64]) -> F32:
        return _take_off(pool_tokens(self.run(feed), feed["attention_mask"], self.spec), self._centre)


def _take_off(vectors: F32, centre: F32) -> F32:
    """Return unit vectors without a centre, scaled again: float32[n, dim]; as they are where it is empty."""
    return unit_rows(vectors - centre) if len(centre) else vectors


def pool_tokens(hidden: F32, mask: I64, spec: EncoderSpec) -> F32:
    """Pool token vectors into one unit vector a text: float32[n, dim].

    `hidden` is float32[n, longest, width], or float32[n, width] if pooled already; `mask` is int64[n, longest], 1 for a
    token, with padding at the end.
    """
    last = np.maximum(mask.sum(1), 1) - 1
    if hidden.ndim == 2:
        pooled = hidden
    elif spec.pooling == "cls":
        pooled = hidden[:, 0]
    elif spec.pooling == "last":
        pooled = hidden[np.arange(len(hidden)), last]
    elif spec.pooling == "max":
        pooled = np.where(mask[:, :, None] > 0, hidden, np.float32(-np.inf)).max(1)
    else:
        pooled = (mask[:, None, :].astype(np.float32) @ hidden)[:, 0] / (last + 1)[:, None].astype(np.float32)
    return finish_vectors(pooled, spec.dim, spec.centred)


def finish_vectors(pooled: F32, dim: int, centred: bool) -> F32:
    """Centre the vectors of texts if asked to, cut them, and scale them to unit length: float32[n, dim]."""
    if centred:  # the unit length undoes the rest of the layer norm
        pooled = pooled - pooled.mean(1, keepdims=True)
    return unit_rows(pooled[:, :dim])


def measure_session(encoder: Encoder, texts: Sequence[str], batch: int = 32) -> float:
    """Measure the bare ONNX session in passages a second, the upper limit of `passages`.

    Tokenising, sorting and padding are not timed.
    """
    tokens = encoder.tokens([encoder.spec.passage_prefix + text for text in texts])
    feeds = [encoder.feed([tokens[i] for i in positions]) for positions in batch_by_length(tokens, batch)]
    start = time.perf_counter()
    for feed in feeds:
        encoder.run(feed)
    return len(texts) / max(time.perf_counter() - start, 1e-9)
