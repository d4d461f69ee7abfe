"""Training of the models of changes: claims, links, and the readings now, then and why.

Each stage sees the predictions of the one before for histories that were left out of its training (stacked
generalisation, Wolpert 1992), so that it learns how far to trust them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from helix.ranking.network import ListNetwork
from helix.ranking.trees import Trees
from helix.settings import Settings
from helix.text.claims import ClaimsModel
from helix.text.reading import Kind
from helix.types import I64, U8
from pipelines.eval.changes.fit_claims import fit_claims
from pipelines.eval.changes.fit_links import fit_links
from pipelines.eval.changes.fit_readings import ask_histories, ask_ordinary, fit_reading
from pipelines.eval.changes.history import ChangingHistory
from pipelines.eval.changes.material import SETS, Material, claim_again, make_folds, read_material, read_ordinary

KINDS: Final[tuple[Kind, ...]] = ("now", "then", "why")


@dataclass(frozen=True, slots=True)
class TrainedModels:
    """All models, and the figures of histories and haystacks left out of the training."""

    claims: ClaimsModel
    links: Trees
    readings: Mapping[str, ListNetwork]
    figures: Mapping[str, float]


def train(
    histories: Sequence[ChangingHistory],
    others: Mapping[str, tuple[str, Path]],
    settings: Settings,
    work: Path,
    say: Callable[[str], None],
) -> TrainedModels:
    """Train on histories and other sets, each ingested into a store of its own below `work`.

    Args:
        others: sets in which nothing changes, by label: (name in the registry, path).

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    materials = [read_material(history, settings, work) for history in histories]
    ordinary = [read_ordinary(name, path, settings, work / "sets" / label) for label, (name, path) in others.items()]
    folds = make_folds(len(materials))
    claims, predicted = fit_claims(materials, folds)
    for material, probability in zip(materials, predicted, strict=True):
        material.claims[:, SETS], material.alters = probability.T
    for one in ordinary:
        claim_again(one, claims)
    labels = {"sets": [one.setting for one in materials], "alters": [one.altering for one in materials]}
    figures = {
        f"{name} auc": _measure_auc(np.concatenate(label), np.concatenate(predicted)[:, column])
        for column, (name, label) in enumerate(labels.items())
    }
    links = fit_links(materials, ordinary, folds)
    figures["links ap"] = _measure_precision(materials)
    say(", ".join(f"{name} {value}" for name, value in figures.items()))
    readings: dict[str, ListNetwork] = {}
    for kind in KINDS:
        asked = [*ask_histories(materials, kind, settings)]
        asked += [question for one in ordinary for question in ask_ordinary(one, kind, settings)]
        readings[kind], rates = fit_reading(asked, kind)
        figures |= {f"{kind} {name}": rate for name, rate in rates.items()}
        say(f"{kind}: {len(asked)} questions, " + ", ".join(f"{name} {rate}" for name, rate in rates.items()))
    return TrainedModels(claims, links, readings, figures)


def write_models(models: TrainedModels, package: Path) -> list[Path]:
    """Write the models to their places in a folder of the package `helix`; return the files."""
    files: dict[str, dict[str, object]] = {
        "text/data/claims.npz": models.claims._asdict() | {"words": models.claims.words.astype(np.float16)},
        "enrich/data/changes.npz": models.links._asdict() | {"feature": models.links.feature.astype(np.int16)},
    }
    files |= {f"stages/data/reading_{kind}.npz": network._asdict() for kind, network in models.readings.items()}
    for name, arrays in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **arrays)  # type: ignore[arg-type]
    return [package / name for name in files]


def _measure_auc(label: I64, probability: U8) -> float:
    from sklearn.metrics import roc_auc_score

    return round(float(roc_auc_score(label[label >= 0], probability[label >= 0])), 3)


def _measure_precision(materials: Sequence[Material]) -> float:
    from sklearn.metrics import average_precision_score

    label = np.concatenate([pair[3] for one in materials for pair in one.pairs])
    certainty = np.concatenate([link for one in materials for link in one.links])
    return round(float(average_precision_score(label[label >= 0], certainty[label >= 0])), 3)
