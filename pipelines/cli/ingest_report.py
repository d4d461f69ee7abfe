"""The report of an ingest for a person: what came in, what stayed out and why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.cli.terminal import format_count, print_error, print_note, print_text
from helix.util.sanitise import sanitise_name

if TYPE_CHECKING:
    from collections import Counter

    from pipelines.ingest.accept_all import IngestReport

NAMED: Final = 20
"""Paths that are named; the others are counted."""

_KINDS: Final = 3  # of unknown records, rules of junk: the most frequent are named
_KIND_CHARS: Final = 40
_LEAST_SHARE: Final = 0.0005  # of junk that a rule left out


def print_refused(report: IngestReport, command: str) -> None:
    """Print a line to stderr for each refused input, and for what stays out: it was forgotten, or Helix is off."""
    command, remedy = f"helix {command}", "'helix ingest --remember PATH' accepts it again"
    for entry in report.refused:
        print_error(command, f"{entry['path']}: {entry['reason']}")
    off = [one.describe(path) for path, found in report.left_out.items() for one in found]
    for line in off[:NAMED]:
        print_error(command, line)
    if len(off) > NAMED:
        print_error(command, f"{len(off) - NAMED:,} more inputs of which parts stay out while Helix is off")
    for path in report.forgotten[:NAMED]:
        print_error(command, f"{path}: a part of it was forgotten and stays out; {remedy}")
    if len(report.forgotten) > NAMED:
        print_error(command, f"{len(report.forgotten) - NAMED:,} more paths like these")
    if report.stay_out:
        print_error(command, f"{format_count(report.stay_out, 'item')} stay out, since they were forgotten; {remedy}")


def format_accepted(report: IngestReport) -> str:
    """Return the numbers of accepted, duplicate and refused documents, those that are not zero."""
    parts = [f"{format_count(report.accepted, 'document')} accepted"]
    parts += [format_count(report.duplicates, "duplicate")] if report.duplicates else []
    parts += [f"{len(report.refused):,} refused"] if report.refused else []
    return ", ".join(parts)


def print_report(root: Path, report: IngestReport, seconds: float, paths: Sequence[str], verbose: bool) -> None:
    """Print what came in, and what was left out of it.

    Args:
        paths: the inputs as given.
        verbose: name every kind of record and every rule.
    """
    from helix.snapshot.status import read_status

    if not (report.accepted or report.duplicates or report.refused or report.left_out) and paths:
        where = ", ".join(map(sanitise_name, paths[:3])) + (", …" if len(paths) > 3 else "")
        print_note(f"no file to read in {where}: name a log or a folder of logs; 'helix init' finds those of agents")
    came = f"{format_count(report.turns, 'turn')}, {format_count(report.items, 'new item')}; "
    print_text(f"{format_accepted(report)}; {came}generation {report.snapshot} in {seconds:.1f} s")
    backlog = read_status(root)["backlog"]
    for name, what in (("doc2query", "questions"), ("sparse", "weights"), ("tokens", "token vectors")):
        if waiting := backlog.get(name):
            print_note(f"{format_count(waiting, 'item')} wait for their {what}: 'helix expand'")
    if report.redacted:
        print_text("redacted: " + ", ".join(f"{kind} {n:,}" for kind, n in report.redacted.most_common()))
    if report.junk:
        total = report.junk.total() + report.chars
        rules = [(rule, n / total) for rule, n in report.junk.most_common()]
        shown = [f"{rule} {share:.1%}" for rule, share in rules if verbose or share >= _LEAST_SHARE]
        print_text(
            f"left out as junk: {report.junk_share:.1%} of the text" + (f" ({', '.join(shown)})" if shown else "")
        )
    if report.unknown:
        print_text(_format_unknown(report.unknown, verbose))


def _format_unknown(unknown: Counter[str], verbose: bool) -> str:
    """Return how many records were left out because their kind is unknown; verbose: every kind."""
    kinds = unknown.most_common(None if verbose else _KINDS)
    names = ", ".join(f"{sanitise_name(kind, 300 if verbose else _KIND_CHARS)} {n:,}" for kind, n in kinds)
    more = f", …; --verbose names all {len(unknown):,} kinds" if len(unknown) > len(kinds) else ""
    return f"left out as unknown: {format_count(unknown.total(), 'record')} ({names}{more})"
