"""Other stores on the items of a synthetic store: built once and kept, tuned to the same dense recall, and asked.

Each runs in a process of its own (`pipelines.bench.phase`), and gets a question's vector: its search is timed alone,
without embedding, ranking or packing. Helix answers the same questions between its rounds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from helix.errors import StoreError, UsageError
from helix.settings import Settings
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.open import read_table
from helix.types import F32, I64
from pipelines.bench.peers import ENOUGH, PEERS, Corpus, Peer, Searcher, tune
from pipelines.bench.questions import OPEN, Ask
from pipelines.bench.real import texts
from pipelines.bench.store import Report, Say, percentiles, process, rounded

K: Final = 100
"""Rows a peer gives: as many as a leg of Helix."""

_PROJECT: Final = "project 1 %"
_TUNED: Final = 100  # questions whose dense recall the effort is chosen by
ROUNDS: Final = 3
_BLOCK: Final = 50_000


def measure(
    root: Path, asks: Sequence[Ask], names: Sequence[str], wanted: float, settings: Settings, say: Say
) -> Report:
    """Build, tune and ask each peer.

    Args:
        asks: of `questions.draw`; those without a filter are asked, and those within a project of 1 %.
        wanted: dense recall@100 without a filter that each is tuned to, 0 … 1.

    Raises:
        UsageError: no such peer, or its package is missing.
    """
    known([*names])
    chosen = [ask for ask in asks if ask["kind"] in (*OPEN, _PROJECT)]
    place = Path(settings.cache).expanduser() / "bench" / f"peers-{root.name}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {name: _beside(name, root, place / name, chosen, wanted, say) for name in names}


def _beside(name: str, root: Path, folder: Path, asks: list[Ask], wanted: float, say: Say) -> Report:
    """Helix and one peer asked the same in alternate rounds: a machine that slows down slows both down.

    `helix` is of whole recalls of the questions without a filter, `ratio` that of 95th percentiles.
    """
    say(f"peer {name}")
    unfiltered = [ask for ask in asks if ask["kind"] in OPEN]
    theirs: dict[str, list[float]] = {"open": [], "project": []}
    ours: list[float] = []
    with process() as (ask, peak), process() as (helix, _):
        what = {"name": name, "root": str(root), "folder": str(folder), "asks": asks, "wanted": wanted}
        told = ask({"do": "peer", **what})
        if "refused" in told:
            raise UsageError(*told["refused"])
        helix({"do": "open", "root": str(root), "ask": unfiltered[0]})
        for i in range(ROUNDS + 1):
            spent, recalls = ask({"do": "peer_turn"}), helix({"do": "recall", "asks": unfiltered})["recalls"]
            if i:  # the first is to warm up
                theirs = {kind: [*theirs[kind], *spent[kind]] for kind in theirs}
                ours += [one["ms"]["total"] for one in recalls]
        memory = ask({"do": "memory"})
    searched, whole = percentiles(theirs["open"]), percentiles(ours)
    return {
        **searched,
        **({"project": percentiles(theirs["project"])} if theirs["project"] else {}),
        "helix": whole,
        "ratio": round(whole["p95"] / searched["p95"], 3),
        **told,
        "memory_mb": {**rounded(memory), "peak": round(peak["anonymous"], 2)},
    }


def known(names: Sequence[str]) -> None:
    """Whether there are such peers.

    Raises:
        UsageError: one is unknown.
    """
    for name in names:
        if name not in PEERS:
            raise UsageError(f"no peer {name!r}", f"there are {', '.join(PEERS)}")


class Ready(NamedTuple):
    """A peer that is built, tuned and open, and what it is asked."""

    searcher: Searcher
    asks: list[Ask]
    vectors: F32  # float32[asks, 384]
    told: Report  # what the report says of it beside times


def prepare(name: str, root: str, folder: str, asks: Sequence[Ask], wanted: float = ENOUGH) -> Ready:
    """Build one peer where it is not there, open it and tune it.

    Raises:
        UsageError: it takes no so many items, or there is no such peer.
    """
    peer = PEERS[name]()
    snap = Snapshot.open(Path(root))
    whole = corpus(Path(root), snap)
    items = min(whole.n, peer.most_items or whole.n)
    part = Corpus(items, whole.vectors, whole.texts, whole.project)
    built = peer.build(part, Path(folder), _say)
    asked = [ask for ask in asks if peer.filters or not _project(ask)]
    vectors = np.stack([snap.encoder.query(ask["query"]) for ask in asked])
    unfiltered = vectors[[ask["kind"] in OPEN for ask in asked]]
    some = unfiltered[np.linspace(0, len(unfiltered) - 1, min(_TUNED, len(unfiltered))).astype(int)]
    searcher = peer.open(Path(folder))
    tuned = tune(searcher, peer.efforts, some, nearest(part, some, min(K, items)), wanted)
    told = {
        "items": items,
        "dense_recall_at_100": round(tuned.recall, 4),
        "effort": tuned.effort,
        "build": {"seconds": round(built["seconds"], 1), "bytes": built["bytes"]},
        **described(peer),
    }
    return Ready(searcher, asked, vectors, told)


def turn(ready: Ready) -> dict[str, list[float]]:
    """Ask a peer every question once: milliseconds of those of all items, and of those within a project."""
    spent: dict[str, list[float]] = {"open": [], "project": []}
    for vector, ask in zip(ready.vectors, ready.asks, strict=True):
        project = _project(ask)
        began = time.perf_counter()
        ready.searcher.hybrid(vector, ask["query"], K, project)
        spent["project" if project else "open"].append((time.perf_counter() - began) * 1000)
    return spent


def _project(ask: Ask) -> str | None:
    project: str | None = ask["with"].get("project")
    return project


def _say(line: str) -> None:
    """Progress, from a process whose stdout is for answers."""
    sys.stderr.write(f"{line}\n")


def described(peer: Peer) -> dict[str, Any]:
    """What the report says of a peer beside its figures."""
    told = peer.described()
    return {name: told[name] for name in ("versions", "configured", "fuses", "lacks", "knob", "hybrid", "most_items")}


def corpus(root: Path, snap: Snapshot) -> Corpus:
    """The items of a store, row by row, as its own legs index them."""
    _, manifest = ledger.current(root)
    if manifest is None:
        raise StoreError(f"{root} is empty", "make one with 'helix bench recall'")
    columns = ["origin", "speaker", "title", "text", "project"]
    items = pa.concat_tables(
        [read_table(root / "segments" / segment.id / "items.parquet", columns) for segment in manifest.segments]
    )
    return Corpus(
        items.num_rows,
        lambda start, stop: snap.vectors.dequantise(np.arange(start, stop)),
        lambda start, stop: texts(items.slice(start, stop - start)),
        lambda start, stop: items["project"].slice(start, stop - start).to_pylist(),
    )


def nearest(items: Corpus, asked: F32, k: int) -> I64:
    """The k items nearest each of float32[m, d], all looked at: int64[m, k], in no order."""
    scores, rows = np.empty((len(asked), 0), np.float32), np.empty((len(asked), 0), np.int64)
    for start in range(0, items.n, _BLOCK):
        stop = min(start + _BLOCK, items.n)
        scores = np.concatenate((scores, asked @ items.vectors(start, stop).T), axis=1)
        rows = np.concatenate((rows, np.broadcast_to(np.arange(start, stop), (len(asked), stop - start))), axis=1)
        if scores.shape[1] > k:
            best = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, -k:]
            scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows
