"""Training of the classifiers that Helix ships for its packaged encoders: `python -m pipelines.training.record`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.settings import Settings
from pipelines.training.recorded import RECORDED, locate_recorded
from pipelines.training.router import router_fingerprint, train_router, train_types, types_fingerprint


def main() -> None:
    """Train the classifiers of every packaged encoder, and replace the recorded ones."""
    kinds = {"router": (train_router, router_fingerprint()), "types": (train_types, types_fingerprint())}
    with tempfile.TemporaryDirectory() as work:
        for name in RECORDED:
            encoder = Encoder(cache_encoder(choose_encoder(Settings(encoder=name)), Path(work)))
            for kind, (train, fingerprint) in kinds.items():
                trained = train(encoder)
                if isinstance(trained, str):
                    raise SystemExit(trained)
                path = locate_recorded(name, kind, fingerprint)
                for old in path.parent.glob(f"{kind}-{name}-*.npz"):
                    old.unlink()
                path.write_bytes(trained)


if __name__ == "__main__":
    main()
