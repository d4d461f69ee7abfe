"""Export of sentence encoders to ONNX, int8 by default, once a machine and with checksums.

The packaged encoders are written without torch (`written_export.py`), others are traced. Every export is compared with
sentence-transformers, before and after it is quantised.
`python -m helix.encoders.dense_export SOURCE TARGET PRECISION MODEL` is the process of its own.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from helix.encoders.dense import SPEC, Encoder, EncoderSpec, digest_recipe, fingerprint_encoder, load_spec
from helix.encoders.folders import WEIGHTS, digest_files, read_pad
from helix.encoders.onnx_export import (
    PRECISIONS,
    ExportJob,
    can_trace,
    export_graph,
    export_once,
    save_tokenizer,
    write_graph,
)
from helix.encoders.packages import digest_package, is_folder, unpack_package
from helix.encoders.registry import WHOLE, Model, Weights, find_transformer
from helix.encoders.session import INPUTS, open_session
from helix.encoders.spec import FILES, hash_files, shorten, write_spec
from helix.encoders.written_export import VERSION, Describe, Exported, is_written, name_published, write_export
from helix.errors import EncoderError
from helix.util.wordlists import read_lines, read_toml

_CHECKS: Final = 1
"""Version of the comparison; an older export is made again."""

_FIELDS = ("name", "dim", "pooling", "query_prefix", "passage_prefix", "max_tokens", "context", "matryoshka")


class Moves(NamedTuple):
    """Vectors that others lose; see `EncoderSpec`."""

    centre: Sequence[float] = ()
    shifts: Mapping[str, Sequence[float]] = {}
    query_centre: Sequence[float] = ()


_UNMOVED: Final = Moves()


def is_encoder_cached(weights: Weights, cache: Path, precision: str = "int8") -> bool:
    """Return whether the export exists."""
    return (_export_folder(weights, cache, precision) / SPEC).is_file()


def cache_encoder(weights: Weights, cache: Path, precision: str = "int8") -> Path:
    """Return the folder of the encoder exported as int8 or fp32, which the first call makes.

    An int8 form that disagrees with sentence-transformers has the products with outliers in float32.

    Raises:
        EncoderError: the export failed, or the cached files are damaged.
    """
    target = _export_folder(weights, cache, precision)
    remedy = "install helix-recall[workers], or take an encoder folder that is already exported"
    options = (precision, weights.origin, orjson.dumps(asdict(weights.model)).decode())
    export = ExportJob("helix.encoders.dense_export", weights.folder, options, weights.model.name, remedy)
    return export_once(export, target, SPEC, load_spec)


def export_encoder(weights: Weights, target: Path, precision: str = "int8") -> None:
    """Export a sentence encoder into an empty folder, with its encoder.json.

    Raises:
        EncoderError: it cannot be exported, or disagrees with sentence-transformers.
    """
    export = write_export if is_written(weights) else _trace_export
    weights, form, agreement = export(weights, target, precision, describe_encoder)
    describe_encoder(target, weights, form, agreement)
    moves = _UNMOVED
    if weights.model.anisotropic:
        moves = Moves(_measure_centre(Encoder(target)))
        describe_encoder(target, weights, form, agreement, moves)
    if weights.model.multilingual:
        encoder = Encoder(target)
        moves = moves._replace(shifts=_measure_shifts(encoder), query_centre=_measure_query_centre(encoder))
        describe_encoder(target, weights, form, agreement, moves)


def _trace_export(weights: Weights, target: Path, precision: str, describe: Describe) -> Exported:
    """Export by the libraries that know the model, as `write_export` does without them."""
    from helix.encoders import reference

    agreement: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        plain = Path(work, "plain")
        is_whole = weights.model.pooling == WHOLE
        # An ONNX file whose architecture no library has cannot be compared.
        library = reference.load_reference(weights) if is_whole or can_trace(weights.folder) else None
        weights = _write_plain(weights, library, plain)
        if library is not None:
            describe(plain, weights, "fp32")
            encoder = Encoder(plain)
            expected = reference.embed_probes(library, weights.model, encoder)
            agreement["fp32"] = reference.compare_vectors(encoder, expected, "fp32")
        shutil.copyfile(plain / "tokenizer.json", target / "tokenizer.json")
        for form in ("int8", "mixed") if precision == "int8" else (precision,):
            write_graph(plain, target, form)
            describe(target, weights, form)
            if library is None or form == "fp32":
                break
            try:
                agreement[form] = reference.compare_vectors(Encoder(target), expected, form)
                break
            except EncoderError:
                if form == "mixed":
                    raise
    return Exported(weights, form, agreement)


def _measure_centre(encoder: Encoder) -> list[float]:
    """Return the mean vector of the packaged texts (Mu & Viswanath 2018, "All-but-the-Top")."""
    mean = encoder.passages(read_lines("helix.encoders", "calibration")).mean(0)
    return [round(float(value), 6) for value in mean]


def _write_plain(weights: Weights, library: Any, plain: Path) -> Weights:
    """Write the float graph and the tokenizer into a new folder; return what describes them.

    A decoder exported alone wants more inputs than a text's tokens, so it is traced as a whole.
    """
    from helix.encoders.whole_export import trace_model

    if weights.model.pooling != WHOLE:
        export_graph(weights.folder, plain)
        save_tokenizer(weights.folder, plain)
        if library is None or _list_inputs(plain) <= INPUTS:
            return weights
        shutil.rmtree(plain)
    trace_model(library, plain)
    return replace(weights, model=replace(weights.model, pooling=WHOLE))


def _list_inputs(folder: Path) -> set[str]:
    return {entry.name for entry in _open_graph(folder).get_inputs()}


def _measure_shifts(encoder: Encoder) -> dict[str, list[float]]:
    """Return how the mean vector of the same texts in each language differs from their mean in all languages.

    Vectors of such models also tell the language of a text. Without that a question finds answers in any
    language (Libovický, Rosa & Fraser 2020, "On the Language Neutrality of Pre-trained Multilingual Representations").
    """
    texts = read_toml("helix.encoders", "parallel")
    means = {language: encoder.passages(same).mean(0) for language, same in texts.items()}
    common = np.mean([*means.values()], axis=0)
    return {language: [round(float(value), 4) for value in mean - common] for language, mean in means.items()}


def _measure_query_centre(encoder: Encoder) -> list[float]:
    """Return what all questions have in common, in any language.

    Without that fewer items are near to every question (Suzuki et al. 2013, "Centering Similarity Measures to Reduce
    Hubs"); in a store of many languages those are code and lists, which are nearer than an answer in another language.
    """
    means = [encoder.queries(same).mean(0) for same in read_toml("helix.encoders", "parallel").values()]
    return [round(float(value), 4) for value in np.mean(means, axis=0)]


def describe_encoder(
    folder: Path,
    weights: Weights,
    precision: str,
    agreement: Mapping[str, float] | None = None,
    moves: Moves = _UNMOVED,
) -> None:
    """Write encoder.json for the files of an export."""
    if not weights.model.dim:
        weights = replace(weights, model=replace(weights.model, dim=_read_width(folder)))
    files = hash_files(folder, FILES)
    recipe = digest_recipe({**_read_fields(weights), **moves._asdict()})
    spec = EncoderSpec(
        **_read_fields(weights),
        quantising=PRECISIONS[precision],
        weights_sha256=_digest_weights(weights),
        files=files,
        recipe=recipe,
        fingerprint=fingerprint_encoder(files, recipe),
        agreement=agreement or {},
        **moves._asdict(),
    )
    write_spec(folder / SPEC, spec)


def _read_width(folder: Path) -> int:
    """Return the width of the vectors that a graph gives."""
    return int(_open_graph(folder).get_outputs()[0].shape[-1])


def _open_graph(folder: Path) -> Any:
    return open_session(folder / "model.onnx", 1, "encoder", "export it again")


def _export_folder(weights: Weights, cache: Path, precision: str) -> Path:
    source = f"{_digest_weights(weights)}:{digest_recipe(_read_fields(weights))}"
    if is_written(weights):
        source += f":written {VERSION}"
    if weights.model.anisotropic:
        source += ":" + shorten("\n".join(read_lines("helix.encoders", "calibration")).encode())
    if weights.model.multilingual:
        source += ":" + shorten(repr(read_toml("helix.encoders", "parallel")).encode())
    digest = shorten(f"{source}:{precision}:{_CHECKS}".encode())
    return cache / "encoders" / f"{weights.model.name}-{digest}"


def _read_fields(weights: Weights) -> dict[str, Any]:
    """Return the fields of encoder.json that the model decides."""
    names = (*_FIELDS, "centred", "lower")
    return {**{name: getattr(weights.model, name) for name in names}, "pad": read_pad(find_transformer(weights.folder))}


def _digest_weights(weights: Weights) -> str:
    """Return one digest over the weights and the files that change their meaning."""
    if weights.origin == "package" and not is_folder(name_published(weights.model)):
        return digest_package(name_published(weights.model))
    folder = weights.folder
    names: list[str] = [*WEIGHTS, "config.json", "tokenizer.json", "1_Pooling/config.json"]
    if weights.model.pooling == WHOLE:  # any of its files may count
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return digest_files((name, folder / name) for name in names)


def main(source: str, target: str, precision: str, origin: str, model: str) -> None:
    """Export in this process; `model` is the JSON of a Model."""
    facts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in orjson.loads(model).items()
    }
    weights = Weights(Model(**facts), Path(source), origin)
    if origin != "package":
        export_encoder(weights, Path(target), precision)
        return
    with unpack_package(name_published(weights.model)) as folder:
        export_encoder(replace(weights, folder=folder), Path(target), precision)


if __name__ == "__main__":
    main(*sys.argv[1:])
