"""Rerankers by name: their weights and their exported folders.

`helix models export` prepares the folders; nothing is exported or fetched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from helix.encoders.folders import WEIGHTS, HubModel, ModelFolder, digest_files, find_model, is_model, read_modules
from helix.encoders.spec import FILES, check_files, fingerprint_spec, read_spec, shorten
from helix.errors import EncoderError
from helix.settings import Settings

FORMAT: Final = 1
"""Format of an exported folder; another number makes every reranker be exported again."""

SPEC: Final = "reranker.json"

BATCH: Final = 32
"""Most passages of one ONNX run."""

_NOUNS: Final = {"late": "a late-interaction encoder", "cross": "a cross-encoder"}
_REMEDY: Final = "delete the folder and run 'helix models export' again"

# Files that decide what a model computes.
_MEANING: Final = (
    *WEIGHTS,
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "artifact.metadata",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
)

# From the model cards.
RERANKERS: Final[Mapping[str, HubModel]] = {
    "answerai-colbert-small-v1": HubModel("answerdotai/answerai-colbert-small-v1", "late", "Apache-2.0"),
    "colbertv2.0": HubModel("colbert-ir/colbertv2.0", "late", "MIT"),
    "ms-marco-MiniLM-L-6-v2": HubModel("cross-encoder/ms-marco-MiniLM-L-6-v2", "cross", "Apache-2.0"),
}


@dataclass(frozen=True, slots=True)
class RerankerSpec:
    """Content of reranker.json. `fingerprint` covers every file and every other field."""

    format: int
    kind: str  # late | cross
    name: str
    licence: str
    quantising: str
    weights_sha256: str
    max_tokens: int  # of a passage (late), or of question and passage together (cross)
    pad: int
    files: Mapping[str, str]  # name → sha256
    fingerprint: str = ""
    # For late interaction only.
    dim: int = 0
    query_tokens: int = 0  # a longer question is cut
    expand: bool = False  # a shorter question is filled up with `mask`
    attend: bool = False  # to the tokens that fill it up
    mask: int = 0
    query_marker: int = 0  # comes after the first token
    passage_marker: int = 0
    skip: Sequence[int] = ()  # tokens of passages without a vector: punctuation


def find_reranker(wanted: str, settings: Settings) -> ModelFolder:
    """Find a reranker's weights: a folder, or a name in the models folder and then in the hub's cache.

    Raises:
        EncoderError: they are not available; the message lists the places.
    """
    return find_model(
        wanted, settings, RERANKERS, "reranker", lambda folder: is_model(folder) or is_model(transformer_of(folder))
    )


def transformer_of(folder: Path) -> Path:
    """Return the folder of a reranker's transformer."""
    return folder / read_modules(folder).get("Transformer", "")


def export_folder(source: ModelFolder, cache: Path, precision: str = "int8") -> Path:
    """Return the folder for the export of exactly these weights.

    Raises:
        EncoderError: a file cannot be read.
    """
    digest = shorten(f"{digest_weights(source.folder)}:{FORMAT}:{precision}".encode())
    return cache.expanduser() / "rerankers" / f"{source.export_name}-{digest}"


def digest_weights(folder: Path) -> str:
    """Return one digest over the weights and the files that change their meaning.

    Raises:
        EncoderError: a file cannot be read.
    """
    folders = dict.fromkeys((folder, *(folder / path for path in read_modules(folder).values())))
    return digest_files((f"{number}/{name}", place / name) for number, place in enumerate(folders) for name in _MEANING)


def find_exported(wanted: str, settings: Settings) -> Path:
    """Return the exported folder that a setting names, itself or the export of the named weights.

    Raises:
        EncoderError: it does not exist.
    """
    folder = Path(wanted).expanduser()
    if (folder / SPEC).is_file():
        return folder
    source = find_reranker(wanted, settings)
    target = export_folder(source, Path(settings.cache))
    if not (target / SPEC).is_file():
        raise EncoderError(
            f"the reranker {wanted} is not exported: its weights are in {source.folder}, but {target} does not exist",
            f"run 'helix models export {wanted}'",
        )
    return target


def load_spec(folder: Path, kind: str) -> RerankerSpec:
    """Read and check an exported folder.

    Args:
        folder: holds reranker.json, model.onnx and tokenizer.json.
        kind: late or cross.

    Raises:
        EncoderError: a file is missing, changed or of another format, or the reranker is of the other kind.
    """
    path = folder / SPEC
    spec = read_spec(RerankerSpec, path, "reranker", _REMEDY, FORMAT)
    check_files(folder, FILES, spec.files, "reranker", _REMEDY)
    if fingerprint_spec(spec) != spec.fingerprint:
        raise EncoderError(f"reranker changed: {path} is not what was exported", _REMEDY)
    if spec.kind != kind:
        setting = f"HELIX_{spec.kind.upper()}_ENCODER"
        raise EncoderError(
            f"{folder} is {_NOUNS.get(spec.kind, spec.kind)}, not {_NOUNS[kind]}", f"give it as {setting}"
        )
    return spec
