"""`helix enqueue`, `helix watch`, `helix worker`, `helix beat` and `helix reindex`."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli.parser import build_parser, parse_port, print_json, resolve_store
from helix.cli.terminal import format_count, print_error, print_text
from helix.errors import UsageError
from helix.settings import load
from pipelines.cli.commands import accepted_of, acl_of, input_options, progress_bar, refuse_aloud, tell_forgotten

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder
    from helix.settings import Settings


def enqueue(argv: Sequence[str]) -> int:
    """Accept durably, hand over to the workers, return at once."""
    new = build_parser(
        "enqueue",
        enqueue.__doc__ or "",
        "  helix enqueue ~/.claude/projects --project ledgerline\n"
        "  helix enqueue /mnt/exports --defer    # a worker of 'accept' reads it, by the same path",
    )
    input_options(new)
    new.add_argument("--defer", action="store_true", help="only note the paths, durably: a worker reads them")
    options = new.parse_args(argv)
    from pipelines.ingest.backpressure import Backlog
    from pipelines.ingest.ingest import Report, accept_all, as_json

    settings, root = load(), resolve_store(options)
    if settings.redis_url:
        import celery  # noqa: F401  missing: better said before anything is accepted
    if options.defer:
        return _defer(root, options, settings)
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
            backlog=Backlog(root, settings),
            progress=progress,
        )
    queued = send(root, documents, settings)
    seconds = time.perf_counter() - began
    refuse_aloud(report.refused, "enqueue")
    tell_forgotten(report, "enqueue")
    if options.json:
        print_json({**as_json(report, seconds), "queued": queued})
    else:
        print_text(f"{accepted_of(report)}; {queued} queued")
    return 3 if report.refused else 0


def _defer(root: Path, options: argparse.Namespace, settings: Settings) -> int:
    """Note what is to be taken in, and tell a worker."""
    from pipelines.ingest.deferred import Order, place

    paths = tuple(str(Path(path).expanduser().absolute()) for path in options.paths)
    order = place(root, Order(paths, options.project, options.format, acl_of(options)))
    told = False
    if settings.redis_url:
        from workers.app import app
        from workers.dispatch import BROKEN

        try:
            with app.connection_for_write() as connection:
                app.send_task("helix.accept", args=[order], queue="accept", connection=connection)
            told = True
        except BROKEN:
            pass
    if not told:
        print_error("helix enqueue", f"noted, but {_why_not(settings)}; a worker takes it up when it runs")
    if options.json:
        print_json({"order": order, "queued": told})
    else:
        print_text(f"order {order[:12]}: {format_count(len(paths), 'path')}; 'helix status' tells what became of it")
    return 0


def _why_not(settings: Settings) -> str:
    return "the broker is out of reach" if settings.redis_url else "no broker is named (HELIX_REDIS_URL)"


def send(root: Path, documents: Sequence[str], settings: Settings, command: str = "enqueue") -> int:
    """Tell the workers of documents; how many messages went out. Says on stderr why there were not as many."""
    if not documents:
        return 0
    if settings.share:
        from workers import replication as fleet

        documents = fleet.hand_over(root, settings, documents)
    sent = 0
    if settings.redis_url:
        from workers.app import app
        from workers.dispatch import BROKEN, Sender

        try:
            if (sent := Sender(app, root).send(documents)) < len(documents):
                return sent  # as many as the broker should hold: the rest follows when there is room
        except BROKEN:
            sent = 0
    if not sent and documents:
        later = "a worker picks the documents up when it starts, 'helix ingest' at once"
        print_error(f"helix {command}", f"accepted, but {_why_not(settings)}; {later}")
    return sent


def watch(argv: Sequence[str]) -> int:
    """Take in what agents write, as they write it: new turns are recallable within two seconds."""
    new = build_parser(
        "watch",
        watch.__doc__ or "",
        "  helix watch                # the session folders of every agent of yours\n"
        "  helix watch ~/meetings     # and this folder\n"
        "  helix watch logs --only    # this folder alone\n\n"
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
    import signal
    import threading

    from helix.cli.logging import configure_logging
    from helix.sources.common.places import Place, installed
    from pipelines.ingest.accept import Inbox, check
    from pipelines.ingest.backpressure import Backlog
    from pipelines.ingest.watch import Publisher, Watch
    from pipelines.ingest.watch import watch as run

    settings, root = load(), resolve_store(options)
    check(root, "auto")
    configure_logging()
    own = [Place("given", path) for path in given]

    def places() -> list[Place]:
        return [*own, *(() if options.only else installed(Path.home(), os.environ))]

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    publisher = None if settings.redis_url else Publisher(root, settings)
    if publisher:
        publisher.open()

    deliver = publisher.add if publisher else _deliver(root, settings)
    for place in places():
        print(f"watching {place.agent}: {place.folder}", file=sys.stderr)
    run(
        Watch(
            Inbox(root, settings),
            places,
            deliver,
            options.project,
            acl_of(options),
            options.polling,
            None if publisher else Backlog(root, settings),
        ),
        stop,
        publisher.step if publisher else bool,
    )
    if publisher:
        publisher.close()
    return 0


def _deliver(root: Path, settings: Settings) -> Callable[[Sequence[str]], None]:
    """Tell the workers of what was just accepted; what they are not told of, the reconciler finds."""
    import logging

    from workers import replication as fleet
    from workers.app import app
    from workers.dispatch import BROKEN, Sender

    sender = Sender(app, root)

    def deliver(accepted: Sequence[str]) -> None:
        documents = fleet.hand_over(root, settings, accepted)
        try:
            sender.send(documents)
        except BROKEN:
            logging.getLogger("helix.watch").warning("accepted, but the broker is out of reach; a worker picks it up")

    return deliver


def worker(argv: Sequence[str]) -> int:
    """Work on what is enqueued: enrich in parallel, commit one at a time."""
    from workers.app import APART, QUEUES

    new = build_parser(
        "worker",
        worker.__doc__ or "",
        "  helix worker                    # everything, in one process: what is fresh goes first\n"
        "  helix worker --queues enrich    # fresh turns alone: they never wait for an import\n"
        "  helix worker --queues bulk --concurrency 4\n"
        "  helix worker --queues deep      # asks the language model of HELIX_DEEP_URL; a worker for that alone",
    )
    new.add_argument("--queues", default=",".join(QUEUES), metavar="A,B", help=f"of {', '.join(QUEUES)} (all); or deep")
    new.add_argument(
        "--concurrency", type=int, default=1, metavar="N", help="processes (1; commits are one at a time anyway)"
    )
    new.add_argument(
        "--metrics-port", type=parse_port, default=0, metavar="N", help="Prometheus metrics on this port (none)"
    )
    options = new.parse_args(argv)
    queues = [name.strip() for name in options.queues.split(",") if name.strip()]
    if not queues or set(queues) - {*QUEUES, *APART}:
        raise UsageError(f"unknown queue in {options.queues!r}", f"there are {', '.join((*QUEUES, *APART))}")
    if set(queues) & set(APART) and set(queues) - set(APART):
        raise UsageError(
            f"the queue {APART[0]} beside others",
            f"give it a worker of its own: helix worker --queues {APART[0]}",
        )
    root, settings = _begin(options)
    if set(queues) <= set(APART):
        _check_endpoint(settings)
    if settings.share and "commit" in queues:
        from pipelines.maintain import replication as share

        share.claim(root, settings)
    if options.metrics_port and _COUNTED not in os.environ:
        # Before anything of Prometheus is imported, here or in a process of the pool.
        os.environ[_COUNTED] = tempfile.mkdtemp(prefix="helix-metrics-")
        atexit.register(shutil.rmtree, os.environ[_COUNTED], ignore_errors=True)
    ordered = [name for name in (*QUEUES, *APART) if name in queues]
    from workers.run import run

    run(root, ordered, max(1, options.concurrency), options.metrics_port)
    return 0


def _check_endpoint(settings: Settings) -> None:
    """Raises UsageError where a worker of the queue `deep` would have nobody to ask, or a setting is wrong."""
    from helix.deep.endpoint import endpoint_of
    from helix.deep.techniques import chosen

    if endpoint_of(settings) is None:
        raise UsageError(
            "no endpoint is named",
            "set HELIX_DEEP_URL and HELIX_DEEP_MODEL, e.g. http://127.0.0.1:11434/v1 and a model it serves",
        )
    chosen(settings)


_COUNTED = "PROMETHEUS_MULTIPROC_DIR"


def beat(argv: Sequence[str]) -> int:
    """Have what is to be done now and then done: merges, what was of use, training. One is enough."""
    options = build_parser("beat", beat.__doc__ or "", "  helix beat &").parse_args(argv)
    _begin(options)
    from workers.run import run_beat

    run_beat()
    return 0


def _begin(options: argparse.Namespace) -> tuple[Path, Settings]:
    """What a worker needs: a broker, a store, and an environment that its processes find them in.

    Raises:
        UsageError: no broker, no such storage tier, or the file of HELIX_ALIVE cannot be written.
        StoreError: the store cannot be written.
    """
    settings = load()
    if not settings.redis_url:
        raise UsageError(
            "no broker", "set HELIX_REDIS_URL, e.g. redis://localhost:6379/0, or use 'helix ingest' without one"
        )
    root = resolve_store(options, settings).absolute()
    from helix.snapshot import paths
    from helix.snapshot.index import dense
    from workers import liveness as alive

    dense.prefix_of(settings.vectors.removesuffix(dense.FLOAT))  # now, not when something is committed
    paths.create(root)
    alive.begin(settings.alive)
    # Children of the pool are fresh interpreters: they read the store from the environment.
    os.environ["HELIX_STORE"] = str(root)
    # `kill` begins Celery's soft shutdown, as Ctrl-C does: what runs may end, what does not is handed back.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    return root, settings


_POLL = 0.5  # seconds


def reindex(argv: Sequence[str]) -> int:
    """Build a new lineage beside the one that serves, and swap when it is complete."""
    new = build_parser(
        "reindex",
        reindex.__doc__ or "",
        "  helix reindex --encoder bge-small-en-v1.5 --store memory\n"
        "  HELIX_ITEM_WORDS=100 helix reindex\n\n"
        "A run that is stopped goes on where it stood. With HELIX_REDIS_URL the workers of 'bulk' do the work.",
    )
    new.add_argument("--encoder", default="", metavar="NAME", help="of 'helix models', or a folder (the present one)")
    options = new.parse_args(argv)
    from dataclasses import asdict

    from helix.util.priority import lower_priority
    from pipelines.maintain.compact import still
    from pipelines.maintain.forget import resume
    from pipelines.maintain.reindex import make_parts
    from pipelines.maintain.reindex import reindex as run

    settings = load()
    root = resolve_store(options, settings).absolute()

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    resume(root, settings, print_text)
    work = _distributed if settings.redis_url and not settings.share else make_parts  # a folder of parts is no share's
    lower_priority()  # whoever is asked meanwhile goes first
    with progress_bar(not options.json) as progress:
        told = None if progress else print_text
        done = run(root, settings, options.encoder, work=work, say=told, progress=progress or still)
    if options.json:
        print_json(asdict(done))
    elif done.swapped:
        items = format_count(done.items, "item")
        print(f"generation {done.generation}: {items} by {done.encoder}; 'helix rollback' returns to the old")
    else:
        print(f"nothing to do: the store is by {done.encoder} and this pipeline already")
    return 0


def _lend(root: Path, encoder: Encoder) -> None:
    """Put an encoder into the store, and see that it is young: `gc` takes what no generation names yet for old."""
    from helix.snapshot.writer import adopt_encoder

    adopt_encoder(root, encoder.folder, encoder.spec.fingerprint)
    os.utime(root / "encoders" / encoder.spec.fingerprint)


def _distributed(
    root: Path, documents: Sequence[str], encoder: Encoder, settings: Settings, made: Callable[[int], None]
) -> None:
    """One message a document to the workers; returns when every part is there. A lost message is sent again.

    It names the encoder by its fingerprint, which lies in the store where every worker finds it.

    Raises:
        StoreError: the broker is out of reach, no worker makes anything, or one of them kills every worker.
    """
    from helix.errors import StoreError
    from helix.snapshot.ledger import attempts as tries
    from pipelines.ingest.enrich import part_folder, pipeline_fingerprint
    from workers.app import app
    from workers.dispatch import BROKEN, length

    fingerprint = pipeline_fingerprint(encoder.spec.fingerprint, settings)
    left, again, moved = set(documents), 0.0, time.monotonic()
    while left:
        if time.monotonic() >= again:
            try:
                with app.connection_for_write() as connection:
                    if length(connection, "bulk") == 0:  # else they are on their way
                        _lend(root, encoder)
                        for document in sorted(left):
                            arguments = [document, encoder.spec.fingerprint]
                            app.send_task("helix.reindex", args=arguments, queue="bulk", connection=connection)
            except BROKEN as error:
                raise StoreError(
                    f"the broker is out of reach: {error}",
                    "start it, or unset HELIX_REDIS_URL to do the work here; the next run goes on from here",
                ) from None
            again = time.monotonic() + settings.reconcile_interval
        time.sleep(_POLL)
        before = len(left)
        left = {document for document in left if not part_folder(root, document, fingerprint).is_dir()}
        if len(left) < before:
            moved = time.monotonic()
            made(len(documents) - len(left))
        for name, record in tries.records(root).items():
            document = name.removesuffix(f"-{fingerprint}")
            if document in left and document != name and record.over():
                (root / "tries" / name).unlink(missing_ok=True)  # the next run may have better luck
                raise StoreError(
                    f"document {document[:12]}… cannot be enriched anew: {record.over()}",
                    "nothing was swapped, and the next run goes on from here",
                )
        if time.monotonic() - moved > settings.task_time_limit:
            raise StoreError(
                f"no worker has made any of {len(left)} documents for {settings.task_time_limit} s",
                "run 'helix worker --queues bulk' with the same settings, or unset HELIX_REDIS_URL to work here",
            )
