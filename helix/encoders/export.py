"""Weights → ONNX, int8 as a rule, once, kept with checksums. The only module of `helix` that needs torch and optimum.

Runs as its own process (`python -m helix.encoders.export`), so that several hundred megabytes of torch leave with it.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from helix.encoders.kept import export_apart, made_once
from helix.encoders.onnx import FILES, Spec, fingerprint, load_spec, recipe
from helix.encoders.registry import WEIGHTS, Model, Weights, read_json, sha256
from helix.errors import EncoderError

PRECISIONS = {"int8": "dynamic int8, per channel", "fp32": "none, float32"}


def is_cached(weights: Weights, cache: Path, precision: str = "int8") -> bool:
    """Whether `cached` has nothing left to do."""
    return (_target(weights, cache, precision) / "encoder.json").is_file()


def _target(weights: Weights, cache: Path, precision: str) -> Path:
    made = hashlib.sha256(f"{_source_sha256(weights.folder)}:{_recipe(weights)}:{precision}".encode()).hexdigest()
    return cache / "encoders" / f"{weights.model.name}-{made[:16]}"


def _recipe(weights: Weights) -> str:
    return recipe({**_values(weights.model), "pad": _pad(weights.folder)})


def _values(model: Model) -> dict[str, Any]:
    """What a Spec takes over from the model."""
    names = ("name", "dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "context", "matryoshka")
    return {name: getattr(model, name) for name in (*names, "centred", "lower")}


def _pad(folder: Path) -> int:
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
        export_apart("helix.encoders.export", weights.folder, folder, precision, name=weights.model.name, remedy=remedy)
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
        pad=_pad(weights.folder),
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
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as work:
        plain, small = Path(work, "plain"), Path(work, "int8")
        _plain(source, plain)
        if precision == "int8":
            _quantise(plain, small)
        shutil.copyfile(
            small / "model_quantized.onnx" if precision == "int8" else plain / "model.onnx", target / "model.onnx"
        )
        if (source / "tokenizer.json").is_file():
            shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
        else:
            AutoTokenizer.from_pretrained(source, local_files_only=True).backend_tokenizer.save(
                str(target / "tokenizer.json")
            )


def _plain(source: Path, target: Path) -> None:
    """The float32 ONNX model, in `target/model.onnx`, with its config.json."""
    from optimum.exporters.tasks import TasksManager
    from optimum.onnxruntime import ORTModelForFeatureExtraction
    from transformers import CONFIG_MAPPING

    kind = str(read_json(source / "config.json").get("model_type"))
    supported = TasksManager.get_supported_model_type_for_task("feature-extraction", "onnx")
    weights = any((source / name).is_file() for name in WEIGHTS if not name.endswith(".onnx"))
    ours = source / "onnx" / "model.onnx"
    if weights and kind in CONFIG_MAPPING and kind in supported:
        ORTModelForFeatureExtraction.from_pretrained(source, export=True, local_files_only=True).save_pretrained(target)
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


def _quantise(plain: Path, target: Path) -> None:
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


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
