"""The classifiers of the packaged encoders, trained when Helix was made: a first store needs no scikit-learn.

`python -m pipelines.training.record` trains them again, after a change of their texts, constants or encoders.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from helix.encoders.dense import EncoderSpec
from helix.encoders.packages import PACKAGES, digest_package

RECORDED: Final = ("all-MiniLM-L6-v2", "multilingual-e5-small")
"""The encoders whose classifiers are recorded."""


def read_recorded(spec: EncoderSpec, kind: str, fingerprint: str) -> bytes | None:
    """Return a classifier's npz bytes; None for an encoder of other weights, or texts that have changed since.

    Args:
        kind: router or types.
        fingerprint: of the texts and constants that it is trained with.
    """
    if spec.name not in PACKAGES or spec.weights_sha256 != digest_package(spec.name):
        return None
    return _read(locate_recorded(spec.name, kind, fingerprint))


@cache
def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def locate_recorded(name: str, kind: str, fingerprint: str) -> Path:
    """Return the path of a recorded classifier."""
    return Path(str(files("pipelines.training") / "data" / "trained" / f"{kind}-{name}-{fingerprint}.npz"))
