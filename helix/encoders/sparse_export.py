"""Export of a SparseEncoder of sentence-transformers to ONNX, int8 if that is as good and faster, once a machine.

`python -m helix.encoders.sparse_export SOURCE TARGET NAME LICENCE` is the process of its own. Code that comes with a
model never runs: a folder's list of modules is checked before it is loaded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.encoders import onnx_export, sparse
from helix.encoders.folders import ModelFolder, is_model, read_context, read_json, read_pad
from helix.encoders.sparse import FORMAT, SPEC, DocumentEncoder, SparseSpec, digest_weights, load_spec, open_query
from helix.encoders.spec import fingerprint_spec, hash_files, shorten, write_spec
from helix.errors import EncoderError
from helix.types import F32

LEAST_AGREEMENT: Final = 0.98
"""Cosine of every probe's int8 weights with its float ones; below it int8 visibly reorders items."""

_TOLERANCE: Final = 1e-3
"""Largest difference of a float weight from sentence-transformers': kernels round apart in the fifth digit."""

_OURS: Final = "sentence_transformers."

_PROBES: Final = (
    *onnx_export.PROBES,
    "where did we set the visibility timeout",
    "What did I tell Priya about vacation?",
    "walnut bread",
)
"""Texts on which the exported graph is compared with the model and with its int8 form."""


def sparse_kind(folder: Path) -> str:
    """Return `splade` or `inference-free`, by a folder's list of modules.

    Raises:
        EncoderError: it is something else, or needs code of its own.
    """
    modules = read_json(folder / "modules.json")
    if not modules:
        names = [str(name) for name in read_json(folder / "config.json").get("architectures") or ()]
        if is_model(folder) and any(name.endswith("ForMaskedLM") for name in names):
            return "splade"  # pooled by the maximum, as in sentence-transformers
        raise _refuse(folder, f"is {', '.join(names) or 'no model'}, not one for masked language modelling")
    try:
        types = [_read_type(folder, entry["type"]) for entry in modules]
        if types == ["Router"]:
            return _check_routes(folder / str(modules[0]["path"]))
    except (TypeError, KeyError):
        raise EncoderError(f"{folder} does not list its modules as it should", "fetch the model again") from None
    if _is_splade(types):
        return "splade"
    raise _refuse(folder, f"is made of {' + '.join(types)}")


def _read_type(folder: Path, module: Any) -> str:
    """Return the last part of a module's name; sentence-transformers would run any other from the folder."""
    if not str(module).startswith(_OURS):
        raise _refuse(folder, f"brings code of its own ({module}), which Helix does not run,")
    name = str(module).rpartition(".")[2]
    return "Router" if name == "Asym" else name


def _check_routes(folder: Path) -> str:
    config = read_json(folder / "router_config.json") or read_json(folder / "config.json")
    types = {name: _read_type(folder, kind) for name, kind in config["types"].items()}
    routes = {name: [types[each] for each in parts] for name, parts in config["structure"].items()}
    both = set(routes) == {"query", "document"} and not config.get("parameters", {}).get("route_mappings")
    if both and routes["query"] == ["SparseStaticEmbedding"] and _is_splade(routes["document"]):
        return "inference-free"
    listed = ", ".join(f"{name}: {' + '.join(parts)}" for name, parts in sorted(routes.items()))
    raise _refuse(folder, f"routes its texts in a way that Helix does not ({listed})")


def _is_splade(types: Sequence[str]) -> bool:
    return len(types) == 2 and types[0] in ("Transformer", "MLMTransformer") and types[1] == "SpladePooling"


def _refuse(folder: Path, reason: str) -> EncoderError:
    return EncoderError(
        f"{folder} {reason} and is no sparse encoder that Helix knows",
        "take a SPLADE model, or one with a SparseStaticEmbedding for questions",
    )


def cache_sparse_encoder(source: ModelFolder, cache: Path) -> Path:
    """Return the folder of an exported encoder, which the first call makes.

    Raises:
        EncoderError: it is of neither kind, the export failed, or the cached files are damaged.
    """
    target = _export_folder(source, cache)
    if not (target / SPEC).is_file():
        sparse_kind(source.folder)
    remedy = "install helix-recall[workers], or take another sparse encoder"
    options = (source.name, source.licence)
    export = onnx_export.ExportJob("helix.encoders.sparse_export", source.folder, options, source.name, remedy)
    return onnx_export.export_once(
        export, target, SPEC, lambda folder: [load_spec(folder, query=query) for query in (False, True)]
    )


def is_sparse_encoder_cached(source: ModelFolder, cache: Path) -> bool:
    """Return whether the export exists."""
    return (_export_folder(source, cache) / SPEC).is_file()


def _export_folder(source: ModelFolder, cache: Path) -> Path:
    if (source.folder / SPEC).is_file():
        return source.folder
    digest = shorten(f"{digest_weights(source.folder)}:{FORMAT}".encode())
    return cache.expanduser() / "sparse" / f"{source.export_name}-{digest}"


def export_sparse_encoder(source: Path, target: Path, name: str, licence: str = "", precision: str = "") -> SparseSpec:
    """Export a folder that sentence-transformers' SparseEncoder loads into an empty folder, with its sparse.json.

    Without a precision, int8 or fp32 is chosen by measuring here.

    Raises:
        EncoderError: it is of neither kind, or the graph differs from the model.
    """
    from sentence_transformers import SparseEncoder

    kind = sparse_kind(source)
    model = SparseEncoder(str(source), device="cpu", local_files_only=True, trust_remote_code=False)
    transformer, pooling = model[0].sub_modules["document"] if kind == "inference-free" else (model[0], model[1])
    with tempfile.TemporaryDirectory(dir=target) as work:
        plain, small, saved = Path(work, "fp32"), Path(work, "int8"), Path(work, "saved")
        transformer.auto_model.float().save_pretrained(saved)
        onnx_export.export_graph(saved, plain, "fill-mask")
        pool_graph(plain / "model.onnx", pooling.pooling_strategy, pooling.activation_function)
        onnx_export.quantise_graph(plain, small)
        spec = _describe_model(source, kind, name, licence, model, transformer, saved)
        transformer.max_seq_length = spec.max_tokens  # the comparison reads no more
        for folder in (plain, small):
            transformer.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
            if kind == "inference-free":
                _save_queries(model[0].sub_modules["query"][0], folder)
        spec = check_graph(replace(spec, precision="fp32"), plain, model)
        figures = _compare(spec, plain, small)
        precision = precision or onnx_export.choose_precision(figures, LEAST_AGREEMENT)
        for file in _list_files(kind):
            shutil.move(Path(work, precision, file), target / file)
    return _write_spec(replace(spec, precision=precision, measured=figures), target)


def pool_graph(path: Path, strategy: str, activation: str) -> None:
    """Append SPLADE's pooling to a graph: log(1 + ReLU) of each token, once or twice, pooled over a text.

    Both functions only grow, so a maximum comes before them: over a text's vocabulary, not over each token's.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph = model.graph
    opset = onnx_export.read_opset(model)
    logits = graph.output[0].name
    vocabulary = graph.output[0].type.tensor_type.shape.dim[2]
    width = vocabulary.dim_value or vocabulary.dim_param
    graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "splade_last"))
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "splade_tokens"))
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), "splade_one"))
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["splade_mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["splade_mask", "splade_last"], ["splade_column"]),
        helper.make_node("Mul", [logits, "splade_column"], ["splade_masked"]),
    ]
    last = "splade_masked"

    def pool() -> None:
        nonlocal last
        reduce = "ReduceMax" if strategy == "max" else "ReduceSum"
        if reduce == "ReduceMax" and opset < 18:  # until then its axes are an attribute
            nodes.append(helper.make_node(reduce, [last], ["splade_pooled"], axes=[1], keepdims=0))
        else:
            nodes.append(helper.make_node(reduce, [last, "splade_tokens"], ["splade_pooled"], keepdims=0))
        last = "splade_pooled"

    def activate() -> None:
        nonlocal last
        nodes.append(helper.make_node("Relu", [last], ["splade_relu"]))
        last = "splade_relu"
        for i in range(2 if activation == "log1p_relu" else 1):
            nodes.append(helper.make_node("Add", [last, "splade_one"], [f"splade_more_{i}"]))
            nodes.append(helper.make_node("Log", [f"splade_more_{i}"], [f"splade_log_{i}"]))
            last = f"splade_log_{i}"

    for step in (pool, activate) if strategy == "max" else (activate, pool):
        step()
    graph.node.extend(nodes)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch_size", width]))
    onnx.save(model, path)


def _describe_model(
    source: Path, kind: str, name: str, licence: str, model: Any, transformer: Any, saved: Path
) -> SparseSpec:
    context = read_context(saved)  # a RoBERTa's is two less than its positions
    length = min(int(transformer.max_seq_length or context), context)
    query_side = model[0].sub_modules["query"][0] if kind == "inference-free" else transformer
    default = model.prompts.get(model.default_prompt_name) if model.default_prompt_name else None

    def find_prompt(*names: str) -> str:
        """Return the first listed prompt, even an empty one, as `encode_query` and `encode_document` do."""
        return next((model.prompts[each] for each in names if each in model.prompts), default) or ""

    return SparseSpec(
        format=FORMAT,
        kind=kind,
        name=name,
        licence=licence,
        precision="",
        measured={},
        weights_sha256=digest_weights(source),
        vocabulary=int(transformer.auto_model.config.vocab_size),
        max_tokens=length,
        query_tokens=min(int(query_side.max_seq_length or context), context),
        pad=read_pad(saved),
        query_prefix=find_prompt("query"),
        document_prefix=find_prompt("document", "passage", "corpus"),
        files={},
    )


def _save_queries(static: Any, folder: Path) -> None:
    """Write the table of an inference-free query side and its tokenizer; a token without a weight gets 0."""
    tokenizer = static.tokenizer
    weights = static.weight.detach().float().numpy()
    table = np.zeros(max(len(weights), len(tokenizer.get_vocab())), np.float32)
    table[: len(weights)] = weights
    np.save(folder / "query_weights.npy", table, allow_pickle=False)
    tokenizer.backend_tokenizer.save(str(folder / "query_tokenizer.json"))


def _list_files(kind: str) -> list[str]:
    return list(dict.fromkeys((*sparse.DOCUMENT_FILES, *sparse.QUERY_FILES[kind])))


def _write_spec(spec: SparseSpec, folder: Path) -> SparseSpec:
    """Write sparse.json for the files in a folder."""
    spec = replace(spec, files=hash_files(folder, _list_files(spec.kind)))
    spec = replace(spec, fingerprint=fingerprint_spec(spec))
    write_spec(folder / SPEC, spec)
    return spec


def check_graph(spec: SparseSpec, folder: Path, model: Any) -> SparseSpec:
    """Compare the graph's weights with the model's. Raises EncoderError if they differ."""
    spec = _write_spec(spec, folder)
    texts = list(_PROBES)
    weights, queries = DocumentEncoder(folder, 1).weights(texts), open_query(folder, 1)
    expected = model.encode_document(texts, convert_to_sparse_tensor=False).numpy()
    difference = float(np.abs(weights - expected).max())
    for text, row in zip(texts, model.encode_query(texts, convert_to_sparse_tensor=False).numpy(), strict=True):
        actual, wanted = queries.encode(text), sparse.select_heaviest(row, sparse.QUERY_TERMS)
        difference = max(difference, float(np.abs(row[actual.terms] - actual.weights).max(initial=0.0)))
        # The cut may retain either of two terms of nearly one weight; the sorted weights agree.
        ranked = np.zeros((2, sparse.QUERY_TERMS), np.float32)
        for ranks, one in zip(ranked, (actual, wanted), strict=True):
            ranks[: len(one.weights)] = np.sort(one.weights)[::-1]
        difference = max(difference, float(np.abs(ranked[0] - ranked[1]).max()))
    if difference > _TOLERANCE:
        raise EncoderError(
            f"the exported graph of {spec.name} is off by {difference:.4f} from the model",
            "take another sparse encoder, and report this one",
        )
    return spec


def _compare(spec: SparseSpec, plain: Path, small: Path) -> dict[str, float]:
    """Return the least cosine of int8 and fp32 over the probes, and the seconds of each."""
    _write_spec(spec, small)
    encoders = {"fp32_seconds": DocumentEncoder(plain, 1), "int8_seconds": DocumentEncoder(small, 1)}
    weights = [encoder.weights(_PROBES) for encoder in encoders.values()]
    return {
        "agreement": round(float(_compute_cosines(*weights).min()), 4),
        **onnx_export.time_in_turns({name: lambda e=encoder: e.weights(_PROBES) for name, encoder in encoders.items()}),  # type: ignore[misc]
    }


def _compute_cosines(first: F32, second: F32) -> F32:
    """Return the cosine of each row with the same row of the other; 1 if both are zeros."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(1) / np.maximum(lengths, 1e-12)
    return np.asarray(np.where(first.any(1) | second.any(1), cosines, 1.0), np.float32)


if __name__ == "__main__":
    export_sparse_encoder(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
