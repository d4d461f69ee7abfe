"""Sequence-to-sequence models for doc2query: finding weights, exporting them to ONNX, running them.

Running needs onnxruntime and tokenizers only. Exporting needs torch and optimum, and runs as its own process
(`python -m helix.encoders.seq2seq SOURCE TARGET`), so that they leave with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from helix.encoders.cache import PROBES, export_apart, made_once
from helix.encoders.dense_export import has_vnni
from helix.encoders.registry import hub_cache, is_model, sha256
from helix.errors import EncoderError
from helix.settings import Settings
from helix.types import F32, I64, Bool

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DEFAULT: Final = "doc2query/msmarco-t5-small-v1"
"""Trained on MS MARCO's question–passage pairs; Apache-2.0."""

LICENCES: Final = {DEFAULT: "Apache-2.0", "doc2query/msmarco-t5-base-v1": "Apache-2.0"}

FORMAT: Final = 1
"""Of an exported folder: another number makes every model be exported again."""

TOP_K: Final = 10
"""Likeliest next tokens that a step returns: doc2query samples among ten (Nogueira & Lin 2019, "docTTTTTquery")."""

INPUT_TOKENS: Final = 256
"""A longer text is cut."""

LEAST_AGREEMENT: Final = 0.9
"""Share of greedy tokens in which int8 has to agree with fp32."""

_INPUT_CHARS: Final = 64 * INPUT_TOKENS
"""More than 256 tokens of any text worth a question: spares the tokenizer a megabyte that would be cut anyway."""

_KEEP: Final = 0.5
"""Finished rows leave the batch when no more than this share is live: leaving copies what the others attend to."""

_FILES: Final = ("encoder_model.onnx", "decoder_model_merged.onnx", "tokenizer.json", "config.json")

Choose = Callable[[int, I64, F32, I64], I64]
"""(step, rows int64[r], logits float32[r, k], tokens int64[r, k]), best first → the token of each row, int64[r]."""


@dataclass(frozen=True, slots=True)
class Seq2Seq:
    """A model whose weights are in reach. `origin` says where they come from."""

    name: str
    folder: Path
    origin: str  # path | models folder | hub cache
    licence: str  # empty: not known


@dataclass(frozen=True, slots=True)
class Spec:
    """model.json: what an exported folder holds. `fingerprint` covers every file."""

    format: int
    name: str
    licence: str
    precision: str  # int8 | fp32
    measured: Mapping[str, float]  # agreement of int8 with fp32; seconds of each on the probes, one thread
    weights_sha256: str
    start: int  # the decoder's first input
    eos: Sequence[int]
    pad: int
    forced: int | None  # the first output, where the model wants a given one (BART)
    files: Mapping[str, str]  # name → sha256
    fingerprint: str


# ---------------------------------------------------------------- finding


def find(wanted: str, settings: Settings) -> Seq2Seq | str:
    """Weights in reach, or the reason why there is no doc2query. Nothing downloads.

    Args:
        wanted: "" (the default model where it is in reach), "off", a hub name, or a folder.
        settings: `models` is looked through before the hub's cache.
    """
    if wanted == "off":
        return "doc2query is off by its setting"
    name = wanted or DEFAULT
    places: list[tuple[Path, str]] = []
    if wanted:
        places.append((Path(wanted).expanduser(), "path"))
    if settings.models:
        places += [(Path(settings.models) / part, "models folder") for part in (name, name.rpartition("/")[2]) if part]
    snapshots = hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        places += [(folder, "hub cache") for folder in sorted(snapshots.iterdir(), reverse=True)]
    refused = ""
    for folder, origin in places:
        if not is_model(folder):
            continue
        if _is_encoder_decoder(folder):
            called = folder.resolve().name if origin == "path" else name
            return Seq2Seq(called, folder, origin, LICENCES.get(name, ""))
        refused = refused or f"{folder} is not a sequence-to-sequence model (config.json: is_encoder_decoder)"
    looked = "the models folder (HELIX_MODELS) and the hub cache" if settings.models else "the hub cache"
    looked += "; HELIX_MODELS is not set" if not settings.models else ""
    return f"no weights in reach for {name}: " + (refused or f"neither a model's folder nor in {looked}")


def _is_encoder_decoder(folder: Path) -> bool:
    try:
        config = orjson.loads((folder / "config.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(config, dict) and config.get("is_encoder_decoder") is True


# ---------------------------------------------------------------- exporting, kept


def is_cached(found: Seq2Seq, cache: Path) -> bool:
    """Whether `cached` has nothing left to do."""
    return (_target(found, cache) / "model.json").is_file()


def cached(found: Seq2Seq, cache: Path) -> Path:
    """The folder of the exported model; made at the first call, by a process of its own.

    Raises:
        EncoderError: the export failed (the last line of its output is in the message), or what was kept is damaged.
    """
    target = _target(found, cache)
    if is_cached(found, cache):
        load_spec(target)  # checks every file
        return target

    def make(folder: Path) -> None:
        remedy = "install helix-recall[workers], name another model, or set HELIX_DOC2QUERY=off"
        options = (found.name, found.licence)
        export_apart("helix.encoders.seq2seq", found.folder, folder, *options, name=found.name, remedy=remedy)

    return made_once(target, "model.json", make)


def _target(found: Seq2Seq, cache: Path) -> Path:
    return cache / "seq2seq" / f"{found.name.replace('/', '--')}-{_source_sha256(found.folder)[:16]}"


def _source_sha256(folder: Path) -> str:
    """One digest over the format, the weights and the files that change their meaning.

    Raises:
        EncoderError: a file cannot be read.
    """
    digest = hashlib.sha256(f"format {FORMAT}\n".encode())
    names = ("config.json", "generation_config.json", "model.safetensors", "pytorch_model.bin")
    try:
        for name in (*names, "tokenizer.json", "spiece.model", "vocab.json", "merges.txt"):
            if (path := folder / name).is_file():
                digest.update(f"{name}:{sha256(path)}\n".encode())
    except OSError as error:
        raise EncoderError(f"cannot read the weights: {error}", "check the folder's permissions") from None
    return digest.hexdigest()


def export(source: Path, target: Path, name: str = "", licence: str = "", precision: str = "") -> Spec:
    """Export a model to ONNX, in int8 where that is faster here and as good; write its files and model.json.

    Args:
        source: a transformers folder (T5, mT5, BART): config, weights, tokenizer.
        target: an empty folder.
        name: what errors and reports call it; empty: the folder's name.
        licence: of the weights, where known.
        precision: int8 or fp32; empty: chosen by `better` from what is measured here.
    """
    import onnx

    with tempfile.TemporaryDirectory(dir=target) as work:
        plain, small = Path(work, "fp32"), Path(work, "int8")
        spec = replace(_export_plain(source, plain), name=name or source.name, licence=licence)
        shutil.copytree(plain, small, ignore=shutil.ignore_patterns("*.onnx"))
        for file in _FILES[:2]:
            model = onnx.load(plain / file)
            if file == _FILES[1]:
                _return_best(model, TOP_K)
                onnx.save(model, plain / file)
            _quantise(model, 127 if has_vnni() else 63)
            onnx.save(model, small / file)
        figures = _compare(Network(plain, 1, _describe(plain, spec)), Network(small, 1, _describe(small, spec)))
        precision = precision or better(figures)
        for file in _FILES:
            shutil.move(Path(work, precision, file), target / file)
    final = _describe(target, replace(spec, precision=precision, measured=figures))
    (target / "model.json").write_bytes(orjson.dumps(final, option=orjson.OPT_INDENT_2))
    return final


def better(figures: Mapping[str, float]) -> str:
    """`int8` where it is faster and its greedy tokens agree with those of fp32, else `fp32`."""
    good = figures["agreement"] >= LEAST_AGREEMENT and figures["int8_seconds"] < figures["fp32_seconds"]
    return "int8" if good else "fp32"


def _export_plain(source: Path, folder: Path) -> Spec:
    """The merged decoder (with and without a past) and the encoder in fp32, by optimum."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM
    from transformers import AutoTokenizer

    model = ORTModelForSeq2SeqLM.from_pretrained(source, export=True, use_merged=True, local_files_only=True)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))

    def setting(key: str) -> Any:
        value = getattr(model.generation_config, key, None)
        return getattr(model.config, key, None) if value is None else value

    pad, eos, start = setting("pad_token_id"), setting("eos_token_id"), setting("decoder_start_token_id")
    return Spec(
        format=FORMAT,
        name="",
        licence="",
        precision="",
        measured={},
        weights_sha256=_source_sha256(source),
        start=int(pad or 0) if start is None else int(start),
        eos=[] if eos is None else [int(each) for each in (eos if isinstance(eos, list) else [eos])],
        pad=int(pad or 0),
        forced=setting("forced_bos_token_id"),
        files={},
        fingerprint="",
    )


def _describe(folder: Path, spec: Spec) -> Spec:
    files = {name: sha256(folder / name) for name in _FILES}
    return replace(spec, files=files, fingerprint=_fingerprint(files))


def _fingerprint(files: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name}:{files[name]}\n" for name in sorted(files)).encode()).hexdigest()[:16]


def _compare(plain: Network, small: Network) -> dict[str, float]:
    """Agreement and seconds. int8 is led along the tokens of fp32, so that one difference does not count as many."""
    inputs = plain.tokens(PROBES)
    steps = 16
    path: list[I64] = []
    live: list[Bool] = []  # rows whose output has not ended before that step
    same = 0

    def lead(step: int, rows: I64, logits: F32, tokens: I64) -> I64:
        path.append(tokens[:, 0].copy())
        live.append(live[-1] & ~np.isin(path[-2], plain.spec.eos) if live else np.ones(len(rows), bool))
        return path[step]

    def follow(step: int, rows: I64, logits: F32, tokens: I64) -> I64:
        nonlocal same
        same += int((live[step] & (tokens[:, 0] == path[step])).sum())
        return path[step]

    # No row leaves: the two would have to leave together.
    plain.decode(inputs, 1, steps, lead, stop=False)
    small.decode(inputs, 1, steps, follow, stop=False)
    seconds: dict[str, list[float]] = {"fp32_seconds": [], "int8_seconds": []}
    for _ in range(3):  # in turns, the best of each: other work on the machine slows either
        for name, network in zip(seconds, (plain, small), strict=True):
            start = time.perf_counter()
            network.decode(inputs, 3, steps, lambda step, *_: np.repeat(path[step], 3), stop=False)
            seconds[name].append(time.perf_counter() - start)
    return {
        "agreement": round(same / sum(int(rows.sum()) for rows in live), 4),
        **{name: round(min(times), 5) for name, times in seconds.items()},
    }


# ---------------------------------------------------------------- the graphs


def _scopes(graph: Any) -> Iterator[Any]:
    """A graph and the branches inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _scopes(attribute.g)


def _opset(model: Any) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def _return_best(model: Any, k: int) -> None:
    """Add the k best logits and their tokens as outputs: a step then returns 10 numbers a row, not the vocabulary."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([k], np.int64), "best_k"))
    graph.node.append(helper.make_node("TopK", ["logits", "best_k"], ["best_logits", "best_tokens"], axis=-1))
    graph.output.append(helper.make_tensor_value_info("best_logits", TensorProto.FLOAT, None))
    graph.output.append(helper.make_tensor_value_info("best_tokens", TensorProto.INT64, None))


def _quantise(model: Any, top: int) -> None:
    """Weights to int8 a column, products of them in int8, in place; the embedding to int8 a row.

    Activations get one scale a row (a token), where ONNX Runtime's own dynamic quantising takes one for the whole
    tensor: nearer to fp32, and a text's result does not hang on what else is in its batch. As in Dettmers et al. 2022,
    "LLM.int8()", vector-wise quantisation.

    Args:
        model: an ONNX model; weights are initialisers of its outermost graph.
        top: largest absolute int8 weight: 127, or 63 where products of 8-bit pairs saturate (no VNNI).
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    weights = {entry.name: entry for entry in graph.initializer if len(entry.dims) == 2 and entry.data_type == 1}
    made: set[str] = set()

    def keep(name: str, value: npt.NDArray[Any]) -> None:
        if name not in made:
            made.add(name)
            graph.initializer.append(numpy_helper.from_array(value, name))

    def keep_int8(name: str, axis: int, largest: int) -> None:
        if f"{name}_int8" in made:
            return
        values, scales = _int8(numpy_helper.to_array(weights[name]), axis, largest)
        keep(f"{name}_int8", values)
        keep(f"{name}_scale", scales)

    constants = {"q_share": np.float32(1 / 127), "q_least": np.float32(1e-9), "q_one": np.float32(1)}
    for name, value in {**constants, "q_zero": np.uint8(128), "q_axis": np.array([-1], np.int64)}.items():
        keep(name, np.asarray(value))
    axes, attributes = (["q_axis"], {}) if _opset(model) >= 18 else ([], {"axes": [-1]})
    for number, scope in enumerate(_scopes(graph)):
        nodes: list[Any] = []
        rows: dict[str, str] = {}  # activation → prefix of its quantised form, shared by the products that read it
        for node in scope.node:
            own = f"q{number}_{len(nodes)}"
            if node.op_type == "MatMul" and node.input[1] in weights:
                source, weight = node.input
                keep_int8(weight, 0, top)
                if source not in rows:
                    rows[source] = own
                    nodes += [
                        helper.make_node("Abs", [source], [f"{own}_abs"]),
                        helper.make_node("ReduceMax", [f"{own}_abs", *axes], [f"{own}_max"], keepdims=1, **attributes),
                        helper.make_node("Mul", [f"{own}_max", "q_share"], [f"{own}_share"]),
                        helper.make_node("Max", [f"{own}_share", "q_least"], [f"{own}_scale"]),
                        helper.make_node("Div", [source, f"{own}_scale"], [f"{own}_unit"]),
                        helper.make_node("QuantizeLinear", [f"{own}_unit", "q_one", "q_zero"], [f"{own}_uint8"]),
                    ]
                row = rows[source]
                product = [f"{row}_uint8", f"{weight}_int8", "q_one", f"{weight}_scale", "q_zero"]
                nodes += [
                    helper.make_node("MatMulIntegerToFloat", product, [f"{own}_product"], domain="com.microsoft"),
                    helper.make_node("Mul", [f"{own}_product", f"{row}_scale"], [node.output[0]]),
                ]
            elif node.op_type == "Gather" and node.input[0] in weights and weights[node.input[0]].dims[0] > 1000:
                keep_int8(node.input[0], 1, 127)
                nodes += [
                    helper.make_node("Gather", [f"{node.input[0]}_int8", node.input[1]], [f"{own}_picked"]),
                    helper.make_node("Gather", [f"{node.input[0]}_scale", node.input[1]], [f"{own}_scale"]),
                    helper.make_node("Cast", [f"{own}_picked"], [f"{own}_float"], to=1),
                    helper.make_node("Mul", [f"{own}_float", f"{own}_scale"], [node.output[0]]),
                ]
            else:
                nodes.append(node)
        del scope.node[:]
        scope.node.extend(nodes)
    read = {name for scope in _scopes(graph) for node in scope.node for name in node.input}
    kept = [entry for entry in graph.initializer if entry.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _int8(weight: F32, axis: int, top: int) -> tuple[npt.NDArray[np.int8], F32]:
    """Symmetric int8 with one scale a column (axis 0: float32[n]) or a row (axis 1: float32[k, 1])."""
    scales = np.maximum(np.abs(weight).max(axis, keepdims=axis == 1) / top, 1e-9).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


# ---------------------------------------------------------------- running


def load_spec(folder: Path) -> Spec:
    """Read and check an exported folder.

    Raises:
        EncoderError: a file is missing, changed, or of another format; it is named.
    """
    remedy = "delete the folder: it is made again from the weights"
    path = folder / "model.json"
    if not path.is_file():
        raise EncoderError(f"model missing: {path} does not exist", remedy)
    try:
        spec = Spec(**orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise EncoderError(f"model unreadable: {path}: {error}", remedy) from None
    if spec.format != FORMAT:
        raise EncoderError(f"model of format {spec.format}, not {FORMAT}: {path}", remedy)
    for name in _FILES:
        if not (file := folder / name).is_file():
            raise EncoderError(f"model missing: {file} does not exist", remedy)
        if (found := sha256(file)) != spec.files.get(name):
            raise EncoderError(f"model changed: {file} has sha256 {found[:12]}…, not the recorded one", remedy)
    if _fingerprint(spec.files) != spec.fingerprint:
        raise EncoderError(f"model changed: the fingerprint in {path} is not that of its files", remedy)
    return spec


class Network:
    """An exported encoder and decoder in ONNX Runtime, with their tokenizer. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, spec: Spec | None = None) -> None:
        """Open an exported folder; its files are checked unless `spec` is given.

        Raises:
            EncoderError: a file is missing, changed or unreadable.
        """
        from tokenizers import Tokenizer

        self.spec = spec or load_spec(folder)
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(INPUT_TOKENS)
        self._encoder, self._decoder = (_session(folder / name, threads) for name in _FILES[:2])
        self._encoder_inputs = {entry.name for entry in self._encoder.get_inputs()}
        # Of a past, [batch, heads, tokens, width]: the heads and width.
        self._past = {
            entry.name: (int(entry.shape[1]), int(entry.shape[3]))
            for entry in self._decoder.get_inputs()
            if entry.name.startswith("past_key_values.")
        }
        self._own = ["best_logits", "best_tokens", *(_present(name) for name in self._past if ".decoder." in name)]

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The model's tokens of each text, with its end mark; at most 256. A blank text has none."""
        clean = [" ".join(text[:_INPUT_CHARS].split()) for text in texts]
        found = [list(entry.ids) for entry in self._tokenizer.encode_batch(clean)]
        return [ids if text else [] for ids, text in zip(found, clean, strict=True)]

    def text(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Tokens back to text, without special ones."""
        return [str(text) for text in self._tokenizer.decode_batch([list(ids) for ids in tokens])]

    def decode(
        self, inputs: Sequence[Sequence[int]], copies: int, steps: int, choose: Choose, stop: bool = True
    ) -> list[list[int]]:
        """Decode every input `copies` times; each is encoded once, and its first step is shared.

        Args:
            inputs: tokens of each text, none empty.
            copies: outputs a text; row r of the batch is of text r // copies.
            steps: tokens of an output, at most.
            choose: takes a row's next token; it is also asked for rows that have ended and are still in the batch.
            stop: whether an end mark ends a row.

        Returns:
            The tokens of len(inputs) × copies rows, without the end mark.
        """
        import onnxruntime as ort

        value = ort.OrtValue.ortvalue_from_numpy
        ids, mask = _padded(inputs, self.spec.pad)
        feed = {"input_ids": ids, "attention_mask": mask}
        hidden = self._encoder.run(["last_hidden_state"], {name: feed[name] for name in self._encoder_inputs})[0]
        out = self._first(hidden, mask)
        rows = np.arange(len(inputs) * copies)
        taken = [list[int]() for _ in rows]
        live = np.ones(len(rows), bool)
        past = {name: value(_taken(out[_present(name)], rows // copies)) for name in self._past}
        # With a past the decoder reads the encoder's keys and values from it, and of `hidden` nothing.
        fixed = {"encoder_hidden_states": value(hidden[:1]), "use_cache_branch": value(np.array([True]))}
        logits, best = (out[name][rows // copies, -1] for name in ("best_logits", "best_tokens"))
        for step in range(steps):
            token = choose(step, rows, logits, best)
            if step == 0 and self.spec.forced is not None:
                token = np.full(len(rows), self.spec.forced, np.int64)
            if stop:
                live &= ~np.isin(token, self.spec.eos)
            for i in np.flatnonzero(live):
                taken[rows[i]].append(int(token[i]))
            if step + 1 == steps or not live.any():
                break
            if live.sum() <= _KEEP * len(live):
                chosen = np.flatnonzero(live)
                past = {name: value(_taken(entry.numpy(), chosen)) for name, entry in past.items()}
                rows, token, live = rows[chosen], token[chosen], live[chosen]
            given = {"input_ids": value(np.ascontiguousarray(token[:, None], dtype=np.int64)), **fixed, **past}
            given["encoder_attention_mask"] = value(mask[rows // copies])
            done = dict(zip(self._own, self._decoder.run_with_ort_values(self._own, given), strict=True))
            past |= {name: done[_present(name)] for name in past if ".decoder." in name}
            logits, best = (done[name].numpy()[:, -1] for name in ("best_logits", "best_tokens"))
        return taken

    def _first(self, hidden: F32, mask: I64) -> dict[str, npt.NDArray[Any]]:
        """The step without a past, one row a text."""
        count = len(hidden)
        feed = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
            "input_ids": np.full((count, 1), self.spec.start, np.int64),
            "use_cache_branch": np.array([False]),
            **{name: np.zeros((count, heads, 1, width), np.float32) for name, (heads, width) in self._past.items()},
        }
        names = ["best_logits", "best_tokens", *map(_present, self._past)]
        return dict(zip(names, self._decoder.run(names, feed), strict=True))


def _present(past: str) -> str:
    return past.replace("past_key_values", "present", 1)


def _taken(values: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(values.take(rows, axis=0))


def _padded(inputs: Sequence[Sequence[int]], pad: int) -> tuple[I64, I64]:
    """Tokens and mask, int64[n, longest]."""
    width = max(len(ids) for ids in inputs)
    ids = np.full((len(inputs), width), pad, np.int64)
    mask = np.zeros((len(inputs), width), np.int64)
    for i, given in enumerate(inputs):
        ids[i, : len(given)] = given
        mask[i, : len(given)] = 1
    return ids, mask


def _session(path: Path, threads: int) -> Any:
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf, RuntimeException

    options = ort.SessionOptions()
    # ONNX Runtime ignores OMP_NUM_THREADS and container quotas: say it.
    options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph, InvalidProtobuf, RuntimeException) as error:
        raise EncoderError(f"model unreadable: {path}: {error}", "delete the folder: it is made again") from None


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
