"""A trained ranker as a folder that `helix.encoders.rerank.CrossEncoder` opens: int8 for any processor, checked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import torch
from tokenizers import Tokenizer

from helix.encoders.onnx_export import PRECISIONS, export_graph, quantise_graph, save_tokenizer
from helix.encoders.pair_head import append_head
from helix.encoders.rerank import FORMAT, OWN, SPEC, CrossEncoder, RerankerSpec, load_spec
from helix.encoders.spec import FILES, fingerprint_spec, hash_files, write_spec
from helix.errors import EncoderError
from helix.text.languages import ENGLISH
from helix.types import F32, F64
from pipelines.training.ranker.fit import score_pairs
from pipelines.training.ranker.network import PairNetwork

OPSET: Final = 18
"""Of the graph: the head's reductions take their axes as inputs."""

LEAST_AGREEMENT: Final = 0.97
"""Of the int8 form with the trained network: the correlation of their scores."""


class CheckedExport(NamedTuple):
    """An exported ranker, compared with the network."""

    agreement: float  # correlation of its scores with those of the network, over the probes
    bytes: int  # of its model.onnx


def export_ranker(
    network: PairNetwork,
    folder: Path,
    target: Path,
    licence: str,
    max_tokens: int,
    digest: str,
    probes: Sequence[tuple[str, str]],
) -> CheckedExport:
    """Write a trained network into an empty folder, with its reranker.json, and compare both on some pairs.

    Args:
        folder: of the sentence encoder that it was begun from.
        digest: over the tensors of the network, for the card.
        probes: pairs of question and item text.

    Raises:
        EncoderError: the exported form does not agree with the network.
    """
    network.set_training(False)
    with tempfile.TemporaryDirectory() as work:
        plain, narrow = Path(work, "plain"), Path(work, "narrow")
        encoder: Any = network.encoder
        encoder.save_pretrained(Path(work, "torch"))
        save_tokenizer(folder, target)
        for name in ("tokenizer_config.json", "vocab.txt"):
            (Path(work, "torch") / name).write_bytes((folder / name).read_bytes())
        export_graph(Path(work, "torch"), plain)
        quantise_graph(plain, narrow, portable=True)
        model = onnx.load(narrow / "model.onnx")
        append_head(model, {name: one.detach().numpy() for name, one in network.head.named_parameters()})
        onnx.save(model, target / "model.onnx")
    spec = RerankerSpec(
        format=FORMAT,
        kind="cross",
        name=OWN,
        licence=licence,
        quantising=PRECISIONS["int8"] + ", seven bits",
        weights_sha256=digest,
        max_tokens=max_tokens,
        pad=0,
        files=hash_files(target, FILES),
        ranking=1.0,
        language=ENGLISH,
        turns_only=True,
    )
    write_spec(target / SPEC, replace(spec, fingerprint=fingerprint_spec(spec)))
    agreement = compare(network, target, probes, max_tokens)
    if agreement < LEAST_AGREEMENT:
        raise EncoderError(f"the int8 form agrees by {agreement:.3f} with the network", "train it longer, or in fp32")
    return CheckedExport(agreement, (target / "model.onnx").stat().st_size)


def set_ranking(target: Path, ranking: float) -> None:
    """Write the weight of recall's own ranking next to the scores of an exported ranker."""
    spec = replace(load_spec(target, "cross"), ranking=ranking)
    write_spec(target / SPEC, replace(spec, fingerprint=fingerprint_spec(spec)))


def compare(network: PairNetwork, target: Path, probes: Sequence[tuple[str, str]], max_tokens: int) -> float:
    """Return the correlation between the scores of a network and of its exported form."""
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    tokenizer.enable_truncation(max_tokens, strategy="only_second")
    tokenizer.no_padding()
    with torch.no_grad():
        wanted: F32 = score_pairs(network, tokenizer, probes).numpy()
    cross, by_question = CrossEncoder(target), dict[str, list[int]]()
    for i, (question, _) in enumerate(probes):
        by_question.setdefault(question, []).append(i)
    found: F64 = np.empty(len(probes))
    for question, places in by_question.items():
        found[places] = cross.weigh(question, [probes[i][1] for i in places])
    return float(np.corrcoef(wanted, found)[0, 1])
