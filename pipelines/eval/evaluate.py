"""How good recall is on a benchmark set: ingested through the normal path, asked through the normal recall.

Every row of the report answers the same questions over the same items, at the granularity of native turns.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from helix.errors import EncoderError, UsageError
from helix.question.build import build_query
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.index.doc2query import KIND, Expansion, Part, open_queries, write_queries
from helix.snapshot.manifest import Index
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.stages.dense import search_dense
from helix.stages.fuse import fuse
from helix.stages.lexical import search_lexical
from helix.stages.route import route
from helix.stages.sparse import search_sparse
from helix.types import Bundle, RecallOptions
from helix.util.version import VERSION
from pipelines.embedded.ingest import ingest
from pipelines.eval.metrics import DRAWS
from pipelines.eval.score import BUDGETS, METRICS, Answer, Floats, gain, kinds, matrix, row, score, shortfalls, warnings
from pipelines.eval.sets.registry import Benchmark, Question, read, turn
from pipelines.passes.sparse import encode, open_document_encoder

LEG = 100  # items of one leg
ITEMS = {500: 30, 1_000: 30, 2_000: 60}  # k asked for with each budget: more than fit, so that the budget decides
RANKED = 1_000  # the budget of the call that gives the ranking and the time
WARM = 5  # questions asked before the clock counts
EXPANSIONS = ("on", "off", "shuffled")
WEIGHTS = ("on", "off")
PROFILES = ("helix", "helix-paper")
LEGS: Mapping[str, tuple[str, ...]] = {"dense": ("dense",), "bm25": ("bm25",), "rrf": ("dense", "bm25")}
WEIGHED: Mapping[str, tuple[str, ...]] = {"sparse": ("sparse",)}  # where items have weights

Say = Callable[[str], None]
Ask = Callable[[Question], Answer]


def evaluate(
    name: str,
    path: Path,
    settings: Settings,
    *,
    store: Path | None = None,
    expansions: Sequence[str] = (),
    weights: Sequence[str] = (),
    profiles: Sequence[str] = PROFILES,
    pooled: Collection[str] = (),
    runs: Path | None = None,
    say: Say,
) -> dict[str, Any]:
    """The report of one set.

    Args:
        store: where the set is ingested, and kept; a store that is there is used. A temporary one where not given.
        expansions: of EXPANSIONS: the default profile once more, with what a model wrote for the items in that state.
        weights: of WEIGHTS: the default profile once more, with and without what a sparse encoder gave the items.
        profiles: a row for each.
        pooled: rows that are asked once more over all haystacks at once, without the project filter.
        runs: a file for JSON lines, one a question and row: the ranking, the gold and its metrics.

    Raises:
        UsageError: no such set, or no model wrote anything for the items of the store, or weighed them.
        EncoderError: the sparse encoder that the settings name cannot be used.
        InputRefused: what lies at `path` is not that set.
    """
    for profile in profiles:
        load(profile, settings.profiles)  # a wrong name is told before anything is ingested
    with tempfile.TemporaryDirectory() as work:
        found = read(name, path, Path(work) / "documents")
        root = store or Path(work) / "store"
        report = ingest(root, list(found.documents), settings)
        say(f"{report.turns} turns, {report.items} new items, {len(found.questions)} questions")
        _weigh(root, settings, say)
        memory = Memory(root, replace(settings, answers=0))  # every question is worked out
        if expansions and memory.snapshot.lexical.expansion is None:
            raise UsageError("no model wrote anything for these items", "keep them with --store and run 'helix expand'")
        if weights and memory.snapshot.lexical.impacts is None:
            raise UsageError("no sparse encoder weighed these items", "set HELIX_SPARSE_ENCODER")
        haystacks = turns_of(memory.snapshot)
        found = _askable(found, memory.snapshot, haystacks, settings)
        sizes = [len(_haystack(haystacks, question.project)) for question in found.questions]
        said = [*found.notes, *_lost(found, haystacks), *_strange(found, haystacks)]
        answers = _answers(found.questions, memory, settings, profiles, expansions, weights, Path(work))
        if pooled and len(haystacks) > 1:
            everywhere = [question._replace(project=None) for question in found.questions]
            ways_ = {way: ask for way, ask in ways(memory, settings, profiles).items() if way in pooled}
            answers |= {f"{way} pooled": _asked(everywhere, ask) for way, ask in ways_.items()}
        elif pooled:
            said.append("one haystack: pooled is the same")
        values = {way: matrix(found.questions, given) for way, given in answers.items()}
        if runs:
            _write_runs(runs, name, found.questions, answers)
        first = next(iter(profiles), None)
        return {
            "set": name,
            "questions": len(found.questions),
            "items": memory.snapshot.live,
            "haystacks": {
                "count": len(haystacks),
                "smallest": min(sizes),
                "median": int(np.median(sizes)),
                "turns": sum(map(len, haystacks.values())),
            },
            "left_out": dict(found.left_out),
            "notes": said,
            "warnings": warnings(sizes),
            "rows": _rows(values, answers, sizes, profiles),
            "kinds": kinds(found.questions, values[first]) if first else {},
            "made": made(memory.snapshot),
        }


def made(snap: Snapshot) -> dict[str, Any]:
    """With what, and when, a report was made."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "helix": VERSION,
        "encoder": snap.manifest.lineage.name if snap.manifest else "",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": version("onnxruntime"),
        "cores": os.cpu_count() or 1,
        "seed": 0,
        "draws": DRAWS,
    }


def turns_of(snap: Snapshot) -> dict[str, set[str]]:
    """The turns of every haystack, by project."""
    out: dict[str, set[str]] = {}
    rows = np.flatnonzero(snap.alive)
    for part in np.array_split(rows, len(rows) // 10_000 + 1):  # the texts come with them
        for entry, project in zip(snap.text(part), snap.columns.project[part].tolist(), strict=True):
            own = out.setdefault(snap.projects[project], set())
            own.update(turn(entry["session"], identity) for identity in entry["turns"])
    return out


def _haystack(haystacks: Mapping[str, set[str]], project: str | None) -> set[str]:
    return set().union(*haystacks.values()) if project is None else haystacks[project]


def _askable(found: Benchmark, snap: Snapshot, haystacks: Mapping[str, set[str]], settings: Settings) -> Benchmark:
    """The questions that recall takes, each with its moment; those left out are counted."""
    left = dict(found.left_out)
    moments = {project: asked_at(snap, project) for project in (None, *haystacks)}
    kept = []
    for question in found.questions:
        reason = ""
        if question.project not in moments:
            reason = "nothing of the haystack was taken in"
        elif len(question.text) > settings.max_query_chars:
            reason = f"longer than {settings.max_query_chars} characters"
        if reason:
            left[reason] = left.get(reason, 0) + 1
        else:
            kept.append(question._replace(at=question.at or moments[question.project]))
    if not kept:
        raise UsageError("no question can be asked of this store", "give another --store, or none")
    return replace(found, questions=tuple(kept), left_out=left)


def _lost(found: Benchmark, haystacks: Mapping[str, set[str]]) -> list[str]:
    """Gold that cannot be found, since the ingest did not take it in: it counts as missed."""
    n = sum(len(question.gold - _haystack(haystacks, question.project)) for question in found.questions)
    return [f"{n} gold turns were not taken in and count as missed"] if n else []


def _strange(found: Benchmark, haystacks: Mapping[str, set[str]]) -> list[str]:
    """Turns that a store which was there already holds from elsewhere: they are in everybody's way."""
    lines = (orjson.loads(line) for path in found.documents for line in path.read_bytes().splitlines())
    own = {turn(line["session"], line["id"]) for line in lines}
    n = sum(len(turns - own) for turns in haystacks.values())
    return [f"{n} turns of the store are not of this set"] if n else []


def _answers(
    questions: Sequence[Question],
    memory: Memory,
    settings: Settings,
    profiles: Sequence[str],
    expansions: Sequence[str],
    weights: Sequence[str],
    work: Path,
) -> dict[str, list[Answer]]:
    """What every way of asking gave, by its name."""
    out = {way: _asked(questions, ask) for way, ask in ways(memory, settings, profiles).items()}
    for state in dict.fromkeys(expansions):
        with expansion(memory.snapshot, state, work):
            out[f"helix, expansion {state}"] = _asked(questions, partial(_recalled, memory, "helix"))
    for state in dict.fromkeys(weights):
        with weighed(memory.snapshot, state):
            out[f"helix, sparse {state}"] = _asked(questions, partial(_recalled, memory, "helix"))
    return out


def _asked(questions: Sequence[Question], ask: Ask) -> list[Answer]:
    for question in questions[:WARM]:
        ask(question)
    return [ask(question) for question in questions]


def _rows(
    values: Mapping[str, Floats], answers: Mapping[str, Sequence[Answer]], sizes: Sequence[int], profiles: Sequence[str]
) -> dict[str, dict[str, Any]]:
    out = {way: row(values[way], given, sizes) for way, given in answers.items()}
    for suffix in ("", " pooled"):
        legs = {leg: values[leg + suffix] for leg in ("dense", "bm25") if leg + suffix in values}
        for way in (profile + suffix for profile in profiles):
            if legs and way in values:
                out[way]["gain"] = gain(values[way], legs)
    return out


def _write_runs(path: Path, name: str, questions: Sequence[Question], answers: Mapping[str, Sequence[Answer]]) -> None:
    """A line a question and row, without a word of the set's own."""
    with path.open("wb") as file:
        for way, given in answers.items():
            for i, (question, answer) in enumerate(zip(questions, given, strict=True)):
                line = {
                    "set": name,
                    "row": way,
                    "question": i,
                    "project": question.project,
                    "kind": question.kind,
                    "gold": question.grades or dict.fromkeys(sorted(question.gold), 1.0),
                    "ranking": answer.ranking,
                    "metrics": {metric: round(value, 6) for metric, value in score(question, answer).items()},
                    "skipped": answer.skipped,
                    "ms": round(answer.ms, 3),
                }
                file.write(orjson.dumps(line) + b"\n")


def ways(memory: Memory, settings: Settings, profiles: Sequence[str] = PROFILES) -> dict[str, Ask]:
    """How a question is answered, by name: each leg there is, two fused by equal weights, and the profiles."""
    legs = {**LEGS, **(WEIGHED if memory.snapshot.lexical.impacts else {})}
    found: dict[str, Ask] = {name: partial(_legs, memory.snapshot, settings, chosen) for name, chosen in legs.items()}
    return {**found, **{name: partial(_recalled, memory, name) for name in profiles}}


def _legs(snap: Snapshot, settings: Settings, names: Sequence[str], question: Question) -> Answer:
    """One leg, or several by reciprocal ranks, packed by the order alone."""
    began = time.perf_counter()
    query = build_query(question.text, snap, settings, RecallOptions(project=question.project, now=question.at))
    plan = route(query, None, snap)
    legs = []
    if "dense" in names:
        legs.append(search_dense(snap.encoder.query(question.text), snap, plan, LEG))
    if "bm25" in names:
        legs.append(search_lexical(query, snap.lexical, plan, LEG, 0.9, 0.6))
    if "sparse" in names and snap.lexical.impacts:
        legs.append(search_sparse(snap.sparse_encoder.encode(question.text), snap.lexical.impacts, plan, LEG))
    rows = fuse(legs, snap, 60, {"dense": 1.0, "bm25": 1.0}).row if len(legs) > 1 else legs[0].rows
    snap.text(rows[: ITEMS[RANKED]])  # as many as a recall reads
    ms = 1e3 * (time.perf_counter() - began)
    turns = [[turn(entry["session"], one) for one in entry["turns"]] for entry in snap.text(rows)]
    filled = np.cumsum(snap.columns.tokens[rows])
    packs = {budget: _joined(turns[: int(np.searchsorted(filled, budget, "right"))]) for budget in BUDGETS}
    return Answer(list(_joined(turns)), {budget: set(pack) for budget, pack in packs.items()}, ms=ms)


def _recalled(memory: Memory, profile: str, question: Question) -> Answer:
    """The normal recall, once a budget. What is in the pack counts; the turns it brings around an item do not."""

    def ask(budget: int) -> Bundle:
        return memory.recall(
            question.text, project=question.project, profile=profile, k=ITEMS[budget], budget=budget, now=question.at
        )

    began = time.perf_counter()
    found = ask(RANKED)
    ms = 1e3 * (time.perf_counter() - began)
    bundles = {budget: found if budget == RANKED else ask(budget) for budget in BUDGETS}
    packs = {
        budget: {turn(item.session, one) for item in bundle.packed for one in item.turns}
        for budget, bundle in bundles.items()
    }
    ranking = _joined([turn(item.session, one) for one in item.turns] for item in found.items)
    return Answer(list(ranking), packs, found.skipped, ms)


def _joined(turns: Iterable[Sequence[str]]) -> dict[str, None]:
    """All of them in order, each once."""
    return dict.fromkeys(one for each in turns for one in each)


def asked_at(snap: Snapshot, project: str | None) -> datetime | None:
    """A day after the last item of the haystack: what fades with age shall not fade by when the set is measured."""
    rows = snap.alive if project is None else snap.alive & (snap.columns.project == snap.projects.index(project))
    last = int(snap.columns.time[rows].max(initial=NO_TIME))
    return None if last == NO_TIME else datetime.fromtimestamp(last, UTC) + timedelta(days=1)


def _weigh(root: Path, settings: Settings, say: Say) -> None:
    """Give the items their weights first, where the settings name a sparse encoder: who names one wants to see it."""
    model = open_document_encoder(settings)
    if isinstance(model, str):
        if settings.sparse_encoder:
            raise EncoderError(model, "give HELIX_SPARSE_ENCODER a folder with a model, or unset it")
        return
    done = encode(root, model, settings)
    say(f"{done.items} items weighed by {model.spec.name}")


@contextmanager
def weighed(snap: Snapshot, state: str) -> Iterator[None]:
    """The snapshot with its weights as they are, or without."""
    before = snap.lexical.impacts
    if state == "off":
        snap.__dict__["impacts"] = None
    try:
        yield
    finally:
        snap.__dict__["impacts"] = before


@contextmanager
def expansion(snap: Snapshot, state: str, work: Path) -> Iterator[None]:
    """The snapshot with its expansions as they are, left out, or each handed to another item.

    Shuffled ones show what the mere presence of more words does.
    """
    before = snap.lexical.expansion
    if state == "off":
        snap.__dict__["expansion"] = None
    elif state == "shuffled" and before is not None:
        snap.__dict__["expansion"] = _shuffled(snap, work / "shuffled")
    try:
        yield
    finally:
        snap.__dict__["expansion"] = before


def _shuffled(snap: Snapshot, folder: Path, seed: int = 0) -> Expansion:
    field = snap.lexical.expansion
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
    return Expansion([Part(0, opened)], snap.rows, snap.alive, snap.lexical.key)


def table(report: dict[str, Any]) -> str:
    """The report, to be read."""
    rows = report["rows"]
    blocks = [
        ("rec@10", "low", "high", "ndcg@10", "mrr", *(f"pack@{budget}" for budget in BUDGETS)),
        tuple(name for name in METRICS if name.split("@")[0] in ("any", "rec", "all")),
    ]
    lines = [f"{report['set']}: {report['questions']} questions, {report['items']} items"]
    for i, names in enumerate(blocks):
        more = ("skipped", "p50", "p95") if i == 0 else ()
        width = [max(7, len(name)) for name in (*names, *more)]
        head = "  ".join(f"{name:>{n}}" for name, n in zip((*names, *more), width, strict=True))
        lines.append(" " * max(map(len, rows)) + "  " + head)
        for way, row_ in rows.items():
            shown = [f"{row_[name]:.3f}" for name in names]
            shown += [f"{row_[name]:.1f}" if name != "skipped" else str(row_[name]) for name in more]
            cells = "  ".join(f"{value:>{n}}" for value, n in zip(shown, width, strict=True))
            lines.append(f"{way:{max(map(len, rows))}}  {cells}")
    for kind, one in report["kinds"].items():
        lines.append(f"{kind}: {one['questions']} questions, any@10 {one['any@10']:.3f}, rec@10 {one['rec@10']:.3f}")
    lines += [f"{n} questions are left out: {reason}" for reason, n in report["left_out"].items()]
    return "\n".join([*lines, *report["notes"], *shortfalls(rows), *report["warnings"]])
