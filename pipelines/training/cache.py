"""The router and the type classifier, trained once an encoder and cached with the encoders."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from helix.encoders.dense import Encoder
from helix.enrich.type_model import DAMAGE, TypeModel, load_types
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from pipelines.training.router import router_fingerprint, train_router, train_types, types_fingerprint

_loaded: Final[dict[Path, TypeModel]] = {}


def load_router(encoder: Encoder, settings: Settings) -> bytes | str:
    """Return the bytes of router.npz for an encoder's vectors, or why there is no router.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    return _load_or_train(_path(settings, encoder, "router", router_fingerprint()), lambda: train_router(encoder))


def load_type_model(encoder: Encoder, settings: Settings) -> TypeModel | str:
    """Return the classifier over an encoder's vectors, or why there is none.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    path = _path(settings, encoder, "types", types_fingerprint())
    if path not in _loaded:
        data = _load_or_train(path, lambda: train_types(encoder))
        if isinstance(data, str):
            return data
        _loaded[path] = load_types(data)
    return _loaded[path]


def _path(settings: Settings, encoder: Encoder, kind: str, fingerprint: str) -> Path:
    return Path(settings.cache).expanduser() / "classifiers" / f"{kind}-{encoder.spec.fingerprint}-{fingerprint}.npz"


def _load_or_train(path: Path, train: Callable[[], bytes | str]) -> bytes | str:
    """Return the bytes of an npz file; train and write it first where it is missing."""
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
        raise StoreError(f"{path} is damaged: {error}", "delete it: Helix trains it again") from None
    return data
