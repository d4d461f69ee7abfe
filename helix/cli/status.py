"""`helix status` and `helix verify`: the state of a store, and whether it is whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from helix.cli import terminal
from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count
from helix.util.sanitise import printable_json, sanitise_name

if TYPE_CHECKING:
    from pathlib import Path

BAD, PENDING = "red", "yellow"

INTERVAL = 1.0
"""Seconds between two updates of `--watch`."""


def status(argv: Sequence[str]) -> int:
    """Show the published, pending and dead documents."""
    new = build_parser("status", status.__doc__ or "", "  helix status --store memory\n  helix status --watch")
    new.add_argument("--watch", action="store_true", help="update every second; Ctrl-C ends")
    options = new.parse_args(argv)
    root = resolve_store(options)
    if options.watch:
        return _watch_status(root, options.json)
    from helix.snapshot.ledger.inbox import ROLLED_BACK
    from helix.snapshot.status import count_by_field, count_languages, list_old_projects, read_status

    breakdown = {**count_by_field(root), "language": count_languages(root)}
    state = {**read_status(root), "breakdown": breakdown, "old_projects": list_old_projects(root)}
    if options.json:
        print_json(state)
        return 0
    terminal.print_table(_describe(state), whole=(0,))
    if advice := advise_encoder(state["encoder"], breakdown["language"]):
        terminal.print_note(advice)
    for document, error in state["errors"].items():
        terminal.print_note(f"dead        {document[:12]}… {error}")
    if any(not error.startswith(ROLLED_BACK) for error in state["errors"].values()):
        terminal.print_note("'helix retry' tries dead documents again, 'helix drop' removes their text")
    return 0


_MANY_FOREIGN: Final = 0.2
"""Share of items in other languages from which another encoder is worth a reindex."""


def advise_encoder(encoder: str | None, languages: Mapping[str, int]) -> str:
    """Return a note for a store with many items in other languages than its encoder knows; "" for none."""
    from helix.encoders.registry import MODELS
    from helix.text.languages import ENGLISH

    model = MODELS.get((encoder or "").partition("@")[0])
    total = sum(languages.values())
    foreign = total - languages.get(ENGLISH, 0)
    if model is None or model.multilingual or foreign < _MANY_FOREIGN * total or not total:
        return ""
    return (
        f"{foreign:,} of {total:,} items are in other languages than English, which {encoder} alone knows: "
        "'helix reindex --encoder multilingual-e5-small' finds them across languages"
    )


def _describe(state: dict[str, Any]) -> list[tuple[terminal.Cell, terminal.Cell]]:
    """Return the state of a store for a person, as (name, value) cells."""
    lines = [*_describe_store(state), *_describe_documents(state), *_describe_items(state)]
    return [((name, "bold"), (text, style)) for name, text, style in lines]


_SLOW_KERNELS: Final = "in NumPy, some ten times slower: this installation has no compiled ones"


def _describe_store(state: dict[str, Any]) -> list[tuple[str, str, str]]:
    published = f", published {state['published']}" if state["published"] else ""
    segments, sessions = format_count(state["segments"], "segment"), format_count(state["sessions"], "session")
    return [
        ("store", state["store"], ""),
        ("generation", f"{state['generation']}{published}; {state['generations']} retained", ""),
        ("encoder", state["encoder"] or "none yet", ""),
        *([("kernels", _SLOW_KERNELS, PENDING)] if state["kernels"] == "reference" else []),
        ("items", f"{state['items']:,} in {segments}, {sessions}, {state['bytes'] / 1e6:.1f} MB", ""),
        *(("off", _describe_off(switch), PENDING) for switch in state["off"]),
    ]


def _describe_off(switch: dict[str, str]) -> str:
    what = f"session {switch['session']}" if "session" in switch else f"project {switch['project']}"
    folder = f" ({sanitise_name(switch['folder'])})" if "folder" in switch else ""
    return f"{sanitise_name(what)}{folder}, since {switch['since']}"


def _describe_documents(state: dict[str, Any]) -> list[tuple[str, str, str]]:
    running = f" ({len(state['running'])} running)" if state["running"] else ""
    waits = f" of {state['pending_bytes'] / 1e6:.1f} MB" if state["pending"] else ""
    counts = (
        f"{state['accepted']:,} accepted, {state['done']:,} done, {state['pending']:,} pending{waits}{running}, "
        f"{state['dead']:,} dead"
    )
    lines = [("documents", counts, BAD if state["dead"] else PENDING if state["pending"] else "")]
    if state["pending"]:
        lines.append(("lag", f"{state['lag']:,.0f} s, the age of the oldest pending document", PENDING))
    if state["throughput"]["documents"]:
        text = "{documents:,.0f} documents, {items:,.0f} items a minute (over {seconds:,.0f} s)"
        lines.append(("throughput", text.format(**state["throughput"]), ""))
    for document, record in state["failed"].items():
        error = record["error"] or "no error was recorded"
        lines.append(("failed", f"{document[:12]}… {record['tries']} times, next at {record['next']}: {error}", BAD))
    if state["orders"]["waiting"]:
        lines.append(("orders", f"{state['orders']['waiting']} wait for a worker of 'accept'", PENDING))
    for order in state["orders"]["done"]:
        refused = "; ".join(f"{sanitise_name(entry['path'])}: {entry['reason']}" for entry in order["refused"][:3])
        counts = f"{order['accepted']} accepted, {order['duplicates']} duplicates, {len(order['refused'])} refused"
        lines.append(("order", f"{order['order'][:12]}… {counts}" + (f" ({refused})" if refused else ""), ""))
    return lines


def _describe_items(state: dict[str, Any]) -> list[tuple[str, str, str]]:
    lines = []
    for column, counts in state.get("breakdown", {}).items():
        if counts:
            text = ", ".join(f"{sanitise_name(name)} {n:,}" for name, n in list(counts.items())[:8])
            lines.append((f"by {column}", text, ""))
    if old := state.get("old_projects"):
        shown = [f"{sanitise_name(name)} → {', '.join(map(sanitise_name, now))}" for name, now in list(old.items())[:8]]
        lines.append(("old names", "; ".join(shown), ""))
    if state["reindex"]:
        text = "{encoder} in progress, {documents:,} of {of:,} documents, {items:,} items so far"
        lines.append(("reindex", text.format(**state["reindex"], of=state["done"]), PENDING))
    if state["purges"]:
        lines.append(("deletions", f"{state['purges']} were interrupted: 'helix compact' finishes them", BAD))
    complete = [name for name, counts in state["coverage"].items() if counts == {"items": state["items"]}]
    if complete:
        lines.append(("all items", f"have their {', '.join(complete)}", ""))
    for name, counts in state["coverage"].items():
        if name not in complete:
            lines.append((name, ", ".join(f"{key}: {value}" for key, value in counts.items()), ""))
    return lines


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

    rows = _describe(state)
    for document, process in state["running"].items():
        rows.append((("running", "bold"), (f"{document[:12]}… by process {process}", "")))
    rows += [(("dead", "bold red"), (f"{document[:12]}… {error}", BAD)) for document, error in state["errors"].items()]
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
