"""Training the retention model of the recipe `engram` on a store's own access events, and publishing it.

A positive is an item that an event names as used, helpful or fetched, as it was when that happened; a negative is one
that none does, as it was at the same moment. Events keep no question, so the turn before an item stands in for the one
that it answered. The model is an index of its own, handed on from generation to generation as the router is.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from helix.errors import StoreError
from helix.recipes.engram import Decay
from helix.recipes.engram_formulas import age_days, decay
from helix.recipes.engram_retention import FILE, KIND, Perceptron, dump, features, index_of
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot import writer
from helix.snapshot.ledger import access_events as events
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.ledger.access_events import Access
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.types import F32, I64, TYPES, U32, Bool
from helix.util.failpoints import failpoint

FEWEST: Final = 50
"""Items of use below which nothing is trained: 200 weights learn nothing from less."""

MOST: Final = 5_000
"""Items of use, the latest, that are trained on: seconds of work."""

NEGATIVES: Final = 4  # drawn for each positive; both classes weigh the same
HIDDEN: Final = 16
STRENGTH: Final = 0.01  # of the L2 penalty
STEPS: Final = 500
SEED: Final = 0
GROWTH: Final = 1.2  # so many times the items of use of the last training, and another one is due


@dataclass(frozen=True, slots=True)
class Trained:
    """What one run did. `off` says why nothing new was published."""

    generation: int
    positives: int
    negatives: int = 0
    off: str = ""


def train(root: Path, settings: Settings) -> Trained:
    """Fit the model to the events of the current generation, folded or not, and publish it.

    Raises:
        StoreError: there is no store, it is damaged or cannot be written, or it was reindexed meanwhile.
    """
    failpoint("retention.begin")
    snap = Snapshot.open(root)
    if snap.manifest is None:
        return Trained(0, 0, off="nothing is published yet")
    rows, access = of_use(snap)
    if len(rows) < FEWEST:
        return Trained(snap.generation, len(rows), off=f"{len(rows)} items were of use, {FEWEST} are needed")
    fading: Decay = load("engram").decay
    x, y = examples(snap, rows, access, fading)
    negatives = int(np.count_nonzero(y == 0))
    if negatives < FEWEST:
        return Trained(
            snap.generation, len(rows), off="hardly an item was never of use: there is nothing to tell apart"
        )
    model = fit(x, y, fading)
    if isinstance(model, str):
        return Trained(snap.generation, len(rows), negatives, model)
    failpoint("retention.trained")
    return _publish(root, snap, dump(model), Trained(0, len(rows), negatives), settings)


def due(root: Path) -> bool:
    """Whether enough items were of use since the last training, by what is folded: reads the manifest alone."""
    _, manifest = ledger.current(root)
    if manifest is None or manifest.access is None:
        return False
    known = index_of(manifest)
    before = int(known.params["accessed"]) if known else 0
    return manifest.access.rows >= max(FEWEST, GROWTH * before)


def of_use(snap: Snapshot) -> tuple[I64, Access]:
    """The live rows that an event of use names, the latest `MOST`, by key; and when and how often each was.

    Raises:
        StoreError: an events file cannot be read.
    """
    if snap.manifest is None:
        return np.empty(0, np.int64), events.NOTHING
    news = events.read(snap.root, snap.manifest.watermarks.get("events", {}))
    known = events.combine([events.load_access(snap.root, snap.manifest.access), news.access])
    rows = snap.row_map.by_key(known.key)
    latest = np.lexsort((known.key, -known.last, rows < 0))[: min(MOST, int(np.count_nonzero(rows >= 0)))]
    kept = np.sort(latest)  # by key, as the events are
    return rows[kept], Access(known.key[kept], known.last[kept], known.count[kept])


def examples(snap: Snapshot, rows: I64, access: Access, fading: Decay) -> tuple[F32, Bool]:
    """Features of the positives, each as often as it has negatives, and of the negatives.

    Of an access all that is kept is the last and how many there were. So a positive is shown with one access less, and
    the one before where it is to be expected if they came evenly since the item itself.

    Returns:
        (float32[n, 10], bool[n]: whether it was of use).
    """
    own = np.where(snap.columns.time != NO_TIME, snap.columns.time, snap.columns.t_ingested)
    unused, moment = _negatives(snap, rows, access, own)
    positive = np.repeat(np.arange(len(rows)), NEGATIVES)[unused >= 0]
    unused, moment = unused[unused >= 0], moment[unused >= 0]

    asked = _questions(snap, rows)[positive]
    first = np.minimum(own[rows], access.last)
    before = first + ((access.last - first) * (1 - 1 / access.count)).astype(np.int64)
    used = _shown(snap, rows[positive], asked, access.count[positive] - 1, before[positive], moment, fading)
    not_used = _shown(snap, unused, asked, np.zeros(len(unused), np.uint32), own[unused], moment, fading)
    return np.concatenate([used, not_used]), np.arange(2 * len(unused)) < len(unused)


def _negatives(snap: Snapshot, rows: I64, access: Access, own: I64) -> tuple[I64, I64]:
    """(`NEGATIVES` rows for each positive that nobody used and that were there when it was of use, −1 where there are
    none; when that was, seconds).
    """
    never = snap.alive.copy()
    never[rows] = False
    never[snap.catalog.access_count > 0] = False  # of use once, though not among the latest
    idle = np.flatnonzero(never)
    idle = idle[np.lexsort((snap.columns.key[idle], own[idle]))]  # by key within a moment: whatever the row numbers
    moment = np.repeat(access.last, NEGATIVES)
    there = np.searchsorted(own[idle], moment, side="right")
    drawn = (np.random.default_rng(SEED).random(len(moment)) * there).astype(np.int64)
    padded = np.append(idle, -1)
    return np.where(there > 0, padded[np.minimum(drawn, len(idle))], -1), moment


def _questions(snap: Snapshot, rows: I64) -> F32:
    """float32[n, d]: the turn before an item, in place of the question it answered; or after it, or the mean of all."""
    columns = snap.columns
    neighbour = np.where(columns.previous[rows] >= 0, columns.previous[rows], columns.next[rows])
    found = snap.vectors.dequantise(np.maximum(neighbour, 0))
    return np.where(neighbour[:, None] >= 0, found, snap.vectors.centroids[-1])


def _shown(snap: Snapshot, rows: I64, asked: F32, count: U32, last: I64, moment: I64, fading: Decay) -> F32:
    """Features of rows as they were at a moment each: float32[n, 10].

    Args:
        asked: float32[n, d], in place of the question.
        count, last: accesses until then, and the last of them, seconds.
    """
    columns, found = snap.columns, snap.vectors.dequantise(rows)
    length = np.linalg.norm(found, axis=1) * np.linalg.norm(asked, axis=1)
    cosine = np.einsum("nd,nd->n", found, asked) / np.maximum(length, 1e-9)
    age = age_days(last, moment)
    left = decay(age, columns.type[rows] == TYPES.index("episodic"), fading.rate, fading.half_life, fading.floor)
    return features(cosine, columns.salience[rows], count, age, columns.type[rows], left)


def fit(x: F32, y: Bool, fading: Decay) -> Perceptron | str:
    """A network of one hidden layer by L-BFGS, the same for the same examples; or why it cannot be trained here."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0, deviation, 1.0)
    network = MLPClassifier((HIDDEN,), solver="lbfgs", alpha=STRENGTH, max_iter=STEPS, random_state=SEED)
    with threadpool_limits(1), warnings.catch_warnings():  # one thread: the sums come in one order
        warnings.simplefilter("ignore", ConvergenceWarning)  # the steps are meant as a limit
        network.fit((x - mean) / scale, y)
    (hidden, output), (hidden_bias, output_bias) = network.coefs_, network.intercepts_
    made_with = [fading.rate, fading.half_life, fading.floor]
    arrays = (x.min(axis=0), x.max(axis=0), mean, scale, hidden, hidden_bias, output[:, 0], output_bias[0], made_with)
    return Perceptron(*(np.asarray(array, np.float32) for array in arrays))


def _publish(root: Path, snap: Snapshot, data: bytes, done: Trained, settings: Settings) -> Trained:
    """A generation with the model in place of the one before; none where it is the same."""
    with writer.lock(root, settings.lock_wait) as held:
        name, manifest = ledger.current(root)
        if manifest is None or snap.manifest is None or manifest.lineage != snap.manifest.lineage:
            raise StoreError(f"{root} was reindexed meanwhile", "run the command again")
        before = index_of(manifest)
        if before and before.files[0].sha256 == hashlib.sha256(data).hexdigest():
            return replace(done, generation=manifest.generation, off="the model in force is this very one")
        accessed = manifest.access.rows if manifest.access else 0
        params = {"positives": done.positives, "negatives": done.negatives, "accessed": accessed}
        index = writer.write_index(root, KIND, {FILE: data}, params)
        failpoint("retention.index")
        others = (other for other in manifest.indexes if other.kind != KIND)
        new = writer.following(held, name, manifest, indexes=(*others, index))
        writer.publish(held, new)
        failpoint("retention.published")
        return replace(done, generation=new.generation)
