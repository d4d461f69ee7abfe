"""A SparseEncoder of sentence-transformers → ONNX, int8 where that is as good and faster, once, kept with checksums.

Runs as its own process (`python -m helix.encoders.sparse_export`), so that what torch takes leaves with it. Code that
comes with a model is never run: what a folder says it is made of is looked at before it is loaded.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders import sparse
from helix.encoders.cache import PROBES, export_apart, made_once
from helix.encoders.dense_export import context_of, pad_of, quantise, to_onnx
from helix.encoders.registry import is_model, read_json, sha256
from helix.encoders.rerank import Source
from helix.encoders.sparse import DocumentEncoder, Spec, load_spec, open_query
from helix.errors import EncoderError
from helix.types import F32

LEAST_AGREEMENT: Final = 0.98
"""Cosine of every probe's int8 weights with its float ones: below it, what int8 moves is seen in the order of items."""

_TOLERANCE: Final = 1e-3
"""How far a float weight may be from what sentence-transformers gives: kernels round apart in the fifth digit."""

_OURS: Final = "sentence_transformers."

_PROBES: Final = (
    *PROBES,
    "where did we set the visibility timeout",
    "What did I tell Priya about vacation?",
    "walnut bread",
)
"""What the exported graph is compared on, with the model and with its int8 form."""


def kind_of(folder: Path) -> str:
    """`splade` or `inference-free`, by what the folder says it is made of.

    Raises:
        EncoderError: it is something else, or wants code of its own to be run.
    """
    listed = read_json(folder / "modules.json")
    if not listed:
        names = [str(name) for name in read_json(folder / "config.json").get("architectures") or ()]
        if is_model(folder) and any(name.endswith("ForMaskedLM") for name in names):
            return "splade"  # pooled by the maximum, as sentence-transformers takes such a model
        raise _unfit(folder, f"is {', '.join(names) or 'no model'}, not one for masked language modelling")
    try:
        types = [_module(folder, entry["type"]) for entry in listed]
        if types == ["Router"]:
            return _routed(folder / str(listed[0]["path"]))
    except (TypeError, KeyError):
        raise EncoderError(f"{folder} does not list its modules as it should", "fetch the model again") from None
    if _is_splade(types):
        return "splade"
    raise _unfit(folder, f"is made of {' + '.join(types)}")


def _module(folder: Path, named: Any) -> str:
    """The last part of a module's name; sentence-transformers would import any other from the folder and run it."""
    if not str(named).startswith(_OURS):
        raise _unfit(folder, f"brings code of its own ({named}), which Helix does not run,")
    found = str(named).rpartition(".")[2]
    return "Router" if found == "Asym" else found


def _routed(folder: Path) -> str:
    said = read_json(folder / "router_config.json") or read_json(folder / "config.json")
    types = {name: _module(folder, kind) for name, kind in said["types"].items()}
    routes = {name: [types[each] for each in parts] for name, parts in said["structure"].items()}
    whole = set(routes) == {"query", "document"} and not said.get("parameters", {}).get("route_mappings")
    if whole and routes["query"] == ["SparseStaticEmbedding"] and _is_splade(routes["document"]):
        return "inference-free"
    told = ", ".join(f"{name}: {' + '.join(parts)}" for name, parts in sorted(routes.items()))
    raise _unfit(folder, f"routes its texts in a way that Helix does not ({told})")


def _is_splade(types: Sequence[str]) -> bool:
    return len(types) == 2 and types[0] in ("Transformer", "MLMTransformer") and types[1] == "SpladePooling"


def _unfit(folder: Path, what: str) -> EncoderError:
    return EncoderError(
        f"{folder} {what} and is no sparse encoder that Helix knows",
        "take a SPLADE model, or one with a SparseStaticEmbedding for questions",
    )


# ---------------------------------------------------------------- kept


def cached(source: Source, cache: Path) -> Path:
    """The folder of an exported encoder; made at the first call, by a process of its own.

    Raises:
        EncoderError: it is of neither kind, the export failed (the last line of its output is in the message), or what
            was kept is damaged.
    """
    target = _target(source, cache)
    if (target / sparse.SPEC).is_file():
        load_spec(target, query=False)  # checks every file
        load_spec(target, query=True)
        return target
    kind_of(source.folder)

    def make(folder: Path) -> None:
        remedy = "install helix-recall[workers], or take another sparse encoder"
        options = (source.name, source.licence)
        export_apart("helix.encoders.sparse_export", source.folder, folder, *options, name=source.name, remedy=remedy)

    return made_once(target, sparse.SPEC, make)


def is_cached(source: Source, cache: Path) -> bool:
    """Whether `cached` has nothing left to do."""
    return (_target(source, cache) / sparse.SPEC).is_file()


def _target(source: Source, cache: Path) -> Path:
    if (source.folder / sparse.SPEC).is_file():
        return source.folder
    made = hashlib.sha256(f"{sparse.source_sha256(source.folder)}:{sparse.FORMAT}".encode()).hexdigest()
    return cache.expanduser() / "sparse" / f"{source.name.replace('/', '--')}-{made[:16]}"


# ---------------------------------------------------------------- exporting


def export(source: Path, target: Path, name: str, licence: str = "", precision: str = "") -> Spec:
    """Export an encoder; write its files and sparse.json.

    Args:
        source: a folder that sentence-transformers' SparseEncoder loads.
        target: an empty folder.
        name: what errors and reports call it.
        licence: of the weights, where known.
        precision: int8 or fp32; empty: chosen by `better` from what is measured here.

    Raises:
        EncoderError: it is of neither kind, or the graph does not give what the model gives.
    """
    from sentence_transformers import SparseEncoder

    kind = kind_of(source)
    model = SparseEncoder(str(source), device="cpu", local_files_only=True, trust_remote_code=False)
    transformer, pooling = model[0].sub_modules["document"] if kind == "inference-free" else (model[0], model[1])
    with tempfile.TemporaryDirectory(dir=target) as work:
        plain, small, saved = Path(work, "fp32"), Path(work, "int8"), Path(work, "saved")
        transformer.auto_model.float().save_pretrained(saved)
        to_onnx(saved, plain, "fill-mask")
        _pool(plain / "model.onnx", pooling.pooling_strategy, pooling.activation_function)
        quantise(plain, small)
        (small / "model_quantized.onnx").rename(small / "model.onnx")
        spec = _spec(source, kind, name, licence, model, transformer, saved)
        transformer.max_seq_length = spec.max_tokens  # what it is compared with reads no more
        for folder in (plain, small):
            transformer.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
            if kind == "inference-free":
                _save_queries(model[0].sub_modules["query"][0], folder)
        spec = _checked(replace(spec, precision="fp32"), plain, model)
        figures = _compare(spec, plain, small)
        chosen = precision or better(figures)
        names = dict.fromkeys((*sparse.DOCUMENT_FILES, *sparse.QUERY_FILES[kind]))
        for file in names:
            shutil.move(Path(work, chosen, file), target / file)
    return _described(replace(spec, precision=chosen, measured=figures), target)


def better(figures: Mapping[str, float]) -> str:
    """`int8` where it is faster and its weights agree with those of fp32 on every probe, else `fp32`."""
    good = figures["agreement"] >= LEAST_AGREEMENT and figures["int8_seconds"] < figures["fp32_seconds"]
    return "int8" if good else "fp32"


def _pool(path: Path, strategy: str, activation: str) -> None:
    """SPLADE's pooling behind the logits, in place: log(1 + ReLU) of each token, once or twice, pooled over a text.

    Both functions only grow, so a maximum is taken before them: of a vocabulary for each text, not for each token.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph = model.graph
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    logits = graph.output[0].name
    vocabulary = graph.output[0].type.tensor_type.shape.dim[2]
    width = vocabulary.dim_value or vocabulary.dim_param
    graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "splade_last"))
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "splade_tokens"))
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), "splade_one"))
    made = [
        helper.make_node("Cast", ["attention_mask"], ["splade_mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["splade_mask", "splade_last"], ["splade_column"]),
        helper.make_node("Mul", [logits, "splade_column"], ["splade_masked"]),
    ]
    last = "splade_masked"

    def pooled() -> None:
        nonlocal last
        reduce = "ReduceMax" if strategy == "max" else "ReduceSum"
        if reduce == "ReduceMax" and opset < 18:  # until then its axes are an attribute
            made.append(helper.make_node(reduce, [last], ["splade_pooled"], axes=[1], keepdims=0))
        else:
            made.append(helper.make_node(reduce, [last, "splade_tokens"], ["splade_pooled"], keepdims=0))
        last = "splade_pooled"

    def activated() -> None:
        nonlocal last
        made.append(helper.make_node("Relu", [last], ["splade_relu"]))
        last = "splade_relu"
        for i in range(2 if activation == "log1p_relu" else 1):
            made.append(helper.make_node("Add", [last, "splade_one"], [f"splade_more_{i}"]))
            made.append(helper.make_node("Log", [f"splade_more_{i}"], [f"splade_log_{i}"]))
            last = f"splade_log_{i}"

    for step in (pooled, activated) if strategy == "max" else (activated, pooled):
        step()
    graph.node.extend(made)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch_size", width]))
    onnx.save(model, path)


def _spec(source: Path, kind: str, name: str, licence: str, model: Any, transformer: Any, saved: Path) -> Spec:
    context = context_of(saved)  # of a RoBERTa two less than it has positions
    length = min(int(transformer.max_seq_length or context), context)
    asks = model[0].sub_modules["query"][0] if kind == "inference-free" else transformer
    default = model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None

    def prompt(*names: str) -> str:
        """The first that is there counts, even where it is empty: as `encode_query` and `encode_document` do."""
        found = next((model.prompts[each] for each in names if each in model.prompts), default)
        return found or ""

    return Spec(
        format=sparse.FORMAT,
        kind=kind,
        name=name,
        licence=licence,
        precision="",
        measured={},
        weights_sha256=sparse.source_sha256(source),
        vocabulary=int(transformer.auto_model.config.vocab_size),
        max_tokens=length,
        query_tokens=min(int(asks.max_seq_length or context), context),
        pad=pad_of(saved),
        query_prefix=prompt("query"),
        document_prefix=prompt("document", "passage", "corpus"),
        files={},
    )


def _save_queries(static: Any, folder: Path) -> None:
    """The table of an inference-free query side, and its tokenizer; a token it has no weight for weighs nothing."""
    tokenizer = static.tokenizer
    weights = static.weight.detach().float().numpy()
    table = np.zeros(max(len(weights), len(tokenizer.get_vocab())), np.float32)
    table[: len(weights)] = weights
    np.save(folder / "query_weights.npy", table, allow_pickle=False)
    tokenizer.backend_tokenizer.save(str(folder / "query_tokenizer.json"))


def _described(spec: Spec, folder: Path) -> Spec:
    """Write sparse.json beside the files."""
    names = dict.fromkeys((*sparse.DOCUMENT_FILES, *sparse.QUERY_FILES[spec.kind]))
    spec = replace(spec, files={name: sha256(folder / name) for name in names})
    spec = replace(spec, fingerprint=sparse.fingerprint(spec))
    (folder / sparse.SPEC).write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))
    return spec


def _checked(spec: Spec, folder: Path, model: Any) -> Spec:
    """The graph gives what the model gives."""
    spec = _described(spec, folder)
    texts = list(_PROBES)
    given, asked = DocumentEncoder(folder, 1).weights(texts), open_query(folder, 1)
    expected = model.encode_document(texts, convert_to_sparse_tensor=False).numpy()
    off = float(np.abs(given - expected).max())
    for text, row in zip(texts, model.encode_query(texts, convert_to_sparse_tensor=False).numpy(), strict=True):
        found, wanted = asked.encode(text), sparse.heaviest(row, sparse.QUERY_TERMS)
        off = max(off, float(np.abs(row[found.terms] - found.weights).max(initial=0.0)))
        # Of two terms that weigh nearly the same either may be kept: the weights that are kept are the same.
        weights = np.zeros((2, sparse.QUERY_TERMS), np.float32)
        for kept, one in zip(weights, (found, wanted), strict=True):
            kept[: len(one.weights)] = np.sort(one.weights)[::-1]
        off = max(off, float(np.abs(weights[0] - weights[1]).max()))
    if off > _TOLERANCE:
        raise EncoderError(
            f"the exported graph of {spec.name} is off by {off:.4f} from what the model gives",
            "take another sparse encoder, and report this one",
        )
    return spec


def _compare(spec: Spec, plain: Path, small: Path) -> dict[str, float]:
    """The least cosine of int8 and fp32 over the probes, and the seconds of each."""
    _described(spec, small)
    encoders = {"fp32_seconds": DocumentEncoder(plain, 1), "int8_seconds": DocumentEncoder(small, 1)}
    one, other = (encoder.weights(_PROBES) for encoder in encoders.values())
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(3):  # in turns, the best of each: other work on the machine slows either
        for name, encoder in encoders.items():
            start = time.perf_counter()
            encoder.weights(_PROBES)
            seconds[name].append(time.perf_counter() - start)
    return {
        "agreement": round(float(_cosines(one, other).min()), 4),
        **{name: round(min(times), 5) for name, times in seconds.items()},
    }


def _cosines(one: F32, other: F32) -> F32:
    """Of each row with the same row of the other; 1 where both are nothing."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    both = (one * other).sum(1) / np.maximum(lengths, 1e-12)
    nothing = ~one.any(1) & ~other.any(1)
    return np.asarray(np.where(nothing, 1.0, both), np.float32)


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
