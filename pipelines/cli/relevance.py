"""`helix train relevance` and `helix eval relevance`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from helix.cli.parser import Parser, build_parser, print_json
from helix.cli.terminal import print_note, print_result, print_table, print_text
from helix.settings import load


def train_relevance(argv: Sequence[str]) -> int:
    """Train the models of relevance: how likely an item helps, and whether an answer does."""
    new = _make_parser("train relevance", train_relevance.__doc__ or "", "--out helix ")
    new.add_argument("--out", required=True, metavar="DIR", help="the folder of the package helix, or one like it")
    options = new.parse_args(argv)
    from pipelines.eval.relevance.train import train, write_models

    with ExitStack() as stack:
        models = train(_collect(options, stack), encoder := load().encoder, print_note)
    file = write_models(models, encoder, Path(options.out).expanduser())
    print_result(options.json, {"file": str(file), "variants": [*models]}, f"wrote {file}")
    return 0


def evaluate_relevance(argv: Sequence[str]) -> int:
    """Measure relevance: what it separates, how well it is calibrated, and what its threshold empties."""
    from pipelines.eval.relevance.measure import BY

    new = _make_parser("eval relevance", evaluate_relevance.__doc__ or "", "")
    text = "what a model never saw of what it is measured on: conversation or set (both)"
    new.add_argument("--by", choices=BY, metavar="WHAT", help=text)
    new.add_argument("--out", metavar="FILE", help="write the section of the quality report, such as docs/quality.md")
    options = new.parse_args(argv)
    from pipelines.eval.document import check_matplotlib
    from pipelines.eval.relevance.document import write_section
    from pipelines.eval.relevance.measure import measure_relevance

    if options.out:
        check_matplotlib()
    ways, hook = (options.by,) if options.by else BY, load().hook_answered
    with ExitStack() as stack:
        cases = _collect(options, stack)
        reports = {by: measure_relevance(cases, by, "vectors", print_note, hook) for by in ways}
    if options.out:
        written = write_section(reports, Path(options.out).expanduser())
        print_note(f"written: {', '.join(map(str, written))}")
    if options.json:
        print_json(reports)
    else:
        for report in reports.values():
            _print_report(report)
    return 0


def _make_parser(name: str, about: str, options: str) -> Parser:
    new = build_parser(
        name,
        about,
        f"  helix {name} {options}\n"
        f"  helix {name} {options}locomo=locomo10.json beam=beam/ musique=musique/ --store work\n\n"
        "Sets are those of 'helix eval'; the packaged histories and prompts always count.\n"
        "The stores of all sets stay below --store, if it is given; later runs find them there.",
    )
    new.add_argument("sets", nargs="*", metavar="SET=PATH", help="SET:LABEL=PATH for several sets of one kind")
    new.add_argument(
        "--logs", metavar="DIR", help="folder of agents' logs, whose prompts are asked where nothing helps"
    )
    return new


def _collect(options: Any, stack: ExitStack) -> list[Any]:
    from pipelines.eval.relevance.collect import collect_cases
    from pipelines.eval.report import parse_set

    sets = {one.label: (one.set, one.path) for one in map(parse_set, options.sets)}
    work = Path(options.store or stack.enter_context(tempfile.TemporaryDirectory())).expanduser()
    logs = Path(options.logs).expanduser() if options.logs else None
    return collect_cases(sets, load(), work, print_note, logs)


_COLUMNS = ("other", "hard", "abstention", "emptied", "passed")


def _print_report(report: dict[str, Any]) -> None:
    print_text(f"relevance: {report['cases']:,} cases, by models that never saw the {report['by']}")
    head = ("", "answerable", "other", "hard", "abstention", "emptied", "other passed")
    rows = [
        [name, f"{row['answerable']:,}", *(_format(row[column]) for column in _COLUMNS)]
        for name, row in report["sets"].items()
    ]
    print_table([head, *rows], (), range(1, len(head)))
    prompts = [[name, _format(share)] for name, share in report["prompts"].items()]
    print_table([("prompts that need no memory", "passed"), *prompts], (), (1,))
    if report["logs"]:
        logs = [
            [name, f"{row['cases']:,}", *map(_format, (row["passed"], row["spoken"]))]
            for name, row in report["logs"].items()
        ]
        print_table(
            [("prompts of logs", "cases", "passed", f"a hook speaks ({report['hook']:g})"), *logs], (), (1, 2, 3)
        )
    ece = report["ece"]
    print_text(f"expected calibration error: answered {ece['answered']:.3f}, relevance {ece['relevance']:.3f}")
    print_text(f"a context is empty below answered {report['least']:g}; 'emptied' is the share of answerable questions")


def _format(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
