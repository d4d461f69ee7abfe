"""sentence-transformers as the reference of an export: vectors of probe texts are compared with the library's own.

Needs torch and sentence-transformers, so only exports use it. Code that comes with a model never runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from helix.encoders import onnx_export
from helix.encoders.dense import Encoder, finish_vectors
from helix.encoders.folders import list_modules
from helix.encoders.registry import WHOLE, Model, Weights, check_modules
from helix.encoders.session import open_tokenizer
from helix.errors import EncoderError
from helix.types import F32

LEAST_AGREEMENT: Final = {"fp32": 0.9999, "int8": 0.9, "mixed": 0.9}
"""Least cosine of a probe's exported vector with that of sentence-transformers.

all-MiniLM-L6-v2 has .9999999 in float32. In int8 it has .988 or more for sentences and .969 for single words, whose
activation ranges are those of few tokens. all-mpnet-base-v2 has outliers in its activations: .81 in int8, so it is
exported mixed.
"""

PROBES: Final = (
    *onnx_export.PROBES,
    "thanks",
    "?",
    "",
    " ".join(onnx_export.PROBES * 4),  # more tokens than Helix reads
    "line one\n\tline two\n\nand three",
    "Größe, naïve café, Москва, 東京タワー, हिन्दी, العربية: 5 €, ½ – “quoted” …",
    "for (int i = 0; i < n; i++) { a[i] += b->c; }  // x != y && !z",
)
"""Texts that are compared: sentences, words, an empty one, one beyond the window, other scripts, code."""

_BATCH: Final = "in a batch"

_POOLING_NAMES: Final = {"mean": "mean", "cls": "cls", "last": "lasttoken", "max": "max"}


def load_reference(weights: Weights) -> Any:
    """Load a model as a SentenceTransformer.

    Without modules.json, the library pools by the mean, so a known pooling is added.

    Raises:
        EncoderError: sentence-transformers cannot load it, or would run code that comes with it.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder, model = weights.folder, weights.model
    modules = list_modules(folder)
    check_modules(folder, modules)
    try:
        if modules or model.pooling == WHOLE:
            options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            return SentenceTransformer(str(folder), device="cpu", **options).float().eval()
        transformer = Transformer(str(folder), model_kwargs={"local_files_only": True})
        pooling = Pooling(transformer.get_embedding_dimension(), _POOLING_NAMES[model.pooling])
        return SentenceTransformer(modules=[transformer, pooling], device="cpu").float().eval()
    except Exception as error:  # noqa: BLE001 — a library's reasons are of any type
        raise EncoderError(
            f"sentence-transformers cannot load {folder}: {_describe(error)}", "fetch the model again, or take another"
        ) from None


def embed_probes(reference: Any, model: Model, encoder: Encoder) -> dict[str, F32]:
    """Return the library's vectors of the probes by prefix, one text at a time: float32[probes, dim] each.

    Args:
        encoder: an export of the model; it cuts the probes for a library that does not.

    Raises:
        EncoderError: the library fails.
    """
    vectors = {}
    for prefix in dict.fromkeys((model.query_prefix, model.passage_prefix)):
        texts = [prefix + text for text in PROBES]
        if hasattr(reference[0], "auto_model"):
            reference.max_seq_length = model.max_tokens
        else:  # a StaticEmbedding reads any number of tokens
            texts = [_cut_text(encoder, text) for text in texts]
        try:
            rows = [reference.encode([text], prompt="", show_progress_bar=False)[0] for text in texts]
        except Exception as error:  # noqa: BLE001 — a library's reasons are of any type
            raise EncoderError(
                f"sentence-transformers cannot run {model.name}: {_describe(error)}", "take another encoder"
            ) from None
        vectors[prefix] = finish_vectors(np.array(rows, np.float32), model.dim or len(rows[0]), model.centred)
    return vectors


def _cut_text(encoder: Encoder, text: str) -> str:
    """Return the part of a text that an encoder reads."""
    tokenizer = open_tokenizer(encoder.folder / "tokenizer.json", encoder.spec.max_tokens)
    return text[: max((end for _, end in tokenizer.encode(text).offsets), default=0)]


def compare_vectors(encoder: Encoder, expected: Mapping[str, F32], precision: str) -> float:
    """Return the least cosine of an export's vectors with the library's, over all probes and both prefixes.

    The float graph is compared in batches as well: a vector must not depend on its neighbours. Under int8 it does a
    little, since activations share one range in a batch.

    Raises:
        EncoderError: it is below LEAST_AGREEMENT; says of which text.
    """
    spec, least = encoder.spec, 1.0
    for embed, prefix in ((encoder.queries, spec.query_prefix), (encoder.passages, spec.passage_prefix)):
        wanted = expected[prefix]
        found = {"": np.concatenate([embed([text]) for text in PROBES])}
        if precision == "fp32":
            found[_BATCH] = embed(PROBES)
        for where, vectors in found.items():
            cosines = compute_cosines(vectors, wanted)
            worst = int(np.argmin(np.nan_to_num(cosines, nan=-1.0)))
            if not cosines[worst] >= LEAST_AGREEMENT[precision]:
                raise _make_disagreement(encoder, precision, prefix + PROBES[worst], float(cosines[worst]), where)
            least = min(least, float(cosines[worst]))
    return round(least, 7)


def compute_cosines(first: F32, second: F32) -> F32:
    """Return the cosine of each row of unit or zero length with the same row of the other; 1 if both are zeros."""
    return np.asarray(np.where(first.any(1) | second.any(1), (first * second).sum(1), 1.0), np.float32)


def _make_disagreement(encoder: Encoder, precision: str, text: str, cosine: float, where: str) -> EncoderError:
    shown = f"{text[:60]}…" if len(text) > 60 else text
    what = f"the {precision} export of {encoder.spec.name} disagrees with sentence-transformers: the vectors of"
    return EncoderError(
        f"{what} {shown!r}{' ' + where if where else ''} have the cosine {cosine:.4f}, less than "
        f"{LEAST_AGREEMENT[precision]}",
        "check that the model's files belong together, or take another encoder",
    )


def _describe(error: Exception) -> str:
    """Return the first line of a library's error, with its type."""
    lines: Sequence[str] = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
