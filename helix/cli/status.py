"""`helix status` and `helix verify`: the state of a store, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from helix.cli import terminal
from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.status_text import BAD, MORE, describe_briefly, describe_fully
from helix.cli.terminal import format_count
from helix.util.sanitise import printable_json

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

INTERVAL = 1.0
"""Seconds between two updates of `--watch`."""


def status(argv: Sequence[str]) -> int:
    """Show what is searchable, what waits, and what is wrong."""
    new = build_parser(
        "status",
        status.__doc__ or "",
        "  helix status --store memory\n"
        "  helix status --all      # also each pass, type, project and error\n"
        "  helix status --watch    # while something is ingested\n"
        "  helix status --stores /srv/helix    # each store in this folder: waiting, running, failed, dead",
    )
    new.add_argument("-v", "--all", action="store_true", help="show every figure and every error")
    new.add_argument("--watch", action="store_true", help="update every second; Ctrl-C ends")
    stores_help = "a line for each store in this folder (HELIX_STORES)"
    new.add_argument("--stores", nargs="?", const="", metavar="DIR", help=stores_help)
    options = new.parse_args(argv)
    if options.stores is not None:
        return _show_stores(options)
    root = resolve_store(options)
    if options.watch:
        return _watch_status(root, options.json)
    from helix.snapshot.status import count_by_field, count_languages, find_newest, list_old_projects, read_status

    breakdown = {**count_by_field(root), "language": count_languages(root)}
    more = {"breakdown": breakdown, "old_projects": list_old_projects(root), "newest": find_newest(root)}
    state = {**read_status(root), **more}
    if options.json:
        print_json(state)
        return 0
    terminal.print_table(describe_fully(state) if options.all else describe_briefly(state), whole=(0,))
    if not options.all and terminal.is_drawn():
        terminal.print_note(MORE)
    return 0


def _show_stores(options: argparse.Namespace) -> int:
    """Print the state of every store in a folder."""
    from dataclasses import asdict
    from pathlib import Path

    from helix.errors import UsageError
    from helix.settings import load
    from helix.snapshot.fleet_status import summarise_stores

    folder = options.stores or load().stores
    if options.store or options.watch or not folder or not Path(folder).is_dir():
        fault = f"{folder} is no folder" if folder else "--stores without a folder, or with another option"
        raise UsageError(fault, "helix status --stores DIR, or set HELIX_STORES")
    found = list(summarise_stores(Path(folder)))
    if options.json:
        print_json({"stores": [asdict(one) for one in found]})
        return 0
    header = ("store", "waiting", "running", "failed", "dead", "items", "last commit")
    rows: list[list[terminal.Cell]] = [] if terminal.is_drawn() else [list(header)]
    for one in found:
        counts = (one.waiting, one.running, one.retrying, one.dead, one.items)
        rows.append([one.store, *map(str, counts), (one.error, BAD) if one.error else one.committed or "none yet"])
    terminal.print_table(rows, header=header, right=range(1, 6))
    if any(one.retrying or one.dead for one in found):
        terminal.print_note("'helix status --store DIR/NAME' names the documents, 'helix retry' tries dead ones again")
    return 0


def _watch_status(root: Path, as_json: bool) -> int:
    """Print the state every second: a live table on a terminal, else one JSON object a line."""
    import time

    import orjson

    from helix.snapshot.status import read_status

    if as_json or not terminal.is_drawn():
        while True:
            sys.stdout.write(printable_json(orjson.dumps(read_status(root)).decode()) + "\n")
            sys.stdout.flush()
            time.sleep(INTERVAL)
    from rich.live import Live

    with Live(console=terminal.open_console(), auto_refresh=False, screen=False) as live:
        while True:
            live.update(_draw_live(read_status(root)), refresh=True)
            time.sleep(INTERVAL)


def _draw_live(state: dict[str, Any]) -> Any:
    """Return the state as a table, with a progress bar over all documents."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar

    rows = describe_fully(state)
    for document, process in state["running"].items():
        rows.append([("running", "bold"), (f"{document[:12]}… by process {process}", "")])
    finished = state["done"] + state["dead"]
    bar = ProgressBar(total=max(1, state["accepted"]), completed=finished, width=60)
    return Group(terminal.build_table(rows, whole=(0,)), bar)


def verify(argv: Sequence[str]) -> int:
    """Check every byte of the store against its manifests.

    Problems go to stdout, a line each, and the exit status is 4. Files that no manifest names are only noted.
    """
    new = build_parser(
        "verify", verify.__doc__ or "", "  helix verify --store memory\n  helix verify --json > report.json"
    )
    options = new.parse_args(argv)
    from helix.snapshot.verify import verify_store

    report = verify_store(resolve_store(options))
    if options.json:
        print_json(report)
    else:
        for problem in report.problems:
            terminal.print_text(problem, BAD)
        for orphan in report.orphans:
            terminal.print_note(f"note: no manifest names {orphan} (left by an interrupted commit)")
        result = format_count(len(report.problems), "problem") if report.problems else "all whole"
        files, generations = format_count(report.files, "file"), format_count(report.generations, "generation")
        style = f"bold {BAD}" if report.problems else "green"
        terminal.print_text(f"{files}, {report.bytes / 1e6:.1f} MB, {generations}: {result}", style)
    if report.problems:
        terminal.print_error("helix verify", "restore the named files from a backup, or ingest into a new store")
        return 4
    return 0
