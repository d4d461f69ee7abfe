"""`helix sql`: one SELECT over the items of the current generation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, resolve_store
from helix.cli.terminal import format_count, is_drawn, open_console, print_error, print_note, print_table
from helix.errors import HelixError, UsageError
from helix.util.sanitise import printable, printable_json

if TYPE_CHECKING:
    from helix.snapshot.sql import SqlAnswer

SHORT = 60
"""Characters of a cell on a terminal, without --full."""


def sql(argv: Sequence[str]) -> int:
    """Query the items in SQL: one SELECT over the current generation.

    Views of live rows: items, facts, entities, edges, steps, sessions, clusters. DESCRIBE items lists its columns,
    SUMMARIZE items their values; EXPLAIN works, too. edges.src is an item; edges.dst is an entity's hash, an item, a
    session's key, or a command, file or error. In edges of facts both are entities. Each cluster names one item and its
    near-duplicates.

    This is the owner's tool: it sees every project and every ACL. It reads only, and no other file.
    """
    new = build_parser(
        "sql",
        sql.__doc__ or "",
        '  helix sql "SELECT type, count(*) FROM items GROUP BY type"\n'
        "  helix sql \"SELECT time, speaker, text FROM items WHERE text ILIKE '%sqlite%' ORDER BY time\" --full\n"
        '  helix sql "SELECT name, items FROM entities ORDER BY items DESC LIMIT 20" --json',
    )
    new.add_argument("query", metavar="SELECT", help="the statement; with --json the rows are a list of objects")
    new.add_argument("--limit", type=int, default=200, metavar="N", help="rows of the table, 0 for all (200)")
    new.add_argument("--full", action="store_true", help="do not shorten long cells")
    new.add_argument("--timeout", type=float, metavar="S", help="seconds of computing, 0: no limit (60)")
    options = new.parse_args(argv)
    if options.limit < 0:
        raise UsageError(f"limit is {options.limit}", "give 0 for all rows, or more")
    import signal
    from threading import TIMEOUT_MAX

    from helix.settings import load
    from helix.snapshot.sql import run_statement

    settings = load()
    seconds = settings.sql_timeout if options.timeout is None else options.timeout
    if not 0 <= seconds < TIMEOUT_MAX:
        raise UsageError(f"the time limit is {seconds} s", "give seconds, or 0 for no limit")

    # DuckDB ignores Python's Ctrl-C handler. The default handler leaves only a stale pin, which gc removes.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        limit = None if options.json or not options.limit else options.limit
        most = None if limit is None else limit + 1
        with run_statement(resolve_store(options, settings), options.query, most, seconds, _exit_with) as answer:
            _write_json(answer) if options.json else _print_rows(answer, limit, options.full)
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


def _exit_with(error: HelixError) -> None:
    """Print an error and end this process at once."""
    print_error("helix sql", str(error))
    sys.stderr.flush()
    os._exit(error.exit_status)


def _write_json(answer: SqlAnswer) -> None:
    """Write a JSON list, one row a line, as the rows arrive."""
    separator = "[\n"
    for row in answer.rows:
        line = json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(separator + printable_json(line))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")
    sys.stdout.flush()


def _print_rows(answer: SqlAnswer, limit: int | None, full: bool) -> None:
    """Print a table on a terminal, else tab-separated lines with complete cells."""
    rows = list(islice(answer.rows, limit))
    has_more = next(answer.rows, None) is not None
    if answer.columns == ("explain_key", "explain_value"):
        for line in chain.from_iterable(str(row[1]).splitlines() for row in rows):
            print(printable(line))
    elif is_drawn():
        _draw_rows(answer.columns, rows, full)
    else:
        for cells in (answer.columns, *(map(_format_cell, row) for row in rows)):
            print("\t".join(map(printable, cells)))
    sys.stdout.flush()
    count = format_count(len(rows), "row")
    print_note(f"{count} shown, there are more: --limit N, 0 for all" if has_more else count)


def _draw_rows(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], full: bool) -> None:
    """Draw a table; if its columns do not fit, draw each row as a table of its own."""

    def shorten(value: Any) -> str:
        text = _format_cell(value)
        return text if full or len(text) <= SHORT else text[: SHORT - 1] + "…"

    if len(columns) * 12 <= open_console().width:
        numbers = {i for i in range(len(columns)) if rows and all(isinstance(row[i], int | float) for row in rows)}
        print_table([[shorten(value) for value in row] for row in rows], columns, numbers)
        return
    for row in rows:
        print_table([((name, "bold"), shorten(value)) for name, value in zip(columns, row, strict=True)])
        print()


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
