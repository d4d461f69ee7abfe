"""`helix ingest`, with the options that `helix enqueue` shares, and the progress bar."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, is_drawn, print_note
from helix.settings import load
from pipelines.cli.ingest_bar import show_ingest
from pipelines.cli.ingest_report import print_refused, print_report

if TYPE_CHECKING:
    from helix.settings import Settings
    from pipelines.embedded.state import IngestState, Observe
    from pipelines.ingest.accept_all import Progress


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


def ingest(argv: Sequence[str]) -> int:
    """Ingest transcripts, logs and notes, and publish them, in this process."""
    new = build_parser(
        "ingest",
        ingest.__doc__ or "",
        "  helix ingest ~/.claude/projects --store memory    # again at any time: only what is new is read\n"
        "  helix ingest meeting.vtt notes/ --project ledgerline\n"
        "  git log -p | helix ingest - --format markdown     # standard input\n"
        "  helix ingest logs/ --follow                       # and what is added to it, until Ctrl-C",
    )
    add_input_options(new, "*")
    new.add_argument("--pending", action="store_true", help="publish what is accepted already; needs no PATH")
    new.add_argument("--follow", action="store_true", help="keep running and ingest what grows or appears; Ctrl-C ends")
    new.add_argument("-v", "--verbose", action="store_true", help="name every kind of record that was left out")
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
    if options.json:
        print_json(report.as_json(seconds))
    else:
        print_report(root, report, seconds, options.paths, options.verbose)
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
