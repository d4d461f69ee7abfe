"""What a recall costs: by stage, by kind of question, by number of clients, and how far it is from what it must cost.

One client asks every question in several rounds, each round in another order, in a fresh process that has answered
them all once before. What is exact is measured against looking at everything.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from helix.errors import StoreError
from helix.question.build import build_query
from helix.ranking.bm25 import compute_idf, saturate_tf
from helix.recipes.common import begin
from helix.recipes.default import add_search_terms
from helix.recipes.load_profile import load as load_profile
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.index.dense import library
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile
from helix.stages.dense import search_dense
from helix.stages.lexical import search_lexical
from helix.stages.trace import Trace
from helix.types import F32, I64, Bool, Plan, Query, RecallOptions
from helix.util.version import VERSION
from pipelines.bench import against, questions
from pipelines.bench.peers import ENOUGH
from pipelines.bench.questions import FILTERED, KINDS, OPEN, Ask
from pipelines.bench.real import FILE
from pipelines.bench.store import Report, Say, drop_caches, marker, opening, percentiles, process, rounded

QUESTIONS: Final = 540
ROUNDS: Final = 5
CLIENTS: Final = (1, 2, 4, 8)
Worker = Callable[[dict[str, Any]], dict[str, Any]]

K: Final = 100
"""Rows of a leg that are compared."""

_OPENED: Final = 3  # times a store is opened anew
_WARM: Final = 60  # questions before each round
_BY_CLIENTS: Final = 400  # questions that so many clients ask together, each turn
_COMPARED: Final = 200  # questions whose legs are compared with looking at everything
_BLOCK: Final = 32_768  # rows scored at a time
_CLOSE: Final = 1e-5  # scores that differ by less are the same: sums are added up in another order
_SAMPLED: Final = 2_000  # items that neighbours are looked for among
_TURNS: Final = 3  # of what is compared: numbers of clients, recalls and the parts they cannot do without
_BANDWIDTH: Final = 1 << 29  # bytes read to measure how fast they are read


def measure(
    root: Path,
    settings: Settings,
    say: Say,
    *,
    n: int = QUESTIONS,
    rounds: int = ROUNDS,
    peers: Sequence[str] = (),
) -> Report:
    """Every figure of the recall of a store that `pipelines.bench.store.build` made.

    Args:
        n: questions.
        rounds: how often each is asked.
        peers: other stores that are asked, too (`pipelines.bench.peers`).

    Raises:
        StoreError: there is no such store, or it cannot be read.
        UsageError: no such peer, or its package is missing.
    """
    found, (_, manifest) = marker(root), ledger.current(root)
    if found is None or manifest is None:
        raise StoreError(f"{root} is no synthetic store", "make one with 'helix bench recall'")
    asks = questions.draw(root, found["seed"], n)
    report: Report = {
        "items": found["items"],
        "seed": found["seed"],
        "real": found["real"],
        "questions": len(asks),
        "rounds": rounds,
        "machine": {**machine(), "encoder": manifest.lineage.name},
        "build": _build(found),
    }
    say("opening")
    report["open_ms"] = _open(root, asks)
    say(f"asking {len(asks)} questions in {rounds} rounds")

    def clients() -> Report:
        say(f"asking by {', '.join(map(str, CLIENTS))} clients")
        return {"clients": _processes(root, asks)}

    between: list[Callable[[], Report]] = [
        lambda: {"repeated": _repeated(root, asks)},
        clients,
        lambda: {"threads": _threads(root, asks)},
        lambda: _compared(root, asks, settings, say),
    ]
    report |= _one_client(root, asks, rounds, between)
    report["peers"] = against.measure(root, asks, peers, min(ENOUGH, report["recall_unfiltered"]), settings, say)
    return report


def machine() -> dict[str, Any]:
    """What it was measured on."""
    cpu = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    names = [line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 1e9, 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "helix": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": version("onnxruntime"),
        "faiss": version("faiss-cpu"),
        "bandwidth_gb_s": round(bandwidth() / 1e9, 1),
    }


def bandwidth() -> float:
    """Bytes a second that one core reads one after the other: the best of three."""
    numbers = np.ones(_BANDWIDTH // 8, np.uint64)
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        numbers.max()
        spent.append(time.perf_counter() - began)
    return float(numbers.nbytes / min(spent))


def _build(found: Mapping[str, Any]) -> Report:
    """Seconds by part of making the store, and items a second."""
    seconds = found["seconds"]
    return {"seconds": rounded(seconds), "items_per_second": round(found["items"] / sum(seconds.values()), 1)}


# ---------------------------------------------------------------- opening


def _open(root: Path, asks: Sequence[Ask]) -> Report:
    """Importing, opening and the first answer in a fresh process: files cached (medians), and not."""
    with process() as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})  # what it reads is in the page cache now
    warm = [_first(root, asks[0]) for _ in range(_OPENED)]
    dropped = drop_caches(root, everything=False)
    cold = _first(root, asks[0])
    medians = {name: statistics.median(one[name] for one in warm) for name in warm[0]}
    return {"warm": rounded(medians), "cold": {**cold, "dropped": dropped}}


def _first(root: Path, question: Ask) -> dict[str, float]:
    with process() as (ask, _):
        return opening(ask({"do": "open", "root": str(root), "ask": question}))


# ---------------------------------------------------------------- one client


def _one_client(root: Path, asks: Sequence[Ask], rounds: int, between: Sequence[Callable[[], Report]] = ()) -> Report:
    """Milliseconds of every recall by stage and by kind of question, and the memory of the reader.

    After each round comes something else that is measured: a machine may be fast or slow for minutes, and rounds in a
    row would say which it was. A part of the questions is asked before each, to warm up.
    """
    report: Report = {}
    rng = np.random.default_rng(len(asks))
    times: list[tuple[int, dict[str, float]]] = []  # (question, milliseconds by stage)
    unanswered = 0
    with process() as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})
        first = ask({"do": "memory"})
        ask({"do": "recall", "asks": asks})
        for turn in range(rounds):
            ask({"do": "recall", "asks": _mixed(asks, 0)[:_WARM]})
            order = rng.permutation(len(asks)).tolist()
            found = ask({"do": "recall", "asks": [asks[i] for i in order]})["recalls"]
            times += [(i, one["ms"]) for i, one in zip(order, found, strict=True) if one["answered"]]
            unanswered += sum(not one["answered"] for one in found)
            for step in between[turn : turn + 1]:
                report |= step()
        memory = {"after_one": rounded(first), "after_all": rounded(ask({"do": "memory"}))}
    for step in between[rounds:]:
        report |= step()
    return {**_latencies(asks, times), "unanswered": unanswered, "memory_mb": memory, **report}


def _latencies(asks: Sequence[Ask], times: Sequence[tuple[int, Mapping[str, float]]]) -> Report:
    """Percentiles of all recalls, and by stage and kind; a kind's ratios are those to all kinds without a filter.

    `legs` is of the longer of both legs, which run beside each other, the lexical one beside embedding, too. `outside`
    is of what no stage counts, of questions without a filter, whose rows are found beside embedding: reading the
    question, waiting for the lexical leg, fetching texts.
    `by_question` is of the medians of each question's rounds: what is left when other work on the machine is not
    counted.
    """
    stages: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, list[float]] = defaultdict(list)
    own: dict[int, list[float]] = defaultdict(list)
    for i, ms in times:
        for stage, spent in ms.items():
            stages[stage].append(spent)
        kinds[asks[i]["kind"]].append(ms["total"])
        own[i].append(ms["total"])
    legs = [max(ms.get("dense", 0.0), ms.get("lexical", 0.0)) for _, ms in times]
    free = [ms for i, ms in times if asks[i]["kind"] in OPEN]
    outside = [2 * ms["total"] + ms.get("lexical", 0.0) - sum(ms.values()) for ms in free]
    totals = stages.pop("total")
    unfiltered = percentiles([ms for kind in OPEN for ms in kinds[kind]])
    by_kind = {kind: percentiles(kinds[kind]) for kind in KINDS if kinds[kind]}
    return {
        "total": percentiles(totals),
        "by_question": percentiles([statistics.median(each) for each in own.values()]),
        "unfiltered": unfiltered,
        "filtered": percentiles([ms for kind in FILTERED for ms in kinds[kind]]),
        "stages": {stage: percentiles(spent) for stage, spent in stages.items()},
        "legs": percentiles(legs),
        "outside": percentiles(outside),
        "kinds": {
            kind: {**one, "ratio": rounded({name: one[name] / unfiltered[name] for name in ("p50", "p95")})}
            for kind, one in by_kind.items()
        },
    }


def _repeated(root: Path, asks: Sequence[Ask]) -> dict[str, float]:
    """Milliseconds of questions that were asked a moment before: the only ones that are answered from memory."""
    some = asks[: Settings().answers]
    with process(HELIX_ANSWERS=str(len(some))) as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})
        found = [ask({"do": "recall", "asks": some})["recalls"] for _ in range(2)][-1]
    return percentiles([one["ms"]["total"] for one in found])


# ---------------------------------------------------------------- many clients


def _processes(root: Path, asks: Sequence[Ask]) -> Report:
    """Latency and recalls a second by number of clients, before one worker process a core.

    A client's question waits in a line for a free worker, goes through a pipe and comes back as JSON: all that counts.
    """
    cores = len(os.sched_getaffinity(0))
    with workers(root, asks, cores) as free, ThreadPoolExecutor(cores) as line:

        def served(question: Ask) -> None:
            worker = free.get()
            worker({"do": "answer", "ask": question})
            free.put(worker)

        return _in_turns(
            lambda asks, clients: _by_clients(lambda ask: line.submit(served, ask).result(), asks, clients), asks
        )


@contextmanager
def workers(root: Path, asks: Sequence[Ask], n: int) -> Iterator[SimpleQueue[Worker]]:
    """n warm worker processes on one store, of one ONNX thread each: a queue of those that are free."""
    free: SimpleQueue[Worker] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(n):
            ask, _ = stack.enter_context(process(watched=False, HELIX_THREADS="1"))
            ask({"do": "open", "root": str(root), "ask": asks[0]})
            ask({"do": "recall", "asks": _mixed(asks, 0)})
            free.put(ask)
        yield free


def _in_turns(together: Callable[[list[Ask], int], Report], asks: Sequence[Ask]) -> Report:
    """Each number of clients by turns, since a machine's speed may change from one second to the next."""
    done: dict[int, list[Report]] = {clients: [] for clients in CLIENTS}
    for turn in range(_TURNS):
        for clients in CLIENTS:
            done[clients].append(together(_mixed(asks, turn), clients))
    return {str(clients): _rate(turns) for clients, turns in done.items()}


def _by_clients(serve: Callable[[Ask], None], asks: Sequence[Ask], clients: int) -> Report:
    """So many clients, each of which asks the next question when its last one is answered."""

    def timed(question: Ask) -> float:
        began = time.perf_counter()
        serve(question)
        return (time.perf_counter() - began) * 1000

    with ThreadPoolExecutor(clients) as each:
        began = time.perf_counter()
        spent = list(each.map(timed, asks))
        return {"ms": spent, "seconds": time.perf_counter() - began}


def _threads(root: Path, asks: Sequence[Ask]) -> Report:
    """The same by as many threads of one process: what they ask is not sent anywhere."""
    with process(watched=False, HELIX_THREADS="1") as (ask, _):
        ask({"do": "open", "root": str(root), "ask": asks[0]})
        ask({"do": "recall", "asks": _mixed(asks, 0)})
        return _in_turns(lambda asks, clients: ask({"do": "together", "asks": asks, "clients": clients}), asks)


def _mixed(asks: Sequence[Ask], seed: int) -> list[Ask]:
    """Some of the questions, of all kinds, in a random order."""
    return [asks[i] for i in np.random.default_rng(seed).permutation(len(asks))[:_BY_CLIENTS].tolist()]


def _rate(turns: Sequence[Report]) -> dict[str, float]:
    spent = [ms for turn in turns for ms in turn["ms"]]
    return {**percentiles(spent), "qps": round(len(spent) / sum(turn["seconds"] for turn in turns), 1)}


# ---------------------------------------------------------------- against looking at everything


class Posed(NamedTuple):
    """A question as the legs get it."""

    ask: Ask
    query: Query
    vector: F32
    snap: Snapshot  # as the principal may see it
    plan: Plan


def pose(memory: Memory, ask: Ask, profile: HelixProfile) -> Posed:
    """Stages 1 and 2 of a question."""
    arguments = dict(ask["with"])
    snap = memory.snapshot.seen_by(arguments.get("principal"))
    query = build_query(ask["query"], snap, memory.settings, RecallOptions(**arguments))
    query = add_search_terms(query, snap, profile.ask)
    vector, plan = begin(query, snap, Trace(), query.spoken)
    if vector is None:
        raise StoreError(f"the encoder of {memory.root} is missing", "make the store anew")
    return Posed(ask, query, vector, snap, plan)


def _compared(root: Path, asks: Sequence[Ask], settings: Settings, say: Say) -> Report:
    """recall@100 of each leg, recall against effort, the distance to the limit, and the likeness of the vectors."""
    profile = load_profile("helix", settings.profiles)
    if not isinstance(profile, HelixProfile):
        raise StoreError("the profile 'helix' has another recipe", "unset HELIX_PROFILES")
    memory = Memory(root, replace(settings, answers=0))
    some = [asks[i] for i in np.linspace(0, len(asks) - 1, min(_COMPARED, len(asks))).astype(int).tolist()]
    posed = [pose(memory, ask, profile) for ask in some]
    say(f"comparing the legs of {len(posed)} questions with looking at everything")
    kth = exact_dense(posed, K)
    near = [dense_share(one, least) for one, least in zip(posed, kth, strict=True)]
    words = [lexical_share(one, profile) for one in posed]
    kinds = [one.ask["kind"] for one in posed]
    rows = {kind: [one.plan.allowed_rows for one in posed if one.ask["kind"] == kind] for kind in KINDS}
    open_ones = [(one, least) for one, least in zip(posed, kth, strict=True) if one.ask["kind"] in OPEN]
    say("recall against effort, and the distance to the limit")
    return {
        "recall_at_100": {"dense": _mean(near), "bm25": _mean(words)},
        "recall_unfiltered": _mean([share for share, kind in zip(near, kinds, strict=True) if kind in OPEN]),
        "recall_by_kind": {
            kind: {"dense": _mean(near, kinds, kind), "bm25": _mean(words, kinds, kind)}
            for kind in dict.fromkeys(kinds)
        },
        "allowed_rows": {kind: round(statistics.mean(found)) for kind, found in rows.items() if found},
        "effort": effort(open_ones),
        "limit": limit(memory, [one for one, _ in open_ones], profile),
        "vectors": likeness(root, memory.snapshot),
    }


def _mean(shares: Sequence[float], kinds: Sequence[str] = (), kind: str = "") -> float:
    chosen = [share for i, share in enumerate(shares) if not kind or kinds[i] == kind]
    return round(statistics.mean(chosen), 4)


def exact_dense(posed: Sequence[Posed], k: int) -> list[float]:
    """The score of each question's k-th best allowed row by int8 codes, all rows looked at; −inf where fewer are."""
    if not posed:
        return []
    asked_for = np.stack([one.vector for one in posed])
    best = np.full((len(posed), k), -np.inf, np.float32)
    for block in posed[0].snap.vectors.blocks:
        for start in range(0, len(block.codes), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(block.codes)))
            scores = asked_for @ (block.codes[part] * block.scale[part, None]).T
            for i, one in enumerate(posed):
                if one.plan.allowed is not None:
                    scores[i, ~one.plan.allowed[block.start + part.start : block.start + part.stop]] = -np.inf
            both = np.concatenate([best, scores], axis=1)
            best = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
    return [float(row.min()) for row in best]


def dense_share(one: Posed, least: float) -> float:
    """recall@K of the dense leg; `least` is the score of the K-th best."""
    leg = search_dense(one.vector, one.snap, one.plan, K)
    return _share(one.snap.vectors.dequantise(np.unique(leg.rows)) @ one.vector, least, min(K, one.plan.allowed_rows))


def lexical_share(one: Posed, profile: HelixProfile) -> float:
    """recall@K of the lexical leg."""
    k1, b = profile.retrieve.k1, profile.retrieve.b
    scores = exhaustive(one.query, one.snap, one.plan, k1, b)
    leg = search_lexical(one.query, one.snap.lexical, one.plan, K, k1, b)
    held = int(np.count_nonzero(scores))
    least = float(np.partition(scores, -K)[-K]) if held > K else 0.0
    return _share(scores[np.unique(leg.rows)], least, min(K, held))


def _share(scores: F32, least: float, wanted: int) -> float:
    """The share of the `wanted` best that were found, by exact scores of different rows: among equals any will do."""
    return min(int(np.count_nonzero(scores >= least - _CLOSE * max(1.0, abs(least)))) / wanted, 1.0) if wanted else 1.0


def exhaustive(query: Query, snap: Snapshot, plan: Plan, k1: float, b: float) -> F32:
    """BM25 of every allowed row, every posting scored: float32[rows]; 0 where it holds none of the terms."""
    scores = np.zeros(snap.rows, np.float32)
    for term in query.terms:
        rows, tf = snap.lexical.postings(term)
        if len(rows):
            weight = np.float32(compute_idf(len(rows), snap.live))
            scores[rows] += weight * saturate_tf(tf, snap.lexical.length[rows], snap.lexical.mean_length, k1, b)
    return scores if plan.allowed is None else np.where(plan.allowed, scores, np.float32(0)).astype(np.float32)


def effort(compared: Sequence[tuple[Posed, float]]) -> list[dict[str, float]]:
    """recall@K and milliseconds of the indexes by the lists looked at; `default` is what they were built for.

    Args:
        compared: questions without a filter, each with the score of its K-th best row.
    """
    found = []
    indexes = [block.dense for block in compared[0][0].snap.vectors.blocks if block.dense] if compared else []
    if not indexes:  # a small store is scanned
        return []
    usual = indexes[0].probes
    for probes in sorted({max(1, usual * factor // 16) for factor in (1, 2, 4, 8, 16, 32, 64)}):
        spent, shares = [], []
        for one, least in compared:
            rows = _probed(one, probes)
            spent.append(min(_timed(_probed, one, probes) for _ in range(2)))
            shares.append(_share(one.snap.vectors.dequantise(rows) @ one.vector, least, min(K, one.plan.allowed_rows)))
        found.append({"probes": probes, "default": probes == usual, "recall": _mean(shares), **percentiles(spent)})
    return found


def _probed(one: Posed, probes: int) -> I64:
    """The K best rows of the indexes with so many probes, rescored: int64[≤ K]."""
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


# ---------------------------------------------------------------- the least it can cost


def limit(memory: Memory, posed: Sequence[Posed], profile: HelixProfile) -> Report:
    """The whole recall beside what it cannot do without: medians over the questions and rounds.

    The parts are one run of the ONNX session on the tokenised question, one search of the dense indexes by the library
    alone, and the bytes of `bytes_read` at the speed one core reads memory. Recalls and parts take turns by rounds, so
    that a machine which slows down slows both.
    """
    if not posed:
        return {}
    encoder, rate = memory.snapshot.encoder, bandwidth()
    read = [bytes_read(memory, one, profile) for one in posed]
    tokens = [encoder.tokens([encoder.spec.query_prefix + one.query.spoken]) for one in posed]
    feeds = [encoder.feed(found) for found in tokens]
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(_TURNS):
        spent["total"] += [_timed(memory.recall, one.ask["query"], **one.ask["with"]) for one in posed]
        onnx = [_timed(encoder.run, feed) for feed in feeds]
        library = [_timed(search_raw, one) for one in posed]
        scan = [sum(sizes.values()) / rate * 1000 for sizes in read]
        spent["onnx"], spent["library"], spent["scan"] = spent["onnx"] + onnx, spent["library"] + library, scan
        spent["least"] += [sum(parts) for parts in zip(onnx, library, scan, strict=True)]
    for sizes in read:
        for stage, size in sizes.items():
            spent[f"bytes of {stage}"].append(size)
    middle = {name: statistics.median(values) for name, values in spent.items()}
    return {**{name: round(ms, 3) for name, ms in middle.items()}, "ratio": round(middle["total"] / middle["least"], 2)}


def _timed(call: Callable[..., Any], *given: Any, **named: Any) -> float:
    """Milliseconds of a call."""
    began = time.perf_counter()
    call(*given, **named)
    return (time.perf_counter() - began) * 1000


def search_raw(one: Posed) -> None:
    """The library's own search of every dense index, with the lists it was built for and no filter."""
    parameters: Any = library().SearchParametersIVF
    for block in one.snap.vectors.blocks:
        if block.dense is not None and block.dense.tier == "int8":
            chosen = parameters(nprobe=block.dense.probes)
            block.dense.index.search(one.vector[None, :], K, params=chosen)


def bytes_read(memory: Memory, one: Posed, profile: HelixProfile) -> dict[str, int]:
    """Bytes of the store that the stages after the library's search have to look at, by stage; columns are left out.

    lexical: all postings of the question's terms, a row number and a frequency each, and the length of each row.
    dense: the codes of the rows that are rescored.
    graph: what the seeds name, and every edge the walk may read.
    rank: the terms in order of each row of the pool and the two turns to either side, its codes and those of the turns
    beside it.
    diversify: the signatures of the pool. pack: the text of what is returned.
    """
    snap = one.snap
    bundle = memory.recall(one.ask["query"], **one.ask["with"], explain=True)
    keys = np.array([int(entry["id"], 16) for entry in (bundle.trace or {})["candidates"]], np.uint64)
    pool = snap.row_map.by_key(keys)
    beside = turns_beside(snap, pool)
    window = np.union1d(beside, turns_beside(snap, beside))
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
        "rank": int(snap.lexical.length[window].sum()) * 4 + len(beside) * code,
        "diversify": len(pool) * snap.row_map.signatures(pool[:1]).nbytes,
        "pack": sum(len(item.text.encode()) for item in bundle.items),
    }


def turns_beside(snap: Snapshot, rows: I64) -> I64:
    """The rows and those before and after each in its session, ascending."""
    steps = [step[rows].astype(np.int64) for step in (snap.columns.previous, snap.columns.next)]
    every = np.concatenate([rows, *steps])
    return np.unique(every[every >= 0])


# ---------------------------------------------------------------- whether the vectors are like real ones


def likeness(root: Path, snap: Snapshot) -> Report:
    """What real and synthetic vectors of as many sessions are like."""
    import pyarrow.parquet as pq

    ids = pq.read_table(root / FILE, columns=["id"])["id"].to_pylist()
    rows = snap.row_map.by_key(np.array([int(each, 16) for each in ids], np.uint64))
    is_real: Bool = np.zeros(snap.rows, bool)
    is_real[rows[rows >= 0]] = True
    rng = np.random.default_rng(0)
    found = {}
    for name, mask in (("real", is_real), ("synthetic", ~is_real)):
        sessions = rng.permutation(np.unique(snap.columns.session[mask]))
        size = np.bincount(snap.columns.session[mask], minlength=len(snap.sessions))[sessions]
        chosen = sessions[: max(1, int(np.searchsorted(np.cumsum(size), _SAMPLED)))]
        some = np.flatnonzero(mask & np.isin(snap.columns.session, chosen))[:_SAMPLED]
        if len(some) > K:
            found[name] = statistics_of(snap.vectors.dequantise(some), rng)
    return found


def statistics_of(vectors: npt.NDArray[np.float32], rng: np.random.Generator) -> Report:
    """Spectrum, and cosines of random pairs and neighbours, of unit vectors float32[n > 100, d].

    Returns:
        variance: share of it along the first 10, 50 and 100 principal axes. pairs: percentiles 5, 50 and 95 of the
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
