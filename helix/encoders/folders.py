"""Folders with a model's weights and configuration on this machine. Nothing here downloads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.encoders.packages import PACKAGES, find_package
from helix.errors import EncoderError
from helix.settings import Settings
from helix.util.hashing import hash_file_once

WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin", "onnx/model.onnx")
"""Each of them makes a folder a model's."""

_MOST_CONTEXT: Final = 512
"""Tokens: attention costs the square."""


class HubModel(NamedTuple):
    """A model on the Hugging Face hub."""

    hub: str  # its repository
    kind: str  # late | cross | splade | inference-free
    licence: str


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model whose weights are available."""

    name: str
    folder: Path
    origin: str  # path | models folder | hub cache | package
    licence: str  # empty: not known

    @property
    def export_name(self) -> str:
        """The start of an export's folder name."""
        return self.name.replace("/", "--")


def is_model(folder: Path) -> bool:
    """Return whether a folder has a configuration and weights."""
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in WEIGHTS)


def list_places(wanted: str, hub: str, settings: Settings) -> list[tuple[Path, str]]:
    """List the folders that a model (a folder, a name, or a repository on the hub) may be in, each with its origin."""
    places = [(Path(wanted).expanduser(), "path")]
    if settings.models:
        names = dict.fromkeys((wanted, wanted.rpartition("/")[2]))
        places += [(Path(settings.models).expanduser() / name, "models folder") for name in names if name]
    snapshots = _find_hub_cache() / f"models--{hub.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        places += [(folder, "hub cache") for folder in sorted(snapshots.iterdir(), reverse=True)]
    return places


def _find_hub_cache() -> Path:
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(cache) if cache else Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")) / "hub"


def find_model(
    wanted: str, settings: Settings, models: Mapping[str, HubModel], noun: str, accept: Callable[[Path], bool]
) -> ModelFolder:
    """Find a model: a folder, or a name in the models folder, then in the hub's cache, then in a package.

    Args:
        models: the registered ones, by name.
        accept: tests a folder.

    Raises:
        EncoderError: it is not available; the message lists the places.
    """
    known = next((entry for name, entry in models.items() if wanted in (name, entry.hub)), None)
    for folder, origin in list_places(wanted, known.hub if known else wanted, settings):
        if accept(folder):
            if origin == "path":
                return ModelFolder(folder.resolve().name, folder, origin, "")
            return ModelFolder(wanted, folder, origin, known.licence if known else "")
    if packaged := find_package(wanted):
        return ModelFolder(wanted, packaged[0].parent, "package", PACKAGES[wanted].licence)
    places = "the models folder (HELIX_MODELS)" if settings.models else "a models folder (HELIX_MODELS is not set)"
    raise EncoderError(
        f"no {noun} {wanted!r}: it is neither a folder with a model nor in {places} nor in the hub's cache",
        f"install {PACKAGES[wanted].install}"
        if wanted in PACKAGES
        else f"give a folder, or 'helix models pull' one of {', '.join(models)}",
    )


def read_json(path: Path) -> Any:
    """Read a configuration file; {} for a missing one. Raises EncoderError if it is not JSON."""
    import orjson

    try:
        return orjson.loads(path.read_bytes()) if path.is_file() else {}
    except orjson.JSONDecodeError as error:
        raise EncoderError(f"{path} is unreadable: {error}", "fetch the model again") from None


class ModuleEntry(NamedTuple):
    """A module of a folder in the layout of sentence-transformers."""

    type: str  # full name of its class
    path: str  # its folder; empty: the model's own

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.type.rpartition(".")[2]


def list_modules(folder: Path) -> list[ModuleEntry]:
    """List the modules in their order, as modules.json has them; empty without that file.

    Raises:
        EncoderError: modules.json is unreadable.
    """
    modules = read_json(folder / "modules.json") or []
    try:
        return [ModuleEntry(str(entry["type"]), str(entry["path"])) for entry in modules]
    except (TypeError, KeyError):
        raise EncoderError(f"{folder / 'modules.json'} lists no modules", "fetch the model again") from None


def read_modules(folder: Path) -> dict[str, str]:
    """Map each kind of module to its folder, as modules.json has them; without that file, one Transformer.

    Raises:
        EncoderError: modules.json is unreadable.
    """
    return {entry.kind: entry.path for entry in list_modules(folder)} or {"Transformer": ""}


def read_pad(folder: Path) -> int:
    """Read the token that fills a batch; 0 by default."""
    return int(read_json(folder / "config.json").get("pad_token_id") or 0)


def read_positions(config: Mapping[str, Any]) -> tuple[int, int]:
    """Read the number of positions, and how many of them no token has."""
    positions = config.get("max_position_embeddings") or 512
    # RoBERTa and its relatives count positions from the padding's id + 1.
    unused = (config.get("pad_token_id") or 0) + 1 if "roberta" in str(config.get("model_type")) else 0
    return positions, unused


def read_context(folder: Path) -> int:
    """Read how many tokens a model takes, at most 512."""
    positions, unused = read_positions(read_json(folder / "config.json"))
    limit = read_json(folder / "tokenizer_config.json").get("model_max_length") or positions
    return int(min(limit, positions - unused, _MOST_CONTEXT))


def digest_files(files: Iterable[tuple[str, Path]], start: str = "") -> str:
    """Return one hex digest over named files; missing ones are left out.

    Raises:
        EncoderError: a file cannot be read.
    """
    digest = hashlib.sha256(start.encode())
    try:
        for name, path in files:
            if path.is_file():
                digest.update(f"{name}:{hash_file_once(path)}\n".encode())
    except OSError as error:
        raise EncoderError(f"cannot read the weights: {error}", "check the folder's permissions") from None
    return digest.hexdigest()
