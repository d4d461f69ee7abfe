"""Export of rerankers to ONNX: ColBERT in both of its layouts, and cross-encoders.

`python -m helix.encoders.rerank_export SOURCE TARGET NAME LICENCE PRECISION` is the process of its own.
"""

from __future__ import annotations

import string
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders.folders import ModelFolder, read_context, read_json, read_modules, read_pad
from helix.encoders.onnx_export import PRECISIONS, ExportJob, export_graph, export_once, save_tokenizer, write_graph
from helix.encoders.registry import WINDOW
from helix.encoders.rerank import FORMAT, SPEC, RerankerSpec, digest_weights, export_folder, find_transformer, load_spec
from helix.encoders.spec import FILES, fingerprint_spec, hash_files, write_spec
from helix.errors import EncoderError
from helix.types import F32

_LINEAR: Final = "linear.weight"


def cache_reranker(source: ModelFolder, cache: Path, precision: str = "int8") -> Path:
    """Return the folder of a reranker exported as int8 or fp32, which the first call makes.

    Raises:
        EncoderError: it is of neither kind, the export failed, or the cached files are damaged.
    """
    kind = reranker_kind(source.folder)
    target = export_folder(source, cache, precision)
    remedy = "install helix-recall[workers], or take another reranker"
    options = (source.name, source.licence, precision)
    export = ExportJob("helix.encoders.rerank_export", source.folder, options, source.name, remedy)
    return export_once(export, target, SPEC, lambda folder: load_spec(folder, kind))


def reranker_kind(folder: Path) -> str:
    """Return `late` for a transformer with a linear projection (ColBERT), `cross` for a cross-encoder.

    Raises:
        EncoderError: it is neither, or does something that Helix does not do.
    """
    modules, transformer = read_modules(folder), find_transformer(folder)
    config = read_json(transformer / "config.json")
    names = [str(name) for name in config.get("architectures") or ()]
    if any(name.endswith("ForSequenceClassification") for name in names):
        labels = config.get("num_labels") or len(config.get("id2label") or ("", ""))  # transformers' default is two
        if labels != 1:
            raise _refuse(folder, f"gives {labels} logits, where a cross-encoder gives one")
        return "cross"
    if odd := set(modules) - {"Transformer", "Dense"}:
        raise _refuse(folder, f"has a module of the kind {', '.join(sorted(odd))}, as no reranker has")
    if "Dense" in modules or (folder / "artifact.metadata").is_file() or "HF_ColBERT" in names:
        return "late"
    if _LINEAR in _read_tensor_names(transformer / "model.safetensors"):
        return "late"
    raise _refuse(folder, f"is no cross-encoder (…ForSequenceClassification) and has no projection ({_LINEAR})")


def _refuse(folder: Path, reason: str) -> EncoderError:
    return EncoderError(f"{folder} {reason}", "take a ColBERT-style encoder or a cross-encoder with one logit")


def _read_tensor_names(path: Path) -> Mapping[str, Any]:
    """Read the header of a safetensors file; {} for a missing one, and EncoderError for another file."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = orjson.loads(file.read(length)) if length <= path.stat().st_size else None
        except orjson.JSONDecodeError:
            header = None
    if not isinstance(header, dict):
        raise EncoderError(f"{path} is unreadable: not a safetensors file", "fetch the model again")
    return header


def export_reranker(source: Path, target: Path, name: str, licence: str = "", precision: str = "int8") -> RerankerSpec:
    """Export a reranker (a folder of transformers, ColBERT or PyLate) into an empty folder, with its reranker.json.

    Code that comes with a model never runs. int8 is dynamic, per channel.

    Raises:
        EncoderError: it is of neither kind, or does something that Helix does not do.
    """
    kind, transformer = reranker_kind(source), find_transformer(source)
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "plain")
        if kind == "late":
            dim = _export_late(source, plain)
        else:
            export_graph(transformer, plain, "text-classification")
        write_graph(plain, target, precision)
    tokenizer = transformer if (transformer / "tokenizer_config.json").is_file() else source
    save_tokenizer(tokenizer, target)
    spec = RerankerSpec(
        format=FORMAT,
        kind=kind,
        name=name,
        licence=licence,
        quantising=PRECISIONS[precision],
        weights_sha256=digest_weights(source),
        max_tokens=read_context(transformer),
        pad=read_pad(transformer),
        files=hash_files(target, FILES),
    )
    if kind == "late":
        spec = replace(spec, dim=dim, **_read_interaction(source, tokenizer, target, spec.max_tokens))
    spec = replace(spec, fingerprint=fingerprint_spec(spec))
    write_spec(target / SPEC, spec)
    return spec


def _export_late(source: Path, plain: Path) -> int:
    """Write the transformer with its projection to `plain/model.onnx`; return the width of a projected vector."""
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    from transformers import AutoModel

    transformer = find_transformer(source)
    linear = _read_projection(source, transformer)
    model, loaded = AutoModel.from_pretrained(
        transformer, local_files_only=True, trust_remote_code=False, output_loading_info=True, dtype=torch.float32
    )
    if missing := [name for name in loaded["missing_keys"] if "pooler" not in name]:
        raise _refuse(transformer, f"lacks weights: {', '.join(sorted(missing)[:3])}")
    if linear.shape[1] != model.config.hidden_size:
        width = model.config.hidden_size
        raise _refuse(source, f"projects vectors of {linear.shape[1]}, the transformer's have {width}")
    with tempfile.TemporaryDirectory() as work:
        model.save_pretrained(work)
        export_graph(Path(work), plain)
    graph = onnx.load(plain / "model.onnx")
    hidden = graph.graph.output[0].name
    graph.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(linear.T), "projection"))
    graph.graph.node.append(helper.make_node("MatMul", [hidden, "projection"], ["token_vectors"]))
    del graph.graph.output[:]
    shape = ["batch_size", "sequence_length", len(linear)]
    graph.graph.output.append(helper.make_tensor_value_info("token_vectors", TensorProto.FLOAT, shape))
    onnx.save(graph, plain / "model.onnx")
    return int(linear.shape[0])


def _read_projection(source: Path, transformer: Path) -> F32:
    """Read the projection, float32[dim, width]. Raises EncoderError if it is missing, or is more than a matrix."""
    folder, dense = transformer, read_modules(source).get("Dense")
    if dense is not None:
        folder = source / dense
        config = read_json(folder / "config.json")
        activation = str(config.get("activation_function")).rpartition(".")[2].rstrip("()")
        if config.get("bias") or config.get("use_residual") or activation != "Identity":
            raise _refuse(folder, "is more than a matrix: it has a bias, a residual or an activation")
    tensor = _read_tensor(folder, _LINEAR)
    if tensor is None:
        raise _refuse(folder, f"has no {_LINEAR}")
    return tensor


def _read_tensor(folder: Path, name: str) -> F32 | None:
    """Read one tensor of a weights file without running code in it; None for a missing one."""
    import torch
    from safetensors import safe_open

    if _read_tensor_names(folder / "model.safetensors"):
        with safe_open(folder / "model.safetensors", "pt") as weights:
            tensor = weights.get_tensor(name) if name in weights.keys() else None  # noqa: SIM118 — no mapping
    elif (folder / "pytorch_model.bin").is_file():
        tensor = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True).get(name)
    else:
        tensor = None
    return None if tensor is None else np.asarray(tensor.float().numpy(), np.float32)


def _read_interaction(source: Path, words: Path, target: Path, context: int) -> dict[str, Any]:
    """Read the fields for late interaction from ColBERT's artifact.metadata or PyLate's configuration.

    `words` is the folder of the tokenizer, `context` the tokens the transformer takes. A vocabulary without a marker is
    refused, and questions that are filled up without a [MASK].
    """
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    stanford, pylate = read_json(source / "artifact.metadata"), read_json(source / "config_sentence_transformers.json")
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))

    def read(stanford_key: str, pylate_key: str, default: Any) -> Any:
        return pylate[pylate_key] if pylate.get(pylate_key) is not None else stanford.get(stanford_key, default)

    def find_marker(name: str) -> int:
        ids = [tokenizer.token_to_id(form) for form in (name, name.strip())]
        known = [int(each) for each in ids if each is not None]
        if not known:
            raise _refuse(source, f"marks texts by {name!r}, which is not in its vocabulary")
        return known[0]

    expand = bool(read("", "do_query_expansion", True))
    mask = None
    if expand:
        mask = AutoTokenizer.from_pretrained(words, local_files_only=True, trust_remote_code=False).mask_token_id
        if mask is None:
            raise _refuse(source, "fills questions up, but its tokenizer has no mask token")
    punctuation = string.punctuation if stanford.get("mask_punctuation", True) else ""
    skip = {tokenizer.token_to_id(word) for word in read("", "skiplist_words", list(punctuation))}
    return {
        "max_tokens": min(int(read("doc_maxlen", "document_length", 220)), WINDOW, context),
        "query_tokens": min(int(read("query_maxlen", "query_length", 32)), context),
        "expand": expand,
        "attend": bool(read("attend_to_mask_tokens", "attend_to_expansion_tokens", False)),
        "mask": mask or 0,
        "query_marker": find_marker(read("query_token_id", "query_prefix", "[unused0]")),
        "passage_marker": find_marker(read("doc_token_id", "document_prefix", "[unused1]")),
        "skip": sorted(skip - {None}),
    }


if __name__ == "__main__":
    export_reranker(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:6])
