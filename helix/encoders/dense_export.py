"""Export of sentence encoders to ONNX, int8 by default, once a machine and with checksums.

`python -m helix.encoders.dense_export SOURCE TARGET PRECISION` is the process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from helix.encoders.dense import SPEC, EncoderSpec, digest_recipe, fingerprint_encoder, load_spec
from helix.encoders.folders import WEIGHTS, digest_files, read_pad
from helix.encoders.onnx_export import PRECISIONS, ExportJob, export_graph, export_once, save_tokenizer, write_graph
from helix.encoders.registry import Weights
from helix.encoders.spec import FILES, hash_files, shorten, write_spec

_FIELDS = ("name", "dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "context", "matryoshka")


def is_encoder_cached(weights: Weights, cache: Path, precision: str = "int8") -> bool:
    """Return whether the export exists."""
    return (_export_folder(weights, cache, precision) / SPEC).is_file()


def cache_encoder(weights: Weights, cache: Path, precision: str = "int8") -> Path:
    """Return the folder of the encoder exported as int8 or fp32, which the first call makes.

    Raises:
        EncoderError: the export failed, or the cached files are damaged.
    """
    target = _export_folder(weights, cache, precision)
    remedy = "install helix-recall[workers], or take an encoder folder that is already exported"
    export = ExportJob("helix.encoders.dense_export", weights.folder, (precision,), weights.model.name, remedy)
    return export_once(export, target, SPEC, load_spec, lambda folder: describe_encoder(folder, weights, precision))


def export_encoder(source: Path, target: Path, precision: str = "int8") -> None:
    """Export a sentence encoder's transformer to `target/model.onnx`, with its tokenizer.

    Raises:
        EncoderError: the architecture is not supported.
    """
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "plain")
        export_graph(source, plain)
        write_graph(plain, target, precision)
    save_tokenizer(source, target)


def describe_encoder(folder: Path, weights: Weights, precision: str) -> None:
    """Write encoder.json for the files of an export."""
    files, recipe = hash_files(folder, FILES), digest_recipe(_read_fields(weights))
    spec = EncoderSpec(
        **_read_fields(weights),
        quantising=PRECISIONS[precision],
        weights_sha256=_digest_weights(weights),
        files=files,
        recipe=recipe,
        fingerprint=fingerprint_encoder(files, recipe),
    )
    write_spec(folder / SPEC, spec)


def _export_folder(weights: Weights, cache: Path, precision: str) -> Path:
    digest = shorten(f"{_digest_weights(weights)}:{digest_recipe(_read_fields(weights))}:{precision}".encode())
    return cache / "encoders" / f"{weights.model.name}-{digest}"


def _read_fields(weights: Weights) -> dict[str, Any]:
    """Return the fields of encoder.json that the model decides."""
    names = (*_FIELDS, "centred", "lower")
    return {**{name: getattr(weights.model, name) for name in names}, "pad": read_pad(weights.folder)}


def _digest_weights(weights: Weights) -> str:
    """Return one digest over the weights and the files that change their meaning."""
    names = (*WEIGHTS, "config.json", "tokenizer.json", "1_Pooling/config.json")
    return digest_files((name, weights.folder / name) for name in names)


if __name__ == "__main__":
    export_encoder(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
