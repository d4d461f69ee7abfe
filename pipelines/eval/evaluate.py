"""Quality of recall on a benchmark set, through the normal ingest and the normal recall.

Every row of the report answers the same questions over the same items, at the granularity of native turns.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from helix.errors import EncoderError, UsageError
from helix.recipes.load_profile import load
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.index.flat import open_processor
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME
from helix.util.version import VERSION
from pipelines.embedded.ingest import ingest
from pipelines.eval import score
from pipelines.eval.sets.benchmark import Benchmark, Question, turn_key
from pipelines.eval.sets.registry import read_set
from pipelines.eval.typing_errors import misspell_questions
from pipelines.eval.ways import PROFILES, Ask, ask_profile, list_ways, override_expansion, override_weights
from pipelines.passes.sparse import encode, open_document_encoder

_WARM = 5  # questions asked before the clock counts

Say = Callable[[str], None]
Haystacks = Mapping[str, set[str]]
"""Turns by project."""


class Again(NamedTuple):
    """Further rows of the default profile."""

    expansions: Sequence[str] = ()  # of EXPANSIONS: with the doc2query field in that state
    weights: Sequence[str] = ()  # of WEIGHTS: with and without learned-sparse weights
    misspelled: bool = False  # with typing errors in the questions
    best: bool = False  # with quality best


_ONCE: Final = Again()


def evaluate(
    name: str,
    path: Path,
    settings: Settings,
    *,
    store: Path | None = None,
    profiles: Sequence[str] = PROFILES,
    pooled: Collection[str] = (),
    again: Again = _ONCE,
    runs: Path | None = None,
    say: Say,
) -> dict[str, Any]:
    """Return the report of one set.

    Args:
        store: retains the ingested set, and may exist; a temporary one by default.
        pooled: rows that are repeated over all haystacks at once, without the project filter.
        again: further rows of the default profile.
        runs: a file for JSON lines, one a question and row: the ranking, the gold and its metrics.

    Raises:
        UsageError: no such set, no usable GPU, or the store's items have no expansions or weights.
        EncoderError: the configured sparse encoder cannot be used.
        InputRefused: `path` does not hold that set.
    """
    _check_settings(settings, profiles)
    with tempfile.TemporaryDirectory() as work:
        benchmark = read_set(name, path, Path(work) / "documents")
        memory = _ingest(benchmark, store or Path(work) / "store", settings, say)
        _check_fields(memory.snapshot, again)
        haystacks = read_haystacks(memory.snapshot)
        benchmark = drop_unanswerable(benchmark, memory.snapshot, haystacks, settings)
        questions = benchmark.questions
        notes = [*benchmark.notes, *_note_missing(benchmark, haystacks), *_note_foreign(benchmark, haystacks)]
        answers = _answer(questions, memory, settings, profiles, again, Path(work))
        if len(haystacks) > 1 and pooled:
            answers |= _answer_pooled(questions, memory, settings, profiles, pooled)
        notes += ["one haystack: pooled is the same"] if pooled and len(haystacks) == 1 else []
        if runs:
            _write_runs(runs, name, questions, answers)
        values = {way: score.score_answers(questions, given) for way, given in answers.items()}
        sizes = [len(_select_turns(haystacks, question.project)) for question in questions]
        return {
            "set": name,
            "questions": len(questions),
            "items": memory.snapshot.live,
            "haystacks": _describe_haystacks(haystacks, sizes),
            "left_out": dict(benchmark.left_out),
            "notes": notes,
            "warnings": score.list_warnings(sizes),
            "rows": _make_rows(values, answers, sizes, profiles),
            "sessions": _score_sessions(haystacks, questions, answers),
            "sound": score.score_undoubted(questions, values[profiles[0]]) if profiles else {},
            "kinds": score.summarise_kinds(questions, answers[profiles[0]], values[profiles[0]]) if profiles else {},
            "made": describe_environment(memory.snapshot),
        }


def _describe_haystacks(haystacks: Haystacks, sizes: Sequence[int]) -> dict[str, int]:
    """Return the number of haystacks, the fewest and the median turns of a question's, and the turns of all."""
    sizes_of = {"smallest": min(sizes), "median": int(np.median(sizes))}
    return {"count": len(haystacks), **sizes_of, "turns": sum(map(len, haystacks.values()))}


def _check_settings(settings: Settings, profiles: Sequence[str]) -> None:
    """Report a wrong profile or a missing GPU before the ingest."""
    for profile in profiles:
        load(profile, settings.profiles)
    open_processor(settings.dense)


def describe_environment(snap: Snapshot) -> dict[str, Any]:
    """Return the versions and the date of a report."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "helix": VERSION,
        "encoder": snap.manifest.lineage.name if snap.manifest else "",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": version("onnxruntime"),
        "cores": os.cpu_count() or 1,
        "seed": 0,
        "draws": score.DRAWS,
    }


def read_haystacks(snap: Snapshot) -> dict[str, set[str]]:
    """Return the turns of every haystack."""
    haystacks: dict[str, set[str]] = {}
    rows = np.flatnonzero(snap.alive)
    for part in np.array_split(rows, len(rows) // 10_000 + 1):  # the texts come with them
        for entry, project in zip(snap.text(part), snap.columns.project[part].tolist(), strict=True):
            turns = haystacks.setdefault(snap.projects[project], set())
            turns.update(turn_key(entry["session"], identity) for identity in entry["turns"])
    return haystacks


def _select_turns(haystacks: Haystacks, project: str | None) -> set[str]:
    return set().union(*haystacks.values()) if project is None else haystacks[project]


def drop_unanswerable(benchmark: Benchmark, snap: Snapshot, haystacks: Haystacks, settings: Settings) -> Benchmark:
    """Return the questions that recall accepts, each with its moment; the others are counted."""
    left_out = dict(benchmark.left_out)
    moments = {project: find_last_moment(snap, project) for project in (None, *haystacks)}
    accepted = []
    for question in benchmark.questions:
        reason = ""
        if question.project not in moments:
            reason = "nothing of the haystack was ingested"
        elif len(question.text) > settings.max_query_chars:
            reason = f"longer than {settings.max_query_chars} characters"
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        else:
            accepted.append(question._replace(at=question.at or moments[question.project]))
    if not accepted:
        raise UsageError("no question can be asked of this store", "give another --store, or none")
    return replace(benchmark, questions=tuple(accepted), left_out=left_out)


def find_last_moment(snap: Snapshot, project: str | None) -> datetime | None:
    """Return a day after the haystack's last item, so that decay with age does not depend on the date of a run."""
    rows = snap.alive if project is None else snap.alive & (snap.columns.project == snap.projects.index(project))
    last = int(snap.columns.time[rows].max(initial=NO_TIME))
    return None if last == NO_TIME else datetime.fromtimestamp(last, UTC) + timedelta(days=1)


def _note_missing(benchmark: Benchmark, haystacks: Haystacks) -> list[str]:
    """Return a note on gold that was not ingested: it counts as missed."""
    n = sum(len(question.gold - _select_turns(haystacks, question.project)) for question in benchmark.questions)
    return [f"{n} gold turns were not ingested and count as missed"] if n else []


def _note_foreign(benchmark: Benchmark, haystacks: Haystacks) -> list[str]:
    """Return a note on other turns in an existing store, which compete with the set's."""
    lines = (orjson.loads(line) for path in benchmark.documents for line in path.read_bytes().splitlines())
    own = {turn_key(line["session"], line["id"]) for line in lines}
    n = sum(len(turns - own) for turns in haystacks.values())
    return [f"{n} turns of the store are not of this set"] if n else []


def _ingest(benchmark: Benchmark, root: Path, settings: Settings, say: Say) -> Memory:
    """Ingest a set, with learned-sparse weights if the settings name an encoder; refuse one that cannot be used."""
    report = ingest(root, list(benchmark.documents), settings)
    say(f"{report.turns} turns, {report.items} new items, {len(benchmark.questions)} questions")
    model = open_document_encoder(settings)
    if not isinstance(model, str):
        done = encode(root, model, settings)
        say(f"{done.items} items weighed by {model.spec.name}")
    elif settings.sparse_encoder:
        raise EncoderError(model, "give HELIX_SPARSE_ENCODER a folder with a model, or unset it")
    return Memory(root, replace(settings, answers=0))  # every question is worked out


def _check_fields(snap: Snapshot, again: Again) -> None:
    if again.expansions and snap.lexical.expansion is None:
        raise UsageError("no model wrote anything for these items", "keep them with --store and run 'helix expand'")
    if again.weights and snap.lexical.impacts is None:
        raise UsageError("no sparse encoder weighed these items", "set HELIX_SPARSE_ENCODER")


def _answer(
    questions: Sequence[Question],
    memory: Memory,
    settings: Settings,
    profiles: Sequence[str],
    again: Again,
    work: Path,
) -> dict[str, list[score.RankedAnswer]]:
    """Return the answers of every way."""
    default = partial(ask_profile, memory, "helix")
    ways = list_ways(memory, settings, profiles, questions)
    answers = {way: _ask_all(questions, ask) for way, ask in ways.items()}
    for state in dict.fromkeys(again.expansions):
        with override_expansion(memory.snapshot, state, work):
            answers[f"helix, expansion {state}"] = _ask_all(questions, default)
    for state in dict.fromkeys(again.weights):
        with override_weights(memory.snapshot, state):
            answers[f"helix, sparse {state}"] = _ask_all(questions, default)
    if again.misspelled:
        answers["helix, misspelled"] = _ask_all(misspell_questions(questions), default)
    if again.best:
        answers["helix, best"] = _ask_all(questions, partial(ask_profile, memory, "helix", quality="best"))
    return answers


def _answer_pooled(
    questions: Sequence[Question], memory: Memory, settings: Settings, profiles: Sequence[str], pooled: Collection[str]
) -> dict[str, list[score.RankedAnswer]]:
    """Return the answers of the ways of `pooled` over all haystacks at once."""
    everywhere = [question._replace(project=None) for question in questions]
    ways = list_ways(memory, settings, profiles, everywhere)
    return {f"{way} pooled": _ask_all(everywhere, ask) for way, ask in ways.items() if way in pooled}


def _ask_all(questions: Sequence[Question], ask: Ask) -> list[score.RankedAnswer]:
    for question in questions[:_WARM]:
        ask(question)
    return [ask(question) for question in questions]


def _make_rows(
    values: Mapping[str, score.Floats],
    answers: Mapping[str, Sequence[score.RankedAnswer]],
    sizes: Sequence[int],
    profiles: Sequence[str],
) -> dict[str, dict[str, Any]]:
    rows = {way: score.make_row(values[way], given, sizes) for way, given in answers.items()}
    for suffix in ("", " pooled"):
        legs = {leg: values[leg + suffix] for leg in ("dense", "bm25") if leg + suffix in values}
        for way in (profile + suffix for profile in profiles):
            if legs and way in values:
                rows[way]["gain"] = score.measure_gain(values[way], legs)
    return rows


def _score_sessions(
    haystacks: Haystacks, questions: Sequence[Question], answers: Mapping[str, Sequence[score.RankedAnswer]]
) -> dict[str, dict[str, float]]:
    """Return the figures of sessions of every row; {} for a set whose sessions have one turn each."""
    turns = [turn for one in haystacks.values() for turn in one]
    if len(score.list_sessions(turns)) == len(turns):
        return {}
    return {way: score.score_sessions(questions, given) for way, given in answers.items() if " pooled" not in way}


def _write_runs(
    path: Path, name: str, questions: Sequence[Question], answers: Mapping[str, Sequence[score.RankedAnswer]]
) -> None:
    """Write a line for each question and row, without a word of the set's own."""
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
                    "metrics": {
                        metric: round(value, 6) for metric, value in score.score_answer(question, answer).items()
                    },
                    "skipped": answer.skipped,
                    "ms": round(answer.ms, 3),
                }
                file.write(orjson.dumps(line) + b"\n")


def format_report(report: dict[str, Any]) -> str:
    """Format the report for a terminal."""
    rows = report["rows"]
    margin = max(map(len, rows))
    blocks = [
        ("rec@10", "low", "high", "ndcg@10", "mrr", *(f"pack@{budget}" for budget in score.BUDGETS)),
        tuple(name for name in score.METRICS if name.split("@")[0] in ("any", "rec", "all")),
    ]
    lines = [f"{report['set']}: {report['questions']} questions, {report['items']} items"]
    for i, names in enumerate(blocks):
        more = ("skipped", "p50", "p95") if i == 0 else ()
        width = [max(7, len(name)) for name in (*names, *more)]
        head = "  ".join(f"{name:>{n}}" for name, n in zip((*names, *more), width, strict=True))
        lines.append(" " * margin + "  " + head)
        for way, row in rows.items():
            figures = [f"{row[name]:.3f}" for name in names]
            figures += [f"{row[name]:.1f}" if name != "skipped" else str(row[name]) for name in more]
            cells = "  ".join(f"{figure:>{n}}" for figure, n in zip(figures, width, strict=True))
            lines.append(f"{way:{margin}}  {cells}")
    if report["sessions"]:
        names = score.SESSION_METRICS
        lines.append(" " * margin + "  " + "  ".join(f"{name:>7}" for name in names) + "  (sessions)")
        for way, row in report["sessions"].items():
            lines.append(f"{way:{margin}}  " + "  ".join(f"{row[name]:>7.3f}" for name in names))
    if sound := report["sound"]:
        n, any_, rec = (sound[name] for name in ("doubted", "any@10", "rec@10"))
        lines.append(f"without {n} questions whose gold is known to be wrong: any@10 {any_:.3f}, rec@10 {rec:.3f}")
    for kind, row in report["kinds"].items():
        figures = [f"{name} {row[name]:.3f}" for name in ("any@10", "rec@10", "newest") if name in row]
        lines.append(f"{kind}: {row['questions']} questions, {', '.join(figures)}")
    lines += [f"{n} questions are left out: {reason}" for reason, n in report["left_out"].items()]
    return "\n".join([*lines, *report["notes"], *score.list_shortfalls(rows), *report["warnings"]])
