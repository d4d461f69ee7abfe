"""`helix ingest`, with the options and report lines that `helix enqueue` shares, and the progress bar."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, is_drawn, print_error, print_note, print_text
from helix.settings import load
from helix.util.sanitise import sanitise_name
from pipelines.cli.ingest_bar import show_ingest

if TYPE_CHECKING:
    from helix.settings import Settings
    from pipelines.embedded.state import IngestState, Observe
    from pipelines.ingest.accept_all import IngestReport, Progress

NAMED: Final = 20
"""Paths that are named; the others are counted."""


def add_input_options(new: argparse.ArgumentParser, paths: str = "+") -> None:
    """Add the options that describe inputs; `paths`: how many."""
    new.add_argument("paths", nargs=paths, metavar="PATH", help="a file, or a folder to walk; - for standard input")
    new.add_argument("--project", metavar="P", help="the project of these inputs; overrides the one a log names")
    new.add_argument("--format", default="auto", metavar="F", help="auto, or a format of docs/reference/formats.md")
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
    """Return the numbers of accepted, duplicate and refused documents."""
    accepted, known = format_count(report.accepted, "document"), format_count(report.duplicates, "duplicate")
    return f"{accepted} accepted, {known}, {len(report.refused)} refused"


def ingest(argv: Sequence[str]) -> int:
    """Ingest transcripts, logs and notes, and publish them, in this process."""
    new = build_parser(
        "ingest",
        ingest.__doc__ or "",
        "  helix ingest ~/.claude/projects --store memory\n"
        "  helix ingest meeting.vtt notes/ --project ledgerline --json",
    )
    add_input_options(new, "*")
    new.add_argument("--pending", action="store_true", help="publish what is accepted already; needs no PATH")
    new.add_argument("--follow", action="store_true", help="keep running and ingest what grows or appears; Ctrl-C ends")
    new.add_argument("--remember", action="store_true", help="ingest forgotten items again")
    options = new.parse_args(argv)
    from pipelines.embedded.ingest import ingest as run
    from pipelines.ingest.accept_all import spool_stdin

    if not options.paths and not options.pending:
        new.error("the following arguments are required: PATH")
    if options.follow and "-" in options.paths:
        new.error("standard input does not grow: leave out --follow, or name a file")
    settings, root = load(), resolve_store(options)
    if options.remember and settings.share:
        from pipelines.maintain.replication.primary import require_primary

        require_primary(root, settings)
    began = time.perf_counter()
    with _observe_ingest(root, not options.json) as observe, spool_stdin(options.paths, sys.stdin.buffer) as inputs:
        report = run(
            root,
            inputs,
            settings,
            project=options.project,
            format=options.format,
            acl=parse_acl(options),
            remember=options.remember,
            early=True,
            observe=observe,
            say=print_note,
        )
    seconds = time.perf_counter() - began
    print_refused(report, "ingest")
    print_json(report.as_json(seconds)) if options.json else _print_report(root, report, seconds)
    if options.follow:
        _follow(root, settings, options.paths, options.project, parse_acl(options))
    return 3 if report.refused else 0


@contextmanager
def _observe_ingest(root: Path, shown: bool) -> Iterator[Observe]:
    """Yield an observer that draws the bar and says when the first items are searchable.

    On Ctrl-C, say what is searchable and what waits.
    """
    first = True
    began = time.perf_counter()
    with show_ingest(shown) as draw:

        def observe(state: IngestState) -> None:
            nonlocal first
            if first and state.step == "publish" and state.share < 1:
                items, seconds = format_count(state.searchable, "item"), time.perf_counter() - began
                if shown:
                    print_note(f"{items} of the newest sessions are searchable after {seconds:.1f} s; the rest follows")
            first &= state.step != "publish"
            if draw:
                draw(state)

        try:
            yield observe
        except KeyboardInterrupt:
            print_note(_describe_interrupted(root))
            raise


def _describe_interrupted(root: Path) -> str:
    """Return what an interrupted ingest leaves."""
    from helix.snapshot.status import read_status

    state = read_status(root)
    waits = f"{format_count(state['pending'], 'document')} wait: 'helix ingest --pending' publishes them"
    return f"{format_count(state['items'], 'item')} are searchable; {waits}; the same command reads the rest"


def _print_report(root: Path, report: IngestReport, seconds: float) -> None:
    from helix.snapshot.status import read_status

    print_text(
        f"{format_accepted(report)}; {format_count(report.turns, 'turn')}, {format_count(report.items, 'new item')}; "
        f"generation {report.snapshot} in {seconds:.1f} s"
    )
    backlog = read_status(root)["backlog"]
    for name, what in (("doc2query", "questions"), ("sparse", "weights"), ("tokens", "token vectors")):
        if waiting := backlog.get(name):
            print_note(f"{format_count(waiting, 'item')} wait for their {what}: 'helix expand'")
    if report.redacted:
        print_text("redacted: " + ", ".join(f"{kind} {n}" for kind, n in report.redacted.most_common()))
    if report.junk:
        total = report.junk.total() + report.chars
        parts = ", ".join(f"{rule} {n / total:.1%}" for rule, n in report.junk.most_common())
        print_text(f"left out as junk: {report.junk_share:.1%} of the text ({parts})")
    if report.unknown:
        kinds = ", ".join(f"{sanitise_name(kind)} {n}" for kind, n in report.unknown.most_common())
        print_text(f"unknown records: {kinds}")


def _follow(root: Path, settings: Settings, paths: Sequence[str], project: str | None, acl: tuple[str, ...]) -> None:
    """Ingest the growth of these files and folders until Ctrl-C or SIGTERM."""
    import signal
    import threading

    from helix.sources.common.places import Place
    from pipelines.embedded.publisher import Publisher
    from pipelines.ingest.source import Inbox
    from pipelines.ingest.watch import Watch, watch

    print("following; Ctrl-C ends", file=sys.stderr)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    places = [Place("given", Path(path).expanduser().absolute()) for path in paths]
    publisher = Publisher(root, settings)
    watch(Watch(Inbox(root, settings), lambda: places, publisher.add, project, acl), stop, publisher.step)
    publisher.close()
