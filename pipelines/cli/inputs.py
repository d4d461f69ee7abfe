"""Options and report lines that `helix ingest` and `helix enqueue` share, and the progress bar."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from helix.cli.terminal import format_count, is_drawn, print_error

if TYPE_CHECKING:
    from pipelines.ingest.accept_all import IngestReport, Progress

NAMED: Final = 20
"""Paths that are named; the others are counted."""


def add_input_options(new: argparse.ArgumentParser) -> None:
    """Add the options that describe inputs."""
    new.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder to walk")
    new.add_argument("--project", metavar="P", help="the project of these inputs; overrides the one a log names")
    new.add_argument("--format", default="auto", metavar="F", help="auto, or a format of docs/formats.md")
    new.add_argument("--acl", default="", metavar="A,B", help="only these principals may see the items")


def parse_acl(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of --acl."""
    return tuple(name.strip() for name in options.acl.split(",") if name.strip())


@contextmanager
def progress_bar(enabled: bool) -> Iterator[Progress | None]:
    """Show progress bars on stderr if it is a terminal; yield None otherwise."""
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


def print_refused(report: IngestReport, command: str) -> None:
    """Print a line to stderr for each refused input, and for what stays out because it was forgotten."""
    command, remedy = f"helix {command}", "'helix ingest --remember PATH' accepts it again"
    for entry in report.refused:
        print_error(command, f"{entry['path']}: {entry['reason']}")
    for path in report.forgotten[:NAMED]:
        print_error(command, f"{path}: a part of it was forgotten and stays out; {remedy}")
    if len(report.forgotten) > NAMED:
        print_error(command, f"{len(report.forgotten) - NAMED:,} more paths like these")
    if report.stay_out:
        print_error(command, f"{format_count(report.stay_out, 'item')} stay out, since they were forgotten; {remedy}")


def format_accepted(report: IngestReport) -> str:
    """Return the numbers of accepted, duplicate and refused documents."""
    accepted, known = format_count(report.accepted, "document"), format_count(report.duplicates, "duplicate")
    return f"{accepted} accepted, {known}, {len(report.refused)} refused"
