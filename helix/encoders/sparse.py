"""Learned-sparse encoders in ONNX Runtime: texts → weights over a vocabulary.

Two kinds. `splade` (Formal et al. 2021; Lassance & Clinchant 2022, "An Efficiency Study for SPLADE Models") runs one
network on questions and items. `inference-free` (Geng et al. 2024, "Towards Competitive Search Relevance For
Inference-Free Learned Sparse Retrievers") runs it on items alone and looks the tokens of a question up in a table.
Needs onnxruntime and tokenizers only; `helix.encoders.sparse_export` makes the folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.folders import HubModel, ModelFolder, digest_files, find_model, is_model
from helix.encoders.session import TOKEN_CHARS, OnnxSession, batch_by_length, open_tokenizer, pad_tokens
from helix.encoders.spec import FILES, check_files, fingerprint_spec, read_spec, shorten
from helix.errors import EncoderError
from helix.ranking.topk import select_top
from helix.settings import Settings
from helix.types import F32, I64, Sparse

FORMAT: Final = 1
"""Format of an exported folder; another number makes every encoder be exported, and every item be encoded, again."""

SPEC: Final = "sparse.json"
DOCUMENT_FILES: Final = FILES

QUERY_FILES: Final = {"splade": FILES, "inference-free": ("query_weights.npy", "query_tokenizer.json")}
"""The files that a question needs, by kind."""

DOCUMENT_TERMS: Final = 256
"""Heaviest terms of an item: trained models give 100 to 200 a passage (Lassance & Clinchant 2022)."""

QUERY_TERMS: Final = 64
"""Heaviest terms of a question: each is a list to read, and the others weigh least."""

_BATCH: Final = 16  # most texts of one ONNX run: each gives the logits of a whole vocabulary a token
_MEANING: Final = (".json", ".txt", ".model", ".safetensors", ".bin")
_NOUN: Final = "sparse encoder"
_REMEDY: Final = "delete the folder and run 'helix models export' again"

# Licences from the model cards.
SPARSE: Final[Mapping[str, HubModel]] = {
    "Splade_PP_en_v1": HubModel("prithivida/Splade_PP_en_v1", "splade", "Apache-2.0"),
    "splade-cocondenser-ensembledistil": HubModel(
        "naver/splade-cocondenser-ensembledistil", "splade", "CC-BY-NC-SA-4.0"
    ),
    "splade-tiny": HubModel("rasyosef/splade-tiny", "splade", "Apache-2.0"),
    "opensearch-neural-sparse-encoding-doc-v2-distill": HubModel(
        "opensearch-project/opensearch-neural-sparse-encoding-doc-v2-distill", "inference-free", "Apache-2.0"
    ),
    "opensearch-neural-sparse-encoding-doc-v3-distill": HubModel(
        "opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill", "inference-free", "Apache-2.0"
    ),
}


@dataclass(frozen=True, slots=True)
class SparseSpec:
    """Content of sparse.json. `fingerprint` covers every file and every other field."""

    format: int
    kind: str  # splade | inference-free
    name: str
    licence: str
    precision: str  # int8 | fp32
    measured: Mapping[str, float]  # agreement of int8 with fp32; seconds of each on the probes, one thread
    weights_sha256: str
    vocabulary: int
    max_tokens: int  # of an item
    query_tokens: int  # of a question
    pad: int
    query_prefix: str
    document_prefix: str
    files: Mapping[str, str]  # name → sha256
    fingerprint: str = ""


def identify_weights(weights_sha256: str) -> str:
    """Return sixteen hex digits that name the weights of an item, known before the export and for any precision."""
    return shorten(f"{weights_sha256}:{FORMAT}".encode())


def find_sparse_encoder(wanted: str, settings: Settings) -> ModelFolder:
    """Find a sparse encoder: a folder, exported or not, or a name in the models folder, the hub's cache or a package.

    Raises:
        EncoderError: it is not available, or an exported folder is damaged.
    """
    source = find_model(
        wanted,
        settings,
        SPARSE,
        _NOUN,
        lambda folder: is_model(folder) or any((folder / name).is_file() for name in ("modules.json", SPEC)),
    )
    if (source.folder / SPEC).is_file():
        spec = _read_spec(source.folder)
        return replace(source, name=spec.name, licence=spec.licence)
    return source


def find_configured(settings: Settings) -> ModelFolder | str:
    """Return the encoder that the setting names, or the reason why new items get no sparse weights."""
    if not settings.sparse_encoder:
        return "no sparse encoder is set"
    try:
        return find_sparse_encoder(settings.sparse_encoder, settings)
    except EncoderError as error:
        return error.what


def digest_weights(folder: Path) -> str:
    """Return one digest over the weights and the files that may change their meaning; an export has its source's.

    Raises:
        EncoderError: a file cannot be read.
    """
    if (folder / SPEC).is_file():
        return _read_spec(folder).weights_sha256
    paths = sorted(folder.rglob("*"))
    return digest_files((path.relative_to(folder).as_posix(), path) for path in paths if path.suffix in _MEANING)


def _read_spec(folder: Path) -> SparseSpec:
    path = folder / SPEC
    spec = read_spec(SparseSpec, path, _NOUN, _REMEDY, FORMAT)
    if fingerprint_spec(spec) != spec.fingerprint or spec.kind not in QUERY_FILES:
        raise EncoderError(f"{_NOUN} changed: {path} is not what was exported", _REMEDY)
    return spec


def load_spec(folder: Path, *, query: bool) -> SparseSpec:
    """Read and check one side of an exported folder; a store has only the query's.

    Raises:
        EncoderError: a file is missing, changed or of another format.
    """
    spec = _read_spec(folder)
    check_files(folder, QUERY_FILES[spec.kind] if query else DOCUMENT_FILES, spec.files, _NOUN, _REMEDY)
    return spec


@dataclass(frozen=True, slots=True)
class QueryEncoder:
    """Questions → weights of at most QUERY_TERMS terms. Safe to share between threads."""

    spec: SparseSpec
    encode: Callable[[str], Sparse]


def open_query(folder: Path, threads: int = 0) -> QueryEncoder:
    """Open the query side of an exported folder, or a store's copy of it.

    Raises:
        EncoderError: a file is missing or changed.
    """
    spec = load_spec(folder, query=True)
    if spec.kind == "splade":
        network = _SparseNetwork(folder, spec, spec.query_tokens, threads)
        return QueryEncoder(
            spec, lambda text: select_heaviest(network.weights([spec.query_prefix + text])[0], QUERY_TERMS)
        )
    tokenizer = open_tokenizer(folder / "query_tokenizer.json", spec.query_tokens)
    path = folder / "query_weights.npy"
    try:
        table = np.load(path, allow_pickle=False).astype(np.float32)
    except ValueError as error:
        raise EncoderError(f"{_NOUN} unreadable: {path}: {error}", _REMEDY) from None

    def look_up(text: str) -> Sparse:
        cut = (spec.query_prefix + text)[: TOKEN_CHARS * spec.query_tokens]
        terms = np.unique(np.array(tokenizer.encode(cut, add_special_tokens=False).ids, np.int64))
        weights = np.zeros(len(table), np.float32)
        weights[terms] = table[terms]
        return select_heaviest(weights, QUERY_TERMS)

    return QueryEncoder(spec, look_up)


class DocumentEncoder:
    """Items → weights of at most DOCUMENT_TERMS terms each. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Open the document side of an exported folder. Raises EncoderError if a file is missing or changed."""
        self.folder = folder
        self.spec = load_spec(folder, query=False)
        self._network = _SparseNetwork(folder, self.spec, self.spec.max_tokens, threads)

    @property
    def identity(self) -> str:
        """Name of the weights that items get."""
        return identify_weights(self.spec.weights_sha256)

    def weights(self, texts: Sequence[str]) -> F32:
        """Return all weights of the network: float32[n, vocabulary], none below 0."""
        return self._network.weights([self.spec.document_prefix + text for text in texts])

    def encode(self, texts: Sequence[str]) -> list[Sparse]:
        """Return the heaviest weights of each text, in the order given.

        Among other texts a text's weights differ slightly: int8 activations share one range in a batch.
        """
        encoded: dict[int, Sparse] = {}
        for places, rows in self._network.run_batches([self.spec.document_prefix + text for text in texts]):
            encoded |= {i: select_heaviest(row, DOCUMENT_TERMS) for i, row in zip(places.tolist(), rows, strict=True)}
        return [encoded[i] for i in range(len(texts))]


def select_heaviest(weights: F32, n: int) -> Sparse:
    """Return the n heaviest terms of a vocabulary with weights above 0; ties keep the first."""
    terms = np.flatnonzero(weights > 0)
    chosen = np.sort(terms[select_top(weights[terms], terms, n)])
    return Sparse(chosen.astype(np.uint32), weights[chosen])


class _SparseNetwork:
    """The ONNX graph: tokens → float32[n, vocabulary], pooled and activated."""

    def __init__(self, folder: Path, spec: SparseSpec, tokens: int, threads: int) -> None:
        self._session = OnnxSession(folder / "model.onnx", threads, _NOUN, _REMEDY, "take another sparse encoder")
        self._tokenizer = open_tokenizer(folder / "tokenizer.json", tokens)
        self._pad, self._chars = spec.pad, TOKEN_CHARS * tokens

    def weights(self, texts: Sequence[str]) -> F32:
        """Return float32[n, vocabulary], in the order given."""
        batches = list(self.run_batches(texts))
        out = np.empty((len(texts), batches[0][1].shape[1] if batches else 0), np.float32)
        for positions, rows in batches:
            out[positions] = rows
        return out

    def run_batches(self, texts: Sequence[str]) -> Iterator[tuple[I64, F32]]:
        """Yield (positions int64[b], float32[b, vocabulary]) of texts of similar length."""
        entries = self._tokenizer.encode_batch_fast([text[: self._chars] for text in texts])
        tokens = [np.array(entry.ids, np.int32) for entry in entries]
        for positions in batch_by_length(tokens, _BATCH):
            yield positions, self._session.run(pad_tokens([tokens[i] for i in positions], self._pad))
