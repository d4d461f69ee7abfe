"""Models in reach, fetching one and exporting one when the user asks. Nothing else in Helix downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helix.encoders import rerank, seq2seq, sparse
from helix.encoders.dense_export import cached_reranker, reranker_kind
from helix.encoders.registry import MODELS, PREFERRED, find
from helix.encoders.sparse_export import cached, is_cached, kind_of
from helix.errors import EncoderError, UsageError
from helix.settings import Settings

_EITHER = ["model.safetensors", "pytorch_model.bin"]
_WANTED = ["*.json", "*.txt", "1_Pooling/*"]  # and the weights, in the one form that is used
_RERANKER = ["artifact.metadata", "1_Dense/*", *_EITHER]
_SPARSE = ["1_SpladePooling/*", "query_*/*", "document_*/*", *_EITHER]


def known(settings: Settings) -> list[dict[str, Any]]:
    """Every registered encoder, sparse or not, the model that expands items and the rerankers, and where they are."""
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
    return [*encoders, expands, *_sparse(settings), *_rerankers(settings)]


def _sparse(settings: Settings) -> list[dict[str, Any]]:
    """The registered sparse encoders and the one that the settings name; `default` where it is named."""
    named = settings.sparse_encoder
    kinds = {name: entry.kind for name, entry in sparse.SPARSE.items()}
    rows = []
    for name in dict.fromkeys([*kinds, *([named] if named else [])]):
        licence = sparse.SPARSE[name].licence if name in kinds else ""
        row = {"name": name, "use": "sparse", "kind": kinds.get(name), "licence": licence, "origin": None}
        row |= {"folder": None, "exported": None}
        try:
            source = sparse.find(name, settings)
            row |= {"origin": source.origin, "folder": str(source.folder)}
            if is_cached(source, Path(settings.cache)):
                row["exported"] = str(cached(source, Path(settings.cache)))
        except EncoderError:  # not in reach: the row says so
            pass
        rows.append({**row, "default": name == named})
    return rows


def _rerankers(settings: Settings) -> list[dict[str, Any]]:
    """The registered rerankers and those that the settings name; `default` where it is named."""
    named = {"late": settings.late_encoder, "cross": settings.cross_encoder}
    kinds = {name: known.kind for name, known in rerank.RERANKERS.items()}
    for kind, name in named.items():
        if name and name not in kinds:
            kinds[name] = kind
    rows = []
    for name, kind in kinds.items():
        row = {"name": name, "use": f"rerank {kind}", "licence": "", "origin": None, "folder": None, "exported": None}
        try:
            source = rerank.find(name, settings)
            row |= {"licence": source.licence, "origin": source.origin, "folder": str(source.folder)}
            row["exported"] = str(rerank.exported(name, settings))
        except EncoderError:  # not in reach, or not exported yet: the row says so
            if (Path(name).expanduser() / rerank.SPEC).is_file():
                row |= {"origin": "path", "folder": name, "exported": name}
        if name in rerank.RERANKERS:
            row["licence"] = rerank.RERANKERS[name].licence
        rows.append({**row, "default": named[kind] == name})
    return rows


def export(name: str, settings: Settings) -> dict[str, str]:
    """Export a reranker or a sparse encoder to ONNX into the cache, once: what is needed to use it.

    Args:
        name: a folder with the model, or a name to look for in the models folder and the hub's cache.

    Returns:
        name, kind (late, cross, splade or inference-free), folder, and the setting that takes it into use.

    Raises:
        UsageError: no name.
        EncoderError: it is not in reach, it is neither, or the export failed.
    """
    if not name:
        names = ", ".join((*rerank.RERANKERS, *sparse.SPARSE))
        raise UsageError("no model to export", f"name a folder, or one of {names}")
    if _is_sparse(name, settings):
        found = sparse.find(name, settings)
        made = cached(found, Path(settings.cache))
        spec = sparse.load_spec(made, query=True)
        said = found.folder.resolve() if found.origin == "path" else name
        setting = f"HELIX_SPARSE_ENCODER={said}"
        return {"name": found.name, "kind": spec.kind, "folder": str(made), "setting": setting}
    source = rerank.find(name, settings)
    kind = reranker_kind(source.folder)
    folder = cached_reranker(source, Path(settings.cache))
    said = source.folder.resolve() if source.origin == "path" else name
    return {"name": source.name, "kind": kind, "folder": str(folder), "setting": f"HELIX_{kind.upper()}_ENCODER={said}"}


def _is_sparse(name: str, settings: Settings) -> bool:
    """Whether a name stands for a sparse encoder; a reranker is what is not."""
    if name in sparse.SPARSE or name in {entry.hub for entry in sparse.SPARSE.values()}:
        return True
    try:
        folder = sparse.find(name, settings).folder
        return (folder / sparse.SPEC).is_file() or bool(kind_of(folder))
    except EncoderError:
        return False


def pull(name: str, settings: Settings) -> Path:
    """Download one registered model from the Hugging Face hub into the models folder.

    Raises:
        UsageError: no such model, or no folder to put it in.
        EncoderError: the hub cannot be reached.
    """
    names = (*MODELS, *seq2seq.LICENCES, *rerank.RERANKERS, *sparse.SPARSE)
    if name not in names:
        raise UsageError(f"no model {name!r}", f"there are {', '.join(names)}")
    if not settings.models:
        raise UsageError("no models folder", "set HELIX_MODELS to the folder the model shall lie in")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    target = Path(settings.models).expanduser() / name
    if name in rerank.RERANKERS:
        hub, weights = rerank.RERANKERS[name].hub, _RERANKER
    elif name in sparse.SPARSE:
        hub, weights = sparse.SPARSE[name].hub, _SPARSE
    else:
        hub, weights = (MODELS[name].hub, [MODELS[name].weights]) if name in MODELS else (name, _EITHER)
    try:
        snapshot_download(hub, local_dir=target, allow_patterns=[*_WANTED, *weights])
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise EncoderError(
            f"{hub} cannot be downloaded: {str(error).splitlines()[0]}",
            f"check the network (and that HF_HUB_OFFLINE is unset), or copy the model's files to {target}",
        ) from None
    return target
