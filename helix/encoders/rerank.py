"""Exported rerankers in ONNX Runtime: token vectors for late interaction, and cross-encoders.

Needs onnxruntime and tokenizers only. `helix models export` prepares the folders; nothing is exported or fetched here.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from helix.encoders.dense import Encoder, Tokens, runs
from helix.encoders.registry import WEIGHTS, is_model, places, read_json, sha256, sha256_once
from helix.errors import EncoderError
from helix.settings import Settings
from helix.types import F32, I64

FORMAT: Final = 1
"""Of an exported folder: another number makes every reranker be exported again."""

FILES: Final = ("model.onnx", "tokenizer.json")
SPEC: Final = "reranker.json"

_BATCH: Final = 32  # passages of one ONNX run at most
_TOKEN_CHARS: Final = 64  # of a text, for each token that is read: spares the tokenizer a megabyte that would be cut
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_USES: Final = {"late": "a late-interaction encoder", "cross": "a cross-encoder"}

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
"""Files that decide what a model computes."""


class Known(NamedTuple):
    """A model on the Hugging Face hub."""

    hub: str
    kind: str  # of a reranker: late | cross
    licence: str


# From the model cards.
RERANKERS: Final[Mapping[str, Known]] = {
    "answerai-colbert-small-v1": Known("answerdotai/answerai-colbert-small-v1", "late", "Apache-2.0"),
    "colbertv2.0": Known("colbert-ir/colbertv2.0", "late", "MIT"),
    "ms-marco-MiniLM-L-6-v2": Known("cross-encoder/ms-marco-MiniLM-L-6-v2", "cross", "Apache-2.0"),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """reranker.json: what an exported folder holds. `fingerprint` covers every file and every other field."""

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
    # Of late interaction only.
    dim: int = 0
    query_tokens: int = 0  # a longer question is cut
    expand: bool = False  # a shorter one is filled up with `mask`
    attend: bool = False  # to the tokens that fill it up
    mask: int = 0
    query_marker: int = 0  # goes after the first token
    passage_marker: int = 0
    skip: Sequence[int] = ()  # tokens of passages whose vectors are left out: punctuation


def fingerprint(spec: Spec) -> str:
    """Sixteen hex digits over everything in a Spec but itself."""
    values = {name: value for name, value in asdict(spec).items() if name != "fingerprint"}
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


# ---------------------------------------------------------------- finding


@dataclass(frozen=True, slots=True)
class Source:
    """A model whose weights are in reach. `origin` says where they come from."""

    name: str
    folder: Path
    origin: str  # path | models folder | hub cache
    licence: str  # empty: not known


def parts(folder: Path) -> dict[str, Path]:
    """Kind of module → its folder, as modules.json says; one Transformer, in the folder itself, where there is none.

    Raises:
        EncoderError: modules.json is unreadable.
    """
    listed = read_json(folder / "modules.json") or [{"type": "Transformer", "path": ""}]
    try:
        return {str(entry["type"]).rpartition(".")[2]: folder / str(entry["path"]) for entry in listed}
    except (TypeError, KeyError):
        raise EncoderError(f"{folder / 'modules.json'} lists no modules", "fetch the model again") from None


def find(wanted: str, settings: Settings) -> Source:
    """Weights of a reranker: a folder, or a name looked for in the models folder, then in the hub's cache.

    Raises:
        EncoderError: they are not in reach; it says where they were looked for.
    """
    return located(
        wanted,
        settings,
        RERANKERS,
        "reranker",
        lambda folder: is_model(folder) or is_model(parts(folder).get("Transformer", folder)),
    )


def located(
    wanted: str, settings: Settings, models: Mapping[str, Known], what: str, is_one: Callable[[Path], bool]
) -> Source:
    """A folder with a model, or the first of the places a name is looked for in that has one.

    Args:
        models: the known ones, by name.
        what: is looked for, in words.
        is_one: whether a folder is such a model's.

    Raises:
        EncoderError: it is not in reach; it says where it was looked for.
    """
    known = next((entry for name, entry in models.items() if wanted in (name, entry.hub)), None)
    for folder, origin in places(wanted, known.hub if known else wanted, settings):
        if is_one(folder):
            if origin == "path":
                return Source(folder.resolve().name, folder, origin, "")
            return Source(wanted, folder, origin, known.licence if known else "")
    looked = "the models folder (HELIX_MODELS)" if settings.models else "a models folder (HELIX_MODELS is not set)"
    raise EncoderError(
        f"no {what} {wanted!r}: it is neither a folder with a model nor in {looked} nor in the hub's cache",
        f"give a folder, or 'helix models pull' one of {', '.join(models)}",
    )


def target(source: Source, cache: Path, precision: str = "int8") -> Path:
    """Where the export of these very weights is kept.

    Raises:
        EncoderError: a file cannot be read.
    """
    made = hashlib.sha256(f"{source_sha256(source.folder)}:{FORMAT}:{precision}".encode()).hexdigest()
    return cache.expanduser() / "rerankers" / f"{source.name.replace('/', '--')}-{made[:16]}"


def source_sha256(folder: Path) -> str:
    """One digest over the weights and the files that change their meaning.

    Raises:
        EncoderError: a file cannot be read.
    """
    digest = hashlib.sha256()
    folders = dict.fromkeys((folder, *parts(folder).values()))
    try:
        for number, place in enumerate(folders):
            for name in _MEANING:
                if (path := place / name).is_file():
                    digest.update(f"{number}/{name}:{sha256_once(path)}\n".encode())
    except OSError as error:
        raise EncoderError(f"cannot read the weights: {error}", "check the folder's permissions") from None
    return digest.hexdigest()


def exported(wanted: str, settings: Settings) -> Path:
    """The exported folder that a setting names: itself, or the one `helix models export` made of these weights.

    Raises:
        EncoderError: it is not there.
    """
    folder = Path(wanted).expanduser()
    if (folder / SPEC).is_file():
        return folder
    source = find(wanted, settings)
    made = target(source, Path(settings.cache))
    if not (made / SPEC).is_file():
        raise EncoderError(
            f"the reranker {wanted} is not exported: its weights are in {source.folder}, but {made} does not exist",
            f"run 'helix models export {wanted}'",
        )
    return made


def load_spec(folder: Path, kind: str) -> Spec:
    """Read and check an exported folder.

    Args:
        folder: holds reranker.json, model.onnx and tokenizer.json.
        kind: late or cross.

    Raises:
        EncoderError: a file is missing, changed or of another format, or it is a reranker of the other kind.
    """
    remedy = "delete the folder and run 'helix models export' again"
    path = folder / SPEC
    if not path.is_file():
        raise EncoderError(f"reranker missing: {path} does not exist", remedy)
    try:
        spec = Spec(**orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise EncoderError(f"reranker unreadable: {path}: {error}", remedy) from None
    if spec.format != FORMAT:
        raise EncoderError(f"reranker of format {spec.format}, not {FORMAT}: {path}", remedy)
    for name in FILES:
        if not (file := folder / name).is_file():
            raise EncoderError(f"reranker missing: {file} does not exist", remedy)
        if (found := sha256(file)) != spec.files.get(name):
            raise EncoderError(f"reranker changed: {file} has sha256 {found[:12]}…, not the recorded one", remedy)
    if fingerprint(spec) != spec.fingerprint:
        raise EncoderError(f"reranker changed: {path} is not what was exported", remedy)
    if spec.kind != kind:
        setting = f"HELIX_{spec.kind.upper()}_ENCODER"
        raise EncoderError(f"{folder} is {_USES.get(spec.kind, spec.kind)}, not {_USES[kind]}", f"give it as {setting}")
    return spec


# ---------------------------------------------------------------- late interaction


@dataclass(frozen=True, slots=True)
class LateEncoder:
    """Texts → token vectors of unit length. Safe to share between threads.

    `query` gives float32[q, dim] of a question, `passages` one float32[t, dim] a text, in the order given.
    """

    name: str
    dim: int
    query: Callable[[str], F32]
    passages: Callable[[Sequence[str]], list[F32]]


def open_late(folder: Path, threads: int = 0) -> LateEncoder:
    """An exported ColBERT: markers after the first token, questions filled up with [MASK], punctuation left out.

    As in Santhanam et al. 2022, "ColBERTv2". Among other texts a text's vectors are a hair others: int8 activations
    share one range in a batch.

    Raises:
        EncoderError: a file is missing or changed, or it is no late-interaction encoder.
    """
    spec = load_spec(folder, "late")
    session, inputs = _session(folder, threads)
    # One each, since a tokenizer carries its length; the marker takes one token.
    asks, tells = _tokenizer(folder), _tokenizer(folder)
    asks.enable_truncation(spec.query_tokens - 1)
    tells.enable_truncation(spec.max_tokens - 1)
    skip = np.array(spec.skip, np.int32)

    def query(text: str) -> F32:
        ids = _marked(asks.encode(text[: _TOKEN_CHARS * spec.query_tokens]).ids, spec.query_marker)
        feed = _feed([ids], spec.pad, spec.query_tokens if spec.expand else 0)
        if spec.expand:
            feed["input_ids"][0, len(ids) :] = spec.mask
            if spec.attend:
                feed["attention_mask"][:] = 1
        return _unit(_run(session, inputs, feed)[0])

    def passages(texts: Sequence[str]) -> list[F32]:
        cut = [text[: _TOKEN_CHARS * spec.max_tokens] for text in texts]
        tokens = [_marked(entry.ids, spec.passage_marker) for entry in tells.encode_batch_fast(cut)]
        kept = [~np.isin(ids, skip) for ids in tokens]
        return _vectors(tokens, kept, lambda batch: _run(session, inputs, _feed(batch, spec.pad)))

    return LateEncoder(spec.name, spec.dim, query, passages)


def own_tokens(encoder: Encoder) -> LateEncoder:
    """The token vectors of a sentence encoder, where no others are in reach; special tokens and prefixes left out.

    They were not trained for late interaction.

    Raises:
        EncoderError: the model gives one vector a text.
    """
    special = encoder.tokens([""])[0]  # what stands around any text
    hidden = encoder.hidden(encoder.feed([special]))
    if hidden.ndim != 3:
        raise EncoderError(
            f"{encoder.spec.name} pools its token vectors by itself, there are none for late interaction",
            "take another encoder, or name a ColBERT as HELIX_LATE_ENCODER",
        )

    def vectors(texts: Sequence[str], prefix: str) -> list[F32]:
        cut = [prefix + text[: _TOKEN_CHARS * encoder.spec.max_tokens] for text in texts]
        tokens = encoder.tokens(cut)
        lead = encoder.tokens([prefix])[0] if prefix else special[:0]
        kept = [~np.isin(ids, special) & (np.arange(len(ids)) >= _shared(ids, lead)) for ids in tokens]
        return _vectors(tokens, kept, lambda batch: encoder.hidden(encoder.feed(batch)))

    return LateEncoder(
        encoder.spec.name,
        int(hidden.shape[2]),
        lambda text: vectors([text], encoder.spec.query_prefix)[0],
        lambda texts: vectors(texts, encoder.spec.passage_prefix),
    )


def _shared(one: Tokens, other: Tokens) -> int:
    """Tokens at the start that two texts have in common."""
    least = min(len(one), len(other))
    differ = np.flatnonzero(one[:least] != other[:least])
    return int(differ[0]) if len(differ) else least


def _marked(ids: Sequence[int], marker: int) -> Tokens:
    return np.array([*ids[:1], marker, *ids[1:]], np.int32)


def _vectors(tokens: Sequence[Tokens], kept: Sequence[Any], run: Callable[[Sequence[Tokens]], F32]) -> list[F32]:
    """Unit vectors of the kept tokens of each text; texts of nearly one length share a run."""
    out: dict[int, F32] = {}
    for chosen in runs(tokens, _BATCH):
        hidden = run([tokens[i] for i in chosen])
        for i, rows in zip(chosen.tolist(), hidden, strict=True):
            out[i] = _unit(rows[: len(tokens[i])][kept[i]])
    return [out[i] for i in range(len(tokens))]


def _unit(vectors: F32) -> F32:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)


# ---------------------------------------------------------------- cross-encoder


class CrossEncoder:
    """A network that reads question and passage together (Nogueira & Cho 2019). Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Open an exported folder.

        Raises:
            EncoderError: a file is missing or changed, or it is no cross-encoder.
        """
        self.spec = load_spec(folder, "cross")
        self._session, self._inputs = _session(folder, threads)
        self._tokenizer = _tokenizer(folder)
        self._tokenizer.enable_truncation(self.spec.max_tokens, strategy="only_second")
        # The passage is what gets cut, so a question may not fill the window alone.
        self._asks = _tokenizer(folder)
        self._asks.enable_truncation(self.spec.max_tokens // 2)

    @property
    def name(self) -> str:
        """Of the model."""
        return self.spec.name

    def score(self, query: str, texts: Sequence[str]) -> F32:
        """How well each text answers: float32[n] in [0, 1], the sigmoid of the network's logit.

        The same texts give the same scores; among other texts a text's score is a hair another one, since int8
        activations share one range in a batch.
        """
        question = self._question(query)
        pairs = [(question, text[: _TOKEN_CHARS * self.spec.max_tokens]) for text in texts]
        entries = self._tokenizer.encode_batch_fast(pairs)
        tokens = [np.array(entry.ids, np.int32) for entry in entries]
        logits = np.empty(len(tokens), np.float64)
        for chosen in runs(tokens, _BATCH):
            feed = _feed([tokens[i] for i in chosen], self.spec.pad)
            for row, i in enumerate(chosen.tolist()):
                feed["token_type_ids"][row, : len(tokens[i])] = entries[i].type_ids
            logits[chosen] = _run(self._session, self._inputs, feed)[:, 0]
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))), np.float32)

    def _question(self, query: str) -> str:
        """The question, cut to half of the window."""
        text = query[: _TOKEN_CHARS * self.spec.max_tokens]
        entry = self._asks.encode(text, add_special_tokens=False)
        return text[: entry.offsets[-1][1]] if entry.overflowing else text


# ---------------------------------------------------------------- running


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return tokenizer


def _session(folder: Path, threads: int) -> tuple[Any, frozenset[str]]:
    """An ONNX session and the names of its inputs."""
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf, RuntimeException

    options = ort.SessionOptions()
    # ONNX Runtime ignores OMP_NUM_THREADS and container quotas: say it.
    options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    path = folder / "model.onnx"
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph, InvalidProtobuf, RuntimeException) as error:
        raise EncoderError(f"reranker unreadable: {path}: {error}", "run 'helix models export' again") from None
    inputs = frozenset(entry.name for entry in session.get_inputs())
    if unknown := inputs - set(_INPUTS):
        raise EncoderError(f"{path} wants {', '.join(sorted(unknown))}", "take another reranker")
    return session, inputs


def _feed(tokens: Sequence[Tokens], pad: int, width: int = 0) -> dict[str, I64]:
    """The inputs of one ONNX run: int64[n, longest, or `width` where that is more] each, padded at the end."""
    lengths = np.array([len(ids) for ids in tokens])
    mask = np.arange(max(width, int(lengths.max()))) < lengths[:, None]
    ids = np.full(mask.shape, pad, np.int64)
    ids[mask] = np.concatenate(tokens)
    return {"input_ids": ids, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(ids)}


def _run(session: Any, inputs: frozenset[str], feed: Mapping[str, I64]) -> F32:
    """The first output of one ONNX run."""
    return np.asarray(session.run(None, {name: feed[name] for name in inputs})[0])


class Rerankers:
    """The rerankers that the settings name, each opened at its first use and once. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._late: LateEncoder | None = None
        self._cross: CrossEncoder | None = None

    @property
    def late(self) -> LateEncoder | None:
        """The late-interaction encoder; None where `late_encoder` names none.

        Raises:
            EncoderError: what is named is not there, not exported, damaged, or of the other kind.
        """
        with self._opening:
            if self._late is None and self._settings.late_encoder:
                folder = exported(self._settings.late_encoder, self._settings)
                self._late = open_late(folder, self._settings.threads)
            return self._late

    @property
    def cross(self) -> CrossEncoder | None:
        """The cross-encoder; None where `cross_encoder` names none.

        Raises:
            EncoderError: what is named is not there, not exported, damaged, or of the other kind.
        """
        with self._opening:
            if self._cross is None and self._settings.cross_encoder:
                folder = exported(self._settings.cross_encoder, self._settings)
                self._cross = CrossEncoder(folder, self._settings.threads)
            return self._cross
