"""Training of the relevance models that Helix ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from helix.stages.relevance import OWN, RelevanceModel, encode_model, name_file
from pipelines.eval.relevance.ask import CaseEvidence
from pipelines.eval.relevance.collect import is_trainable
from pipelines.eval.relevance.fit import Signals, fit_model


def train(asked: Sequence[CaseEvidence], encoder: str, say: Callable[[str], None]) -> dict[str, RelevanceModel]:
    """Fit the models of an encoder's variants to all cases that may be trained on."""
    models = {}
    for variant in ("vectors", "across") if encoder in OWN else ("vectors", "words"):
        signals = Signals(asked, variant)
        models[variant] = fit_model(signals, np.array([is_trainable(one) for one in signals.asked]))
        say(f"{variant}: {len(signals.asked)} cases, {len(signals.items)} items")
    return models


def write_models(models: Mapping[str, RelevanceModel], encoder: str, package: Path) -> Path:
    """Write the models of an encoder to their place in a folder of the package `helix`; return the file."""
    arrays = {name: value for variant, model in models.items() for name, value in encode_model(model, variant).items()}
    path = package / "stages" / "data" / name_file(encoder if encoder in OWN else "")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path
