"""`helix status`, `verify`, `push` and `pull`: what the library itself can say of a store and do with one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from helix.cli import parser, print_json, store_of
from helix.errors import HelixError

if TYPE_CHECKING:
    from helix.snapshot.sync import Report


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


WHERE = "s3://bucket/prefix[?endpoint_override=HOST:PORT&scheme=http&region=R], file:///folder or a folder"


def push(argv: Sequence[str]) -> int:
    """Publish the store to an object store or a shared folder."""
    from helix.snapshot import sync

    new = parser("push", push.__doc__ or "", "  helix push s3://bucket/memory\n  helix push /mnt/shared/memory --prune")
    new.add_argument("url", metavar="URL", help=f"{WHERE}; credentials come from the environment")
    new.add_argument("--force", action="store_true", help="replace what is published there, whatever its history")
    new.add_argument("--prune", action="store_true", help="then remove there what the newest manifests do not name")
    new.add_argument("--keep", type=int, default=sync.KEEP, metavar="N", help="how many, with --prune (%(default)s)")
    options = new.parse_args(argv)
    root = store_of(options)
    report = _transfer(
        lambda: sync.push(root, options.url, force=options.force, prune=options.prune, keep=options.keep)
    )
    if options.json:
        print_json(report)
    else:
        print(f"generation {report.generation} of {root} is published at {report.url}: {_moved(report, 'sent')}")
    return 0


def pull(argv: Sequence[str]) -> int:
    """Take what was pushed to an object store or a shared folder."""
    from helix.settings import load
    from helix.snapshot import sync

    new = parser("pull", pull.__doc__ or "", "  helix pull s3://bucket/memory --store memory")
    new.add_argument("url", metavar="URL", help=f"{WHERE}; credentials come from the environment")
    new.add_argument("--force", action="store_true", help="give up local generations that are not there")
    options = new.parse_args(argv)
    settings = load()
    root = store_of(options, settings)
    report = _transfer(lambda: sync.pull(options.url, root, force=options.force, wait=settings.lock_wait))
    if options.json:
        print_json(report)
    else:
        print(f"{root} is at generation {report.generation} of {report.url}: {_moved(report, 'fetched')}")
    return 0


def _moved(report: Report, done: str) -> str:
    removed = f", {report.removed} old ones removed" if report.removed else ""
    return f"{report.transferred} of {report.files} files {done}, {report.bytes / 1e6:.1f} MB{removed}"


def _transfer(work: Callable[[], Report]) -> Report:
    """Run a push or a pull, and end S3 after it, when nothing refers to it any more; see `sync.shut_down`."""
    from helix.snapshot import sync

    try:
        return work()
    except HelixError as error:
        failed = type(error)(error.what, error.remedy)  # a new one: the frames of the first hold file systems
    finally:
        sync.shut_down()
    raise failed
