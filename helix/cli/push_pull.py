"""`helix push` and `helix pull`: copies of a store at an object store or in a shared folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli.parser import build_parser, resolve_store
from helix.cli.terminal import format_count, print_error, print_result
from helix.errors import UsageError

if TYPE_CHECKING:
    import threading

    from helix.snapshot.replication.transfer import TransferReport

URL_HELP = (
    "s3://bucket/prefix[?endpoint_override=HOST:PORT&scheme=http&region=R], file:///folder or a folder; "
    "credentials come from the environment"
)


def push(argv: Sequence[str]) -> int:
    """Publish the store to an object store or a shared folder."""
    examples = "  helix push s3://bucket/memory\n  helix push /mnt/shared/memory --prune"
    new = build_parser("push", push.__doc__ or "", examples)
    new.add_argument("url", metavar="URL", help=URL_HELP)
    new.add_argument("--force", action="store_true", help="replace the published store, whatever its history")
    new.add_argument("--prune", action="store_true", help="then remove files that the newest manifests do not name")
    new.add_argument("--keep", type=int, metavar="N", help="manifests that --prune retains (2)")
    options = new.parse_args(argv)
    from helix.snapshot.replication.push import KEEP, push_store

    root, keep = resolve_store(options), KEEP if options.keep is None else options.keep
    report = push_store(root, options.url, force=options.force, prune=options.prune, keep=keep)
    text = f"generation {report.generation} of {root} is published at {report.url}: {_format_moved(report, 'sent')}"
    print_result(options.json, report, text)
    return 0


def pull(argv: Sequence[str]) -> int:
    """Fetch a store that was pushed to an object store or a shared folder."""
    new = build_parser(
        "pull",
        pull.__doc__ or "",
        "  helix pull s3://bucket/memory --store memory\n"
        "  helix pull s3://bucket/memory --store memory --follow 5 &\n  helix serve --store memory",
    )
    new.add_argument("url", metavar="URL", help=URL_HELP)
    new.add_argument("--force", action="store_true", help="discard local generations that were not pushed")
    follow_help = "keep running, look at this interval, and retain the newest generation only; Ctrl-C ends"
    new.add_argument("--follow", type=float, metavar="SECONDS", help=follow_help)
    many_help = "with --follow: the stores below URL that a server of this folder wants ('helix serve --stores')"
    new.add_argument("--stores", metavar="DIR", help=many_help)
    options = new.parse_args(argv)
    from helix.settings import load
    from helix.snapshot.replication.pull import pull_store

    settings = load()
    if options.stores is not None:
        if not options.follow or options.force:
            raise UsageError("--stores takes --follow SECONDS, and no --force", "pull one store with --store")
        _follow_wanted(options.url, Path(options.stores), options.follow, settings.lock_wait)
        return 0
    root = resolve_store(options, settings)
    if options.follow is not None:
        if options.follow <= 0 or options.force:
            raise UsageError("--follow takes more than 0 seconds, and no --force", "pull once with --force before")
        _follow(options.url, root, options.follow, settings.lock_wait)
        return 0
    report = pull_store(options.url, root, force=options.force, wait=settings.lock_wait)
    text = f"{root} is at generation {report.generation} of {report.url}: {_format_moved(report, 'fetched')}"
    print_result(options.json, report, text)
    return 0


def _follow_wanted(url: str, stores: Path, seconds: float, wait: float) -> None:
    """Keep replicas of the wanted stores until Ctrl-C, SIGTERM or the end of the parent."""
    from helix.errors import StoreError
    from helix.snapshot.replication.wanted_replicas import follow_wanted
    from helix.util.parents import has_ended

    stop, last = _stop_at_signal(), dict[str, str]()
    for name, event in follow_wanted(url, stores, seconds, stop.wait, wait=wait):
        if stop.is_set() or has_ended():
            return
        if isinstance(event, StoreError):
            if str(event) != last.get(name):
                print_error("helix pull", f"{name}: {event}; trying again every {seconds:g} s")
            last[name] = str(event)
        elif event:
            last.pop(name, None)
            print(f"{name}: {event}", flush=True)


def _stop_at_signal() -> threading.Event:
    """Return an event that Ctrl-C and SIGTERM set."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _follow(url: str, root: Path, seconds: float, wait: float) -> None:
    """Keep a replica until Ctrl-C, SIGTERM or the end of the parent. A repeated error is printed once."""
    from helix.errors import StoreError
    from helix.snapshot.replication.replica import follow_replica
    from helix.util.parents import has_ended

    stop, last_error = _stop_at_signal(), ""
    for event in follow_replica(url, root, seconds, stop.wait, wait=wait):
        if stop.is_set() or has_ended():
            return
        if isinstance(event, StoreError):
            if str(event) != last_error:
                print_error("helix pull", f"{event}; trying again every {seconds:g} s")
            last_error = str(event)
            continue
        last_error = ""
        if isinstance(event, str):
            print(event, end="\n" if event else "", flush=True)
        elif event:
            print(f"{root} is at generation {event.generation}: {_format_moved(event, 'fetched')}", flush=True)


def _format_moved(report: TransferReport, done: str) -> str:
    removed = f", {report.removed} old ones removed" if report.removed else ""
    return f"{report.transferred} of {format_count(report.files, 'file')} {done}, {report.bytes / 1e6:.1f} MB{removed}"
