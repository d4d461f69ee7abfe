"""What is trained once an encoder, kept in the cache beside the encoders: the router and the type classifier."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.dense import Encoder
from helix.enrich.classify import DAMAGE, TypeModel, load_types
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from pipelines.training.router import router_fingerprint, train_router, train_types, types_fingerprint

_loaded: Final[dict[Path, TypeModel]] = {}


def router(encoder: Encoder, settings: Settings) -> bytes | str:
    """The bytes of router.npz for the vectors of an encoder, or why there is none.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    return _kept(_path(settings, encoder, "router", router_fingerprint()), lambda: train_router(encoder))


def type_model(encoder: Encoder, settings: Settings) -> TypeModel | str:
    """The classifier over the vectors of an encoder, or why there is none.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    path = _path(settings, encoder, "types", types_fingerprint())
    if path not in _loaded:
        data = _kept(path, lambda: train_types(encoder))
        if isinstance(data, str):
            return data
        _loaded[path] = load_types(data)
    return _loaded[path]


def _path(settings: Settings, encoder: Encoder, kind: str, fingerprint: str) -> Path:
    return Path(settings.cache).expanduser() / "classifiers" / f"{kind}-{encoder.spec.fingerprint}-{fingerprint}.npz"


def _kept(path: Path, train: Callable[[], bytes | str]) -> bytes | str:
    """The bytes of an npz file, made where it is not there."""
    if not path.is_file():
        trained = train()
        if not isinstance(trained, str):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            paths.write_file(path, trained)
        return trained
    data = path.read_bytes()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            for name in arrays.files:
                arrays[name]  # each has its checksum
    except DAMAGE as error:
        raise StoreError(f"{path} is damaged: {error}", "delete it: it is made again") from None
    return data
