"""`helix enqueue`, `helix watch`, `helix worker` and `helix reindex`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli import parser, print_json, store_of
from helix.errors import UsageError
from helix.settings import load
from pipelines.commands import acl_of, input_options, progress_bar, refuse_aloud

if TYPE_CHECKING:
    from helix.encoders.onnx import Encoder
    from helix.settings import Settings

QUEUES = ("enrich", "commit", "maintain", "expand")


def enqueue(argv: Sequence[str]) -> int:
    """Accept durably, hand over to the workers, return at once."""
    new = parser("enqueue", enqueue.__doc__ or "", "  helix enqueue ~/.claude/projects --project ledgerline")
    input_options(new)
    options = new.parse_args(argv)
    from pipelines.ingest import Report, accept_all, as_json

    settings, root = load(), store_of(options)
    if settings.redis_url:
        import celery  # noqa: F401  missing: better said before anything is accepted
    began = time.perf_counter()
    report = Report()
    with progress_bar(not options.json) as progress:
        documents = accept_all(
            root,
            options.paths,
            settings,
            report,
            project=options.project,
            format=options.format,
            acl=acl_of(options),
            progress=progress,
        )
    queued = _send(documents, settings.redis_url)
    seconds = time.perf_counter() - began
    refuse_aloud(report.refused, "enqueue")
    if queued < len(documents):
        why = "the broker is out of reach" if settings.redis_url else "no broker is named (HELIX_REDIS_URL)"
        later = "a worker picks the documents up when it starts, 'helix ingest' at once"
        print(f"helix enqueue: accepted, but {why}; {later}", file=sys.stderr)
    if options.json:
        print_json({**as_json(report, seconds), "queued": queued})
    else:
        print(
            f"{report.accepted} documents accepted, {report.duplicates} duplicates, {len(report.refused)} refused; "
            f"{queued} queued"
        )
    return 3 if report.refused else 0


def _send(documents: Sequence[str], url: str) -> int:
    """One message a document, carrying its name; how many went out before the broker failed."""
    if not url or not documents:
        return 0
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError

    from workers.app import app

    sent = 0
    try:
        with app.connection_for_write() as connection:
            for document in documents:
                app.send_task("helix.enrich", args=[document], queue="enrich", connection=connection)
                sent += 1
    except (OperationalError, RedisError, OSError):
        pass  # reported by the caller: the ledger holds every document
    return sent


def watch(argv: Sequence[str]) -> int:
    """Take in what agents write, as they write it: new turns are recallable within two seconds."""
    new = parser(
        "watch",
        watch.__doc__ or "",
        "  helix watch                      the session folders of every agent of yours\n"
        "  helix watch ~/meetings           and this folder\n"
        "  helix watch logs --only          this folder alone\n\n"
        "A restart goes on where the last one ended. What is deleted there stays in memory here. Ctrl-C ends.",
    )
    new.add_argument("paths", nargs="*", metavar="DIR", help="folders and files besides those of the agents")
    new.add_argument("--only", action="store_true", help="nothing but the given ones")
    new.add_argument("--project", metavar="P", help="the project all of it belongs to; goes before what the logs say")
    new.add_argument("--acl", default="", metavar="A,B", help="only these principals may see what is in them")
    new.add_argument("--polling", action="store_true", help="look through the folders, where the system tells nothing")
    options = new.parse_args(argv)
    given = [Path(path).expanduser().absolute() for path in options.paths]
    if missing := [path for path in given if not path.exists()]:
        raise UsageError(f"{missing[0]} does not exist", "name folders and files that are there")
    if options.only and not given:
        raise UsageError("--only without a folder", "name what is to be watched")
    import logging
    import signal
    import threading

    from helix.sources.places import Place, installed
    from pipelines.accept import Inbox, check
    from pipelines.watch import Publisher, Watch
    from pipelines.watch import watch as run

    settings, root = load(), store_of(options)
    check(root, "auto")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    own = [Place("given", path) for path in given]

    def places() -> list[Place]:
        return [*own, *(() if options.only else installed(Path.home(), os.environ))]

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    publisher = None if settings.redis_url else Publisher(root, settings)
    if publisher:
        publisher.open()

    def deliver(documents: Sequence[str]) -> None:
        if publisher:
            publisher.add(documents)
        elif _send(documents, settings.redis_url) < len(documents):
            print("helix watch: accepted, but the broker is out of reach; a worker picks it up", file=sys.stderr)

    for place in places():
        print(f"watching {place.agent}: {place.folder}", file=sys.stderr)
    run(
        Watch(Inbox(root, settings), places, deliver, options.project, acl_of(options), options.polling),
        stop,
        publisher.step if publisher else bool,
    )
    if publisher:
        publisher.close()
    return 0


def worker(argv: Sequence[str]) -> int:
    """Work on what is enqueued: enrich in parallel, commit one at a time."""
    new = parser("worker", worker.__doc__ or "", "  helix worker --queues enrich\n  helix worker --queues commit")
    new.add_argument("--queues", default=",".join(QUEUES), metavar="A,B", help=f"of {', '.join(QUEUES)} (all)")
    new.add_argument("--concurrency", type=int, default=1, help="processes (1; commits are one at a time anyway)")
    options = new.parse_args(argv)
    queues = [name.strip() for name in options.queues.split(",") if name.strip()]
    if not queues or set(queues) - set(QUEUES):
        raise UsageError(f"unknown queue in {options.queues!r}", f"there are {', '.join(QUEUES)}")
    settings = load()
    if not settings.redis_url:
        raise UsageError(
            "no broker", "set HELIX_REDIS_URL, e.g. redis://localhost:6379/0, or use 'helix ingest' without one"
        )
    root = store_of(options, settings).absolute()
    from helix.snapshot import dense, paths

    dense.prefix_of(settings.vectors.removesuffix(dense.FLOAT))  # now, not when something is committed
    paths.create(root)
    # Children of the pool are fresh interpreters: they read the store from the environment.
    os.environ["HELIX_STORE"] = str(root)
    _run(root, queues, max(1, options.concurrency))
    return 0


def _run(root: Path, queues: list[str], concurrency: int) -> None:
    import logging

    from celery.signals import worker_ready

    from workers.app import app
    from workers.reconcile import reconcile

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    settings = load()

    def begin(sender: object = None, **_: object) -> None:
        """Pick up what was accepted while nobody was there, then look again from time to time."""
        reconcile(app, root, settings, set(queues))
        timer = getattr(sender, "timer", None)
        if timer is not None:
            timer.call_repeatedly(settings.reconcile_interval, reconcile, (app, root, settings, set(queues)))

    worker_ready.connect(begin, weak=False)
    app.worker_main(
        [
            "worker",
            "--loglevel=info",
            f"--queues={','.join(queues)}",
            f"--concurrency={concurrency}",
            "--pool=prefork",
            f"--hostname={'-'.join(queues)}-{os.getpid()}@%h",
            "--without-gossip",
            "--without-mingle",
        ]
    )


_POLL = 0.5  # seconds


def reindex(argv: Sequence[str]) -> int:
    """Build a new lineage beside the one that serves, and swap when it is complete."""
    new = parser(
        "reindex",
        reindex.__doc__ or "",
        "  helix reindex --encoder bge-small-en-v1.5 --store memory\n"
        "  HELIX_ITEM_WORDS=100 helix reindex\n\n"
        "A run that is stopped goes on where it stood. With HELIX_REDIS_URL the workers of 'enrich' do the work.",
    )
    new.add_argument("--encoder", default="", metavar="NAME", help="of 'helix models', or a folder (the present one)")
    options = new.parse_args(argv)
    from dataclasses import asdict

    from pipelines.forget import resume
    from pipelines.reindex import make_parts
    from pipelines.reindex import reindex as run

    settings = load()
    root = store_of(options, settings).absolute()

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    resume(root, settings, say)
    work = _distributed if settings.redis_url else make_parts
    done = run(root, settings, options.encoder, work=work, say=say)
    if options.json:
        print_json(asdict(done))
    elif done.swapped:
        print(
            f"generation {done.generation}: {done.items:,} items by {done.encoder}; 'helix rollback' returns to the old"
        )
    else:
        print(f"nothing to do: the store is by {done.encoder} and this pipeline already")
    return 0


def _distributed(root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings) -> None:
    """One message a document to the workers; returns when every part is there. A lost message is sent again.

    Raises:
        StoreError: the broker is out of reach, or no worker makes anything.
    """
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError

    from helix.errors import StoreError
    from pipelines.enrich import part_folder, pipeline_fingerprint
    from workers.app import app

    fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, settings)
    left, again, moved = set(documents), 0.0, time.monotonic()
    while left:
        if time.monotonic() >= again:
            try:
                with app.connection_for_write() as connection:
                    for document in sorted(left):
                        arguments = [document, str(encoder.folder.absolute()), encoder.spec.fingerprint]
                        app.send_task("helix.reindex", args=arguments, queue="enrich", connection=connection)
            except (OperationalError, RedisError, OSError) as error:
                raise StoreError(
                    f"the broker is out of reach: {error}",
                    "start it, or unset HELIX_REDIS_URL to do the work here; the next run goes on from here",
                ) from None
            again = time.monotonic() + max(60.0, settings.reconcile_interval)
        time.sleep(_POLL)
        before = len(left)
        left = {document for document in left if not part_folder(root, document, fingerprint).is_dir()}
        moved = time.monotonic() if len(left) < before else moved
        if time.monotonic() - moved > settings.task_time_limit:
            raise StoreError(
                f"no worker has made any of {len(left)} documents for {settings.task_time_limit} s",
                "run 'helix worker --queues enrich' with the same settings, or unset HELIX_REDIS_URL to work here",
            )
