"""Rerankers in ONNX Runtime: late interaction and cross-encoders, by name and by the settings.

Needs onnxruntime and tokenizers only. `helix models export` prepares the folders; nothing is exported or fetched here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from helix.encoders.dense import Encoder
from helix.encoders.folders import WEIGHTS, HubModel, ModelFolder, digest_files, find_model, is_model, read_modules
from helix.encoders.session import (
    TOKEN_CHARS,
    OnnxSession,
    Tokens,
    batch_by_length,
    open_tokenizer,
    pad_tokens,
    unit_rows,
)
from helix.encoders.spec import FILES, check_files, fingerprint_spec, read_spec, shorten
from helix.errors import EncoderError
from helix.settings import Settings
from helix.types import F32, F64

FORMAT: Final = 1
"""Format of an exported folder; another number makes every reranker be exported again."""

SPEC: Final = "reranker.json"

OWN: Final = "helix-ranker"
"""The cross-encoder that comes with Helix, trained by `helix train ranker`."""

BATCH: Final = 32
"""Most passages of one ONNX run."""

_NOUNS: Final = {"late": "a late-interaction encoder", "cross": "a cross-encoder"}
_REMEDY: Final = "delete the folder and run 'helix models export' again"

# Files that decide what a model computes.
_MEANING: Final = (
    *WEIGHTS,
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "artifact.metadata",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
)

# From the model cards.
RERANKERS: Final[Mapping[str, HubModel]] = {
    "answerai-colbert-small-v1": HubModel("answerdotai/answerai-colbert-small-v1", "late", "Apache-2.0"),
    "colbertv2.0": HubModel("colbert-ir/colbertv2.0", "late", "MIT"),
    "ms-marco-MiniLM-L-6-v2": HubModel("cross-encoder/ms-marco-MiniLM-L-6-v2", "cross", "Apache-2.0"),
}


@dataclass(frozen=True, slots=True)
class RerankerSpec:
    """Content of reranker.json. `fingerprint` covers every file and every other field."""

    format: int
    kind: str  # late | cross
    name: str
    licence: str
    quantising: str
    weights_sha256: str
    max_tokens: int  # of a passage (late), or of question and passage together (cross)
    pad: int
    files: Mapping[str, str]  # name → sha256
    fingerprint: str = ""
    ranking: float = field(default=0.0, metadata={"later": True})  # weight of recall's scores in a logit; 0: unknown
    language: str = field(default="", metadata={"later": True})  # of the questions it can read; empty: any
    turns_only: bool = field(default=False, metadata={"later": True})  # it does not order documents
    # For late interaction only.
    dim: int = 0
    query_tokens: int = 0  # a longer question is cut
    expand: bool = False  # a shorter question is filled up with `mask`
    attend: bool = False  # to the tokens that fill it up
    mask: int = 0
    query_marker: int = 0  # comes after the first token
    passage_marker: int = 0
    skip: Sequence[int] = ()  # tokens of passages without a vector: punctuation


def find_reranker(wanted: str, settings: Settings) -> ModelFolder:
    """Find a reranker's weights: a folder, or a name in the models folder and then in the hub's cache.

    Raises:
        EncoderError: they are not available; the message lists the places.
    """
    return find_model(
        wanted, settings, RERANKERS, "reranker", lambda folder: is_model(folder) or is_model(find_transformer(folder))
    )


def find_transformer(folder: Path) -> Path:
    """Return the folder of a reranker's transformer."""
    return folder / read_modules(folder).get("Transformer", "")


def export_folder(source: ModelFolder, cache: Path, precision: str = "int8") -> Path:
    """Return the folder for the export of exactly these weights. Raises EncoderError if a file cannot be read."""
    digest = shorten(f"{digest_weights(source.folder)}:{FORMAT}:{precision}".encode())
    return cache.expanduser() / "rerankers" / f"{source.export_name}-{digest}"


def digest_weights(folder: Path) -> str:
    """Return one digest over the weights and the files that change their meaning.

    Raises:
        EncoderError: a file cannot be read.
    """
    folders = dict.fromkeys((folder, *(folder / path for path in read_modules(folder).values())))
    return digest_files((f"{number}/{name}", place / name) for number, place in enumerate(folders) for name in _MEANING)


def find_exported(wanted: str, settings: Settings) -> Path:
    """Return the exported folder that a setting names, itself or the export of the named weights.

    Raises:
        EncoderError: it does not exist.
    """
    folder = find_own() if wanted == OWN else Path(wanted).expanduser()
    if (folder / SPEC).is_file():
        return folder
    source = find_reranker(wanted, settings)
    target = export_folder(source, Path(settings.cache))
    if not (target / SPEC).is_file():
        raise EncoderError(
            f"the reranker {wanted} is not exported: its weights are in {source.folder}, but {target} does not exist",
            f"run 'helix models export {wanted}'",
        )
    return target


def find_own() -> Path:
    """Return the folder of the packaged cross-encoder, ready for use."""
    return Path(str(resources.files("helix.encoders"))) / "data" / "ranker"


def load_spec(folder: Path, kind: str) -> RerankerSpec:
    """Read and check an exported folder of a kind, late or cross.

    Raises:
        EncoderError: a file is missing, changed or of another format, or the reranker is of the other kind.
    """
    path = folder / SPEC
    spec = read_spec(RerankerSpec, path, "reranker", _REMEDY, FORMAT)
    check_files(folder, FILES, spec.files, "reranker", _REMEDY)
    if fingerprint_spec(spec) != spec.fingerprint:
        raise EncoderError(f"reranker changed: {path} is not what was exported", _REMEDY)
    if spec.kind != kind:
        noun, setting = _NOUNS.get(spec.kind, spec.kind), f"HELIX_{spec.kind.upper()}_ENCODER"
        raise EncoderError(f"{folder} is {noun}, not {_NOUNS[kind]}", f"give it as {setting}")
    return spec


# ---------------------------------------------------------------- late interaction


class TokenModel(NamedTuple):
    """The encoder of token vectors: its name, and the fingerprint of the vectors that items get."""

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class LateEncoder:
    """Texts → token vectors of unit length. Safe to share between threads.

    `query` gives float32[q, dim] for a question, `passages` one float32[t, dim] a text, in the order given.
    """

    name: str
    fingerprint: str  # of its vectors: see `TokenModel`
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

    return LateEncoder(spec.name, fingerprint_tokens(spec), spec.dim, query, passages)


def fingerprint_tokens(spec: RerankerSpec) -> str:
    """Return sixteen hex digits that name a model's token vectors; every export of its source files has the same."""
    return shorten(f"{spec.weights_sha256}:{spec.format}".encode())


def find_token_model(settings: Settings, lineage: TokenModel) -> TokenModel | str:
    """Return the encoder whose token vectors items get, or the reason why they get none.

    Args:
        lineage: the lineage's own encoder, which is used unless `late_encoder` names one.
    """
    if settings.token_vectors == "off":
        return "token vectors are off by their setting"
    if not settings.late_encoder:
        return lineage
    try:
        path = find_exported(settings.late_encoder, settings) / SPEC
        spec = read_spec(RerankerSpec, path, "reranker", _REMEDY, FORMAT)
    except EncoderError as error:
        return error.what
    return TokenModel(spec.name, fingerprint_tokens(spec))


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
        encoder.spec.fingerprint,
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


def _embed_tokens(tokens: Sequence[Tokens], chosen: Sequence[Any], run: Callable[[Sequence[Tokens]], F32]) -> list[F32]:
    """Return unit vectors of the chosen tokens of each text; texts of similar length share a run."""
    out: dict[int, F32] = {}
    for positions in batch_by_length(tokens, BATCH):
        hidden = run([tokens[i] for i in positions])
        for i, rows in zip(positions.tolist(), hidden, strict=True):
            out[i] = unit_rows(rows[: len(tokens[i])][chosen[i]])
    return [out[i] for i in range(len(tokens))]


# ---------------------------------------------------------------- cross-encoders


class CrossEncoder:
    """A network that reads question and passage together (Nogueira & Cho 2019). Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Open an exported folder. Raises EncoderError if a file is missing or changed, or it is no cross-encoder."""
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
        """Score how well each text answers: float32[n] in [0, 1], the sigmoid of `weigh`."""
        return np.asarray(1 / (1 + np.exp(-np.clip(self.weigh(query, texts), -60, 60))), np.float32)

    def weigh(self, query: str, texts: Sequence[str]) -> F64:
        """Return the network's logit for each text, float64[n]; higher is better.

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
        return logits

    def _cut_question(self, query: str) -> str:
        """Cut a question to half of the window."""
        text = query[: TOKEN_CHARS * self.spec.max_tokens]
        entry = self._question_tokenizer.encode(text, add_special_tokens=False)
        return text[: entry.offsets[-1][1]] if entry.overflowing else text


# ---------------------------------------------------------------- the settings


class Rerankers:
    """The rerankers that the settings name, each opened at its first use. Safe to share between threads.

    Raises:
        EncoderError: one does not exist, is not exported, is damaged, or is of the other kind.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._late: LateEncoder | None = None
        self._cross: CrossEncoder | None = None
        self._own: CrossEncoder | None = None

    @property
    def late(self) -> LateEncoder | None:
        """The late-interaction encoder; None if `late_encoder` names none."""
        with self._lock:
            if self._late is None and (name := self._settings.late_encoder):
                self._late = open_late(find_exported(name, self._settings), self._settings.threads)
            return self._late

    @property
    def cross(self) -> CrossEncoder | None:
        """The cross-encoder; None if `cross_encoder` names none."""
        with self._lock:
            if self._cross is None and (name := self._settings.cross_encoder):
                self._cross = CrossEncoder(find_exported(name, self._settings), self._settings.threads)
            return self._cross

    @property
    def ranker(self) -> CrossEncoder:
        """The cross-encoder of the recipe helix: the one that the settings name, or the packaged one."""
        if named := self.cross:
            return named
        with self._lock:
            if self._own is None:
                self._own = CrossEncoder(find_own(), self._settings.threads)
            return self._own
