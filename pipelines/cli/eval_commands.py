"""`helix eval`, `helix eval report` and `helix eval fit`; further kinds have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import Cell, is_drawn, print_note, print_result, print_table, print_text
from helix.errors import UsageError
from helix.settings import load
from pipelines.cli.attacks import evaluate_attacks
from pipelines.cli.eval_changes import evaluate_changes
from pipelines.cli.eval_facts import evaluate_facts
from pipelines.cli.eval_types import evaluate_types
from pipelines.cli.relevance import evaluate_relevance
from pipelines.cli.replay import evaluate_replay

_LOW, _UNRANKED = ("p50", "p95"), ("low", "high", "skipped")
"""Columns whose lowest figure is the best, and columns without a best figure."""

_PROFILE_HELP: Final = "a row for this profile"


_KINDS: Final = {
    "attacks": evaluate_attacks,
    "changes": evaluate_changes,
    "facts": evaluate_facts,
    "relevance": evaluate_relevance,
    "replay": evaluate_replay,
    "types": evaluate_types,
}


_EXAMPLES: Final = (
    "  helix eval locomo locomo10.json\n  helix eval musique musique/ --store sets/musique --expansion on,off\n"
    "  helix eval beir scifact/ --runs scifact.jsonl --json\n\n"
    "These have a --help of their own:\n"
    "  attacks    instructions of others that become rules or facts of trust\n"
    "  changes    histories where things change: what holds now, what held before, and why\n"
    "  facts      facts of any logs, and the items marked as superseded\n"
    "  relevance  what helps with a question, and silence where nothing does\n"
    "  replay     what hooks would have added to prompts and tool calls of agents' logs\n"
    "  types      types of items, on labelled texts\n"
    "  report     a report over many sets, with plots\n"
    "  fit        the fitting of ranking weights"
)


def evaluate(argv: Sequence[str]) -> int:
    """Measure recall on a benchmark set as its authors publish it, next to dense, BM25 and their fusion."""
    others = {**_KINDS, "report": _report, "fit": _fit}
    if argv and argv[0] in others:
        return others[argv[0]](argv[1:])
    from pipelines.eval.sets.registry import SETS

    new = build_parser(
        "eval",
        evaluate.__doc__ or "",
        _EXAMPLES,
    )
    new.add_argument("set", choices=(*SETS, *others), metavar="SET", help=", ".join(SETS))
    new.add_argument("path", metavar="PATH", help="the set's file or folder")
    new.add_argument(
        "--expansion",
        default="",
        metavar="A,B",
        help="the default profile again with doc2query on, off or shuffled (questions of other items)",
    )
    new.add_argument(
        "--sparse",
        default="",
        metavar="A,B",
        help="the default profile again with the weights of HELIX_SPARSE_ENCODER on or off",
    )
    new.add_argument(
        "--profile", action="append", default=[], metavar="NAME", help=f"{_PROFILE_HELP} (helix and helix-paper)"
    )
    new.add_argument("--pooled", action="store_true", help="every row again over all haystacks at once, unfiltered")
    new.add_argument("--misspelled", action="store_true", help="the default profile again, with typing errors")
    new.add_argument("--best", action="store_true", help="the default profile again, with quality best")
    new.add_argument("--runs", metavar="FILE", help="JSON lines, one a question and row: ranking, gold, metrics, ms")
    options = new.parse_args(argv)
    if options.set in others:
        raise UsageError(f"{options.set!r} has to be the first word", f"run 'helix eval {options.set}' …")
    from pipelines.eval.evaluate import Again
    from pipelines.eval.evaluate import evaluate as run
    from pipelines.eval.ways import EXPANSIONS, LEGS, PROFILES, WEIGHED, WEIGHTS

    profiles = tuple(options.profile) or PROFILES
    report = run(
        options.set,
        Path(options.path).expanduser(),
        load(),
        # Never HELIX_STORE: a benchmark is no memory.
        store=Path(options.store).expanduser() if options.store else None,
        profiles=profiles,
        pooled=(*LEGS, *WEIGHED, *profiles) if options.pooled else (),
        again=Again(
            _split("--expansion", options.expansion, EXPANSIONS),
            _split("--sparse", options.sparse, WEIGHTS),
            options.misspelled,
            options.best,
        ),
        runs=Path(options.runs).expanduser() if options.runs else None,
        say=print_note,
    )
    print_json(report) if options.json else _print_rows(report)
    return 0


def _split(option: str, value: str, allowed: Sequence[str]) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    if set(names) - set(allowed):
        raise UsageError(f"{option} is {value!r}", f"there are {', '.join(allowed)}")
    return names


def _print_rows(report: dict[str, Any]) -> None:
    """Print the figures; on a terminal as tables of 80 columns, with the best figures in bold."""
    from pipelines.eval.evaluate import format_report

    lines = format_report(report).splitlines()
    if not is_drawn():
        print_text("\n".join(lines))
        return
    rows: dict[str, dict[str, float]] = report["rows"]
    names = [name for name in next(iter(rows.values())) if "@" in name and name not in ("rec@10", "ndcg@10")]
    first = ("rec@10", "low", "high", "ndcg@10", "mrr", "skipped", *_LOW)
    second = [name for name in names if name.startswith(("any", "rec"))]
    print_text(lines[0], "bold")
    for columns in (first, second, [name for name in names if name not in second]):
        best = {name: (min if name in _LOW else max)(row[name] for row in rows.values()) for name in columns}
        cells = [[way, *(_format_figure(name, row[name], best[name]) for name in columns)] for way, row in rows.items()]
        print_table(cells, ("", *columns), range(1, len(columns) + 1))
    print_text("\n".join(lines[1 + 2 * (1 + len(rows)) :]), "dim")  # the remarks below the two blocks of figures


def _format_figure(name: str, value: float, best: float) -> Cell:
    text = str(value) if name == "skipped" else f"{value:.1f}" if name in _LOW else f"{value:.3f}"
    return text, "bold green" if value == best and name not in _UNRANKED else ""


def _report(argv: Sequence[str]) -> int:
    """Measure every set that has no figures yet, and write a report of all figures with tables and plots."""
    new = build_parser(
        "eval report",
        _report.__doc__ or "",
        "  helix eval report locomo=locomo10.json beir:scifact=scifact/ --keep measured\n"
        "  helix eval report --keep measured    # write the report again from its figures\n\n"
        "An interrupted run continues with its set. To measure a set again, delete its file in KEEP or name other\n"
        "profiles. The report includes levers.md and relevance.md, if the plots' folder has them, unchanged.",
    )
    new.add_argument("sets", nargs="*", metavar="SET=PATH", help="SET:LABEL=PATH for several sets of one kind")
    new.add_argument("--out", default="docs/quality.md", metavar="FILE", help="Markdown (docs/quality.md)")
    new.add_argument("--keep", required=True, metavar="DIR", help="folder of figures and stores")
    new.add_argument("--profile", action="append", default=[], metavar="NAME", help=f"{_PROFILE_HELP} (all bundled)")
    options = new.parse_args(argv)
    from pipelines.eval.report import PROFILES, measure, parse_set, write

    keep, out = Path(options.keep).expanduser(), Path(options.out).expanduser()
    sets = [parse_set(text) for text in options.sets]
    refused = measure(sets, keep, load(), profiles=tuple(options.profile) or PROFILES, say=print_note)
    written = write(keep, out)
    value = {"report": str(out), "sets": written, "refused": refused}
    print_result(options.json, value, f"{out}: {', '.join(written)}")
    return 3 if refused else 0


def _fit(argv: Sequence[str]) -> int:
    """Fit the ranking's constants to sets for one encoder, and test them on haystacks they were not fitted to."""
    new = build_parser(
        "eval fit",
        _fit.__doc__ or "",
        "  helix eval fit locomo=locomo10.json beam=beam/ musique=musique/\n"
        "  HELIX_ENCODER=multilingual-e5-small HELIX_SPARSE_ENCODER=splade-tiny helix eval fit … --store work\n\n"
        'Its output goes into a profile of your own (base = "helix") in the folder HELIX_PROFILES.',
    )
    new.add_argument("sets", nargs="+", metavar="SET=PATH")
    new.add_argument("--each", type=int, default=1, metavar="N", help="ask every Nth question of a large set (1)")
    options = new.parse_args(argv)
    if options.each < 1:
        raise UsageError(f"--each is {options.each}", "give at least 1")
    from pipelines.eval.fit_weights import fit_weights, format_weights
    from pipelines.eval.report import parse_set

    sources = {one.label: (one.set, one.path) for one in map(parse_set, options.sets)}
    work = Path(options.store).expanduser() if options.store else None
    fitted = fit_weights(sources, load(), work, each=options.each, say=print_note)
    if options.json:
        print_json(fitted._asdict())
    else:
        print(format_weights(fitted))
    return 0
