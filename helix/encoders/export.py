"""Weights → int8 ONNX, once, kept with checksums. The only module of `helix` that needs torch and optimum.

Runs as its own process (`python -m helix.encoders.export`), so that several hundred megabytes of torch leave with it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

from helix.encoders.onnx import FILES, Spec, fingerprint, load_spec
from helix.encoders.registry import Weights, sha256
from helix.errors import EncoderError

QUANTISING = "dynamic int8, per channel"


def is_cached(weights: Weights, cache: Path) -> bool:
    """Whether `cached` has nothing left to do."""
    return (_target(weights, cache) / "encoder.json").is_file()


def _target(weights: Weights, cache: Path) -> Path:
    return cache / "encoders" / f"{weights.model.name}-{_source_sha256(weights.folder)[:16]}"


def cached(weights: Weights, cache: Path) -> Path:
    """The folder of the exported, quantised encoder; made at the first call.

    Raises:
        EncoderError: the export failed; the last line of its output is in the message.
    """
    target = _target(weights, cache)
    if (target / "encoder.json").is_file():
        load_spec(target)  # checks every file
        return target
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "helix.encoders.export", str(weights.folder), str(folder)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no output"]
            raise EncoderError(
                f"exporting {weights.model.name} from {weights.folder} failed: {lines[-1]}",
                "install helix-recall[workers], or take an encoder folder that is already exported",
            )
        _describe(folder, weights)
        # Two processes may export at once: the first one to finish wins.
        with contextlib.suppress(FileExistsError):
            folder.rename(target)
    except OSError as error:
        if not (target / "encoder.json").is_file():  # ENOTEMPTY: the other process won
            raise EncoderError(f"cannot keep the exported encoder in {target}: {error}", "set HELIX_CACHE") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


@functools.cache  # ninety megabytes, asked for by every step of an export
def _source_sha256(folder: Path) -> str:
    """One digest over the weights and the files that change their meaning."""
    digest = hashlib.sha256()
    names = ("model.safetensors", "pytorch_model.bin", "config.json", "tokenizer.json", "1_Pooling/config.json")
    for name in names:
        if (path := folder / name).is_file():
            digest.update(f"{name}:{sha256(path)}\n".encode())
    return digest.hexdigest()


def _describe(folder: Path, weights: Weights) -> None:
    model = weights.model
    files = {name: sha256(folder / name) for name in FILES}
    spec = Spec(
        name=model.name,
        dim=model.dim,
        pooling=model.pooling,
        query_prefix=model.query_prefix,
        passage_prefix=model.passage_prefix,
        max_tokens=model.max_tokens,
        quantising=QUANTISING,
        weights_sha256=_source_sha256(weights.folder),
        files=files,
        fingerprint=fingerprint(files),
    )
    (folder / "encoder.json").write_bytes(orjson.dumps(spec, option=orjson.OPT_INDENT_2))


def export(source: Path, target: Path) -> None:
    """Export a sentence encoder's transformer to ONNX and quantise it, into `target/model.onnx`."""
    from optimum.onnxruntime import ORTModelForFeatureExtraction, ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as work:
        plain, small = Path(work, "plain"), Path(work, "int8")
        ORTModelForFeatureExtraction.from_pretrained(source, export=True, local_files_only=True).save_pretrained(plain)
        configure = AutoQuantizationConfig.avx512_vnni if _has_vnni() else AutoQuantizationConfig.avx2
        ORTQuantizer.from_pretrained(plain).quantize(
            save_dir=small, quantization_config=configure(is_static=False, per_channel=True)
        )
        shutil.copyfile(small / "model_quantized.onnx", target / "model.onnx")
        if (source / "tokenizer.json").is_file():
            shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
        else:
            AutoTokenizer.from_pretrained(source, local_files_only=True).backend_tokenizer.save(
                str(target / "tokenizer.json")
            )


def _has_vnni() -> bool:
    """Without VNNI, int8 products saturate unless weights keep seven bits, which the avx2 configuration does."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and "avx512_vnni" in info.read_text()


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
