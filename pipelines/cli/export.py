"""`helix export`: a generation as files for other programs, for another store, and in a vector engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, is_drawn, print_note
from helix.errors import UsageError

if TYPE_CHECKING:
    from helix.settings import Settings
    from pipelines.export.selection import ExportSelection

_FILTERS: Final = ("project", "session", "since", "until", "principal", "everyone")


def export(argv: Sequence[str]) -> int:
    """Write turns as JSON lines, Markdown notes or Parquet, views as a DuckDB file, or items into a vector engine.

    'helix ingest' reads JSON lines, notes and turns.parquet back without loss: same items, ids, times and facts.
    Without --as, items with an ACL stay out; --all exports every item: it is the owner's. What 'helix feedback' noted,
    when items were ingested and what was forgotten is not exported.

    A DuckDB file has every project and every ACL: the views of 'helix sql' as tables. 'helix forget' reaches no file
    that was exported: export again.

    --to hands items, vectors and metadata of every project and ACL to LanceDB, Qdrant or OpenSearch, for recalls
    through it (HELIX_CANDIDATES). A later export sends what changed, and removes what is gone.
    """
    options = _build_parser().parse_args(argv)
    if options.to is not None:
        return _export_engine(options)
    if options.duckdb is not None:
        return _export_duckdb(options)
    if options.jsonl == "-" and options.json:
        raise UsageError("--jsonl - and --json both write to stdout", "name a file for the lines")
    if options.everyone and options.principal is not None:
        raise UsageError("--all and --as exclude each other", "--as exports what one principal sees, --all everything")
    selection = _select(options)
    with _show_progress(int(selection.chosen.sum())) as observe:
        report = _export_turns(options, selection, observe)
    report |= {"hidden": selection.hidden, "snapshot": selection.snap.generation}
    if options.json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _build_parser() -> argparse.ArgumentParser:
    new = build_parser(
        "export",
        export.__doc__ or "",
        "  helix export --jsonl memory.jsonl --all          # a copy that 'helix ingest memory.jsonl' restores\n"
        "  helix export --markdown ~/vault/helix --project shop\n"
        "  helix export --parquet shop/ --project shop --since 30d\n"
        "  helix export --duckdb memory.duckdb --force --json\n"
        "  helix export --to lancedb vectors/\n"
        "  helix export --to qdrant http://localhost:6333#shop --no-text",
    )
    form = new.add_mutually_exclusive_group(required=True)
    form.add_argument("--jsonl", metavar="FILE", help="one turn a line; - for stdout")
    form.add_argument("--markdown", metavar="DIR", help="a folder of notes, as for Obsidian; again: replaces its notes")
    form.add_argument("--parquet", metavar="DIR", help="a folder of the views of 'helix sql', and turns.parquet")
    form.add_argument("--duckdb", metavar="FILE", help="one file of the views of 'helix sql'")
    text = "lancedb, qdrant or opensearch, and its folder or URL with #COLLECTION (#helix)"
    form.add_argument("--to", nargs=2, metavar=("ENGINE", "PLACE"), help=text)
    new.add_argument("--no-text", action="store_true", help="with --to: without the texts of items")
    text = "replace an existing file, notes that were edited, or another store's items in an engine"
    new.add_argument("--force", action="store_true", help=text)
    new.add_argument("--snapshot", metavar="N", type=int, help="a retained generation (the newest)")
    new.add_argument("--project", metavar="P", help="only this project")
    new.add_argument("--session", metavar="S", help="only this session")
    new.add_argument("--since", metavar="T", help="only what was said from then on: ISO 8601, or an age like 30d")
    new.add_argument("--until", metavar="T", help="only what was said by then")
    new.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    new.add_argument("--all", action="store_true", dest="everyone", help="items of every ACL, too")
    return new


def _export_duckdb(options: argparse.Namespace) -> int:
    from pathlib import Path

    from helix.snapshot.sql_export import export_duckdb

    if given := [name for name in _FILTERS if getattr(options, name)]:
        raise UsageError(f"--duckdb exports the whole store, without {given[0]}", "use --parquet with filters")
    root, target = resolve_store(options), Path(options.duckdb).expanduser()
    report = export_duckdb(root, target, generation=options.snapshot, force=options.force)
    if options.json:
        print_json(report)
    else:
        items = format_count(report.tables["items"], "item")
        print_note(f"{target} holds generation {report.snapshot} of {root}: {items}, {report.bytes / 1e6:.1f} MB")
    return 0


def _export_engine(options: argparse.Namespace) -> int:
    from helix.engines.open import WRITING, open_engine
    from helix.settings import load
    from helix.snapshot import manifest as manifests
    from helix.snapshot.reader.snapshot import Snapshot
    from pipelines.export.engine import describe, export_store

    if given := [name for name in _FILTERS if getattr(options, name)]:
        raise UsageError(f"--to exports the whole store, without {given[0]}", "recalls through the engine filter")
    root = resolve_store(options)
    name = None if options.snapshot is None else manifests.find_generation(root, options.snapshot)
    engine = open_engine(":".join(options.to), load().candidates_key, seconds=WRITING)
    snap = Snapshot.open(root, name)
    with closing(engine), _show_progress(snap.live, "items") as observe:
        report = export_store(snap, engine, text=not options.no_text, force=options.force, observe=observe)
    if options.json:
        print_json(describe(report))
        return 0
    counts = f"{report.sent:,} sent, {report.unchanged:,} as they were, {report.removed:,} removed"
    print_note(f"{report.place} holds generation {report.snapshot}: {format_count(report.items, 'item')}; {counts}")
    return 0


def _select(options: argparse.Namespace) -> ExportSelection:
    from helix.snapshot import manifest as manifests
    from helix.snapshot.reader.snapshot import Snapshot
    from pipelines.export.selection import ExportFilter, select_items

    root = resolve_store(options)
    name = None if options.snapshot is None else manifests.find_generation(root, options.snapshot)
    wanted = ExportFilter(**{name: getattr(options, name) for name in _FILTERS})
    return select_items(Snapshot.open(root, name), wanted)


def _export_turns(
    options: argparse.Namespace, selection: ExportSelection, observe: Callable[[int], None]
) -> dict[str, Any]:
    """Write the chosen form; return the counts of the report."""
    from pathlib import Path

    from helix.settings import load

    settings = load()
    if options.jsonl is not None:
        return _export_lines(options, selection, settings, observe)
    if options.parquet is not None:
        from pipelines.export.parquet import write_parquet

        return write_parquet(selection, Path(options.parquet).expanduser(), settings, options.force, observe)
    from pipelines.export.vault import write_vault

    return write_vault(selection, Path(options.markdown).expanduser(), settings, options.force, observe)


def _export_lines(
    options: argparse.Namespace, selection: ExportSelection, settings: Settings, observe: Callable[[int], None]
) -> dict[str, Any]:
    """Write JSON lines to a file or to stdout; return the counts of the report."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from pipelines.export.jsonl import write_lines
    from pipelines.export.target import open_file
    from pipelines.export.turns import read_sessions

    with TemporaryDirectory(prefix="helix-") as spill:
        sessions = read_sessions(selection, settings, spill)
        if options.jsonl == "-":
            counts = write_lines(sessions, sys.stdout.buffer, observe)
            sys.stdout.buffer.flush()
            return {"file": "-", **counts.describe()}
        target = Path(options.jsonl).expanduser()
        with open_file(selection.root, target, options.force) as file:
            counts = write_lines(sessions, file, observe)
        return {"file": str(target), "bytes": target.stat().st_size, **counts.describe()}


def _print_report(report: dict[str, Any]) -> None:
    """Say on stderr what was written, and what was not."""
    parts = [format_count(report[f"{name}s"], name) for name in ("session", "turn", "item")]
    print_note(f"{report['file']}: {', '.join(parts)} of generation {report['snapshot']}")
    if report["hidden"]:
        print_note(f"left out: {format_count(report['hidden'], 'item')} with an ACL; --as NAME or --all exports them")
    if report["undated"]:
        print_note(f"{format_count(report['undated'], 'turn')} without a time of their own")
    if report["from_items"]:
        print_note(f"{format_count(report['from_items'], 'turn')} put together from items: their documents are gone")
    for path in report.get("kept", ()):
        print_note(f"kept: {path} was edited since the last export; --force replaces it")
    print_note("not exported: feedback, times of ingestion, switches and what was forgotten")


@contextmanager
def _show_progress(total: int, noun: str = "turns") -> Iterator[Callable[[int], None]]:
    """Draw a bar on stderr if that is a terminal; yield a function that takes the number written so far."""
    if not is_drawn(sys.stderr):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), BarColumn(24), TextColumn(f"{{task.completed:,.0f}} {noun}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("export", total=max(total, 1))
        yield lambda done: bars.update(task, completed=done)
