"""`helix eval types`: how often items get the type that a person would give them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import format_count, print_table, print_text
from helix.settings import load

_COLUMNS: Final = ("precision", "recall", "f1")
_QUOTE: Final = 160
"""Characters of a quoted text."""


def evaluate_types(argv: Sequence[str]) -> int:
    """Measure the types that items get, on labelled texts or on labelled items of a store."""
    from pipelines.eval.item_types import HALVES, PACKAGED

    new = build_parser(
        "eval types",
        evaluate_types.__doc__ or "",
        "  helix eval types --half test\n"
        "  helix eval types labelled.jsonl --errors --json\n"
        "  helix eval types labels.jsonl --store memory\n\n"
        'A line is {"text": "…", "type": "decision"}; "role" (user), "origin", "speaker" and "split" are optional.\n'
        'With --store it is {"item": "ID", "type": "decision"}, and no text is needed.',
    )
    new.add_argument("path", nargs="?", metavar="PATH", help="JSON lines of labelled texts (the packaged ones)")
    new.add_argument("--half", choices=(*HALVES, "all"), default="all", metavar="H", help="dev, test or all (all)")
    new.add_argument("--errors", action="store_true", help="list the texts whose type is wrong")
    options = new.parse_args(argv)
    from pipelines.eval.item_types import evaluate_types as run

    report = run(
        Path(options.path).expanduser() if options.path else PACKAGED,
        load(),
        half=options.half,
        # Never HELIX_STORE: the labels belong to one store.
        store=Path(options.store).expanduser() if options.store else None,
        listed=options.errors,
    )
    print_json(report) if options.json else _print_report(report)
    return 0


def _print_report(report: dict[str, Any]) -> None:
    rows = report["rows"].items()
    cells = [[name, *(f"{row[column]:.3f}" for column in _COLUMNS), f"{row['texts']:,}"] for name, row in rows]
    print_table(cells, ("type", *_COLUMNS, "texts"), range(1, 5))
    count = format_count(report["texts"], "text")
    print_text(f"{count}: macro F1 {report['macro_f1']:.3f}, accuracy {report['accuracy']:.3f}", "dim")
    for one in report.get("errors", ()):
        print_text(f"{one['type']}, found {one['found']}: {' '.join(one['text'].split())[:_QUOTE]}")
