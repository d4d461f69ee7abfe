"""Export of sequence-to-sequence models to ONNX, int8 if that is as good and faster, once a machine.

`python -m helix.encoders.seq2seq_export SOURCE TARGET NAME LICENCE` is the process of its own. It needs torch and
optimum. int8 has one scale a token in place of one a tensor, as in Dettmers et al. 2022, "LLM.int8()", vector-wise
quantisation: nearer to fp32 than ONNX Runtime's own dynamic quantising, and independent of the rest of a batch.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.encoders import onnx_export
from helix.encoders.folders import ModelFolder, digest_files
from helix.encoders.seq2seq import FILES, FORMAT, SPEC, TOP_K, Network, Seq2SeqSpec, fingerprint_files, load_spec
from helix.encoders.spec import hash_files, write_spec
from helix.types import F32, I8, I64, AnyArray, Bool

_LEAST_EMBEDDING: Final = 1_000  # rows of a table that is quantised


def quantise_weights(model: Any, top: int) -> None:
    """Turn weights and their products into int8 with a scale a column, and embeddings with a scale a row, in place.

    Weights are initialisers of the outermost graph. `top` is the largest absolute int8 weight: 127, or 63 if products
    of 8-bit pairs saturate (no VNNI).
    """
    from onnx import helper

    graph = _Int8Graph(model, top)
    for number, scope in enumerate(_list_scopes(model.graph)):
        nodes: list[Any] = []
        quantised: dict[str, str] = {}  # activation → prefix of its int8 form, shared by the products that read it
        for node in scope.node:
            prefix = f"q{number}_{len(nodes)}"
            if node.op_type == "MatMul" and node.input[1] in graph.weights:
                if node.input[0] not in quantised:
                    quantised[node.input[0]] = prefix
                    nodes += graph.quantise_rows(node.input[0], prefix)
                nodes += graph.multiply(node, quantised[node.input[0]], prefix)
            elif node.op_type == "Gather" and graph.is_embedding(node.input[0]):
                nodes += graph.look_up(node, prefix)
            else:
                nodes.append(node)
        del scope.node[:]
        scope.node.extend(nodes)
    graph.drop_unused()
    if all(entry.domain != "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


class _Int8Graph:
    """The outermost graph of a model, with int8 copies of its weights."""

    def __init__(self, model: Any, top: int) -> None:
        self._graph, self._top = model.graph, top
        self.weights = {
            entry.name: entry for entry in self._graph.initializer if len(entry.dims) == 2 and entry.data_type == 1
        }
        self._added: set[str] = set()
        constants = {"q_share": np.float32(1 / 127), "q_least": np.float32(1e-9), "q_one": np.float32(1)}
        for name, value in {**constants, "q_zero": np.uint8(128), "q_axis": np.array([-1], np.int64)}.items():
            self._add(name, np.asarray(value))
        self._axes, self._attributes = (["q_axis"], {}) if onnx_export.read_opset(model) >= 18 else ([], {"axes": [-1]})

    def _add(self, name: str, value: AnyArray) -> None:
        from onnx import numpy_helper

        if name not in self._added:
            self._added.add(name)
            self._graph.initializer.append(numpy_helper.from_array(value, name))

    def _add_int8(self, name: str, axis: int, top: int) -> None:
        from onnx import numpy_helper

        if f"{name}_int8" not in self._added:
            values, scales = quantise_matrix(numpy_helper.to_array(self.weights[name]), axis, top)
            self._add(f"{name}_int8", values)
            self._add(f"{name}_scale", scales)

    def is_embedding(self, name: str) -> bool:
        """Return whether a name is a large table of rows."""
        return name in self.weights and self.weights[name].dims[0] > _LEAST_EMBEDDING

    def quantise_rows(self, source: str, prefix: str) -> list[Any]:
        """Return the nodes that quantise an activation with one scale a row."""
        from onnx import helper

        maximum = [f"{prefix}_abs", *self._axes]
        return [
            helper.make_node("Abs", [source], [f"{prefix}_abs"]),
            helper.make_node("ReduceMax", maximum, [f"{prefix}_max"], keepdims=1, **self._attributes),
            helper.make_node("Mul", [f"{prefix}_max", "q_share"], [f"{prefix}_share"]),
            helper.make_node("Max", [f"{prefix}_share", "q_least"], [f"{prefix}_scale"]),
            helper.make_node("Div", [source, f"{prefix}_scale"], [f"{prefix}_unit"]),
            helper.make_node("QuantizeLinear", [f"{prefix}_unit", "q_one", "q_zero"], [f"{prefix}_uint8"]),
        ]

    def multiply(self, node: Any, rows: str, prefix: str) -> list[Any]:
        """Return the nodes for a product of an activation, quantised under the prefix `rows`, and a weight."""
        from onnx import helper

        weight = node.input[1]
        self._add_int8(weight, 0, self._top)
        factors = [f"{rows}_uint8", f"{weight}_int8", "q_one", f"{weight}_scale", "q_zero"]
        return [
            helper.make_node("MatMulIntegerToFloat", factors, [f"{prefix}_product"], domain="com.microsoft"),
            helper.make_node("Mul", [f"{prefix}_product", f"{rows}_scale"], [node.output[0]]),
        ]

    def look_up(self, node: Any, prefix: str) -> list[Any]:
        """Return the nodes that read rows of an embedding."""
        from onnx import helper

        table, rows = node.input[:2]
        self._add_int8(table, 1, 127)
        return [
            helper.make_node("Gather", [f"{table}_int8", rows], [f"{prefix}_picked"]),
            helper.make_node("Gather", [f"{table}_scale", rows], [f"{prefix}_scale"]),
            helper.make_node("Cast", [f"{prefix}_picked"], [f"{prefix}_float"], to=1),
            helper.make_node("Mul", [f"{prefix}_float", f"{prefix}_scale"], [node.output[0]]),
        ]

    def drop_unused(self) -> None:
        """Drop the initialisers that no node reads."""
        read = {name for scope in _list_scopes(self._graph) for node in scope.node for name in node.input}
        used = [entry for entry in self._graph.initializer if entry.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(used)


def _list_scopes(graph: Any) -> Iterator[Any]:
    """Yield a graph and the branches inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _list_scopes(attribute.g)


def quantise_matrix(weight: F32, axis: int, top: int) -> tuple[I8, F32]:
    """Return symmetric int8 values with one scale a column (axis 0: float32[n]) or a row (axis 1: float32[k, 1])."""
    scales = np.maximum(np.abs(weight).max(axis, keepdims=axis == 1) / top, 1e-9).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales


LEAST_AGREEMENT: Final = 0.9
"""Least share of greedy tokens in which int8 agrees with fp32."""

# Files that decide what a model computes.
_MEANING: Final = (
    *("config.json", "generation_config.json", "model.safetensors", "pytorch_model.bin"),
    *("tokenizer.json", "spiece.model", "vocab.json", "merges.txt"),
)

_STEPS: Final = 16  # greedy tokens compared for each probe
_COPIES: Final = 3  # rows of each probe that are timed


def is_seq2seq_cached(source: ModelFolder, cache: Path) -> bool:
    """Return whether the export exists."""
    return (_export_folder(source, cache) / SPEC).is_file()


def cache_seq2seq(source: ModelFolder, cache: Path) -> Path:
    """Return the folder of the exported model, which the first call makes.

    Raises:
        EncoderError: the export failed, or the cached files are damaged.
    """
    target = _export_folder(source, cache)
    remedy = "install helix-recall[workers], name another model, or set HELIX_DOC2QUERY=off"
    options = (source.name, source.licence)
    export = onnx_export.ExportJob("helix.encoders.seq2seq_export", source.folder, options, source.name, remedy)
    return onnx_export.export_once(export, target, SPEC, load_spec)


def _export_folder(source: ModelFolder, cache: Path) -> Path:
    return cache / "seq2seq" / f"{source.export_name}-{_digest_weights(source.folder)[:16]}"


def _digest_weights(folder: Path) -> str:
    """Return one digest over the format, the weights and the files that change their meaning."""
    return digest_files(((name, folder / name) for name in _MEANING), f"format {FORMAT}\n")


def export_seq2seq(source: Path, target: Path, name: str = "", licence: str = "", precision: str = "") -> Seq2SeqSpec:
    """Export a transformers folder (T5, mT5, BART) into an empty folder, with its model.json.

    `name` is for errors and reports; the folder's by default. Without a precision, int8 or fp32 is chosen by measuring.
    """
    import onnx

    with tempfile.TemporaryDirectory(dir=target) as work:
        plain, small = Path(work, "fp32"), Path(work, "int8")
        spec = replace(_export_plain(source, plain), name=name or source.name, licence=licence)
        shutil.copytree(plain, small, ignore=shutil.ignore_patterns("*.onnx"))
        for file in FILES[:2]:
            model = onnx.load(plain / file)
            if file == FILES[1]:
                _add_best(model, TOP_K)
                onnx.save(model, plain / file)
            quantise_weights(model, 127 if onnx_export.has_vnni() else 63)
            onnx.save(model, small / file)
        figures = _compare(Network(plain, 1, _describe(plain, spec)), Network(small, 1, _describe(small, spec)))
        precision = precision or onnx_export.choose_precision(figures, LEAST_AGREEMENT)
        for file in FILES:
            shutil.move(Path(work, precision, file), target / file)
    spec = _describe(target, replace(spec, precision=precision, measured=figures))
    write_spec(target / SPEC, spec)
    return spec


def _export_plain(source: Path, folder: Path) -> Seq2SeqSpec:
    """Write the encoder and the merged decoder (with and without a past) in fp32, by optimum."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM
    from transformers import AutoTokenizer

    model = ORTModelForSeq2SeqLM.from_pretrained(source, export=True, use_merged=True, local_files_only=True)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))

    def read(key: str) -> Any:
        value = getattr(model.generation_config, key, None)
        return getattr(model.config, key, None) if value is None else value

    pad, eos, start = read("pad_token_id"), read("eos_token_id"), read("decoder_start_token_id")
    return Seq2SeqSpec(
        format=FORMAT,
        name="",
        licence="",
        precision="",
        measured={},
        weights_sha256=_digest_weights(source),
        start=int(pad or 0) if start is None else int(start),
        eos=[] if eos is None else [int(each) for each in (eos if isinstance(eos, list) else [eos])],
        pad=int(pad or 0),
        forced=read("forced_bos_token_id"),
        files={},
        fingerprint="",
    )


def _describe(folder: Path, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    files = hash_files(folder, FILES)
    return replace(spec, files=files, fingerprint=fingerprint_files(files))


def _add_best(model: Any, k: int) -> None:
    """Add the k best logits and their tokens as outputs: a step then returns few numbers, not the vocabulary."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([k], np.int64), "best_k"))
    graph.node.append(helper.make_node("TopK", ["logits", "best_k"], ["best_logits", "best_tokens"], axis=-1))
    graph.output.append(helper.make_tensor_value_info("best_logits", TensorProto.FLOAT, None))
    graph.output.append(helper.make_tensor_value_info("best_tokens", TensorProto.INT64, None))


def _compare(plain: Network, small: Network) -> dict[str, float]:
    """Measure agreement and seconds. int8 follows the tokens of fp32, so that one difference counts once."""
    inputs = plain.tokens(onnx_export.PROBES)
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

    def repeat(step: int, *_: Any) -> I64:
        return np.repeat(path[step], _COPIES)

    # No row leaves the batch: both would have to lose it together.
    plain.decode(inputs, 1, _STEPS, lead, stop=False)
    small.decode(inputs, 1, _STEPS, follow, stop=False)
    return {
        "agreement": round(same / sum(int(rows.sum()) for rows in live), 4),
        **onnx_export.time_in_turns(
            {
                "fp32_seconds": lambda: plain.decode(inputs, _COPIES, _STEPS, repeat, stop=False),
                "int8_seconds": lambda: small.decode(inputs, _COPIES, _STEPS, repeat, stop=False),
            }
        ),
    }


if __name__ == "__main__":
    export_seq2seq(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
