"""What goes to which queue: fresh turns ahead of imports, and never more messages than the broker should hold.

A message is a hint that there is work; the ledger knows what there is. So it does no harm that some are not sent, or
lost, or sent twice: `workers.reconcile` looks after all that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection

BROKEN: Final = (OperationalError, RedisError, OSError)
"""What is raised where the broker is away, silent, full, or refuses us."""

FRESH: Final = 64 << 10
"""Bytes of new text at a time that go ahead of what has waited for longer: two seconds of work at most."""

REFILL: Final = 16 << 10
"""Bytes a second of new text that may go on doing so: no more than a worker gets through."""

HELD: Final = 5_000
"""Messages of a queue at most, about 5 MB: the rest follows when there is room."""


@dataclass
class Sender:
    """Sends documents to be enriched: to `enrich` what is small and comes as sessions go on, to `bulk` the rest."""

    app: Celery
    root: Path
    _left: float = FRESH
    _since: float = field(default_factory=time.monotonic)

    def send(self, documents: Sequence[str]) -> int:
        """One message a document, carrying its name; how many went out.

        Raises:
            Any of BROKEN: the broker fails; some may have gone out.
        """
        if not documents:
            return 0
        with self.app.connection_for_write() as connection:
            room = {queue: HELD - length(connection, queue) for queue in ("enrich", "bulk")}
            sent, queue = 0, "enrich"
            for document in documents:
                # Behind one that is not fresh none is: it may go on from that one, and would only wait for it.
                queue = self.queue_of(document) if queue == "enrich" else "bulk"
                if room[queue] > 0:
                    self.app.send_task("helix.enrich", args=[document], queue=queue, connection=connection)
                    room[queue] -= 1
                    sent += 1
        return sent

    def queue_of(self, document: str) -> str:
        """Where a document goes, as the last one of those that were asked about before it."""
        now = time.monotonic()
        self._left = min(FRESH, self._left + REFILL * (now - self._since))
        self._since = now
        try:
            size = (self.root / "inbox" / document).stat().st_size
        except FileNotFoundError:
            return "bulk"
        if size > self._left:
            return "bulk"
        self._left -= size
        return "enrich"


def length(connection: Connection, queue: str) -> int:
    """Messages waiting in a queue."""
    return int(connection.default_channel.queue_declare(queue, durable=True).message_count)


def ask(app: Celery, name: str, *arguments: Any) -> bool:
    """Send a task that does all there is to do, unless one waits already; whether it went out.

    A broker that fails is no failure of whoever asks: the reconciler asks again.
    """
    queue = app.conf.task_routes[name]["queue"]
    try:
        with app.connection_for_write() as connection:
            if length(connection, queue):
                return False
            app.send_task(name, args=list(arguments), queue=queue, connection=connection)
            return True
    except BROKEN:
        return False
