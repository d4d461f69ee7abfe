"""How good recall is on a benchmark set: ingested through the normal path, asked through the normal recall.

Every row of the report answers the same questions over the same items, at the granularity of native turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from helix.errors import UsageError
from helix.memory import Memory
from helix.metrics import all_at, any_at, recall_at, reciprocal_rank
from helix.profiles import load
from helix.question import make_query
from helix.settings import Settings
from helix.snapshot.manifest import Index
from helix.snapshot.queries import KIND, Expansion, Part, open_queries, write_queries
from helix.snapshot.reader import Snapshot
from helix.snapshot.rows import NO_TIME
from helix.stages.dense import search_dense
from helix.stages.fuse import fuse
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.types import Bundle
from pipelines.ingest import ingest
from pipelines.sets import Benchmark, Question, read, turn

K = 10
PACK = 1_000  # tokens of the pack that is looked into
_DRAWS = 2_000  # of the bootstrap
EXPANSIONS = ("on", "off", "shuffled")
PROFILES = ("helix", "helix-paper")

Say = Callable[[str], None]
Answer = tuple[list[str], set[str]]
"""Turns, best first; turns in the pack."""
Ask = Callable[[Question], Answer]


def evaluate(
    name: str,
    path: Path,
    settings: Settings,
    *,
    store: Path | None = None,
    expansions: Sequence[str] = (),
    profiles: Sequence[str] = PROFILES,
    say: Say,
) -> dict[str, Any]:
    """The report of one set.

    Args:
        store: where the set is ingested, and kept; a store that is there is used. A temporary one where not given.
        expansions: of EXPANSIONS: the default profile once more, with what a model wrote for the items in that state.
        profiles: a row for each.

    Raises:
        UsageError: no such set, or no model wrote anything for the items of the store.
        InputRefused: what lies at `path` is not that set.
    """
    for profile in profiles:
        load(profile, settings.profiles)  # a wrong name is told before anything is ingested
    with tempfile.TemporaryDirectory() as work:
        found = read(name, path, Path(work) / "documents")
        root = store or Path(work) / "store"
        report = ingest(root, list(found.documents), settings)
        say(f"{report.turns} turns, {report.items} new items, {len(found.questions)} questions")
        memory = Memory(root, settings)
        if expansions and memory.snapshot.expansion is None:
            raise UsageError("no model wrote anything for these items", "keep them with --store and run 'helix expand'")
        rows = {way: measure(found, ask) for way, ask in ways(memory, settings, profiles).items()}
        for state in dict.fromkeys(expansions):
            with expansion(memory.snapshot, state, Path(work)):
                rows[f"helix, expansion {state}"] = measure(found, partial(_recalled, memory, "helix"))
        return {"set": name, "questions": len(found.questions), "items": memory.snapshot.live, "rows": rows}


def ways(memory: Memory, settings: Settings, profiles: Sequence[str] = PROFILES) -> dict[str, Ask]:
    """How a question is answered, by name: either leg, both fused by equal weights, and the profiles."""
    legs = {"dense": ("dense",), "bm25": ("bm25",), "rrf": ("dense", "bm25")}
    found: dict[str, Ask] = {name: partial(_legs, memory.snapshot, settings, chosen) for name, chosen in legs.items()}
    return {**found, **{name: partial(_recalled, memory, name) for name in profiles}}


def _legs(snap: Snapshot, settings: Settings, names: Sequence[str], question: Question) -> Answer:
    """One leg, or several by reciprocal ranks, packed by the order alone."""
    query = make_query(question.text, snap, settings, project=question.project)
    plan = route(query, None, snap)
    legs = []
    if "dense" in names:
        legs.append(search_dense(snap.encoder.query(question.text), snap, plan, 10 * K))
    if "bm25" in names:
        legs.append(search_lexical(query, snap, plan, 10 * K, 0.9, 0.6))
    rows = fuse(legs, snap, 60, {"dense": 1.0, "bm25": 1.0}).row if len(legs) > 1 else legs[0].rows
    entries = snap.text(rows)
    fits = np.cumsum(snap.columns.tokens[rows]) <= PACK
    turns = [turn(entry["session"], identity) for entry in entries for identity in entry["turns"]]
    packed = {
        turn(entry["session"], identity) for entry in np.array(entries, object)[fits] for identity in entry["turns"]
    }
    return list(dict.fromkeys(turns)), packed


def _recalled(memory: Memory, profile: str, question: Question) -> Answer:
    now = asked_at(memory.snapshot, question.project)
    found: Bundle = memory.recall(
        question.text, project=question.project, profile=profile, k=3 * K, budget=PACK, now=now
    )
    turns = [turn(item.session, identity) for item in found.items for identity in item.turns]
    return list(dict.fromkeys(turns)), {turn(item.session, one) for item in found.packed for one in item.turns}


def asked_at(snap: Snapshot, project: str | None) -> datetime | None:
    """A day after the last item of the haystack: what fades with age shall not fade by when the set is measured."""
    rows = snap.alive if project is None else snap.alive & (snap.columns.project == snap.projects.index(project))
    last = int(snap.columns.time[rows].max(initial=NO_TIME))
    return None if last == NO_TIME else datetime.fromtimestamp(last, UTC) + timedelta(days=1)


def measure(found: Benchmark, ask: Ask) -> dict[str, float]:
    """One row of the report: means over the questions; low and high are of rec@10."""
    answers = [ask(question) for question in found.questions]
    gold = [question.gold for question in found.questions]
    pairs = [(ranking, wanted) for (ranking, _), wanted in zip(answers, gold, strict=True)]
    recalls = np.array([recall_at(ranking, wanted, K) for ranking, wanted in pairs])
    packed = [len(wanted & pack) / len(wanted) for (_, pack), wanted in zip(answers, gold, strict=True)]
    low, high = bootstrap(recalls)
    row = {
        f"any@{K}": np.mean([any_at(ranking, wanted, K) for ranking, wanted in pairs]),
        f"rec@{K}": recalls.mean(),
        f"all@{K}": np.mean([all_at(ranking, wanted, K) for ranking, wanted in pairs]),
        "mrr": np.mean([reciprocal_rank(ranking, wanted) for ranking, wanted in pairs]),
        f"pack@{PACK}": np.mean(packed),
        "low": low,
        "high": high,
    }
    return {key: round(float(value), 4) for key, value in row.items()}


def bootstrap(values: npt.NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the mean by the percentile bootstrap (Efron 1979)."""
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(_DRAWS)]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


@contextmanager
def expansion(snap: Snapshot, state: str, work: Path) -> Iterator[None]:
    """The snapshot with its expansions as they are, left out, or each handed to another item.

    Shuffled ones show what the mere presence of more words does.
    """
    before = snap.expansion
    if state == "off":
        snap.__dict__["expansion"] = None
    elif state == "shuffled" and before is not None:
        snap.__dict__["expansion"] = _shuffled(snap, work / "shuffled")
    try:
        yield
    finally:
        snap.__dict__["expansion"] = before


def _shuffled(snap: Snapshot, folder: Path, seed: int = 0) -> Expansion:
    field = snap.expansion
    rows = np.flatnonzero(field.looked) if field else np.empty(0, np.int64)
    asked = field.of(rows) if field else []
    order = np.random.default_rng(seed).permutation(len(rows))
    source = np.empty_like(order)
    source[order] = np.roll(order, 1)  # one cycle: no item keeps its own
    folder.mkdir(parents=True)
    write_queries(
        folder / "indexes" / "x" / KIND, rows.astype(np.uint32), ["" for _ in rows], [asked[i] for i in source]
    )
    opened = open_queries(folder, Index("x", KIND, (), ()))
    return Expansion([Part(0, opened)], snap.rows, snap.alive, snap.key)


def table(report: dict[str, Any]) -> str:
    """The report, to be read."""
    names = list(next(iter(report["rows"].values())))
    width = max(map(len, report["rows"]))
    lines = [
        f"{report['set']}: {report['questions']} questions, {report['items']} items",
        " " * width + "  " + "  ".join(f"{name:>9}" for name in names),
    ]
    lines += [
        f"{way:{width}}  " + "  ".join(f"{row[name]:9.3f}" for name in names) for way, row in report["rows"].items()
    ]
    return "\n".join(lines)
