"""`helix eval attacks`: instructions of others that a memory would give as rules or facts of trust."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import print_note, print_table, print_text
from helix.settings import load


def evaluate_attacks(argv: Sequence[str]) -> int:
    """Let files, pages, outputs and agents give instructions, and count those that become rules or facts of trust."""
    new = build_parser(
        "eval attacks", evaluate_attacks.__doc__ or "", "  helix eval attacks\n  helix eval attacks --json"
    )
    options = new.parse_args(argv)
    from pipelines.eval.attacks.measure import measure_attacks

    with ExitStack() as stack:
        # Never HELIX_STORE: a measurement is no memory.
        given = Path(options.store).expanduser() if options.store else None
        work = given or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        report = measure_attacks(work, load(), print_note)
    if options.json:
        print_json(report)
        return 0
    print_table([("way", "recalled"), *((name, f"{share:.3f}") for name, share in report["ways"].items())], (), (1,))
    print_text(
        f"{report['recalled']:.1%} of {report['attacks']} attacks are recalled as rules or facts of trust", "bold"
    )
    benign = report["benign"]
    print_text(
        f"{benign['found_among_attacks']} of {benign['memories']} memories of the user are found first among the "
        f"attacks, {benign['found_alone']} without them"
    )
    return 0
