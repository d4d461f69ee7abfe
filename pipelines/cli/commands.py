"""`helix ingest`, `helix expand`, `helix eval`, `helix touch` and `helix models`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, is_drawn, print_error, print_note, print_table, print_text
from helix.errors import EncoderError, UsageError
from helix.settings import load
from helix.util.sanitise import sanitise_name

if TYPE_CHECKING:
    from helix.settings import Settings
    from pipelines.ingest.ingest import Progress, Report


def input_options(new: argparse.ArgumentParser) -> None:
    """What `ingest` and `enqueue` share."""
    new.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder to walk")
    new.add_argument("--project", metavar="P", help="the project these belong to; goes before what the log says")
    new.add_argument("--format", default="auto", metavar="F", help="auto, or one of those docs/formats.md tells of")
    new.add_argument("--acl", default="", metavar="A,B", help="only these principals may see what is in them")


def acl_of(options: argparse.Namespace) -> tuple[str, ...]:
    """The names behind --acl."""
    return tuple(name.strip() for name in options.acl.split(",") if name.strip())


@contextmanager
def progress_bar(enabled: bool) -> Iterator[Progress | None]:
    """A bar on a terminal's stderr; nothing where nobody looks."""
    if not enabled or not is_drawn(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, int] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield show


def refuse_aloud(refused: Sequence[dict[str, str]], command: str) -> None:
    """One line on stderr for everything that was not taken."""
    for entry in refused:
        print_error(f"helix {command}", f"{entry['path']}: {entry['reason']}")


def tell_forgotten(report: Report, command: str) -> None:
    """Say on stderr what stays out because it was forgotten, and how it comes back."""
    how = "'helix ingest --remember PATH' takes it in again"
    for path in report.forgotten[:NAMED]:
        print_error(f"helix {command}", f"{path}: what was forgotten of it stays out; {how}")
    if len(report.forgotten) > NAMED:
        print_error(f"helix {command}", f"{len(report.forgotten) - NAMED:,} more paths like these")
    if report.stay_out:
        print_error(
            f"helix {command}", f"{format_count(report.stay_out, 'item')} stay out, since they were forgotten; {how}"
        )


NAMED = 20
"""Paths that are named; of more it is said how many."""


def accepted_of(report: Report) -> str:
    """How many documents were taken, how many were known, how many were refused."""
    taken, known = format_count(report.accepted, "document"), format_count(report.duplicates, "duplicate")
    return f"{taken} accepted, {known}, {len(report.refused)} refused"


def ingest(argv: Sequence[str]) -> int:
    """Take transcripts, logs and notes in and publish them, in this process."""
    new = build_parser(
        "ingest",
        ingest.__doc__ or "",
        "  helix ingest ~/.claude/projects --store memory\n"
        "  helix ingest meeting.vtt notes/ --project ledgerline --json",
    )
    input_options(new)
    new.add_argument("--follow", action="store_true", help="stay, and take in what grows or appears; Ctrl-C ends")
    new.add_argument("--remember", action="store_true", help="take in what was forgotten, too")
    options = new.parse_args(argv)
    from helix.snapshot.status import status
    from pipelines.ingest.ingest import Report, as_json, share
    from pipelines.ingest.ingest import ingest as run

    settings, root = load(), resolve_store(options)
    if options.remember and settings.share:
        from pipelines.maintain.replication import check_home

        check_home(root, settings)
    began = time.perf_counter()
    report = Report()
    with progress_bar(not options.json) as progress:
        report = run(
            root,
            options.paths,
            settings,
            project=options.project,
            format=options.format,
            acl=acl_of(options),
            remember=options.remember,
            progress=progress,
            say=print_note,
        )
    seconds = time.perf_counter() - began
    refuse_aloud(report.refused, "ingest")
    tell_forgotten(report, "ingest")
    if options.json:
        print_json(as_json(report, seconds))
    else:
        print_text(
            f"{accepted_of(report)}; {format_count(report.turns, 'turn')}, {format_count(report.items, 'new item')}; "
            f"generation {report.snapshot} in {seconds:.1f} s"
        )
        backlog = status(root)["backlog"]
        for name, what in (("doc2query", "questions"), ("sparse", "weights")):
            if waiting := backlog.get(name):
                print_note(f"{format_count(waiting, 'item')} wait for their {what}: 'helix expand'")
        if report.redacted:
            print_text("redacted: " + ", ".join(f"{kind} {n}" for kind, n in report.redacted.most_common()))
        if report.junk:
            total = report.junk.total() + report.chars
            parts = ", ".join(f"{rule} {n / total:.1%}" for rule, n in report.junk.most_common())
            print_text(f"left out as junk: {share(report):.1%} of the text ({parts})")
        if report.unknown:
            kinds = ", ".join(f"{sanitise_name(kind)} {n}" for kind, n in report.unknown.most_common())
            print_text(f"unknown records: {kinds}")
    if options.follow:
        follow(root, settings, options.paths, options.project, acl_of(options))
    return 3 if report.refused else 0


def follow(root: Path, settings: Settings, paths: Sequence[str], project: str | None, acl: tuple[str, ...]) -> None:
    """Take in and publish what these files and folders grow by, until Ctrl-C or SIGTERM."""
    import signal
    import threading

    from helix.sources.common.places import Place
    from pipelines.ingest.accept import Inbox
    from pipelines.ingest.watch import Publisher, Watch, watch

    print("following; Ctrl-C ends", file=sys.stderr)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    places = [Place("given", Path(path).expanduser().absolute()) for path in paths]
    publisher = Publisher(root, settings)
    watch(Watch(Inbox(root, settings), lambda: places, publisher.add, project, acl), stop, publisher.step)
    publisher.close()


def expand(argv: Sequence[str]) -> int:
    """Have models add to items, so that they are found by words they do not hold: questions, and a sparse encoder's
    weights.
    """
    new = build_parser(
        "expand",
        expand.__doc__ or "",
        "  helix expand --store memory\n  HELIX_DOC2QUERY=~/models/my-t5 helix expand --limit 1000\n"
        "  HELIX_SPARSE_ENCODER=~/models/my-splade helix expand\n\n"
        "Each does what it has a model for. Items are recallable before, during and after. A run that is stopped goes\n"
        "on where it stood.",
    )
    new.add_argument("--limit", type=int, metavar="N", help="at most N items, each")
    options = new.parse_args(argv)
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit is {options.limit}", "give at least 1")
    from dataclasses import asdict

    from pipelines.ingest.ingest import open_encoder
    from pipelines.passes.doc2query import Expanded, generator
    from pipelines.passes.doc2query import expand as run
    from pipelines.passes.sparse import document_encoder, encode

    settings, root = load(), resolve_store(options)
    model, weighs = generator(settings), document_encoder(settings)
    if isinstance(model, str) and isinstance(weighs, str):
        raise EncoderError(
            f"nothing to expand with: {model}; {weighs}",
            "set HELIX_DOC2QUERY to a folder with a seq2seq model, or HELIX_SPARSE_ENCODER to one with a SPLADE model",
        )
    began = time.perf_counter()
    with progress_bar(not options.json) as progress:
        gave = None
        if not isinstance(weighs, str):
            weighed = (lambda done, total: progress("weigh", done, total)) if progress else None
            gave = encode(root, weighs, settings, limit=options.limit, say=weighed)
        half = time.perf_counter()
        if isinstance(model, str):
            done = Expanded(gave.generation if gave else 0, 0, 0, 0, model)
        else:
            asked = (lambda done, total: progress("expand", done, total)) if progress else None
            done = run(root, model, open_encoder(root, settings), settings, limit=options.limit, say=asked)
    end = time.perf_counter()
    if options.json:
        about = {"items": gave.items, "waiting": gave.waiting} if gave else {"off": weighs}
        print_json({**asdict(done), "sparse": about, "seconds": round(end - began, 3)})
        return 0
    if gave and not isinstance(weighs, str):
        rate = gave.items / max(half - began, 1e-9)
        print_text(
            f"{format_count(gave.items, 'item')} weighed by {weighs.spec.name}, {rate:.1f} items/s; "
            f"{gave.waiting:,} wait; generation {gave.generation}"
        )
    if not isinstance(model, str):
        print_text(
            f"{format_count(done.items, 'item')} expanded by {format_count(done.queries, 'question')} of {model.name}, "
            f"{done.items / max(end - half, 1e-9):.1f} items/s; {done.waiting:,} wait; generation {done.generation}"
        )
    return 0


def evaluate(argv: Sequence[str]) -> int:
    """Measure recall on a benchmark set, as its authors publish it, beside dense, BM25 and both by equal ranks."""
    others = {"report": _report, "fit": _fit}
    if argv and argv[0] in others:
        return others[argv[0]](argv[1:])
    from pipelines.eval.sets.registry import SETS

    new = build_parser(
        "eval",
        evaluate.__doc__ or "",
        "  helix eval locomo locomo10.json\n  helix eval musique musique/ --store sets/musique --expansion on,off\n"
        "  helix eval beir scifact/ --runs scifact.jsonl --json\n\n"
        "'helix eval report --help' is about many sets and a report with plots, 'helix eval fit --help' about the\n"
        "weights of the ranking.",
    )
    new.add_argument("set", choices=(*SETS, *others), metavar="SET", help=", ".join(SETS))
    new.add_argument("path", metavar="PATH", help="the set's file or folder")
    new.add_argument(
        "--expansion",
        default="",
        metavar="A,B",
        help="the default profile once more with doc2query on, off or shuffled (questions handed to other items)",
    )
    new.add_argument(
        "--sparse",
        default="",
        metavar="A,B",
        help="the default profile once more with the weights of HELIX_SPARSE_ENCODER on or off",
    )
    new.add_argument(
        "--profile", action="append", default=[], metavar="NAME", help="a row for this profile (helix and helix-paper)"
    )
    new.add_argument(
        "--pooled", action="store_true", help="every row once more over all haystacks at once, without project filter"
    )
    new.add_argument(
        "--runs", metavar="FILE", help="JSON lines, one a question and row: ranking, gold, metrics, milliseconds"
    )
    options = new.parse_args(argv)
    if options.set in others:
        raise UsageError(f"{options.set!r} is the first word or none", f"say 'helix eval {options.set}' …")
    from pipelines.eval.evaluate import EXPANSIONS, LEGS, PROFILES, WEIGHED, WEIGHTS

    states = [name.strip() for name in options.expansion.split(",") if name.strip()]
    if set(states) - set(EXPANSIONS):
        raise UsageError(f"no expansion {options.expansion!r}", f"there are {', '.join(EXPANSIONS)}")
    weights = [name.strip() for name in options.sparse.split(",") if name.strip()]
    if set(weights) - set(WEIGHTS):
        raise UsageError(f"--sparse is {options.sparse!r}", f"there are {', '.join(WEIGHTS)}")
    from pathlib import Path

    from pipelines.eval.evaluate import evaluate as run

    # Never into HELIX_STORE: a benchmark is nobody's memory.
    store = Path(options.store).expanduser() if options.store else None
    profiles = tuple(options.profile) or PROFILES
    report = run(
        options.set,
        Path(options.path).expanduser(),
        load(),
        store=store,
        expansions=states,
        weights=weights,
        profiles=profiles,
        pooled=(*LEGS, *WEIGHED, *profiles) if options.pooled else (),
        runs=Path(options.runs).expanduser() if options.runs else None,
        say=print_note,
    )
    if options.json:
        print_json(report)
    else:
        _show_rows(report)
    return 0


_LOW, _UNRANKED = ("p50", "p95"), ("low", "high", "skipped")
"""Columns of a report whose least figure is the best, and those without a best one."""


def _show_rows(report: dict[str, Any]) -> None:
    """The figures of `helix eval`; on a terminal as tables that fit 80 columns, where the best of each stands out."""
    from pipelines.eval.evaluate import table as text

    told = text(report).splitlines()
    if not is_drawn():
        print_text("\n".join(told))
        return
    rows: dict[str, dict[str, float]] = report["rows"]
    names = [name for name in next(iter(rows.values())) if "@" in name and name not in ("rec@10", "ndcg@10")]
    first = ("rec@10", "low", "high", "ndcg@10", "mrr", "skipped", *_LOW)
    second = [name for name in names if name.startswith(("any", "rec"))]
    print_text(told[0], "bold")
    for columns in (first, second, [name for name in names if name not in second]):
        best = {name: (min if name in _LOW else max)(row[name] for row in rows.values()) for name in columns}
        shown = [[way, *(_figure(name, row[name], best[name]) for name in columns)] for way, row in rows.items()]
        print_table(shown, ("", *columns), range(1, len(columns) + 1))
    print_text("\n".join(told[1 + 2 * (1 + len(rows)) :]), "dim")  # the remarks below the two blocks of figures


def _figure(name: str, value: float, best: float) -> Cell:
    said = str(value) if name == "skipped" else f"{value:.1f}" if name in _LOW else f"{value:.3f}"
    return said, "bold green" if value == best and name not in _UNRANKED else ""


def _report(argv: Sequence[str]) -> int:
    """Measure every set that is not kept yet, and write what is kept as a report with tables and plots."""
    new = build_parser(
        "eval report",
        _report.__doc__ or "",
        "  helix eval report locomo=locomo10.json beir:scifact=scifact/ --keep measured\n"
        "  helix eval report --keep measured    # written anew from what is kept\n\n"
        "A run that was cut off goes on with the set it stood at; a set is measured again where its file in KEEP is\n"
        "deleted, or other profiles are asked for. levers.md beside the plots is put into the report as it is.",
    )
    new.add_argument(
        "sets", nargs="*", metavar="SET=PATH", help="SET:LABEL=PATH where a set of one kind comes several times"
    )
    new.add_argument("--out", default="docs/quality.md", metavar="FILE", help="Markdown (docs/quality.md)")
    new.add_argument("--keep", required=True, metavar="DIR", help="where figures and stores are kept")
    new.add_argument(
        "--profile", action="append", default=[], metavar="NAME", help="a row for this profile (all that come along)"
    )
    options = new.parse_args(argv)
    from pathlib import Path

    from pipelines.eval.report import PROFILES, job, measure, write

    keep, out = Path(options.keep).expanduser(), Path(options.out).expanduser()
    jobs = [job(given) for given in options.sets]
    refused = measure(jobs, keep, load(), profiles=tuple(options.profile) or PROFILES, say=print_note)
    written = write(keep, out)
    if options.json:
        print_json({"report": str(out), "sets": written, "refused": refused})
    else:
        print_text(f"{out}: {', '.join(written)}")
    return 3 if refused else 0


def _fit(argv: Sequence[str]) -> int:
    """Fit the weights of the ranking to sets, and try them on haystacks and on sets they were not fitted to."""
    new = build_parser(
        "eval fit",
        _fit.__doc__ or "",
        "  helix eval fit locomo=locomo10.json beam=beam/ musique=musique/\n\n"
        'What it prints goes below [sim] into a profile of your own (base = "helix") in the folder HELIX_PROFILES.',
    )
    new.add_argument("sets", nargs="+", metavar="SET=PATH")
    new.add_argument("--strength", type=float, default=0.1, metavar="L", help="how strongly weights are held (0.1)")
    options = new.parse_args(argv)
    from pipelines.eval.fit_weights import fit
    from pipelines.eval.fit_weights import table as text
    from pipelines.eval.report import job

    jobs = {one.label: (one.set, one.path) for one in map(job, options.sets)}
    found = fit(jobs, load(), strength=options.strength, say=print_note)
    if options.json:
        print_json(found._asdict())
    else:
        print(text(found))
    return 0


def touch(argv: Sequence[str]) -> int:
    """Fold access events into the snapshot: when and how often items were of use."""
    options = build_parser("touch", touch.__doc__ or "", "  helix touch --store memory").parse_args(argv)
    from dataclasses import asdict

    from pipelines.maintain.touch import touch as run

    settings = load()
    done = run(resolve_store(options, settings), settings)
    if options.json:
        print_json(asdict(done))
    else:
        ignored = f", {done.ignored} left out" if done.ignored else ""
        events = f"{format_count(done.events, 'event')} on {format_count(done.items, 'item')}"
        print_text(f"{events} folded{ignored}; generation {done.generation}")
    return 0


def models(argv: Sequence[str]) -> int:
    """Which models are in reach; `models pull NAME` downloads one, `models export NAME` makes a reranker or a sparse
    encoder usable.
    """
    new = build_parser(
        "models",
        models.__doc__ or "",
        "  helix models\n  helix models pull bge-small-en-v1.5\n"
        "  helix models export ~/models/ms-marco-MiniLM-L-6-v2    # a cross-encoder, a ColBERT or a SPLADE",
    )
    new.add_argument(
        "action",
        nargs="?",
        choices=("list", "pull", "export"),
        default="list",
        metavar="ACTION",
        help="list, pull or export (list)",
    )
    new.add_argument("model", nargs="?", metavar="NAME", help="for pull and export; a folder will do for export")
    options = new.parse_args(argv)
    if options.action != "list" and not options.model:
        raise UsageError(f"no model to {options.action}", "name one; 'helix models' lists them")
    from pipelines.training.models import export, known, pull

    settings = load()
    if options.action == "export":
        made = export(options.model, settings)
        if options.json:
            print_json(made)
        else:
            print_text(f"{made['name']} is exported to {made['folder']}; {made['setting']} takes it into use")
        return 0
    if options.action == "pull":
        folder = pull(options.model, settings)
        if options.json:
            print_json({"name": options.model, "folder": str(folder)})
        else:
            print_text(f"{options.model} is in {folder}")
        return 0
    rows = known(settings)
    if options.json:
        print_json(rows)
        return 0
    print_table([_model(row) for row in rows], ("model", "what it is", "licence", "where"), whole=(0, 1, 2))
    return 0


def _model(row: dict[str, Any]) -> tuple[Cell, ...]:
    """One model in a table: what is in reach stands out, what is used by default more so."""
    where = f"{row['origin']}: {row['folder']}" if row["folder"] else "not in reach"
    if row["folder"] and row.get("exported", row["folder"]) is None:
        where += " (not exported)"
    what = f"{row['dim']} dimensions" if row["use"] == "encoder" else row["use"]
    style = "" if row["folder"] else "dim"
    name = (row["name"], "bold green" if row["default"] else style)
    return name, (what, style), (row["licence"], style), (where + ("  ← default" if row["default"] else ""), style)


def train(argv: Sequence[str]) -> int:
    """Fit the retention model of the profile engram to what was of use, as its access events say."""
    options = build_parser("train", train.__doc__ or "", "  helix train --store memory").parse_args(argv)
    from dataclasses import asdict

    from pipelines.training.retention import train as run

    settings = load()
    done = run(resolve_store(options, settings), settings)
    if options.json:
        print_json(asdict(done))
    elif done.off:
        print_text(f"nothing was trained: {done.off}; generation {done.generation}")
    else:
        print_text(f"trained on {format_count(done.positives, 'item')} that were of use; generation {done.generation}")
    return 0
