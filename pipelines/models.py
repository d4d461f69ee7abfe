"""Encoders in reach, and fetching one when the user asks. Nothing else in Helix downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helix.encoders.registry import MODELS, PREFERRED, find
from helix.errors import EncoderError, UsageError
from helix.settings import Settings

_WANTED = ["*.json", "*.txt", "model.safetensors", "1_Pooling/*"]


def known(settings: Settings) -> list[dict[str, Any]]:
    """Every registered encoder, and where its weights are."""
    found = {name: find(name, settings) for name in MODELS}
    first = next((name for name in PREFERRED if found[name]), None)
    return [
        {
            "name": name,
            "dim": model.dim,
            "licence": model.licence,
            "origin": weights.origin if (weights := found[name]) else None,
            "folder": str(weights.folder) if weights else None,
            "default": name == first,
        }
        for name, model in MODELS.items()
    ]


def pull(name: str, settings: Settings) -> Path:
    """Download one registered encoder from the Hugging Face hub into the models folder.

    Raises:
        UsageError: no such model, or no folder to put it in.
        EncoderError: the hub cannot be reached.
    """
    if name not in MODELS:
        raise UsageError(f"no model {name!r}", f"there are {', '.join(MODELS)}")
    if not settings.models:
        raise UsageError("no models folder", "set HELIX_MODELS to the folder the model shall lie in")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    target = Path(settings.models).expanduser() / name
    try:
        snapshot_download(MODELS[name].hub, local_dir=target, allow_patterns=_WANTED)
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise EncoderError(
            f"{MODELS[name].hub} cannot be downloaded: {str(error).splitlines()[0]}",
            f"check the network (and that HF_HUB_OFFLINE is unset), or copy the model's files to {target}",
        ) from None
    return target
