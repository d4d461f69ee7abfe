"""Listing, downloading and exporting models. Nothing else in Helix downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helix.encoders import rerank, seq2seq, sparse
from helix.encoders.registry import MODELS, PREFERRED, find_encoder
from helix.encoders.rerank_export import cache_reranker, reranker_kind
from helix.encoders.sparse_export import cache_sparse_encoder, is_sparse_encoder_cached, sparse_kind
from helix.errors import EncoderError, UsageError
from helix.settings import Settings

_EITHER = ["model.safetensors", "pytorch_model.bin"]
_WANTED = ["*.json", "*.txt", "1_Pooling/*"]  # plus the weights, in one format
_RERANKER = ["artifact.metadata", "1_Dense/*", *_EITHER]
_SPARSE = ["1_SpladePooling/*", "query_*/*", "document_*/*", *_EITHER]


def list_models(settings: Settings) -> list[dict[str, Any]]:
    """List the registered encoders, the doc2query model, the sparse encoders and the rerankers, with their folders."""
    found = {name: find_encoder(name, settings) for name in MODELS}
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
    generator = seq2seq.find_seq2seq(settings.doc2query, settings)
    available = None if isinstance(generator, str) else generator
    expands = {
        "name": available.name if available else seq2seq.DEFAULT,
        "use": "doc2query",
        "licence": available.licence if available else seq2seq.LICENCES[seq2seq.DEFAULT],
        "origin": available.origin if available else None,
        "folder": str(available.folder) if available else None,
        "default": available is not None,
    }
    return [*encoders, expands, *_list_sparse(settings), *_list_rerankers(settings)]


def _list_sparse(settings: Settings) -> list[dict[str, Any]]:
    """List the registered sparse encoders and the configured one, which is the default."""
    named = settings.sparse_encoder
    kinds = {name: entry.kind for name, entry in sparse.SPARSE.items()}
    rows = []
    for name in dict.fromkeys([*kinds, *([named] if named else [])]):
        licence = sparse.SPARSE[name].licence if name in kinds else ""
        row = {"name": name, "use": "sparse", "kind": kinds.get(name), "licence": licence, "origin": None}
        row |= {"folder": None, "exported": None}
        try:
            source = sparse.find_sparse_encoder(name, settings)
            row |= {"origin": source.origin, "folder": str(source.folder)}
            if is_sparse_encoder_cached(source, Path(settings.cache)):
                row["exported"] = str(cache_sparse_encoder(source, Path(settings.cache)))
        except EncoderError:  # not available: the row stays empty
            pass
        rows.append({**row, "default": name == named})
    return rows


def _list_rerankers(settings: Settings) -> list[dict[str, Any]]:
    """List the registered rerankers and the configured ones, which are the defaults."""
    named = {"late": settings.late_encoder, "cross": settings.cross_encoder}
    kinds = {name: known.kind for name, known in rerank.RERANKERS.items()}
    for kind, name in named.items():
        if name and name != rerank.OWN and name not in kinds:
            kinds[name] = kind
    rows = [_describe_own(settings)]
    for name, kind in kinds.items():
        row = {"name": name, "use": f"rerank {kind}", "licence": "", "origin": None, "folder": None, "exported": None}
        try:
            source = rerank.find_reranker(name, settings)
            row |= {"licence": source.licence, "origin": source.origin, "folder": str(source.folder)}
            row["exported"] = str(rerank.find_exported(name, settings))
        except EncoderError:  # not available, or not exported: the row stays empty
            if (Path(name).expanduser() / rerank.SPEC).is_file():
                row |= {"origin": "path", "folder": name, "exported": name}
        if name in rerank.RERANKERS:
            row["licence"] = rerank.RERANKERS[name].licence
        rows.append({**row, "default": named[kind] == name})
    return rows


def _describe_own(settings: Settings) -> dict[str, Any]:
    """Describe the packaged ranker, which needs no export; it is the default where no cross-encoder is named."""
    folder = str(rerank.find_own())
    spec = rerank.load_spec(rerank.find_own(), "cross")
    row = {"name": rerank.OWN, "use": "rerank cross", "licence": spec.licence, "origin": "package"}
    return {**row, "folder": folder, "exported": folder, "default": settings.cross_encoder in ("", rerank.OWN)}


def export_model(name: str, settings: Settings) -> dict[str, str]:
    """Export a reranker or a sparse encoder to ONNX into the cache, once, so that it can be used.

    Args:
        name: a folder with the model, or a name to look for in the models folder and the hub's cache.

    Returns:
        name, kind (late, cross, splade or inference-free), folder, and the setting that selects it.

    Raises:
        UsageError: no name.
        EncoderError: it is not available, it is neither, or the export failed.
    """
    if not name:
        names = ", ".join((*rerank.RERANKERS, *sparse.SPARSE))
        raise UsageError("no model to export", f"name a folder, or one of {names}")
    if _is_sparse(name, settings):
        found = sparse.find_sparse_encoder(name, settings)
        made = cache_sparse_encoder(found, Path(settings.cache))
        spec = sparse.load_spec(made, query=True)
        given = found.folder.resolve() if found.origin == "path" else name
        setting = f"HELIX_SPARSE_ENCODER={given}"
        return {"name": found.name, "kind": spec.kind, "folder": str(made), "setting": setting}
    source = rerank.find_reranker(name, settings)
    kind = reranker_kind(source.folder)
    folder = cache_reranker(source, Path(settings.cache))
    given = source.folder.resolve() if source.origin == "path" else name
    return {
        "name": source.name,
        "kind": kind,
        "folder": str(folder),
        "setting": f"HELIX_{kind.upper()}_ENCODER={given}",
    }


def _is_sparse(name: str, settings: Settings) -> bool:
    """Return whether a name or folder is a sparse encoder rather than a reranker."""
    if name in sparse.SPARSE or name in {entry.hub for entry in sparse.SPARSE.values()}:
        return True
    try:
        folder = sparse.find_sparse_encoder(name, settings).folder
        return (folder / sparse.SPEC).is_file() or bool(sparse_kind(folder))
    except EncoderError:
        return False


def pull_model(name: str, settings: Settings) -> Path:
    """Download one registered model from the Hugging Face hub into the models folder.

    Raises:
        UsageError: no such model, or no models folder.
        EncoderError: the hub cannot be reached.
    """
    names = (*MODELS, *seq2seq.LICENCES, *rerank.RERANKERS, *sparse.SPARSE)
    if name not in names:
        raise UsageError(f"no model {name!r}", f"there are {', '.join(names)}")
    if not settings.models:
        raise UsageError("no models folder", "set HELIX_MODELS to a folder for the model")
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
