"""Training the retention model of the recipe `engram` on a store's access events, and publishing it.

A positive is an item that an event names as used, helpful or fetched, in its state at that time. A negative is an item
without such events, in its state at the same time. Events hold no question, so the turn before an item replaces the
question it answered. The model is an index of its own that generations pass on, like the router.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from helix.errors import StoreError
from helix.recipes.engram import EngramDecay
from helix.recipes.engram_formulas import age_days, decay
from helix.recipes.engram_retention import FILE, KIND, Perceptron, build_features, dump, index_of
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.snapshot import writer
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import AccessTimes
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.types import F32, I64, TYPES, U32, Bool
from helix.util.failpoints import failpoint

FEWEST: Final = 50
"""Least useful items to train on: 200 weights learn nothing from fewer."""

MOST: Final = 5_000
"""Most useful items, the latest, to train on: seconds of work."""

NEGATIVES: Final = 4  # drawn for each positive; both classes have the same weight
HIDDEN: Final = 16
STRENGTH: Final = 0.01  # of the L2 penalty
STEPS: Final = 500
SEED: Final = 0
GROWTH: Final = 1.2  # factor on the useful items of the last training at which the next is due


@dataclass(frozen=True, slots=True)
class Trained:
    """The outcome of a run. `off` tells why no new model was published."""

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
    rows, access = find_useful(snap)
    if len(rows) < FEWEST:
        return Trained(snap.generation, len(rows), off=f"{len(rows)} items were useful, {FEWEST} are needed")
    fading: EngramDecay = load("engram").decay
    x, y = make_examples(snap, rows, access, fading)
    negatives = int(np.count_nonzero(y == 0))
    if negatives < FEWEST:
        return Trained(snap.generation, len(rows), off="too few items were never useful to tell the two kinds apart")
    model = fit_model(x, y, fading)
    if isinstance(model, str):
        return Trained(snap.generation, len(rows), negatives, model)
    failpoint("retention.trained")
    return _publish(root, snap, dump(model), Trained(0, len(rows), negatives), settings)


def is_due(root: Path) -> bool:
    """Return whether enough items were useful since the last training, by the folded events in the manifest."""
    _, manifest = inbox.load_current(root)
    if manifest is None or manifest.access is None:
        return False
    known = index_of(manifest)
    before = int(known.params["accessed"]) if known else 0
    return manifest.access.rows >= max(FEWEST, GROWTH * before)


def find_useful(snap: Snapshot) -> tuple[I64, AccessTimes]:
    """Return the live rows that events name as useful, the latest `MOST`, by key, with their times and counts.

    Raises:
        StoreError: an events file cannot be read.
    """
    if snap.manifest is None:
        return np.empty(0, np.int64), access_events.NO_ACCESS
    news = access_events.read_events(snap.root, snap.manifest.watermarks.get("events", {}))
    known = access_events.combine_access([access_events.load_access(snap.root, snap.manifest.access), news.access])
    rows = snap.row_map.by_key(known.key)
    latest = np.lexsort((known.key, -known.last, rows < 0))[: min(MOST, int(np.count_nonzero(rows >= 0)))]
    chosen = np.sort(latest)  # by key, as the events are
    return rows[chosen], AccessTimes(known.key[chosen], known.last[chosen], known.count[chosen])


def make_examples(snap: Snapshot, rows: I64, access: AccessTimes, fading: EngramDecay) -> tuple[F32, Bool]:
    """Return the features of the positives, each once for every negative of it, and of the negatives.

    The store retains the time of the last access and the count. So a positive has one access less, and its previous
    access is dated as if accesses were spaced evenly since the item.

    Returns:
        (float32[n, 10], bool[n]: true for positives).
    """
    own = np.where(snap.columns.time != NO_TIME, snap.columns.time, snap.columns.t_ingested)
    unused, moment = _draw_negatives(snap, rows, access, own)
    positive = np.repeat(np.arange(len(rows)), NEGATIVES)[unused >= 0]
    unused, moment = unused[unused >= 0], moment[unused >= 0]

    questions = _read_questions(snap, rows)[positive]
    first = np.minimum(own[rows], access.last)
    before = first + ((access.last - first) * (1 - 1 / access.count)).astype(np.int64)
    used = _make_features(snap, rows[positive], questions, access.count[positive] - 1, before[positive], moment, fading)
    not_used = _make_features(snap, unused, questions, np.zeros(len(unused), np.uint32), own[unused], moment, fading)
    return np.concatenate([used, not_used]), np.arange(2 * len(unused)) < len(unused)


def _draw_negatives(snap: Snapshot, rows: I64, access: AccessTimes, own: I64) -> tuple[I64, I64]:
    """Draw `NEGATIVES` unused rows for each positive that existed when it was useful.

    Returns:
        (rows, −1 for none; times in seconds).
    """
    never = snap.alive.copy()
    never[rows] = False
    never[snap.catalog.access_count > 0] = False  # useful once, though not among the latest
    idle = np.flatnonzero(never)
    idle = idle[np.lexsort((snap.columns.key[idle], own[idle]))]  # by key within a second, independent of row numbers
    moment = np.repeat(access.last, NEGATIVES)
    present = np.searchsorted(own[idle], moment, side="right")
    drawn = (np.random.default_rng(SEED).random(len(moment)) * present).astype(np.int64)
    padded = np.append(idle, -1)
    return np.where(present > 0, padded[np.minimum(drawn, len(idle))], -1), moment


def _read_questions(snap: Snapshot, rows: I64) -> F32:
    """Return the vector of the turn before each item, or after it, or the mean of all: float32[n, d]."""
    columns = snap.columns
    neighbour = np.where(columns.previous[rows] >= 0, columns.previous[rows], columns.next[rows])
    found = snap.vectors.dequantise(np.maximum(neighbour, 0))
    return np.where(neighbour[:, None] >= 0, found, snap.vectors.centroids[-1])


def _make_features(
    snap: Snapshot, rows: I64, questions: F32, count: U32, last: I64, moment: I64, fading: EngramDecay
) -> F32:
    """Return the features of rows, each in its state at a moment: float32[n, 10].

    Args:
        questions: float32[n, d], in place of the questions.
        count, last: accesses until then, and the time of the last one, seconds.
    """
    columns, found = snap.columns, snap.vectors.dequantise(rows)
    length = np.linalg.norm(found, axis=1) * np.linalg.norm(questions, axis=1)
    cosine = np.einsum("nd,nd->n", found, questions) / np.maximum(length, 1e-9)
    age = age_days(last, moment)
    left = decay(age, columns.type[rows] == TYPES.index("episodic"), fading.rate, fading.half_life, fading.floor)
    return build_features(cosine, columns.salience[rows], count, age, columns.type[rows], left)


def fit_model(x: F32, y: Bool, fading: EngramDecay) -> Perceptron | str:
    """Fit a network with one hidden layer by L-BFGS, deterministically; or return why it cannot be trained."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    mean, deviation = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0, deviation, 1.0)
    network = MLPClassifier((HIDDEN,), solver="lbfgs", alpha=STRENGTH, max_iter=STEPS, random_state=SEED)
    with threadpool_limits(1), warnings.catch_warnings():  # one thread: a fixed order of sums
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is a limit
        network.fit((x - mean) / scale, y)
    (hidden, output), (hidden_bias, output_bias) = network.coefs_, network.intercepts_
    made_with = [fading.rate, fading.half_life, fading.floor]
    arrays = (x.min(axis=0), x.max(axis=0), mean, scale, hidden, hidden_bias, output[:, 0], output_bias[0], made_with)
    return Perceptron(*(np.asarray(array, np.float32) for array in arrays))


def _publish(root: Path, snap: Snapshot, data: bytes, done: Trained, settings: Settings) -> Trained:
    """Publish a generation with the model, unless it equals the current one."""
    with writer.acquire_lock(root, settings.lock_wait) as held:
        name, manifest = inbox.load_current(root)
        if manifest is None or snap.manifest is None or manifest.lineage != snap.manifest.lineage:
            raise StoreError(f"{root} was reindexed meanwhile", "run the command again")
        before = index_of(manifest)
        if before and before.files[0].sha256 == hashlib.sha256(data).hexdigest():
            return replace(done, generation=manifest.generation, off="the current model is the same")
        accessed = manifest.access.rows if manifest.access else 0
        params = {"positives": done.positives, "negatives": done.negatives, "accessed": accessed}
        index = writer.write_index(root, KIND, {FILE: data}, params)
        failpoint("retention.index")
        others = (other for other in manifest.indexes if other.kind != KIND)
        new = writer.build_next(held, name, manifest, indexes=(*others, index))
        writer.publish_generation(held, new)
        failpoint("retention.published")
        return replace(done, generation=new.generation)
