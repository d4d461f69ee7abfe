"""Export of a whole SentenceTransformer to ONNX: from token ids to the sentence vector, with all of its modules.

For folders whose modules Helix does not know. The graph pools, so a query process needs no torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from helix.errors import EncoderError

OUTPUT: Final = "sentence_embedding"
"""Key of the vector in sentence-transformers' features, and name of the graph's output."""

_INPUTS: Final = ("input_ids", "attention_mask")
_AXES: Final = {0: "batch_size", 1: "sequence_length"}
_OPSET: Final = 17


def trace_model(reference: Any, target: Path) -> None:
    """Write `model.onnx`, `tokenizer.json` and `config.json` of a loaded model into a new folder.

    Raises:
        EncoderError: the modules cannot be traced, or the tokenizer needs Python.
    """
    target.mkdir()
    is_static = type(reference[0]).__name__ == "StaticEmbedding"
    try:
        (_trace_static if is_static else _trace_transformer)(reference, target / "model.onnx")
    except Exception as error:  # noqa: BLE001 — a module's and torch's reasons are of any type
        modules = " + ".join(type(module).__name__ for module in reference)
        raise EncoderError(
            f"the modules {modules} cannot be traced to ONNX ({type(error).__name__}: {error}), which a query process "
            "without torch needs",
            "take another encoder",
        ) from None
    _save_tokenizer(reference[0], target, is_static)
    config = {} if is_static else reference[0].auto_model.config.to_dict()
    (target / "config.json").write_text(json.dumps({"model_type": config.get("model_type", "static")}))


def _trace_transformer(reference: Any, path: Path) -> None:
    """Trace with optimum, which replaces what cannot be traced in many architectures."""
    from optimum.exporters.onnx.convert import export
    from optimum.exporters.onnx.model_configs import SentenceTransformersTransformerOnnxConfig
    from optimum.exporters.onnx.model_patcher import SentenceTransformersTransformerPatcher

    class Patcher(SentenceTransformersTransformerPatcher):  # type: ignore[misc]
        def __init__(self, config: Any, model: Any, model_kwargs: Any = None) -> None:
            super().__init__(config, model, model_kwargs)

            def forward(input_ids: Any, attention_mask: Any) -> dict[str, Any]:
                features = self.orig_forward({"input_ids": input_ids, "attention_mask": attention_mask})
                return {OUTPUT: features[OUTPUT]}

            self.patched_forward = forward

    class Config(SentenceTransformersTransformerOnnxConfig):  # type: ignore[misc]
        _MODEL_PATCHER = Patcher

        @property
        def outputs(self) -> dict[str, dict[int, str]]:
            return {OUTPUT: {0: "batch_size"}}

    config = reference[0].auto_model.config
    reference.config = config  # optimum reads the shapes of its inputs from it
    export(reference, Config(config, task="feature-extraction"), path)


def _trace_static(reference: Any, path: Path) -> None:
    """Trace a StaticEmbedding as the mean of its rows over padded tokens, and the modules after it.

    Its own EmbeddingBag takes the tokens of all texts in one row, without a mask.
    """
    import torch

    table = reference[0].embedding.weight

    class Graph(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = table
            self.rest = torch.nn.ModuleList(list(reference)[1:])

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            mask = attention_mask.unsqueeze(-1).to(self.table.dtype)
            rows = torch.nn.functional.embedding(input_ids, self.table) * mask
            features = {OUTPUT: rows.sum(1) / mask.sum(1).clamp(min=1)}
            for module in self.rest:
                features = module(features)
            return features[OUTPUT]

    example = torch.ones((2, 3), dtype=torch.int64)
    torch.onnx.export(
        Graph().eval(),
        (example, example),
        str(path),
        input_names=list(_INPUTS),
        output_names=[OUTPUT],
        dynamic_axes={**dict.fromkeys(_INPUTS, _AXES), OUTPUT: {0: "batch_size"}},
        opset_version=_OPSET,
        dynamo=False,
    )


def _save_tokenizer(first: Any, target: Path, is_static: bool) -> None:
    """Write the tokenizer of the first module; that of a StaticEmbedding adds no special tokens."""
    backend = first.tokenizer if is_static else getattr(first.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise EncoderError(
            f"the tokenizer {type(first.tokenizer).__name__} has no tokenizer.json, which a query process needs",
            "take another encoder",
        )
    fields = json.loads(backend.to_str())
    if is_static:
        fields["post_processor"] = None
    (target / "tokenizer.json").write_text(json.dumps(fields, ensure_ascii=False))
