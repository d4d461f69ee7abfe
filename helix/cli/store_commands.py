"""`helix status`, `verify`, `sql`, `push` and `pull`: what the library itself can say of a store and do with one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from helix.cli.parser import parser, print_json, store_of
from helix.cli.terminal import Cell, complain, console, count, drawing, drawn, note, say, table
from helix.errors import HelixError, UsageError
from helix.text.sanitise import printable, printable_json, sanitise_name

if TYPE_CHECKING:
    from pathlib import Path

    from helix.snapshot.replication.remote import Report
    from helix.snapshot.sql import Answer


def status(argv: Sequence[str]) -> int:
    """What is published, what waits, what was given up."""
    new = parser("status", status.__doc__ or "", "  helix status --store memory\n  helix status --watch")
    new.add_argument("--watch", action="store_true", help="go on telling, every second; Ctrl-C ends")
    options = new.parse_args(argv)
    root = store_of(options)
    if options.watch:
        return _watch_status(root, options.json)
    from helix.snapshot.ledger.inbox import ROLLED_BACK
    from helix.snapshot.status import breakdown
    from helix.snapshot.status import status as status_of

    found = {**status_of(root), "breakdown": breakdown(root)}
    if options.json:
        print_json(found)
        return 0
    table(_told(found), whole=(0,))
    for document, error in found["errors"].items():
        note(f"dead        {document[:12]}… {error}")
    if any(not error.startswith(ROLLED_BACK) for error in found["errors"].values()):
        note("'helix retry' has them tried again, 'helix drop' removes their text")
    return 0


BAD, WAITS = "red", "yellow"


def _told(found: dict[str, Any]) -> list[tuple[Cell, Cell]]:
    """The state of a store, for a person: (what, how it is) a line."""
    lines: list[tuple[str, str, str]] = []

    def tell(name: str, said: str, style: str = "") -> None:
        lines.append((name, said, style))

    published = f", published {found['published']}" if found["published"] else ""
    tell("store", found["store"])
    tell("generation", f"{found['generation']}{published}; {found['generations']} kept")
    tell("encoder", found["encoder"] or "none yet")
    tell(
        "items",
        f"{found['items']:,} in {count(found['segments'], 'segment')}, {count(found['sessions'], 'session')}, "
        f"{found['bytes'] / 1e6:.1f} MB",
    )
    running = f" ({len(found['running'])} running)" if found["running"] else ""
    tell(
        "documents",
        f"{found['accepted']:,} accepted, {found['done']:,} done, {found['pending']:,} pending{running}, "
        f"{found['dead']:,} dead",
        BAD if found["dead"] else WAITS if found["pending"] else "",
    )
    if found["pending"]:
        tell("lag", f"{found['lag']:,.0f} s: so long the oldest has waited", WAITS)
    if found["throughput"]["documents"]:
        said = "{documents:,.0f} documents, {items:,.0f} items a minute (over {seconds:,.0f} s)"
        tell("throughput", said.format(**found["throughput"]))
    for document, one in found["failed"].items():
        said = f"{document[:12]}… {one['tries']} times, again at {one['next']}: {one['error'] or 'no word'}"
        tell("failed", said, BAD)
    if found["orders"]["waiting"]:
        tell("orders", f"{found['orders']['waiting']} wait for a worker of 'accept'", WAITS)
    for done in found["orders"]["done"]:
        refused = "; ".join(f"{sanitise_name(entry['path'])}: {entry['reason']}" for entry in done["refused"][:3])
        counts = f"{done['accepted']} accepted, {done['duplicates']} duplicates, {len(done['refused'])} refused"
        tell("order", f"{done['order'][:12]}… {counts}" + (f" ({refused})" if refused else ""))
    for column, counts in found.get("breakdown", {}).items():
        if counts:
            tell(f"by {column}", ", ".join(f"{sanitise_name(name)} {n:,}" for name, n in list(counts.items())[:8]))
    if found["reindex"]:
        said = "{encoder} under way, {documents:,} of {of:,} documents, {items:,} items so far"
        tell("reindex", said.format(**found["reindex"], of=found["done"]), WAITS)
    if found["purges"]:
        tell("deletions", f"{found['purges']} were interrupted: 'helix compact' finishes them", BAD)
    whole = [name for name, state in found["coverage"].items() if state == {"items": found["items"]}]
    if whole:
        tell("all items", f"have their {', '.join(whole)}")
    for name, state in found["coverage"].items():
        if name not in whole:
            tell(name, ", ".join(f"{key}: {value}" for key, value in state.items()))
    return [((name, "bold"), (said, style)) for name, said, style in lines]


_EVERY = 1.0  # seconds


def _watch_status(root: Path, as_json: bool) -> int:
    """Tell the state again and again: a table that is drawn anew on a terminal, else a JSON object a line."""
    import time

    import orjson

    from helix.snapshot.status import status as status_of

    if as_json or not drawn():
        while True:
            sys.stdout.write(printable_json(orjson.dumps(status_of(root)).decode()) + "\n")
            sys.stdout.flush()
            time.sleep(_EVERY)
    from rich.live import Live

    with Live(console=console(), auto_refresh=False, screen=False) as live:
        while True:
            live.update(_live(status_of(root)), refresh=True)
            time.sleep(_EVERY)


def _live(found: dict[str, Any]) -> Any:
    """The state as a table, with how far the documents are as a bar."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar

    rows = _told(found)
    rows += [
        (("running", "bold"), (f"{document[:12]}… by process {process}", ""))
        for document, process in found["running"].items()
    ]
    rows += [(("dead", "bold red"), (f"{document[:12]}… {error}", BAD)) for document, error in found["errors"].items()]
    through = found["done"] + found["dead"]
    return Group(drawing(rows, whole=(0,)), ProgressBar(total=max(1, found["accepted"]), completed=through, width=60))


def verify(argv: Sequence[str]) -> int:
    """Check every byte of the store against what names it.

    Problems go to stdout, a line each, and the exit status is 4. What no manifest names is only noted.
    """
    new = parser("verify", verify.__doc__ or "", "  helix verify --store memory\n  helix verify --json > report.json")
    options = new.parse_args(argv)
    from helix.snapshot.verify import verify as verify_store

    report = verify_store(store_of(options))
    if options.json:
        print_json(report)
    else:
        for problem in report.problems:
            say(problem, BAD)
        for orphan in report.orphans:
            note(f"note: {orphan} is named by no manifest (left by an interrupted commit)")
        state = count(len(report.problems), "problem") if report.problems else "all whole"
        generations = count(report.generations, "generation")
        say(
            f"{count(report.files, 'file')}, {report.bytes / 1e6:.1f} MB, {generations}: {state}",
            f"bold {BAD}" if report.problems else "green",
        )
    if report.problems:
        complain("helix verify", "restore what is named from a backup, or ingest into a new store")
        return 4
    return 0


SHORT = 60
"""Characters of a cell that a terminal is shown without --full."""


def sql(argv: Sequence[str]) -> int:
    """Ask the items in SQL: one SELECT over the current generation.

    Views over what is live: items, facts, entities, edges, sessions, clusters. DESCRIBE items lists its columns,
    SUMMARIZE items what they hold; EXPLAIN works, too. edges.src is an item, edges.dst an entity's hash, an item or a
    session's key; of a fact both are entities. clusters are items that nearly repeat the first of them.

    This is the owner's tool: it sees every project and every ACL. It reads only, and no other file.
    """
    new = parser(
        "sql",
        sql.__doc__ or "",
        '  helix sql "SELECT type, count(*) FROM items GROUP BY type"\n'
        "  helix sql \"SELECT time, speaker, text FROM items WHERE text ILIKE '%sqlite%' ORDER BY time\" --full\n"
        '  helix sql "SELECT name, items FROM entities ORDER BY items DESC LIMIT 20" --json',
    )
    new.add_argument("query", metavar="SELECT", help="the statement; with --json the rows come as a list of objects")
    new.add_argument("--limit", type=int, default=200, metavar="N", help="rows of the table, 0 for all (200)")
    new.add_argument("--full", action="store_true", help="show long cells whole")
    new.add_argument("--timeout", type=float, metavar="S", help="seconds it may compute, 0: no limit (60)")
    options = new.parse_args(argv)
    if options.limit < 0:
        raise UsageError(f"limit is {options.limit}", "give 0 for all rows, or more")
    import signal
    from threading import TIMEOUT_MAX

    from helix.settings import load
    from helix.snapshot.sql import ask

    settings = load()
    seconds = settings.sql_timeout if options.timeout is None else options.timeout
    if not 0 <= seconds < TIMEOUT_MAX:
        raise UsageError(f"the time limit is {seconds} s", "give seconds, or 0 for no limit")

    # DuckDB would run on through Ctrl-C. All that is left behind is a pin nobody holds, which gc removes.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        limit = None if options.json or not options.limit else options.limit
        most = None if limit is None else limit + 1
        with ask(store_of(options, settings), options.query, most, seconds, _leave) as found:
            _write_rows(found) if options.json else _table(found, limit, options.full)
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


def _leave(error: HelixError) -> None:
    """End this process at once, with an error."""
    complain("helix sql", str(error))
    sys.stderr.flush()
    os._exit(error.exit_status)


def _write_rows(found: Answer) -> None:
    """A JSON list, a row a line, written as the rows come."""
    import json

    between = "[\n"
    for row in found.rows:
        line = json.dumps(dict(zip(found.columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(between + printable_json(line))
        between = ",\n"
    sys.stdout.write("[]\n" if between == "[\n" else "\n]\n")
    sys.stdout.flush()


def _table(found: Answer, limit: int | None, full: bool) -> None:
    """The rows for a person on a terminal; else tab-separated, a row a line, cells whole."""
    rows = list(islice(found.rows, limit))
    more = next(found.rows, None) is not None
    if found.columns == ("explain_key", "explain_value"):
        for line in chain.from_iterable(str(row[1]).splitlines() for row in rows):
            print(printable(line))
    elif drawn():
        _draw(found.columns, rows, full)
    else:
        for cells in (found.columns, *(map(_cell, row) for row in rows)):
            print("\t".join(map(printable, cells)))
    sys.stdout.flush()
    said = count(len(rows), "row")
    note(f"{said} shown, there are more: --limit N, 0 for all" if more else said)


def _draw(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], full: bool) -> None:
    """A table; where its columns do not fit, the rows one below the other."""

    def cell(value: Any) -> str:
        whole = _cell(value)
        return whole if full or len(whole) <= SHORT else whole[: SHORT - 1] + "…"

    if len(columns) * 12 <= console().width:
        numbers = {i for i in range(len(columns)) if rows and all(isinstance(row[i], int | float) for row in rows)}
        table([[cell(value) for value in row] for row in rows], columns, numbers)
        return
    for row in rows:
        table([((name, "bold"), cell(value)) for name, value in zip(columns, row, strict=True)])
        print()


def _cell(value: Any) -> str:
    import json

    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


WHERE = "s3://bucket/prefix[?endpoint_override=HOST:PORT&scheme=http&region=R], file:///folder or a folder"


def push(argv: Sequence[str]) -> int:
    """Publish the store to an object store or a shared folder."""
    new = parser("push", push.__doc__ or "", "  helix push s3://bucket/memory\n  helix push /mnt/shared/memory --prune")
    new.add_argument("url", metavar="URL", help=f"{WHERE}; credentials come from the environment")
    new.add_argument("--force", action="store_true", help="replace what is published there, whatever its history")
    new.add_argument("--prune", action="store_true", help="then remove there what the newest manifests do not name")
    new.add_argument("--keep", type=int, metavar="N", help="how many, with --prune (2)")
    options = new.parse_args(argv)
    from helix.snapshot.replication import remote as sync

    root, keep = store_of(options), sync.KEEP if options.keep is None else options.keep
    report = _transfer(lambda: sync.push(root, options.url, force=options.force, prune=options.prune, keep=keep))
    if options.json:
        print_json(report)
    else:
        say(f"generation {report.generation} of {root} is published at {report.url}: {_moved(report, 'sent')}")
    return 0


def pull(argv: Sequence[str]) -> int:
    """Take what was pushed to an object store or a shared folder."""
    new = parser(
        "pull",
        pull.__doc__ or "",
        "  helix pull s3://bucket/memory --store memory\n"
        "  helix pull s3://bucket/memory --store memory --follow 5 &\n  helix serve --store memory",
    )
    new.add_argument("url", metavar="URL", help=f"{WHERE}; credentials come from the environment")
    new.add_argument("--force", action="store_true", help="give up local generations that are not there")
    new.add_argument(
        "--follow",
        type=float,
        metavar="SECONDS",
        help="stay, look again that often, and keep no generation but the newest; Ctrl-C ends",
    )
    options = new.parse_args(argv)
    from helix.settings import load
    from helix.snapshot.replication import remote as sync

    settings = load()
    root = store_of(options, settings)
    if options.follow is not None:
        if options.follow <= 0 or options.force:
            raise UsageError("--follow takes more than 0 seconds, and no --force", "pull once with --force before")
        _follow(options.url, root, options.follow, settings.lock_wait)
        return 0
    report = _transfer(lambda: sync.pull(options.url, root, force=options.force, wait=settings.lock_wait))
    if options.json:
        print_json(report)
    else:
        say(f"{root} is at generation {report.generation} of {report.url}: {_moved(report, 'fetched')}")
    return 0


def _follow(url: str, root: Path, seconds: float, wait: float) -> None:
    """Pull whatever is published, until Ctrl-C or SIGTERM. What fails is said once, and tried again."""
    import signal
    import threading

    from helix.errors import StoreError
    from helix.snapshot.replication import remote as sync

    stop, said = threading.Event(), ""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        try:
            if report := sync.follow(url, root, wait=wait):
                print(f"{root} is at generation {report.generation}: {_moved(report, 'fetched')}", flush=True)
            said = ""
        except (StoreError, OSError) as error:
            if str(error) != said:
                complain("helix pull", f"{error}; trying again every {seconds:g} s")
            said = str(error)
        stop.wait(seconds)


def _moved(report: Report, done: str) -> str:
    removed = f", {report.removed} old ones removed" if report.removed else ""
    return f"{report.transferred} of {count(report.files, 'file')} {done}, {report.bytes / 1e6:.1f} MB{removed}"


def _transfer(work: Callable[[], Report]) -> Report:
    """Run a push or a pull, and end S3 after it, when nothing refers to it any more; see `sync.shut_down`."""
    from helix.snapshot.replication import remote as sync

    try:
        return work()
    except HelixError as error:
        failed = type(error)(error.what, error.remedy)  # a new one: the frames of the first hold file systems
    finally:
        sync.shut_down()
    raise failed
