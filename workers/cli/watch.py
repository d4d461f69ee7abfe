"""`helix watch`: ingest the logs of agents while they grow."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix.cli.parser import add_log_format, build_parser, resolve_store
from helix.cli.terminal import print_note, shorten_home
from helix.errors import UsageError
from helix.settings import Settings, load
from helix.snapshot.store_names import name_store
from pipelines.cli.ingest import parse_acl

if TYPE_CHECKING:
    from helix.cli.parser import Parser
    from helix.sources.common.places import Place


def watch(argv: Sequence[str]) -> int:
    """Ingest the logs of agents while they grow: new turns are recallable within two seconds."""
    options = _make_parser().parse_args(argv)
    given = [Path(path).expanduser().absolute() for path in options.paths]
    if missing := [path for path in given if not path.exists()]:
        raise UsageError(f"{missing[0]} does not exist", "name existing folders and files")
    if options.only and not given:
        raise UsageError("--only without a folder", "name the folders to watch")
    import signal
    import threading

    from helix.cli.logging import configure_logging
    from helix.sources.common.places import Place, find_places
    from pipelines.embedded.publisher import Publisher
    from pipelines.ingest.accept import prepare_store
    from pipelines.ingest.accept_all import Backlog
    from pipelines.ingest.source import Inbox
    from pipelines.ingest.watch import Watch
    from pipelines.ingest.watch import watch as run
    from workers.cli.enqueue import check_place

    settings, root = load(), resolve_store(options)
    if settings.redis_url:
        check_place(root, settings)
    prepare_store(root, "auto")
    configure_logging(settings)
    own = [Place("given", path) for path in given]

    def list_places() -> list[Place]:
        return [*own, *(() if options.only else find_places(Path.home(), os.environ))]

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    publisher = None if settings.redis_url else Publisher(root, settings)
    if publisher:
        publisher.open()
    deliver = publisher.add if publisher else _queue_for_workers(root, settings)
    _introduce(root, list_places(), settings)
    backlog = None if publisher else Backlog(root, settings)
    acl, inbox = parse_acl(options), Inbox(root, settings)
    run(
        Watch(inbox, list_places, deliver, options.project, acl, options.polling, backlog),
        stop,
        publisher.step if publisher else bool,
    )
    if publisher:
        publisher.close()
    logging.getLogger("helix.watch").info("stopped; the same command continues from here")
    return 0


def _make_parser() -> Parser:
    new = build_parser(
        "watch",
        watch.__doc__ or "",
        "  helix watch                # the session folders of all your agents\n"
        "  helix watch ~/meetings     # and this folder\n"
        "  helix watch logs --only    # this folder alone\n\n"
        "After a restart it continues from where it stopped. Files deleted there stay in memory here. Ctrl-C ends.",
    )
    new.add_argument("paths", nargs="*", metavar="DIR", help="folders and files, in addition to those of the agents")
    new.add_argument("--only", action="store_true", help="watch the given folders only")
    new.add_argument("--project", metavar="P", help="the project of all documents; overrides the logs")
    new.add_argument("--acl", default="", metavar="A,B", help="only these principals may see the documents")
    new.add_argument("--polling", action="store_true", help="list the folders, for file systems without notifications")
    add_log_format(new)
    return new


def _introduce(root: Path, places: Sequence[Place], settings: Settings) -> None:
    """Say what is watched, for which store, and how to stop; log it where a machine reads."""
    from helix.cli.logging import is_text

    log = logging.getLogger("helix.watch")
    if not is_text(settings):
        for place in places:
            fields = {"agent": place.agent, "folder": str(place.folder)}
            log.info("watching %s: %s", place.agent, place.folder, extra=fields)
    elif places:
        width = max(len(place.agent) for place in places)
        for place in places:
            print_note(f"watching {place.agent:{width}}  {shorten_home(place.folder)}")
    if not places:
        log.warning("no agent has sessions here yet: they are watched once they come; or name a folder")
    if is_text(settings):
        if not settings.redis_url:
            logging.getLogger("helix.watch.accepted").setLevel(logging.WARNING)
        print_note(f"store    {shorten_home(root)}")
        print_note("Ctrl-C stops; nothing is lost")


def _queue_for_workers(root: Path, settings: Settings) -> Callable[[Sequence[str]], None]:
    """Return a function that sends accepted documents to the workers; the reconciler sends the rest."""
    from workers import replication
    from workers.app import app
    from workers.dispatch import BROKER_ERRORS, Sender

    sender = Sender(app, root, name_store(settings.stores, root))

    def deliver(accepted: Sequence[str]) -> None:
        try:
            sender.send(replication.hand_over(root, settings, accepted))
        except BROKER_ERRORS:
            warning = "accepted, but the broker cannot be reached; a worker finds it when it starts"
            logging.getLogger("helix.watch").warning(warning)

    return deliver
