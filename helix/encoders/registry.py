"""The sentence encoders Helix knows, and their weights on this machine. Nothing here downloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from helix.encoders.folders import ModuleEntry, is_model, list_modules, list_places, read_json, read_positions
from helix.encoders.packages import PACKAGES, find_package, name_float
from helix.errors import EncoderError
from helix.settings import Settings
from helix.util.wordlists import read_toml

WINDOW = 256
"""Most tokens of a text: items are cut at about 150 words, and attention costs the square."""

POOLINGS = ("mean", "cls", "last", "max")
"""How token vectors become one; `last` is the last token that is not padding."""

WHOLE = "whole"
"""The pooling of a model with modules of other kinds: its graph has all of them and gives the vector of a text."""


@dataclass(frozen=True, slots=True)
class Model:
    """The facts that an encoder needs to be used correctly. Its vectors always get unit length."""

    name: str
    hub: str  # repository on the Hugging Face hub
    dim: int  # of the vectors in use; 0: as wide as the graph's
    pooling: str  # one of POOLINGS, or WHOLE
    query_prefix: str = ""
    passage_prefix: str = ""
    context: int = 512  # tokens it was made for
    licence: str = ""
    matryoshka: tuple[int, ...] = ()  # prefixes of a vector that are vectors (Kusupati et al. 2022), widest first
    width: int = 0  # of its own vectors, if `dim` is a prefix of them; 0: dim
    centred: bool = False  # a layer norm without weights comes before the cut and the unit length
    lower: bool = False  # texts are lower-cased first
    multilingual: bool = False
    anisotropic: bool = False  # vectors of unrelated texts are alike: what all texts have in common is taken off
    weights: str = "model.safetensors"  # the file to fetch; an ONNX file for an architecture of no library

    @property
    def max_tokens(self) -> int:
        """Most tokens of a text."""
        return min(self.context, WINDOW)


def _read_models() -> dict[str, Model]:
    models = {}
    for name, entry in read_toml("helix.encoders", "models").items():
        facts: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in entry.items()}
        models[name] = Model(name, **facts)
    return models


MODELS: dict[str, Model] = _read_models()

PREFERRED = ("bge-small-en-v1.5", "all-MiniLM-L6-v2")


@dataclass(frozen=True, slots=True)
class Weights:
    """A model whose weights are available."""

    model: Model
    folder: Path  # of a package: the one of its first file, which may have to be unpacked
    origin: str  # path | models folder | hub cache | package


def find_encoder(name: str, settings: Settings) -> Weights | None:
    """Find a registered model's weights: the models folder first, then the hub's cache, then the package.

    Raises:
        EncoderError: the packaged weights are not the published ones.
    """
    model = MODELS[name]
    for folder, origin in list_places(name, model.hub, settings)[1:]:
        if is_model(folder):
            return Weights(model, folder, origin)
    packaged = find_package(name)
    return Weights(model, packaged[0].parent, "package") if packaged else None


def find_trainable(name: str, settings: Settings) -> Path | None:
    """Find the folder of a registered model in float32, to begin a training from; None if it is not available.

    Raises:
        EncoderError: the packaged weights are not the published ones.
    """
    known = [folder for folder, _ in list_places(name, MODELS[name].hub, settings)[1:] if is_model(folder)]
    packaged = find_package(name_float(name))
    return next(iter([*known, *(path.parent for path in packaged)]), None)


def choose_encoder(settings: Settings) -> Weights:
    """Choose the encoder of a new lineage: the configured one, else the best available.

    `NAME@DIMS` means the first DIMS dimensions of a Matryoshka model, everywhere.

    Raises:
        EncoderError: no encoder is available, the configured one is not, or its kind is not supported.
    """
    name, _, dims = settings.encoder.rpartition("@") if _has_dims(settings.encoder) else (settings.encoder, "", "")
    if name and name not in MODELS:
        folder = Path(name).expanduser()
        if not (is_model(folder) or (folder / "modules.json").is_file()):
            raise EncoderError(
                f"encoder {name!r} is neither a known model nor a folder with modules.json, or config.json and weights",
                f"name one of {', '.join(MODELS)}, or give a sentence-transformers folder",
            )
        weights: Weights | None = Weights(describe_model(folder), folder, "path")
    else:
        weights = next(filter(None, (find_encoder(each, settings) for each in ((name,) if name else PREFERRED))), None)
    if weights is None:
        raise EncoderError(
            f"no weights found for {name or ' or '.join(PREFERRED)}",
            f"install {PACKAGES[name].install}, or run 'helix models pull {name}'"
            if name in PACKAGES
            else "run 'helix models pull NAME'",
        )
    return replace(weights, model=cut_model(weights.model, int(dims))) if dims else weights


def _has_dims(encoder: str) -> bool:
    """Return whether a name ends with `@DIMS`; a folder may have an @ in its name."""
    return encoder.rpartition("@")[2].isdecimal() and "@" in encoder and not Path(encoder).expanduser().is_dir()


def cut_model(model: Model, dims: int) -> Model:
    """Return the same model with the first `dims` dimensions only.

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


# The ways to pool, in the newer and the older configuration of sentence-transformers.
_POOLING_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max"}
_POOLING_NAMES |= {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
_POOLING_NAMES |= {"pooling_mode_lasttoken": "last", "pooling_mode_max_tokens": "max"}


def describe_model(folder: Path) -> Model:
    """Read a model from its own configuration files, in the layout of sentence-transformers.

    Raises:
        EncoderError: it does something to its texts or vectors that no graph of Helix can.
    """
    modules = list_modules(folder)
    check_modules(folder, modules)
    base = find_transformer(folder)
    config, sentence = read_json(base / "config.json"), read_json(base / "sentence_bert_config.json")
    whole = read_json(folder / "config_sentence_transformers.json")
    if whole.get("similarity_fn_name") == "dot" and "Normalize" not in [entry.kind for entry in modules]:
        raise _refuse(folder, "vectors whose length counts (similarity_fn_name: dot)")
    prompts = whole.get("prompts") or {}
    if name := whole.get("default_prompt_name"):
        prompts = {"query": prompts.get(name, ""), "document": prompts.get(name, ""), **prompts}
    known = MODELS.get(folder.name)
    query = prompts.get("query") or (known.query_prefix if known else "")
    named = next(filter(None, (prompts.get(name) for name in ("document", "passage", "corpus"))), "")
    passage = named or (known.passage_prefix if known else "")
    pooling = _read_pooling(folder, modules, config, is_prompted=bool(query or passage))
    width = 0 if pooling == WHOLE else _read_width(folder, config)
    dim = whole.get("truncate_dim") or width
    return Model(
        name=folder.name,
        hub="",
        dim=int(dim),
        width=width if dim != width else 0,
        pooling=pooling,
        query_prefix=query,
        passage_prefix=passage,
        context=_read_context(base, config, sentence),
        matryoshka=tuple(
            sorted((d for d in config.get("matryoshka_dimensions") or () if d < (dim or d + 1)), reverse=True)
        ),
        centred=bool(known and known.centred),
        lower=bool(sentence.get("do_lower_case")),
    )


def find_transformer(folder: Path) -> Path:
    """Return the folder of a model's first module, which has the configuration and the tokenizer."""
    modules = list_modules(folder)
    return folder / modules[0].path if modules else folder


def _refuse(folder: Path, feature: str) -> EncoderError:
    return EncoderError(f"the encoder {folder} uses {feature}, which is not supported", "take another encoder")


def check_modules(folder: Path, modules: Sequence[ModuleEntry]) -> None:
    """Raise EncoderError for modules that cannot be one graph, and for code that comes with a model."""
    for entry in modules:
        if not entry.type.startswith("sentence_transformers."):
            raise EncoderError(
                f"the encoder {folder} has a module of its own ({entry.type}); Helix runs no code that comes with "
                "a model",
                "take another encoder",
            )
        if entry.kind in ("Router", "Asym"):
            raise _refuse(folder, f"separate paths for questions and documents ({entry.kind})")
    if modules and modules[0].kind not in ("Transformer", "StaticEmbedding"):
        raise _refuse(folder, f"texts without a tokenizer.json (the first module is a {modules[0].kind})")


def _read_pooling(folder: Path, modules: Sequence[ModuleEntry], config: Mapping[str, Any], is_prompted: bool) -> str:
    """Return how the token vectors become one; WHOLE where the graph has to do it."""
    for entry in modules:
        left_out = (
            entry.kind == "Pooling" and read_json(folder / entry.path / "config.json").get("include_prompt") is False
        )
        if left_out and is_prompted:
            raise _refuse(folder, f"a pooling without the prompt ({entry.path}/config.json: include_prompt)")
    if not modules:
        modes, place = _read_modes(folder, "1_Pooling"), "1_Pooling"
        architectures = [str(name) for name in config.get("architectures") or ()]
        if not (folder / place).is_dir() and any(name.endswith("ForCausalLM") for name in architectures):
            return WHOLE  # sentence-transformers then pools by the last token, or not
        if len(modes) > 1 or modes[0] not in _POOLING_NAMES:
            raise _refuse(folder, f"the pooling {' + '.join(modes)} ({place}/config.json) without a modules.json")
        return _POOLING_NAMES[modes[0]]
    kinds = [entry.kind for entry in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[0].path:
        return WHOLE
    modes = _read_modes(folder, modules[1].path)
    return _POOLING_NAMES.get(modes[0], WHOLE) if len(modes) == 1 else WHOLE


def _read_modes(folder: Path, place: str) -> list[str]:
    """Read the poolings whose vectors are joined, in the newer or the older form."""
    config = read_json(folder / place / "config.json")
    given = config.get("pooling_mode") or [key for key in config if key.startswith("pooling_mode_") and config[key]]
    return [given] if isinstance(given, str) else list(given or ("mean",))


def _read_width(folder: Path, config: Mapping[str, Any]) -> int:
    width = config.get("hidden_size") or config.get("dim") or config.get("n_embd") or config.get("d_model")
    if not isinstance(width, int):
        raise EncoderError(f"{folder / 'config.json'} does not say how wide a vector is", "give hidden_size there")
    return width


def _read_context(folder: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    """Read how many tokens the model takes: the first value of three files, as in sentence-transformers."""
    positions, unused = read_positions(config)
    tokenizer = read_json(folder / "tokenizer_config.json").get("model_max_length") or positions
    return int(min(sentence.get("max_seq_length") or min(tokenizer, positions), positions - unused))
