"""Sending of tasks to queues: fresh turns before imports, and a bounded number of messages in the broker.

A message is only a hint; the ledger decides what is to be done. So a message may be omitted, lost or sent twice:
`workers.reconcile` sends what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from workers import hints
from workers.queues import ROUTES

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection

BROKER_ERRORS: Final = (OperationalError, RedisError, OSError)
"""Errors of a broker that is down, silent or full, or that refuses a command."""

FRESH_BYTES: Final = 64 << 10
"""Bytes of new text that may pass waiting imports at once: two seconds of work at most."""

FRESH_RATE: Final = 16 << 10
"""Bytes a second by which that allowance refills: no more than a worker processes."""

MAX_MESSAGES: Final = 5_000
"""Messages of a queue, about 5 MB; the reconciler sends the rest later."""


@dataclass
class Sender:
    """A sender of documents: small fresh ones to `enrich`, all others to `bulk`.

    Documents of a store among many (`store` is its name) go to `enrich` together, or to the dispatcher, which sends
    them to `bulk` in turn with those of other stores.
    """

    app: Celery
    root: Path
    store: str = ""
    _allowance: float = FRESH_BYTES
    _since: float = field(default_factory=time.monotonic)

    def send(self, documents: Sequence[str]) -> int:
        """Send one message a document, with its name; return how many were sent.

        Raises:
            Any of BROKER_ERRORS: the broker fails; some messages may have been sent.
        """
        if not documents:
            return 0
        with self.app.connection_for_write() as connection:
            if self.store:
                return self._send_of_fleet(documents, connection)
            room = {queue: MAX_MESSAGES - count_messages(connection, queue) for queue in ("enrich", "bulk")}
            sent, queue = 0, "enrich"
            for document in documents:
                # After one bulk document all go to bulk: a later one may continue it and would have to wait.
                queue = self.choose_queue(document) if queue == "enrich" else "bulk"
                if room[queue] > 0:
                    self.app.send_task("helix.enrich", args=[document], queue=queue, connection=connection)
                    room[queue] -= 1
                    sent += 1
        return sent

    def _send_of_fleet(self, documents: Sequence[str], connection: Connection) -> int:
        client = hints.open_client(connection)
        cost = sum(hints.cost_document(self._measure(document) or 0) for document in documents)
        has_room = count_messages(connection, "enrich") + len(documents) <= MAX_MESSAGES
        if not (has_room and hints.admit_fresh(client, self.store, cost)):
            hints.add_import(client, self.store)
            return len(documents)
        for document in documents:
            self.app.send_task("helix.enrich", args=[document, self.store], queue="enrich", connection=connection)
        return len(documents)

    def _measure(self, document: str) -> int | None:
        """Return the bytes of a document's envelope; None if it is missing."""
        try:
            return (self.root / "inbox" / document).stat().st_size
        except FileNotFoundError:
            return None

    def choose_queue(self, document: str) -> str:
        """Return the queue of a document, and deduct its size from the allowance of fresh text."""
        now = time.monotonic()
        self._allowance = min(FRESH_BYTES, self._allowance + FRESH_RATE * (now - self._since))
        self._since = now
        size = self._measure(document)
        if size is None or size > self._allowance:
            return "bulk"
        self._allowance -= size
        return "enrich"


def count_messages(connection: Connection, queue: str) -> int:
    """Return the number of messages that wait in a queue."""
    return int(connection.default_channel.queue_declare(queue, durable=True).message_count)


def send_task(app: Celery, name: str, *arguments: str) -> None:
    """Send a task to its default queue; raises any of BROKER_ERRORS."""
    with app.connection_for_write() as connection:
        app.send_task(name, args=list(arguments), queue=ROUTES[name].queues[0], connection=connection)


def request_task(app: Celery, name: str, store: str = "", queue: str = "") -> bool:
    """Send a task unless one like it waits; return whether it was sent.

    A broken broker is no error for the caller: the reconciler sends the task again.

    Args:
        store: its name among many, each of which may have a task waiting; empty: the queue holds one at most.
        queue: the task's default one if empty.
    """
    queue = queue or ROUTES[name].queues[0]
    try:
        with app.connection_for_write() as connection:
            if store:
                if not hints.claim_request(hints.open_client(connection), name, queue, store):
                    return False
            elif count_messages(connection, queue):
                return False
            app.send_task(name, args=[store] if store else [], queue=queue, connection=connection)
            return True
    except BROKER_ERRORS:
        return False


def end_request(app: Celery, name: str, store: str, queue: str) -> None:
    """Note that a requested task begins, so that it can be requested again."""
    try:
        with app.connection_for_write() as connection:
            hints.end_request(hints.open_client(connection), name, queue, store)
    except BROKER_ERRORS:
        return  # the request expires
