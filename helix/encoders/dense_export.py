"""Weights → ONNX, int8 as a rule, once, kept with checksums. The only module of `helix` that needs torch and optimum.

Runs as its own process (`python -m helix.encoders.dense_export`), so that several hundred megabytes of torch leave with
it.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import string
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from helix.encoders import rerank
from helix.encoders.cache import export_apart, made_once
from helix.encoders.dense import FILES, Spec, fingerprint, load_spec, recipe
from helix.encoders.registry import WEIGHTS, WINDOW, Model, Weights, read_json, sha256
from helix.errors import EncoderError
from helix.types import F32

PRECISIONS = {"int8": "dynamic int8, per channel", "fp32": "none, float32"}


def is_cached(weights: Weights, cache: Path, precision: str = "int8") -> bool:
    """Whether `cached` has nothing left to do."""
    return (_target(weights, cache, precision) / "encoder.json").is_file()


def _target(weights: Weights, cache: Path, precision: str) -> Path:
    made = hashlib.sha256(f"{_source_sha256(weights.folder)}:{_recipe(weights)}:{precision}".encode()).hexdigest()
    return cache / "encoders" / f"{weights.model.name}-{made[:16]}"


def _recipe(weights: Weights) -> str:
    return recipe({**_values(weights.model), "pad": pad_of(weights.folder)})


def _values(model: Model) -> dict[str, Any]:
    """What a Spec takes over from the model."""
    names = ("name", "dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "context", "matryoshka")
    return {name: getattr(model, name) for name in (*names, "centred", "lower")}


def pad_of(folder: Path) -> int:
    return int(read_json(folder / "config.json").get("pad_token_id") or 0)


def cached(weights: Weights, cache: Path, precision: str = "int8") -> Path:
    """The folder of the exported encoder; made at the first call.

    Args:
        precision: int8, or fp32 for the model as it is.

    Raises:
        EncoderError: the export failed; the last line of its output is in the message.
    """
    target = _target(weights, cache, precision)
    if is_cached(weights, cache, precision):
        load_spec(target)  # checks every file
        return target

    def make(folder: Path) -> None:
        remedy = "install helix-recall[workers], or take an encoder folder that is already exported"
        export_apart(
            "helix.encoders.dense_export", weights.folder, folder, precision, name=weights.model.name, remedy=remedy
        )
        describe(folder, weights, precision)

    return made_once(target, "encoder.json", make)


@functools.cache  # ninety megabytes, asked for by every step of an export
def _source_sha256(folder: Path) -> str:
    """One digest over the weights and the files that change their meaning."""
    digest = hashlib.sha256()
    names = (*WEIGHTS, "config.json", "tokenizer.json", "1_Pooling/config.json")
    for name in names:
        if (path := folder / name).is_file():
            digest.update(f"{name}:{sha256(path)}\n".encode())
    return digest.hexdigest()


def describe(folder: Path, weights: Weights, precision: str) -> None:
    """Write encoder.json beside an exported model."""
    files = {name: sha256(folder / name) for name in FILES}
    made = _recipe(weights)
    spec = Spec(
        **_values(weights.model),
        quantising=PRECISIONS[precision],
        weights_sha256=_source_sha256(weights.folder),
        files=files,
        pad=pad_of(weights.folder),
        recipe=made,
        fingerprint=fingerprint(files, made),
    )
    (folder / "encoder.json").write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))


def export(source: Path, target: Path, precision: str = "int8") -> None:
    """Export a sentence encoder's transformer to ONNX, into `target/model.onnx`, with its tokenizer.

    An architecture that is in no library is taken from the ONNX file beside its weights; code that comes with a model
    is never run.

    Raises:
        EncoderError: the architecture is not supported.
    """
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "plain")
        to_onnx(source, plain)
        _finish(plain, target, precision)
    _save_tokenizer(source, target)


def _finish(plain: Path, target: Path, precision: str) -> None:
    """Quantise `plain/model.onnx` where that is asked for, into `target/model.onnx`."""
    with tempfile.TemporaryDirectory() as work:
        made = plain / "model.onnx"
        if precision == "int8":
            quantise(plain, Path(work))
            made = Path(work, "model_quantized.onnx")
        shutil.copyfile(made, target / "model.onnx")


def _save_tokenizer(source: Path, target: Path) -> None:
    from transformers import AutoTokenizer

    if (source / "tokenizer.json").is_file():
        shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    else:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
        tokenizer.backend_tokenizer.save(str(target / "tokenizer.json"))


def to_onnx(source: Path, target: Path, task: str = "feature-extraction") -> None:
    """The float32 ONNX model, in `target/model.onnx`, with its config.json."""
    from optimum.exporters.tasks import TasksManager
    from optimum.onnxruntime import (
        ORTModelForFeatureExtraction,
        ORTModelForMaskedLM,
        ORTModelForSequenceClassification,
    )
    from transformers import CONFIG_MAPPING

    kind = str(read_json(source / "config.json").get("model_type"))
    makers = {"text-classification": ORTModelForSequenceClassification, "fill-mask": ORTModelForMaskedLM}
    made = makers.get(task, ORTModelForFeatureExtraction)
    supported = TasksManager.get_supported_model_type_for_task(task, "onnx")
    weights = any((source / name).is_file() for name in WEIGHTS if not name.endswith(".onnx"))
    ours = source / "onnx" / "model.onnx"
    if weights and kind in CONFIG_MAPPING and kind in supported:
        made.from_pretrained(source, export=True, local_files_only=True).save_pretrained(target)
    elif ours.is_file():
        target.mkdir()
        for file in (source / "config.json", *ours.parent.glob("model.onnx*")):  # weights may lie beside a large graph
            shutil.copyfile(file, target / file.name)
    else:
        raise EncoderError(
            f"the architecture {kind} is in no library here, Helix runs no code that comes with a model, and {ours} "
            "does not exist",
            "fetch that file, or take another encoder",
        )


def quantise(plain: Path, target: Path) -> None:
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig

    configure = AutoQuantizationConfig.avx512_vnni if has_vnni() else AutoQuantizationConfig.avx2
    ORTQuantizer.from_pretrained(plain, file_name="model.onnx").quantize(
        save_dir=target, quantization_config=configure(is_static=False, per_channel=True)
    )


def has_vnni() -> bool:
    """Without VNNI, int8 products saturate unless weights keep seven bits, which the avx2 configuration does."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and "avx512_vnni" in info.read_text()


# ---------------------------------------------------------------- rerankers


def cached_reranker(source: rerank.Source, cache: Path, precision: str = "int8") -> Path:
    """The folder of an exported reranker; made at the first call, by a process of its own.

    Args:
        source: its weights, from `rerank.find`.
        precision: int8, or fp32 for the model as it is.

    Raises:
        EncoderError: it is of neither kind, the export failed (the last line of its output is in the message), or what
            was kept is damaged.
    """
    kind = reranker_kind(source.folder)
    target = rerank.target(source, cache, precision)
    if (target / rerank.SPEC).is_file():
        rerank.load_spec(target, kind)  # checks every file
        return target

    def make(folder: Path) -> None:
        remedy = "install helix-recall[workers], or take another reranker"
        options = ("reranker", source.name, source.licence, precision)
        export_apart("helix.encoders.dense_export", source.folder, folder, *options, name=source.name, remedy=remedy)

    return made_once(target, rerank.SPEC, make)


def reranker_kind(folder: Path) -> str:
    """`late` for a transformer with a linear projection of its token vectors (ColBERT), `cross` for a cross-encoder.

    Raises:
        EncoderError: it is neither, or does something that Helix does not do.
    """
    modules = rerank.parts(folder)
    transformer = modules.get("Transformer", folder)
    config = read_json(transformer / "config.json")
    names = [str(name) for name in config.get("architectures") or ()]
    if any(name.endswith("ForSequenceClassification") for name in names):
        labels = config.get("num_labels") or len(config.get("id2label") or ("", ""))  # transformers' default is two
        if labels != 1:
            raise _unfit(folder, f"gives {labels} logits, where a cross-encoder gives one")
        return "cross"
    if odd := set(modules) - {"Transformer", "Dense"}:
        raise _unfit(folder, f"has a module of the kind {', '.join(sorted(odd))}, as no reranker has")
    if "Dense" in modules or (folder / "artifact.metadata").is_file() or "HF_ColBERT" in names:
        return "late"
    if _LINEAR in _tensors(transformer / "model.safetensors"):
        return "late"
    raise _unfit(folder, f"is no cross-encoder (…ForSequenceClassification) and has no projection ({_LINEAR})")


_LINEAR = "linear.weight"


def _unfit(folder: Path, what: str) -> EncoderError:
    return EncoderError(f"{folder} {what}", "take a ColBERT-style encoder or a cross-encoder with one logit")


def _tensors(path: Path) -> Mapping[str, Any]:
    """The names in a safetensors file, from its header; none where there is no such file.

    Raises:
        EncoderError: it is no safetensors file.
    """
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            found = orjson.loads(file.read(length)) if length <= path.stat().st_size else None
        except orjson.JSONDecodeError:
            found = None
    if not isinstance(found, dict):
        raise EncoderError(f"{path} is unreadable: not a safetensors file", "fetch the model again")
    return found


def export_reranker(source: Path, target: Path, name: str, licence: str = "", precision: str = "int8") -> rerank.Spec:
    """Export a reranker to ONNX; write its files and reranker.json. Code that comes with a model is never run.

    Args:
        source: a folder of transformers, ColBERT or PyLate.
        target: an empty folder.
        name: what errors and reports call it.
        licence: of the weights, where known.
        precision: int8 (dynamic, per channel) or fp32.

    Raises:
        EncoderError: it is of neither kind, or does something that Helix does not do.
    """
    kind = reranker_kind(source)
    transformer = rerank.parts(source).get("Transformer", source)
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "plain")
        if kind == "late":
            dim = _export_late(source, plain)
        else:
            to_onnx(transformer, plain, "text-classification")
        _finish(plain, target, precision)
    words = transformer if (transformer / "tokenizer_config.json").is_file() else source
    _save_tokenizer(words, target)
    spec = rerank.Spec(
        format=rerank.FORMAT,
        kind=kind,
        name=name,
        licence=licence,
        quantising=PRECISIONS[precision],
        weights_sha256=rerank.source_sha256(source),
        max_tokens=context_of(transformer),
        pad=pad_of(transformer),
        files={file: sha256(target / file) for file in rerank.FILES},
    )
    if kind == "late":
        spec = replace(spec, dim=dim, **_interaction(source, words, target, spec.max_tokens))
    spec = replace(spec, fingerprint=rerank.fingerprint(spec))
    (target / rerank.SPEC).write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))
    return spec


def context_of(folder: Path) -> int:
    """Tokens a model takes, at most 512: attention costs the square."""
    config = read_json(folder / "config.json")
    positions = config.get("max_position_embeddings") or 512
    # RoBERTa and its kin count positions from the padding's id + 1.
    shifted = (config.get("pad_token_id") or 0) + 1 if "roberta" in str(config.get("model_type")) else 0
    said = read_json(folder / "tokenizer_config.json").get("model_max_length") or positions
    return int(min(said, positions - shifted, 512))


def _export_late(source: Path, plain: Path) -> int:
    """The transformer with the projection behind it, in `plain/model.onnx`; the width of a projected vector."""
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    from transformers import AutoModel

    modules = rerank.parts(source)
    transformer = modules.get("Transformer", source)
    linear = _linear(modules.get("Dense"), transformer)
    model, loaded = AutoModel.from_pretrained(
        transformer, local_files_only=True, trust_remote_code=False, output_loading_info=True, dtype=torch.float32
    )
    if missing := [name for name in loaded["missing_keys"] if "pooler" not in name]:
        raise _unfit(transformer, f"lacks weights: {', '.join(sorted(missing)[:3])}")
    if linear.shape[1] != model.config.hidden_size:
        raise _unfit(
            source, f"projects vectors of {linear.shape[1]}, the transformer's have {model.config.hidden_size}"
        )
    with tempfile.TemporaryDirectory() as work:
        model.save_pretrained(work)
        to_onnx(Path(work), plain)
    graph = onnx.load(plain / "model.onnx")
    hidden = graph.graph.output[0].name
    graph.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(linear.T), "projection"))
    graph.graph.node.append(helper.make_node("MatMul", [hidden, "projection"], ["token_vectors"]))
    del graph.graph.output[:]
    shape = ["batch_size", "sequence_length", len(linear)]
    graph.graph.output.append(helper.make_tensor_value_info("token_vectors", TensorProto.FLOAT, shape))
    onnx.save(graph, plain / "model.onnx")
    return int(linear.shape[0])


def _linear(dense: Path | None, transformer: Path) -> F32:
    """The projection, float32[dim, width].

    Raises:
        EncoderError: it is not there, or is more than a matrix.
    """
    if dense is not None:
        config = read_json(dense / "config.json")
        activation = str(config.get("activation_function")).rpartition(".")[2].rstrip("()")
        if config.get("bias") or config.get("use_residual") or activation != "Identity":
            raise _unfit(dense, "is more than a matrix: it has a bias, a residual or an activation")
    folder = transformer if dense is None else dense
    found = _tensor(folder, _LINEAR)
    if found is None:
        raise _unfit(folder, f"has no {_LINEAR}")
    return found


def _tensor(folder: Path, name: str) -> F32 | None:
    """One tensor of a weights file; no code in it is run."""
    import torch
    from safetensors import safe_open

    if _tensors(folder / "model.safetensors"):
        with safe_open(folder / "model.safetensors", "pt") as weights:
            found = weights.get_tensor(name) if name in weights.keys() else None  # noqa: SIM118 — no mapping
    elif (folder / "pytorch_model.bin").is_file():
        found = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True).get(name)
    else:
        found = None
    return None if found is None else np.asarray(found.float().numpy(), np.float32)


def _interaction(source: Path, words: Path, target: Path, context: int) -> dict[str, Any]:
    """What a Spec takes over from ColBERT's artifact.metadata or PyLate's config_sentence_transformers.json.

    Raises:
        EncoderError: a marker is not in the vocabulary, or questions are to be filled up without a [MASK].
    """
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    theirs, pylate = read_json(source / "artifact.metadata"), read_json(source / "config_sentence_transformers.json")
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))

    def said(one: str, other: str, default: Any) -> Any:
        return pylate[other] if pylate.get(other) is not None else theirs.get(one, default)

    def marker(name: str) -> int:
        found = [tokenizer.token_to_id(form) for form in (name, name.strip())]
        known = [int(each) for each in found if each is not None]
        if not known:
            raise _unfit(source, f"marks texts by {name!r}, which is not in its vocabulary")
        return known[0]

    expand = bool(said("", "do_query_expansion", True))
    mask = None
    if expand:
        mask = AutoTokenizer.from_pretrained(words, local_files_only=True, trust_remote_code=False).mask_token_id
        if mask is None:
            raise _unfit(source, "fills questions up, but its tokenizer has no mask token")
    punctuation = string.punctuation if theirs.get("mask_punctuation", True) else ""
    skip = {tokenizer.token_to_id(word) for word in said("", "skiplist_words", list(punctuation))}
    return {
        "max_tokens": min(int(said("doc_maxlen", "document_length", 220)), WINDOW, context),
        "query_tokens": min(int(said("query_maxlen", "query_length", 32)), context),
        "expand": expand,
        "attend": bool(said("attend_to_mask_tokens", "attend_to_expansion_tokens", False)),
        "mask": mask or 0,
        "query_marker": marker(said("query_token_id", "query_prefix", "[unused0]")),
        "passage_marker": marker(said("doc_token_id", "document_prefix", "[unused1]")),
        "skip": sorted(skip - {None}),
    }


if __name__ == "__main__":
    if sys.argv[3] == "reranker":
        export_reranker(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[4:7])
    else:
        export(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
