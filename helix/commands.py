"""`helix status` and `helix verify`: what the library itself can say of a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from helix.cli import parser, print_json, store_of


def status(argv: Sequence[str]) -> int:
    """What is published, what waits, what was given up."""
    from helix.status import breakdown
    from helix.status import status as status_of

    options = parser("status", status.__doc__ or "").parse_args(argv)
    root = store_of(options)
    found = {**status_of(root), "breakdown": breakdown(root)}
    if options.json:
        print_json(found)
        return 0
    print(f"store       {found['store']}")
    print(f"generation  {found['generation']}" + (f", published {found['published']}" if found["published"] else ""))
    print(f"encoder     {found['encoder'] or 'none yet'}")
    print(
        f"items       {found['items']:,} in {found['segments']} segments, {found['sessions']:,} sessions, "
        f"{found['bytes'] / 1e6:.1f} MB"
    )
    print(
        f"documents   {found['accepted']} accepted, {found['done']} done, {found['pending']} pending, "
        f"{found['dead']} dead"
    )
    for column, counts in found["breakdown"].items():
        if counts:
            print(f"by {column:9}" + ", ".join(f"{name} {n:,}" for name, n in list(counts.items())[:8]))
    for name, state in found["coverage"].items():
        print(f"{name:12}" + ", ".join(f"{key}: {value}" for key, value in state.items()))
    for document, error in found["errors"].items():
        print(f"dead        {document[:12]}… {error}", file=sys.stderr)
    return 0


def verify(argv: Sequence[str]) -> int:
    """Check every byte of the store against what names it."""
    from helix.snapshot.verify import verify as verify_store

    options = parser("verify", verify.__doc__ or "").parse_args(argv)
    report = verify_store(store_of(options))
    if options.json:
        print_json(report)
    else:
        for problem in report.problems:
            print(problem)
        for orphan in report.orphans:
            print(f"note: {orphan} is named by no manifest (left by an interrupted commit)", file=sys.stderr)
        state = f"{len(report.problems)} problems" if report.problems else "all whole"
        print(f"{report.files} files, {report.bytes / 1e6:.1f} MB, {report.generations} generations: {state}")
    if report.problems:
        print("helix verify: restore what is named from a backup, or ingest into a new store", file=sys.stderr)
        return 4
    return 0
