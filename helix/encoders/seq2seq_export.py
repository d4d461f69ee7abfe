"""Export of sequence-to-sequence models to ONNX, int8 if that is as good and faster, once a machine.

`python -m helix.encoders.seq2seq_export SOURCE TARGET NAME LICENCE` is the process of its own. It needs torch and
optimum.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.encoders.cache import ExportJob, export_once
from helix.encoders.folders import ModelFolder, digest_files
from helix.encoders.onnx_export import PROBES, choose_precision, has_vnni, time_in_turns
from helix.encoders.seq2seq import FILES, FORMAT, SPEC, TOP_K, Network, Seq2SeqSpec, fingerprint_files, load_spec
from helix.encoders.seq2seq_int8 import quantise_weights
from helix.encoders.spec import hash_files, write_spec
from helix.types import F32, I64, Bool

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
    if is_seq2seq_cached(source, cache):
        load_spec(target)
        return target
    remedy = "install helix-recall[workers], name another model, or set HELIX_DOC2QUERY=off"
    options = (source.name, source.licence)
    return export_once(
        ExportJob("helix.encoders.seq2seq_export", source.folder, options, source.name, remedy), target, SPEC
    )


def _export_folder(source: ModelFolder, cache: Path) -> Path:
    return cache / "seq2seq" / f"{source.export_name}-{_digest_weights(source.folder)[:16]}"


def _digest_weights(folder: Path) -> str:
    """Return one digest over the format, the weights and the files that change their meaning.

    Raises:
        EncoderError: a file cannot be read.
    """
    return digest_files(((name, folder / name) for name in _MEANING), f"format {FORMAT}\n")


def export_seq2seq(source: Path, target: Path, name: str = "", licence: str = "", precision: str = "") -> Seq2SeqSpec:
    """Export a model to ONNX with its model.json.

    Args:
        source: a transformers folder (T5, mT5, BART): config, weights, tokenizer.
        target: an empty folder.
        name: the model's name in errors and reports; empty: the folder's name.
        licence: of the weights, if known.
        precision: int8 or fp32; empty: chosen by measuring here.
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
            quantise_weights(model, 127 if has_vnni() else 63)
            onnx.save(model, small / file)
        figures = _compare(Network(plain, 1, _describe(plain, spec)), Network(small, 1, _describe(small, spec)))
        precision = precision or choose_precision(figures, LEAST_AGREEMENT)
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
    inputs = plain.tokens(PROBES)
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
        **time_in_turns(
            {
                "fp32_seconds": lambda: plain.decode(inputs, _COPIES, _STEPS, repeat, stop=False),
                "int8_seconds": lambda: small.decode(inputs, _COPIES, _STEPS, repeat, stop=False),
            }
        ),
    }


if __name__ == "__main__":
    export_seq2seq(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
