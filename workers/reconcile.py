"""The reconciler: what the ledger says is unfinished is sent again, whatever became of its message."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from celery import Celery

from helix.errors import EncoderError, HelixError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import attempts as tries
from helix.snapshot.ledger import inbox as ledger
from pipelines.ingest.deferred import waiting_orders
from pipelines.ingest.enrich import pipeline_fingerprint
from pipelines.ingest.ingest import lineage_of
from pipelines.passes.doc2query import anything_waits
from workers import replication as fleet
from workers.dispatch import BROKEN, Sender, ask, length

log = logging.getLogger("helix.workers")

LOW: Final = 100
"""Messages below which a queue is filled up."""

_JUST: Final = 1.0
"""Seconds: several workers that start together look once."""


def watch(app: Celery, root: Path, settings: Settings) -> threading.Thread:
    """Look now and from time to time, in a thread beside a worker: its own loop may wait for a broker that is away."""

    def look() -> None:
        log.info("reconcile begins")
        young, grace = _JUST, 0.0
        while True:
            try:
                with _turn(root, young) as mine:
                    if mine:
                        fleet.keep_up(root, settings)
                        reconcile(app, root, settings, grace)
            except BROKEN as error:
                log.warning("the broker is out of reach, what is unfinished is sent later: %s", type(error).__name__)
            except HelixError as error:
                log.error("what is unfinished is sent later: %s", error)
            except Exception as error:  # noqa: BLE001  the thread must go on: the next look is another try
                log.error("what is unfinished is sent later: %s", type(error).__name__)
            young, grace = settings.reconcile_interval / 2, settings.reconcile_interval
            stop.wait(settings.reconcile_interval)

    stop = threading.Event()
    thread = threading.Thread(target=look, name="helix-reconcile", daemon=True)
    thread.start()
    return thread


@contextmanager
def _turn(root: Path, young: float) -> Iterator[bool]:
    """Whether it is this worker's turn to look: one at a time does, and not right after another has."""
    path = root / "reconcile.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise paths.unwritable(root, error) from None
    try:
        yield _is_mine(handle) and not _is_young(path, young) and _mark(root, handle)
    finally:
        os.close(handle)


def _is_mine(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _mark(root: Path, handle: int) -> bool:
    """Note that somebody looks now."""
    try:
        return os.pwrite(handle, b".", 0) > 0
    except OSError as error:
        raise paths.unwritable(root, error) from None


def reconcile(app: Celery, root: Path, settings: Settings, grace: float = 0.0) -> int:
    """Send every unfinished document to the queue it waits for; returns how many messages went out.

    A queue that still holds messages is left alone: its documents are on their way. What is under way, or waits for its
    next try, is left out; what has had its strikes is given up. Something may be sent a second time; tasks are
    idempotent, so that costs a look-up.

    Args:
        grace: seconds for which what was accepted is taken to be on its way.

    Raises:
        Any of BROKEN: the broker is out of reach.
        StoreError: the store is damaged.
    """
    pending = ledger.pending(root)
    made = _made(root, settings)
    known = tries.records(root)
    todo = [
        document
        for document in pending
        if document not in made and not _is_young(root / "inbox" / document, grace) and _is_due(root, document, known)
    ]
    sent = 0
    with app.connection_for_write() as connection:
        held = {queue: length(connection, queue) for queue in ("enrich", "bulk", "accept")}
        if held["accept"] == 0:
            for order in waiting_orders(root):
                if not _is_young(root / "orders" / f"{order}.json", grace) and _is_due(root, order, known):
                    app.send_task("helix.accept", args=[order], queue="accept", connection=connection)
                    sent += 1
    if held["enrich"] + held["bulk"] <= LOW:
        # Queues are worked off in order: what is sent already is mostly the oldest.
        sent += Sender(app, root).send(todo[held["bulk"] :])
    if made.intersection(pending):
        sent += ask(app, "helix.commit")
    with suppress(EncoderError):  # whoever expands says so
        if anything_waits(root, settings):
            sent += ask(app, "helix.expand")
    return sent


def _made(root: Path, settings: Settings) -> set[str]:
    """Documents whose part is there, published or not. Before the first commit any part may be what it takes."""
    encoder = lineage_of(root)
    wanted = pipeline_fingerprint(encoder, settings) if encoder else ""
    parts = (path.name.partition("-") for path in (root / "parts").glob("[0-9a-f]*"))
    return {document for document, _, made_by in parts if not wanted or made_by == wanted}


def _is_young(path: Path, grace: float) -> bool:
    """Whether a file was written within so many seconds; one of the future was before the clock was set back.

    An empty one is new: nothing was written to it.
    """
    return 0 <= paths.age(path) < grace and path.stat().st_size > 0


def _is_due(root: Path, name: str, known: dict[str, tries.Record]) -> bool:
    """Whether it is time to try a document or an order: nobody is at it, it does not wait, it is not given up."""
    record = known.get(name)
    if record is None:
        return True
    return not record.waits() and not tries.is_running(root, name)
