"""Recall of the legs against exact search of all rows; recall against effort, the least time, and the vectors."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from helix.errors import StoreError
from helix.question.build import build_query
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.recipes.common import begin, begin_embedding
from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load as load_profile
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.index.dense import load_faiss
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.stages.trace import Trace
from helix.types import F32, I64, Bool, Plan, Query, RecallOptions
from pipelines.bench.process import TURNS, Report, Say, percentiles, time_call
from pipelines.bench.questions import KINDS, OPEN, Ask
from pipelines.bench.space import FILE

K: Final = 100
"""Compared rows of a leg."""


class PosedQuestion(NamedTuple):
    """A question after stages 1 and 2."""

    ask: Ask
    query: Query
    vector: F32
    snap: Snapshot  # the principal's view
    plan: Plan


def pose_question(memory: Memory, ask: Ask, profile: HelixProfile) -> PosedQuestion:
    """Run stages 1 and 2. Raises StoreError if the store has no encoder."""
    arguments = dict(ask["with"])
    snap = memory.snapshot.seen_by(arguments.get("principal"))
    query = build_query(ask["query"], snap, memory.settings, RecallOptions(**arguments))
    query = add_search_terms(query, snap, profile.ask)
    trace = Trace()
    vector, plan = begin(query, snap, trace, begin_embedding(query.embedded, snap, trace))
    if vector is None:
        raise StoreError(f"the encoder of {memory.root} is missing", "make the store again")
    return PosedQuestion(ask, query, vector, snap, plan)


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


def describe_vectors(vectors: F32, rng: np.random.Generator) -> Report:
    """Describe unit vectors, float32[n > 100, d].

    variance: share along the first 10, 50 and 100 principal axes. pairs: percentiles 5, 50 and 95 of the cosines of
    random pairs. neighbour: medians of the cosine to the 1st, 10th and 100th nearest.
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
    libraries = open_libraries(memory.snapshot)
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(TURNS):
        spent["total"] += [time_call(memory.recall, one.ask["query"], **one.ask["with"]) for one in posed]
        onnx = [time_call(encoder.run, feed) for feed in feeds]
        library = [time_call(search_raw, libraries, one) for one in posed]
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


def open_libraries(snap: Snapshot) -> list[tuple[Any, Any]]:
    """Open the dense indexes of 4-bit codes by FAISS; return each with its parameters of a search."""
    faiss = load_faiss()
    opened = []
    for index in snap.files.indexes:
        if index.kind == "dense" and index.params.get("tier") == "int8":
            path = snap.files.root / "indexes" / index.id / "dense" / "ivf.faiss"
            chosen = faiss.SearchParametersIVF(nprobe=int(index.params["probes"]))
            opened.append((faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY), chosen))
    return opened


def search_raw(libraries: Sequence[tuple[Any, Any]], one: PosedQuestion) -> None:
    """Search every dense index by FAISS alone, with its default lists and no filter."""
    for index, chosen in libraries:
        index.search(one.vector[None, :], K, params=chosen)


def count_bytes_read(memory: Memory, one: PosedQuestion, profile: HelixProfile) -> dict[str, int]:
    """Return the bytes of the store that the other stages have to read, by stage and without columns.

    lexical: all postings of the question's terms, a row number and a frequency each, and the length of each row. dense:
    the codes of the rescored rows. graph: the entities of the seeds, and every edge the walk may read. rank: the terms
    in order of each row of the pool and the two turns to either side; its codes and those of the adjacent turns.
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


_COMPARED: Final = 200  # questions
_BLOCK: Final = 32_768  # rows scored at a time
_CLOSE: Final = 1e-5  # relative difference of equal scores: the order of summands differs


def compare_legs(root: Path, asks: Sequence[Ask], settings: Settings, say: Say) -> Report:
    """Measure recall@100 of each leg, recall against effort, the least time, and the likeness of the vectors.

    Raises:
        StoreError: the store has no encoder, or the default profile has another recipe.
    """
    profile = load_profile("helix", settings.profiles)
    if not isinstance(profile, HelixProfile):
        raise StoreError("the profile 'helix' has another recipe", "unset HELIX_PROFILES")
    memory = Memory(root, replace(settings, answers=0))
    sample = [asks[i] for i in np.linspace(0, len(asks) - 1, min(_COMPARED, len(asks))).astype(int).tolist()]
    posed = [pose_question(memory, ask, profile) for ask in sample]
    say(f"comparing the legs of {len(posed)} questions with exact search")
    least_scores = find_least_scores(posed, K)
    near = [measure_dense(one, least) for one, least in zip(posed, least_scores, strict=True)]
    words = [measure_lexical(one, profile) for one in posed]
    kinds = [one.ask["kind"] for one in posed]
    rows = {kind: [one.plan.allowed_rows for one in posed if one.ask["kind"] == kind] for kind in KINDS}
    unfiltered = [(one, least) for one, least in zip(posed, least_scores, strict=True) if one.ask["kind"] in OPEN]
    say("recall against effort, and the distance to the limit")
    return {
        "recall_at_100": {"dense": _mean(near), "bm25": _mean(words)},
        "recall_unfiltered": _mean([share for share, kind in zip(near, kinds, strict=True) if kind in OPEN]),
        "recall_by_kind": {
            kind: {"dense": _mean(near, kinds, kind), "bm25": _mean(words, kinds, kind)}
            for kind in dict.fromkeys(kinds)
        },
        "allowed_rows": {kind: round(statistics.mean(counts)) for kind, counts in rows.items() if counts},
        "effort": measure_effort(unfiltered),
        "limit": measure_limit(memory, [one for one, _ in unfiltered], profile),
        "vectors": compare_vectors(root, memory.snapshot),
    }


def _mean(shares: Sequence[float], kinds: Sequence[str] = (), kind: str = "") -> float:
    chosen = [share for i, share in enumerate(shares) if not kind or kinds[i] == kind]
    return round(statistics.mean(chosen), 4)


def find_least_scores(posed: Sequence[PosedQuestion], k: int) -> list[float]:
    """Return the score of each question's k-th best allowed row by int8 codes; −inf for fewer rows."""
    if not posed:
        return []
    vectors = np.stack([one.vector for one in posed])
    best = np.full((len(posed), k), -np.inf, np.float32)
    for block in posed[0].snap.vectors.blocks:
        for start in range(0, len(block.codes), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(block.codes)))
            scores = vectors @ (block.codes[part] * block.scale[part, None]).T
            for i, one in enumerate(posed):
                if one.plan.allowed is not None:
                    scores[i, ~one.plan.allowed[block.start + part.start : block.start + part.stop]] = -np.inf
            both = np.concatenate([best, scores], axis=1)
            best = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return [float(row.min()) for row in best]


def measure_dense(one: PosedQuestion, least: float) -> float:
    """Return recall@K of the dense leg; `least` is the score of the K-th best row."""
    leg = search_dense(one.vector, one.snap, one.plan, K)
    return _rate(one.snap.vectors.dequantise(np.unique(leg.rows)) @ one.vector, least, min(K, one.plan.allowed_rows))


def measure_lexical(one: PosedQuestion, profile: HelixProfile) -> float:
    """Return recall@K of the lexical leg."""
    k1, b = profile.retrieve.k1, profile.retrieve.b
    scores = score_all(one.query, one.snap, one.plan, k1, b)
    leg = search_lexical(one.query, one.snap.lexical, one.plan, K, k1, b)
    matching = int(np.count_nonzero(scores))
    least = float(np.partition(scores, -K)[-K]) if matching > K else 0.0
    return _rate(scores[np.unique(leg.rows)], least, min(K, matching))


def _rate(scores: F32, least: float, wanted: int) -> float:
    """Return the share of the `wanted` best rows among those of these exact scores; any of equal rows counts."""
    return min(int(np.count_nonzero(scores >= least - _CLOSE * max(1.0, abs(least)))) / wanted, 1.0) if wanted else 1.0


def score_all(query: Query, snap: Snapshot, plan: Plan, k1: float, b: float) -> F32:
    """Return BM25 of every allowed row from all postings: float32[rows]; 0 for a row without the terms."""
    scores = np.zeros(snap.rows, np.float32)
    for term in query.terms:
        rows, tf = snap.lexical.postings(term)
        if len(rows):
            weight = np.float32(compute_idf(len(rows), snap.live))
            scores[rows] += weight * saturate_tf(tf, snap.lexical.length[rows], snap.lexical.mean_length, k1, b)
    return scores if plan.allowed is None else np.where(plan.allowed, scores, np.float32(0)).astype(np.float32)


def measure_effort(compared: Sequence[tuple[PosedQuestion, float]]) -> list[dict[str, float]]:
    """Measure recall@K and milliseconds of the indexes by the probed lists; `default` marks the usual number.

    Args:
        compared: questions without a filter, each with the score of its K-th best row.
    """
    points = []
    indexes = [block.dense for block in compared[0][0].snap.vectors.blocks if block.dense] if compared else []
    if not indexes:  # a small store is scanned
        return []
    usual = indexes[0].probes
    for probes in sorted({max(1, usual * factor // 16) for factor in (1, 2, 4, 8, 16, 32, 64)}):
        spent, shares = [], []
        for one, least in compared:
            rows = _search_indexes(one, probes)
            spent.append(min(time_call(_search_indexes, one, probes) for _ in range(2)))
            shares.append(_rate(one.snap.vectors.dequantise(rows) @ one.vector, least, min(K, one.plan.allowed_rows)))
        points.append({"probes": probes, "default": probes == usual, "recall": _mean(shares), **percentiles(spent)})
    return points


def _search_indexes(one: PosedQuestion, probes: int) -> I64:
    """Return the K best rows of the indexes with this number of probes, rescored: int64[≤ K]."""
    rows, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for block in one.snap.vectors.blocks:
        if block.dense is None:
            continue
        allowed = None if one.plan.allowed is None else one.plan.allowed[block.start : block.start + len(block.codes)]
        local = replace(block.dense, probes=probes).search(one.vector, K, allowed)
        rows.append(block.start + local)
        scores.append((block.codes[local] @ one.vector) * block.scale[local])
    every, score = np.concatenate(rows), np.concatenate(scores)
    return every[np.argsort(-score, kind="stable")[:K]]
