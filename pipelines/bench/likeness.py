"""Real and synthetic vectors compared: spectrum and cosines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from helix.snapshot.reader.snapshot import Snapshot
from helix.types import Bool
from pipelines.bench.figures import Report
from pipelines.bench.posed import K
from pipelines.bench.real import FILE

_SAMPLED: Final = 2_000  # items of either kind, in whole sessions


def compare_vectors(root: Path, snap: Snapshot) -> Report:
    """Return the statistics of real and of synthetic vectors."""
    import pyarrow.parquet as pq

    ids = pq.read_table(root / FILE, columns=["id"])["id"].to_pylist()
    rows = snap.row_map.by_key(np.array([int(each, 16) for each in ids], np.uint64))
    is_real: Bool = np.zeros(snap.rows, bool)
    is_real[rows[rows >= 0]] = True
    rng = np.random.default_rng(0)
    report = {}
    for name, mask in (("real", is_real), ("synthetic", ~is_real)):
        sessions = rng.permutation(np.unique(snap.columns.session[mask]))
        size = np.bincount(snap.columns.session[mask], minlength=len(snap.sessions))[sessions]
        chosen = sessions[: max(1, int(np.searchsorted(np.cumsum(size), _SAMPLED)))]
        sample = np.flatnonzero(mask & np.isin(snap.columns.session, chosen))[:_SAMPLED]
        if len(sample) > K:
            report[name] = describe_vectors(snap.vectors.dequantise(sample), rng)
    return report


def describe_vectors(vectors: npt.NDArray[np.float32], rng: np.random.Generator) -> Report:
    """Describe unit vectors, float32[n > 100, d].

    Returns:
        variance: its share along the first 10, 50 and 100 principal axes. pairs: percentiles 5, 50 and 95 of the
        cosines of random pairs. neighbour: medians of the cosine to the 1st, 10th and 100th nearest.
    """
    a, b = rng.integers(len(vectors), size=(2, 20_000))
    pairs = (vectors[a] * vectors[b]).sum(axis=1)[a != b]
    widths = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    cosines.sort(axis=1)
    return {
        "variance": {str(n): round(float(widths[:n].sum() / widths.sum()), 3) for n in (10, 50, 100)},
        "pairs": {str(p): round(float(np.percentile(pairs, p)), 3) for p in (5, 50, 95)},
        "neighbour": {str(n): round(float(np.median(cosines[:, -n])), 3) for n in (1, 10, 100)},
    }
