"""Models in reach, and fetching one when the user asks. Nothing else in Helix downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helix.encoders import seq2seq
from helix.encoders.registry import MODELS, PREFERRED, find
from helix.errors import EncoderError, UsageError
from helix.settings import Settings

_EITHER = ["model.safetensors", "pytorch_model.bin"]
_WANTED = ["*.json", "*.txt", "1_Pooling/*"]  # and the weights, in the one form that is used


def known(settings: Settings) -> list[dict[str, Any]]:
    """Every registered encoder and the model that expands items, and where their weights are."""
    found = {name: find(name, settings) for name in MODELS}
    first = next((name for name in PREFERRED if found[name]), None)
    encoders = [
        {
            "name": name,
            "use": "encoder",
            "dim": model.dim,
            "matryoshka": list(model.matryoshka),
            "context": model.context,
            "licence": model.licence,
            "origin": weights.origin if (weights := found[name]) else None,
            "folder": str(weights.folder) if weights else None,
            "default": name == first,
        }
        for name, model in MODELS.items()
    ]
    written = seq2seq.find(settings.doc2query, settings)
    there = None if isinstance(written, str) else written
    expands = {
        "name": there.name if there else seq2seq.DEFAULT,
        "use": "doc2query",
        "licence": there.licence if there else seq2seq.LICENCES[seq2seq.DEFAULT],
        "origin": there.origin if there else None,
        "folder": str(there.folder) if there else None,
        "default": there is not None,
    }
    return [*encoders, expands]


def pull(name: str, settings: Settings) -> Path:
    """Download one registered model from the Hugging Face hub into the models folder.

    Raises:
        UsageError: no such model, or no folder to put it in.
        EncoderError: the hub cannot be reached.
    """
    names = (*MODELS, *seq2seq.LICENCES)
    if name not in names:
        raise UsageError(f"no model {name!r}", f"there are {', '.join(names)}")
    if not settings.models:
        raise UsageError("no models folder", "set HELIX_MODELS to the folder the model shall lie in")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    target = Path(settings.models).expanduser() / name
    hub, weights = (MODELS[name].hub, [MODELS[name].weights]) if name in MODELS else (name, _EITHER)
    try:
        snapshot_download(hub, local_dir=target, allow_patterns=[*_WANTED, *weights])
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise EncoderError(
            f"{hub} cannot be downloaded: {str(error).splitlines()[0]}",
            f"check the network (and that HF_HUB_OFFLINE is unset), or copy the model's files to {target}",
        ) from None
    return target
