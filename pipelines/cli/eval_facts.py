"""`helix eval facts`: how many facts logs state, which items they supersede, and samples to judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import format_count, print_error, print_note, print_text
from helix.errors import UsageError
from helix.settings import load

_QUOTE: Final = 300
"""Characters of a quoted text."""


def evaluate_facts(argv: Sequence[str]) -> int:
    """Count the facts of any logs and the items marked as superseded, and draw samples for a person to judge."""
    new = build_parser(
        "eval facts",
        evaluate_facts.__doc__ or "",
        "  helix eval facts ~/.claude/projects\n  helix eval facts logs/ notes.md --sample 50 --seed 1 --json",
    )
    new.add_argument("paths", nargs="+", metavar="PATH", help="logs, or folders of them, as for 'helix ingest'")
    new.add_argument("--sample", type=int, default=0, metavar="N", help="draw N facts and N superseded items (0)")
    new.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the draw (0)")
    options = new.parse_args(argv)
    if options.sample < 0:
        raise UsageError(f"--sample {options.sample} is below 0", "give the number of facts to draw")
    from pipelines.eval.facts import measure_facts

    report = measure_facts(
        [Path(path).expanduser() for path in options.paths],
        load(),
        # Never HELIX_STORE: a measurement is no memory.
        store=Path(options.store).expanduser() if options.store else None,
        sample=options.sample,
        seed=options.seed,
        say=print_note,
    )
    for entry in report["refused"]:
        print_error("helix eval facts", f"{entry['path']}: {entry['reason']}")
    print_json(report) if options.json else print_text("\n".join(_format_report(report)))
    return 3 if report["refused"] else 0


def _format_report(report: dict[str, Any]) -> list[str]:
    rates = (f"{name} {report[name]:,} ({_format_rate(report[f'{name}_per_1000'])})" for name in ("facts", "slots"))
    lines = [
        f"{format_count(report['turns'], 'turn')} of users and assistants: {', '.join(rates)}",
        f"{format_count(report['items'], 'item')}, {report['stating']:,} with facts: {report['marked']:,} superseded"
        + (f" ({report['share']:.2%})" if report["share"] is not None else ""),
    ]
    for one in report.get("sampled", ()):
        qualifier = f" ({one['qualifier']})" if one["qualifier"] else ""
        lines += [
            "",
            f"{one['subject']} | {one['relation']} | {one['object']}{qualifier}",
            f"  {_quote(one['sentence'])}",
        ]
        lines.append(f"  {one['item']} {one['role']} {one['t_valid'] or ''}".rstrip())
    for one in report.get("replaced", ()):
        lines += ["", f"superseded {one['item']} {one['time'] or ''}".rstrip(), f"  {_quote(one['text'])}"]
        lines += [f"  by {new['item']} {new['time'] or ''} {_quote(new['text'])}" for new in one["replaced_by"]]
    return lines


def _format_rate(rate: float | None) -> str:
    return "no turn" if rate is None else f"{rate:.1f} a thousand"


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE else f"{line[: _QUOTE - 1]}…"
