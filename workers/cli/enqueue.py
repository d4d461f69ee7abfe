"""`helix enqueue`: accept documents and hand them to the workers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import build_parser, resolve_store
from helix.cli.terminal import format_count, print_error, print_result
from helix.errors import UsageError
from helix.settings import Settings, load
from helix.snapshot.store_names import name_store
from pipelines.cli.ingest import add_input_options, parse_acl, progress_bar
from pipelines.cli.ingest_report import format_accepted, print_refused


def enqueue(argv: Sequence[str]) -> int:
    """Accept documents durably, and queue them for the workers."""
    new = build_parser(
        "enqueue",
        enqueue.__doc__ or "",
        "  helix enqueue ~/.claude/projects --project ledgerline\n"
        "  helix enqueue /mnt/exports --defer    # a worker of 'accept' reads it, by the same path",
    )
    add_input_options(new)
    new.add_argument("--defer", action="store_true", help="note only the paths, durably: a worker reads them")
    options = new.parse_args(argv)
    from pipelines.ingest.accept_all import Backlog, IngestReport, accept_all, spool_stdin

    settings, root = load(), resolve_store(options)
    check_place(root, settings)
    if settings.redis_url:
        import celery  # noqa: F401 — report a missing package before anything is accepted
    if options.defer and "-" in options.paths:
        new.error("a worker cannot read standard input: leave out --defer")
    if options.defer:
        return _defer(root, options, settings)
    began = time.perf_counter()
    report = IngestReport()
    with progress_bar(not options.json) as progress, spool_stdin(options.paths, sys.stdin.buffer) as inputs:
        documents = accept_all(
            root,
            inputs,
            settings,
            report,
            project=options.project,
            format=options.format,
            acl=parse_acl(options),
            backlog=Backlog(root, settings),
            progress=progress,
        )
    queued = queue_documents(root, documents, settings)
    seconds = time.perf_counter() - began
    print_refused(report, "enqueue")
    value = {**report.as_json(seconds), "queued": queued}
    print_result(options.json, value, f"{format_accepted(report)}; {queued} queued")
    return 3 if report.refused else 0


def check_place(root: Path, settings: Settings) -> None:
    """Check that the workers of this broker serve a store.

    Raises:
        UsageError: they serve a folder of stores that does not hold it.
    """
    if settings.stores and not name_store(settings.stores, root):
        fault = f"the workers serve the stores in HELIX_STORES={settings.stores}, and {root} is none of them"
        raise UsageError(fault, "name one with --store, e.g. --store $HELIX_STORES/NAME, or unset HELIX_STORES")


def _defer(root: Path, options: argparse.Namespace, settings: Settings) -> int:
    """Place an order of the paths, and send it to a worker."""
    from pipelines.ingest.orders import Order, place

    paths = tuple(str(Path(path).expanduser().absolute()) for path in options.paths)
    order = place(root, Order(paths, options.project, options.format, parse_acl(options)))
    queued = False
    if settings.redis_url:
        from workers.app import app
        from workers.dispatch import BROKER_ERRORS, send_task

        try:
            send_task(app, "helix.accept", order, *filter(None, [name_store(settings.stores, root)]))
            queued = True
        except BROKER_ERRORS:
            pass
    if not queued:
        print_error("helix enqueue", f"noted, but {_describe_broker(settings)}; a worker finds it when it starts")
    text = f"order {order[:12]}: {format_count(len(paths), 'path')}; 'helix status --all' shows its result"
    print_result(options.json, {"order": order, "queued": queued}, text)
    return 0


def queue_documents(root: Path, documents: Sequence[str], settings: Settings, command: str = "enqueue") -> int:
    """Send documents to the workers; return the number of messages. Print the reason if none could be sent."""
    if not documents:
        return 0
    if settings.share:
        from workers import replication

        documents = replication.hand_over(root, settings, documents)
    sent = 0
    if settings.redis_url:
        from workers.app import app
        from workers.dispatch import BROKER_ERRORS, Sender

        try:
            if (sent := Sender(app, root, name_store(settings.stores, root)).send(documents)) < len(documents):
                return sent  # the queue is full; the reconciler sends the rest
        except BROKER_ERRORS:
            sent = 0
    if not sent and documents:
        later = "a worker ingests the documents when it starts, 'helix ingest --pending' at once"
        print_error(f"helix {command}", f"accepted, but {_describe_broker(settings)}; {later}")
    return sent


def _describe_broker(settings: Settings) -> str:
    return "the broker cannot be reached" if settings.redis_url else "no broker is set (HELIX_REDIS_URL)"
