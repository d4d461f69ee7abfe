"""The type classifier of an encoder: trained when it is first needed, then kept in the cache beside the encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from helix.encoders.onnx import Encoder
from helix.enrich.classify import TypeModel, load_types
from helix.settings import Settings
from helix.snapshot import paths
from pipelines.train import train_types, types_fingerprint

_loaded: Final[dict[Path, TypeModel]] = {}


def type_model(encoder: Encoder, settings: Settings) -> TypeModel | str:
    """The classifier over the vectors of an encoder, or why there is none.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged classifier.
    """
    name = f"{encoder.spec.fingerprint}-{types_fingerprint()}.npz"
    path = Path(settings.cache).expanduser() / "classifiers" / name
    if path not in _loaded:
        if not path.is_file():
            trained = train_types(encoder)
            if isinstance(trained, str):
                return trained
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            paths.write_file(path, trained)
        _loaded[path] = load_types(path.read_bytes())
    return _loaded[path]
