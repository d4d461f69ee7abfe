"""The reconciler: it sends every unfinished document and order again, whatever happened to its message."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from celery import Celery

from helix.errors import EncoderError, HelixError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.ledger import attempts, inbox
from pipelines.ingest.lineage import read_encoder_fingerprint
from pipelines.ingest.orders import list_orders
from pipelines.ingest.part import pipeline_fingerprint
from pipelines.passes.doc2query import has_waiting
from workers import replication
from workers.dispatch import BROKER_ERRORS, Sender, count_messages, request_task

log = logging.getLogger("helix.workers")

REFILL: Final = 100
"""Messages at which the queues of documents are filled again."""

_STARTUP: Final = 1.0
"""Seconds within which workers that start together reconcile once."""


def watch(app: Celery, root: Path, settings: Settings) -> threading.Thread:
    """Reconcile now and in each interval, in a background thread: the worker's own loop may wait for the broker."""

    def run() -> None:
        log.info("reconcile begins")
        pause, grace = _STARTUP, 0.0
        while True:
            try:
                with _take_turn(root, pause) as is_mine:
                    if is_mine:
                        replication.keep_up(root, settings)
                        reconcile(app, root, settings, grace)
            except BROKER_ERRORS as error:
                log.warning("the broker cannot be reached, documents are sent later: %s", type(error).__name__)
            except HelixError as error:
                log.error("documents are sent later: %s", error)
            except Exception as error:  # noqa: BLE001 — the thread continues with the next round
                log.error("documents are sent later: %s", type(error).__name__)
            pause, grace = settings.reconcile_interval / 2, settings.reconcile_interval
            stop.wait(settings.reconcile_interval)

    stop = threading.Event()
    thread = threading.Thread(target=run, name="helix-reconcile", daemon=True)
    thread.start()
    return thread


@contextmanager
def _take_turn(root: Path, pause: float) -> Iterator[bool]:
    """Yield whether this worker may reconcile: one at a time, and `pause` seconds after the last one."""
    path = root / "reconcile.lock"
    with ExitStack() as stack:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = not is_young(path, pause) and os.pwrite(handle, b".", 0) > 0  # its time is that of the last turn
        except BlockingIOError:
            is_mine = False
        except OSError as error:
            raise paths.make_write_error(root, error) from None
        yield is_mine


class Unfinished(NamedTuple):
    """The work that a ledger lacks a running process for."""

    documents: list[str]  # without a part, oldest first
    orders: list[str]
    parts: list[str]  # documents whose parts wait for a commit
    has_waiting: bool  # items that an expansion lacks
    is_idle: bool  # nothing is unfinished, running or waiting for its next attempt


def find_unfinished(root: Path, settings: Settings, grace: float = 0.0) -> Unfinished:
    """Find unfinished documents and orders, except running ones and those that wait for their next attempt.

    Args:
        grace: seconds for which a new document or order is assumed to have a message.

    Raises:
        StoreError: the store is damaged.
    """
    pending = inbox.list_pending(root)
    with_part = _list_with_part(root, settings)
    records = attempts.list_records(root)

    def is_due(name: str, path: Path) -> bool:
        record = records.get(name)
        is_free = record is None or not (record.is_waiting() or attempts.is_running(root, name))
        return is_free and not is_young(path, grace)

    documents = [name for name in pending if name not in with_part and is_due(name, root / "inbox" / name)]
    open_orders = list_orders(root)
    due_orders = [order for order in open_orders if is_due(order, root / "orders" / f"{order}.json")]
    expands = False
    with suppress(EncoderError):  # the task `expand` reports it
        expands = has_waiting(root, settings)
    is_idle = not (pending or open_orders or expands)
    parts = [name for name in pending if name in with_part]
    return Unfinished(documents, due_orders, parts, expands, is_idle)


def reconcile(app: Celery, root: Path, settings: Settings, grace: float = 0.0) -> int:
    """Send unfinished documents and orders to their queues; return the number of messages.

    It skips a queue that still holds messages. A message may be sent twice; tasks are idempotent.

    Args:
        grace: as for `find_unfinished`.

    Raises:
        Any of BROKER_ERRORS: the broker cannot be reached.
        StoreError: the store is damaged.
    """
    found, sent = find_unfinished(root, settings, grace), 0
    with app.connection_for_write() as connection:
        waiting = {queue: count_messages(connection, queue) for queue in ("enrich", "bulk", "accept")}
        for order in found.orders if waiting["accept"] == 0 else ():
            app.send_task("helix.accept", args=[order], queue="accept", connection=connection)
            sent += 1
    if waiting["enrich"] + waiting["bulk"] <= REFILL:
        # Queues are first in, first out: the oldest documents mostly have a message.
        sent += Sender(app, root).send(found.documents[waiting["bulk"] :])
    if found.parts:
        sent += request_task(app, "helix.commit")
    if found.has_waiting:
        sent += request_task(app, "helix.expand")
    return sent


def _list_with_part(root: Path, settings: Settings) -> set[str]:
    """Return the documents that have a part, published or not. Before the first commit any part counts."""
    encoder = read_encoder_fingerprint(root)
    wanted = pipeline_fingerprint(encoder, settings) if encoder else ""
    parts = (path.name.partition("-") for path in (root / "parts").glob("[0-9a-f]*"))
    return {document for document, _, fingerprint in parts if not wanted or fingerprint == wanted}


def is_young(path: Path, seconds: float) -> bool:
    """Return whether a file was written within so many seconds. A time in the future means that the clock was set back.

    An empty file was never written.
    """
    return 0 <= paths.measure_age(path) < seconds and path.stat().st_size > 0
