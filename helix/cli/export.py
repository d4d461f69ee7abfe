"""`helix export`: a generation as one file for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, print_note


def export(argv: Sequence[str]) -> int:
    """Write the views of 'helix sql' as tables of one DuckDB file.

    A notebook or a BI tool opens the file without Helix. Tables: items, facts, entities, edges, steps, sessions,
    clusters; live rows only, and a comment for every column.

    This is the owner's tool: the file holds every project and every ACL. Its mode is 0600. 'helix forget' does not
    reach it: export again.
    """
    new = build_parser(
        "export",
        export.__doc__ or "",
        "  helix export --duckdb memory.duckdb\n  helix export --duckdb memory.duckdb --force --json",
    )
    new.add_argument("--duckdb", metavar="FILE", required=True, help="the file to write, outside the store")
    new.add_argument("--force", action="store_true", help="replace an existing file")
    new.add_argument("--snapshot", metavar="N", type=int, help="a retained generation (the newest)")
    options = new.parse_args(argv)
    from pathlib import Path

    from helix.snapshot.sql_export import export_duckdb

    root, target = resolve_store(options), Path(options.duckdb).expanduser()
    report = export_duckdb(root, target, generation=options.snapshot, force=options.force)
    if options.json:
        print_json(report)
    else:
        items = format_count(report.tables["items"], "item")
        print_note(f"{target} holds generation {report.snapshot} of {root}: {items}, {report.bytes / 1e6:.1f} MB")
    return 0
