"""Exported sparse encoders in ONNX Runtime: texts → learned weights over a vocabulary.

Two kinds. `splade` (Formal et al. 2021; Lassance & Clinchant 2022, "An Efficiency Study for SPLADE Models") runs one
network on questions and items; `inference-free` (Geng et al. 2024, "Towards Competitive Search Relevance For
Inference-Free Learned Sparse Retrievers") runs it on items alone, and looks a question's tokens up in a table. Needs
onnxruntime and tokenizers only; `helix.encoders.sparse_export` makes the folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders.dense import Tokens, runs
from helix.encoders.registry import is_model, read_json, sha256, sha256_once
from helix.encoders.rerank import Known, Source, located
from helix.errors import EncoderError
from helix.ranking.topk import top_k
from helix.settings import Settings
from helix.types import F32, I64, Sparse

FORMAT: Final = 1
"""Of an exported folder: another number makes every encoder be exported again, and every item be encoded anew."""

SPEC: Final = "sparse.json"

DOCUMENT_FILES: Final = ("model.onnx", "tokenizer.json")

QUERY_FILES: Final = {
    "splade": ("model.onnx", "tokenizer.json"),
    "inference-free": ("query_weights.npy", "query_tokenizer.json"),
}
"""By kind: all that a question needs."""

DOCUMENT_TERMS: Final = 256
"""An item keeps its heaviest: trained models give 100 to 200 a passage (Lassance & Clinchant 2022)."""

QUERY_TERMS: Final = 64
"""A question keeps its heaviest: each is a list that is read, and those left out weigh least."""

_BATCH: Final = 16  # texts of one ONNX run at most: each gives the logits of a whole vocabulary a token
_TOKEN_CHARS: Final = 64  # of a text, for each token that is read: spares the tokenizer a megabyte that would be cut
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_MEANING: Final = (".json", ".txt", ".model", ".safetensors", ".bin")

# Licences from the model cards.
SPARSE: Final[Mapping[str, Known]] = {
    "Splade_PP_en_v1": Known("prithivida/Splade_PP_en_v1", "splade", "Apache-2.0"),
    "splade-cocondenser-ensembledistil": Known("naver/splade-cocondenser-ensembledistil", "splade", "CC-BY-NC-SA-4.0"),
    "opensearch-neural-sparse-encoding-doc-v2-distill": Known(
        "opensearch-project/opensearch-neural-sparse-encoding-doc-v2-distill", "inference-free", "Apache-2.0"
    ),
    "opensearch-neural-sparse-encoding-doc-v3-distill": Known(
        "opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill", "inference-free", "Apache-2.0"
    ),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """sparse.json: what an exported folder holds. `fingerprint` covers every file and every other field."""

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


def fingerprint(spec: Spec) -> str:
    """Sixteen hex digits over everything in a Spec but itself."""
    values = {name: value for name, value in asdict(spec).items() if name != "fingerprint"}
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def identity(weights_sha256: str) -> str:
    """Sixteen hex digits that say whose weights an item has, however they were quantised: known before the export."""
    return hashlib.sha256(f"{weights_sha256}:{FORMAT}".encode()).hexdigest()[:16]


# ---------------------------------------------------------------- finding


def find(wanted: str, settings: Settings) -> Source:
    """A sparse encoder: a folder, exported or not, or a name looked for in the models folder, then in the hub's cache.

    Raises:
        EncoderError: it is not in reach; it says where it was looked for. Or an exported folder is damaged.
    """
    found = located(
        wanted,
        settings,
        SPARSE,
        "sparse encoder",
        lambda folder: is_model(folder) or any((folder / name).is_file() for name in ("modules.json", SPEC)),
    )
    if (found.folder / SPEC).is_file():
        spec = _read_spec(found.folder)
        return replace(found, name=spec.name, licence=spec.licence)
    return found


def in_reach(settings: Settings) -> Source | str:
    """What the setting names, or the reason why there is no sparse leg for new items. Nothing downloads."""
    if not settings.sparse_encoder:
        return "no sparse encoder is set"
    try:
        return find(settings.sparse_encoder, settings)
    except EncoderError as error:
        return error.what


def source_sha256(folder: Path) -> str:
    """One digest over the weights and all that may change their meaning; of an exported folder that of its source.

    Raises:
        EncoderError: a file cannot be read.
    """
    if (folder / SPEC).is_file():
        return _read_spec(folder).weights_sha256
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _MEANING and path.is_file():
                digest.update(f"{path.relative_to(folder).as_posix()}:{sha256_once(path)}\n".encode())
    except OSError as error:
        raise EncoderError(f"cannot read the weights: {error}", "check the folder's permissions") from None
    return digest.hexdigest()


_REMEDY: Final = "delete the folder and run 'helix models export' again"


def _read_spec(folder: Path) -> Spec:
    path = folder / SPEC
    if not path.is_file():
        raise EncoderError(f"sparse encoder missing: {path} does not exist", _REMEDY)
    try:
        spec = Spec(**read_json(path))
    except TypeError as error:
        raise EncoderError(f"sparse encoder unreadable: {path}: {error}", _REMEDY) from None
    if spec.format != FORMAT:
        raise EncoderError(f"sparse encoder of format {spec.format}, not {FORMAT}: {path}", _REMEDY)
    if fingerprint(spec) != spec.fingerprint or spec.kind not in QUERY_FILES:
        raise EncoderError(f"sparse encoder changed: {path} is not what was exported", _REMEDY)
    return spec


def load_spec(folder: Path, *, query: bool) -> Spec:
    """Read and check one side of an exported folder: a store has the query's alone.

    Raises:
        EncoderError: a file is missing, changed or of another format.
    """
    spec = _read_spec(folder)
    for name in QUERY_FILES[spec.kind] if query else DOCUMENT_FILES:
        if not (file := folder / name).is_file():
            raise EncoderError(f"sparse encoder missing: {file} does not exist", _REMEDY)
        if (found := sha256(file)) != spec.files.get(name):
            raise EncoderError(
                f"sparse encoder changed: {file} has sha256 {found[:12]}…, not the recorded one", _REMEDY
            )
    return spec


# ---------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class QueryEncoder:
    """Questions → weights, at most QUERY_TERMS of them. Safe to share between threads."""

    spec: Spec
    encode: Callable[[str], Sparse]


def open_query(folder: Path, threads: int = 0) -> QueryEncoder:
    """The query side of an exported folder, or of what a store keeps of one.

    Raises:
        EncoderError: a file is missing or changed.
    """
    spec = load_spec(folder, query=True)
    if spec.kind == "splade":
        network = _Network(folder, spec, spec.query_tokens, threads)
        return QueryEncoder(spec, lambda text: heaviest(network.weights([spec.query_prefix + text])[0], QUERY_TERMS))
    tokenizer = _tokenizer(folder / "query_tokenizer.json", spec.query_tokens)
    try:
        table = np.load(folder / "query_weights.npy", allow_pickle=False).astype(np.float32)
    except ValueError as error:
        raise EncoderError(f"sparse encoder unreadable: {folder / 'query_weights.npy'}: {error}", _REMEDY) from None

    def look_up(text: str) -> Sparse:
        cut = (spec.query_prefix + text)[: _TOKEN_CHARS * spec.query_tokens]
        terms = np.unique(np.array(tokenizer.encode(cut, add_special_tokens=False).ids, np.int64))
        weights = np.zeros(len(table), np.float32)
        weights[terms] = table[terms]
        return heaviest(weights, QUERY_TERMS)

    return QueryEncoder(spec, look_up)


class DocumentEncoder:
    """Items → weights, at most DOCUMENT_TERMS each. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """
        Raises:
            EncoderError: a file is missing or changed.
        """
        self.folder = folder
        self.spec = load_spec(folder, query=False)
        self._network = _Network(folder, self.spec, self.spec.max_tokens, threads)

    @property
    def identity(self) -> str:
        """Says whose weights an item has."""
        return identity(self.spec.weights_sha256)

    def weights(self, texts: Sequence[str]) -> F32:
        """Everything the network gives: float32[n, vocabulary], none below 0."""
        return self._network.weights([self.spec.document_prefix + text for text in texts])

    def encode(self, texts: Sequence[str]) -> list[Sparse]:
        """The heaviest weights of each text, in the order given.

        Among other texts a text's weights are a hair others: int8 activations share one range in a batch.
        """
        found: dict[int, Sparse] = {}
        for chosen, rows in self._network.batches([self.spec.document_prefix + text for text in texts]):
            found |= {i: heaviest(row, DOCUMENT_TERMS) for i, row in zip(chosen.tolist(), rows, strict=True)}
        return [found[i] for i in range(len(texts))]


def heaviest(weights: F32, n: int) -> Sparse:
    """The n heaviest of a vocabulary, those above 0; of equal ones the first."""
    terms = np.flatnonzero(weights > 0)
    kept = np.sort(terms[top_k(weights[terms], terms, n)])
    return Sparse(kept.astype(np.uint32), weights[kept])


class _Network:
    """The ONNX graph: tokens → float32[n, vocabulary], pooled and activated."""

    def __init__(self, folder: Path, spec: Spec, tokens: int, threads: int) -> None:
        import onnxruntime as ort
        from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf, RuntimeException

        options = ort.SessionOptions()
        # ONNX Runtime ignores OMP_NUM_THREADS and container quotas: say it.
        options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        path = folder / "model.onnx"
        try:
            self._session: Any = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except (Fail, InvalidGraph, InvalidProtobuf, RuntimeException) as error:
            raise EncoderError(f"sparse encoder unreadable: {path}: {error}", _REMEDY) from None
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        if unknown := set(self._inputs) - set(_INPUTS):
            raise EncoderError(f"{path} wants {', '.join(sorted(unknown))}", "take another sparse encoder")
        self._tokenizer = _tokenizer(folder / "tokenizer.json", tokens)
        self._pad, self._chars = spec.pad, _TOKEN_CHARS * tokens

    def weights(self, texts: Sequence[str]) -> F32:
        """float32[n, vocabulary], in the order given."""
        batches = list(self.batches(texts))
        out = np.empty((len(texts), batches[0][1].shape[1] if batches else 0), np.float32)
        for chosen, rows in batches:
            out[chosen] = rows
        return out

    def batches(self, texts: Sequence[str]) -> Iterator[tuple[I64, F32]]:
        """(positions int64[b], float32[b, vocabulary]) of texts of nearly one length."""
        tokens = [
            np.array(entry.ids, np.int32)
            for entry in self._tokenizer.encode_batch_fast([text[: self._chars] for text in texts])
        ]
        for chosen in runs(tokens, _BATCH):
            yield chosen, np.asarray(self._session.run(None, self._feed([tokens[i] for i in chosen]))[0])

    def _feed(self, tokens: Sequence[Tokens]) -> dict[str, I64]:
        lengths = np.array([len(ids) for ids in tokens])
        mask = np.arange(max(1, int(lengths.max()))) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int64)
        ids[mask] = np.concatenate(tokens)
        given = {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(ids)}
        return {name: given[name] for name in self._inputs}


def _tokenizer(path: Path, tokens: int) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    return tokenizer
