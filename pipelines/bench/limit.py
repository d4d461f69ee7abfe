"""The least time of a recall: parts that no recall with this encoder and this index can do without."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from helix.sdk.memory import Memory
from helix.snapshot.index.dense import library
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.types import I64
from pipelines.bench.figures import TURNS, Report, time_call
from pipelines.bench.posed import K, PosedQuestion

_BANDWIDTH: Final = 1 << 29  # bytes read for the measurement of their speed


def measure_bandwidth() -> float:
    """Return the bytes a second that one core reads in sequence, the best of three."""
    numbers = np.ones(_BANDWIDTH // 8, np.uint64)
    return float(numbers.nbytes / min(time_call(numbers.max) for _ in range(3)) * 1000)


def measure_limit(memory: Memory, posed: Sequence[PosedQuestion], profile: HelixProfile) -> Report:
    """Return medians of the whole recall and of its least parts, over the questions and rounds.

    The parts are one run of the ONNX session on the tokenised question, one search of the dense indexes by the library
    alone, and the bytes of `count_bytes_read` at the speed one core reads memory. Recalls and parts alternate by
    rounds, so that a slower machine slows both.
    """
    if not posed:
        return {}
    encoder, rate = memory.snapshot.encoder, measure_bandwidth()
    read = [count_bytes_read(memory, one, profile) for one in posed]
    tokens = [encoder.tokens([encoder.spec.query_prefix + one.query.embedded]) for one in posed]
    feeds = [encoder.feed(ids) for ids in tokens]
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(TURNS):
        spent["total"] += [time_call(memory.recall, one.ask["query"], **one.ask["with"]) for one in posed]
        onnx = [time_call(encoder.run, feed) for feed in feeds]
        library = [time_call(search_raw, one) for one in posed]
        scan = [sum(sizes.values()) / rate * 1000 for sizes in read]
        spent["onnx"], spent["library"], spent["scan"] = spent["onnx"] + onnx, spent["library"] + library, scan
        spent["least"] += [sum(parts) for parts in zip(onnx, library, scan, strict=True)]
    for sizes in read:
        for stage, size in sizes.items():
            spent[f"bytes of {stage}"].append(size)
    medians = {name: statistics.median(values) for name, values in spent.items()}
    return {
        **{name: round(ms, 3) for name, ms in medians.items()},
        "ratio": round(medians["total"] / medians["least"], 2),
    }


def search_raw(one: PosedQuestion) -> None:
    """Search every dense index by the library alone, with its default lists and no filter."""
    parameters: Any = library().SearchParametersIVF
    for block in one.snap.vectors.blocks:
        if block.dense is not None and block.dense.tier == "int8":
            chosen = parameters(nprobe=block.dense.probes)
            block.dense.index.search(one.vector[None, :], K, params=chosen)


def count_bytes_read(memory: Memory, one: PosedQuestion, profile: HelixProfile) -> dict[str, int]:
    """Return the bytes of the store that the other stages have to read, by stage and without columns.

    lexical: all postings of the question's terms, a row number and a frequency each, and the length of each row.
    dense: the codes of the rescored rows.
    graph: the entities of the seeds, and every edge the walk may read.
    rank: the terms in order of each row of the pool and the two turns to either side; its codes and those of the
    adjacent turns.
    diversify: the signatures of the pool. pack: the returned text.
    """
    snap = one.snap
    bundle = memory.recall(one.ask["query"], **one.ask["with"], explain=True)
    keys = np.array([int(entry["id"], 16) for entry in (bundle.trace or {})["candidates"]], np.uint64)
    pool = snap.row_map.by_key(keys)
    adjacent = adjacent_turns(snap, pool)
    window = np.union1d(adjacent, adjacent_turns(snap, adjacent))
    code = len(one.vector) + 4
    seeds = pool[: profile.graph.seeds]
    return {
        "lexical": sum(
            len(rows) * (rows.itemsize + tf.itemsize + 4)
            for term in one.query.terms
            for _, rows, tf in snap.lexical.term(term)
        ),
        "dense": K * code,
        "graph": int(snap.graph.count_entities(seeds).sum()) * 8 + profile.graph.work * 8,
        "rank": int(snap.lexical.length[window].sum()) * 4 + len(adjacent) * code,
        "diversify": len(pool) * snap.row_map.signatures(pool[:1]).nbytes,
        "pack": sum(len(item.text.encode()) for item in bundle.items),
    }


def adjacent_turns(snap: Snapshot, rows: I64) -> I64:
    """Return the rows with those before and after each in its session, ascending."""
    steps = [step[rows].astype(np.int64) for step in (snap.columns.previous, snap.columns.next)]
    every = np.concatenate([rows, *steps])
    return np.unique(every[every >= 0])
