"""Export of packaged encoders without torch: the graph is written from the tensors (`bert_graph.py`).

The vectors of the probes were recorded from sentence-transformers when the weights were packed (`pack.py`), and every
export is compared with them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from helix.encoders.bert_graph import build_bert, list_forms, prepare_tensors
from helix.encoders.dense import Encoder
from helix.encoders.folders import read_json
from helix.encoders.int8 import pair_arrays
from helix.encoders.onnx_export import has_vnni
from helix.encoders.reference import PROBES, compare_vectors
from helix.encoders.registry import Model, Weights
from helix.encoders.safetensors_file import read_tensors
from helix.errors import EncoderError
from helix.types import F32

VERSION: Final = 1
"""Incremented with every change of the graphs: older exports are made again."""

TENSORS: Final = "model.safetensors"


def is_written(weights: Weights) -> bool:
    """Return whether a model's graph is written here: its package is known, and its vectors are recorded."""
    return weights.origin == "package" and locate_probes(name_published(weights.model)).is_file()


def name_published(model: Model) -> str:
    """Return the name of a model whose vectors may be cut."""
    return model.name.partition("@")[0]


def locate_probes(name: str) -> Path:
    """Return the path of a model's recorded vectors."""
    return Path(str(files("helix.encoders") / "data" / "probes" / f"{name}.npy"))


def list_prefixes(model: Model) -> list[str]:
    """List the distinct prefixes of a query and a passage."""
    return list(dict.fromkeys((model.query_prefix, model.passage_prefix)))


@cache
def _load(path: Path) -> F32:
    return np.asarray(np.load(BytesIO(path.read_bytes())), np.float32)


def read_probes(model: Model) -> dict[str, F32]:
    """Return the recorded vectors of the probes by prefix, float32[probes, dim] each.

    Raises:
        EncoderError: they are of other probes.
    """
    vectors, prefixes = _load(locate_probes(name_published(model))), list_prefixes(model)
    if vectors.shape[:2] != (len(prefixes), len(PROBES)):
        raise EncoderError(f"the recorded vectors of {model.name} are of other texts", "install helix-recall again")
    return dict(zip(prefixes, vectors[:, :, : model.dim], strict=True))


def write_graph(weights: Weights, target: Path, form: str) -> None:
    """Write the graph and the tokenizer of a model into a folder; `form` is int8, mixed or fp32."""
    tensors, config = pair_arrays(read_tensors(weights.folder / TENSORS)), read_json(weights.folder / "config.json")
    prepared = prepare_tensors(tensors, form, seven_bits=not has_vnni())
    (target / "model.onnx").write_bytes(build_bert(prepared, config))
    shutil.copyfile(weights.folder / "tokenizer.json", target / "tokenizer.json")


class Exported(NamedTuple):
    """The outcome of an export."""

    weights: Weights  # the model as it was exported
    form: str
    agreement: dict[str, float]  # least cosine with sentence-transformers, by precision


Describe = Callable[[Path, Weights, str], None]
"""Writes the encoder.json of a folder for a form."""


def write_export(weights: Weights, target: Path, precision: str, describe: Describe) -> Exported:
    """Write the graph and the tokenizer into a folder.

    Args:
        weights: with the folder of the model, unpacked.
        precision: int8 or fp32.

    Raises:
        EncoderError: no form agrees.
    """
    expected = read_probes(weights.model)
    for form in list_forms(precision):
        write_graph(weights, target, form)
        describe(target, weights, form)
        try:
            return Exported(weights, form, {form: compare_vectors(Encoder(target), expected, form)})
        except EncoderError:
            if form == list_forms(precision)[-1]:
                raise
    raise AssertionError("a precision has a form")
