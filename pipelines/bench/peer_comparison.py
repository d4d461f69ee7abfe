"""Other stores on the items of a synthetic store: built once, tuned to the same dense recall, and asked.

Each runs in a process of its own (`pipelines.bench.phase`) and receives a question's vector: its search is timed alone,
without embedding, ranking or packing. Helix answers the same questions between its rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from helix.snapshot.ledger import inbox
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.open import read_table
from helix.types import F32, I64
from pipelines.bench.peers.base import ENOUGH, Corpus, Searcher, tune
from pipelines.bench.peers.registry import check_peer, load_peer
from pipelines.bench.process import Report, Say, percentiles, round_values, start_process, start_reader, time_call
from pipelines.bench.questions import OPEN, Ask
from pipelines.bench.space import index_texts

K: Final = 100
"""Rows of a peer's answer, as many as a leg of Helix has."""

ROUNDS: Final = 3
_PROJECT: Final = "project 1 %"
_TUNED: Final = 100  # questions whose dense recall decides the effort
_BLOCK: Final = 50_000
_DESCRIBED: Final = ("versions", "configured", "fuses", "lacks", "knob", "hybrid", "most_items")


def measure_peers(
    root: Path, asks: Sequence[Ask], names: Sequence[str], wanted: float, settings: Settings, say: Say
) -> Report:
    """Build, tune and ask each peer.

    Args:
        asks: from `draw_questions`; the ones without a filter and those within a project of 1 % are asked.
        wanted: dense recall@100 without a filter that each is tuned to, 0 … 1.

    Raises:
        UsageError: no such peer, or its package is missing.
    """
    for name in names:
        check_peer(name)
    chosen = [ask for ask in asks if ask["kind"] in (*OPEN, _PROJECT)]
    place = Path(settings.cache).expanduser() / "bench" / f"peers-{root.name}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {name: _measure_peer(name, root, place / name, chosen, wanted, say) for name in names}


def _measure_peer(name: str, root: Path, folder: Path, asks: list[Ask], wanted: float, say: Say) -> Report:
    """Ask Helix and one peer the same in alternate rounds, so that a slower machine slows both.

    `helix` covers whole recalls of the questions without a filter, `ratio` is that of 95th percentiles.
    """
    say(f"peer {name}")
    unfiltered = [ask for ask in asks if ask["kind"] in OPEN]
    peer: dict[str, list[float]] = {"open": [], "project": []}
    helix: list[float] = []
    with start_process() as (send, peak):
        arguments = {"name": name, "root": str(root), "folder": str(folder), "asks": asks, "wanted": wanted}
        description = send({"do": "peer", **arguments})
        if "refused" in description:
            raise UsageError(*description["refused"])
        with start_reader(root, unfiltered[0]) as send_helix:
            for i in range(ROUNDS + 1):
                spent, recalls = send({"do": "peer_turn"}), send_helix({"do": "recall", "asks": unfiltered})["recalls"]
                if i:  # the first round warms up
                    peer = {kind: [*peer[kind], *spent[kind]] for kind in peer}
                    helix += [one["ms"]["total"] for one in recalls]
        memory = send({"do": "memory"})
    search, recall = percentiles(peer["open"]), percentiles(helix)
    return {
        **search,
        **({"project": percentiles(peer["project"])} if peer["project"] else {}),
        "helix": recall,
        "ratio": round(recall["p95"] / search["p95"], 3),
        **description,
        "memory_mb": {**round_values(memory), "peak": round(peak["anonymous"], 2)},
    }


class PreparedPeer(NamedTuple):
    """A built, tuned and open peer, and its questions."""

    searcher: Searcher
    asks: list[Ask]
    vectors: F32  # float32[asks, 384]
    description: Report  # for the report, without times


def prepare_peer(name: str, root: str, folder: str, asks: Sequence[Ask], wanted: float = ENOUGH) -> PreparedPeer:
    """Build one peer unless it exists, open it and tune it.

    Raises:
        UsageError: no such peer, its package is missing, or it does not accept so many items.
    """
    peer = load_peer(name)
    snap = Snapshot.open(Path(root))
    whole = read_corpus(Path(root), snap)
    items = min(whole.n, peer.most_items or whole.n)
    corpus = Corpus(items, whole.vectors, whole.texts, whole.project)
    built = peer.build(corpus, Path(folder), _say)
    accepted = [ask for ask in asks if peer.filters or not _find_project(ask)]
    vectors = np.stack([snap.encoder.query(ask["query"]) for ask in accepted])
    unfiltered = vectors[[ask["kind"] in OPEN for ask in accepted]]
    sample = unfiltered[np.linspace(0, len(unfiltered) - 1, min(_TUNED, len(unfiltered))).astype(int)]
    searcher = peer.open(Path(folder))
    tuning = tune(searcher, peer.efforts, sample, find_nearest(corpus, sample, min(K, items)), wanted)
    values = peer.describe()
    description = {
        "items": items,
        "dense_recall_at_100": round(tuning.recall, 4),
        "effort": tuning.effort,
        "build": {"seconds": round(built["seconds"], 1), "bytes": built["bytes"]},
        **{name: values[name] for name in _DESCRIBED},
    }
    return PreparedPeer(searcher, accepted, vectors, description)


def ask_peer(peer: PreparedPeer) -> dict[str, list[float]]:
    """Ask a peer every question once; return the milliseconds over all items, and within a project."""
    spent: dict[str, list[float]] = {"open": [], "project": []}
    for vector, ask in zip(peer.vectors, peer.asks, strict=True):
        project = _find_project(ask)
        took = time_call(peer.searcher.hybrid, vector, ask["query"], K, project)
        spent["project" if project else "open"].append(took)
    return spent


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")  # stdout is for answers


def _find_project(ask: Ask) -> str | None:
    project: str | None = ask["with"].get("project")
    return project


def read_corpus(root: Path, snap: Snapshot) -> Corpus:
    """Return the items of a store, row by row, as its own legs index them. Raises StoreError if the store is empty."""
    _, manifest = inbox.load_current(root)
    if manifest is None:
        raise StoreError(f"{root} is empty", "make one with 'helix bench recall'")
    columns = ["origin", "speaker", "title", "text", "project"]
    items: Any = pa.concat_tables(
        [read_table(root / "segments" / segment.id / "items.parquet", columns) for segment in manifest.segments]
    )
    return Corpus(
        items.num_rows,
        lambda start, stop: snap.vectors.dequantise(np.arange(start, stop)),
        lambda start, stop: index_texts(items.slice(start, stop - start)),
        lambda start, stop: items["project"].slice(start, stop - start).to_pylist(),
    )


def find_nearest(items: Corpus, queries: F32, k: int) -> I64:
    """Return the k nearest items to each of float32[m, d] by exact search: int64[m, k], unordered."""
    scores, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for start in range(0, items.n, _BLOCK):
        stop = min(start + _BLOCK, items.n)
        scores = np.concatenate((scores, queries @ items.vectors(start, stop).T), axis=1)
        rows = np.concatenate((rows, np.broadcast_to(np.arange(start, stop), (len(queries), stop - start))), axis=1)
        if scores.shape[1] > k:
            best = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
            scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows
