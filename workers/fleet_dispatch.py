"""The dispatcher of a fleet for many stores: it keeps `bulk` short, and fills it fairly from the ledgers.

Senders send fresh documents to `enrich` themselves. All others wait in their ledgers, and one worker of the fleet sends
them in turn (`workers.fair_queue`): few messages are ahead of a store that begins an import, however long the others'
imports are. It also reconciles each store every HELIX_RECONCILE_INTERVAL, as `workers.reconcile` does for one.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.errors import HelixError, StoreError
from helix.settings import Settings
from helix.snapshot.store_names import list_stores
from workers import hints
from workers.dispatch import BROKER_ERRORS, count_messages, request_task
from workers.fair_queue import FairQueue, WaitingDocument
from workers.reconcile import find_unfinished, is_young

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection

log = logging.getLogger("helix.workers")

WINDOW: Final = 16
"""Messages in `bulk`: enough for its workers until the next step, and few for another store to wait for."""

QUANTUM: Final = 64 << 10
"""Cost that a store gets in one turn: some three seconds of work."""

STEP: Final = 0.2
"""Seconds between two steps."""

LOOKING: Final = 0.2
"""Seconds of one step for reading ledgers; then the queue is filled again."""

GRACE: Final = 5.0
"""Seconds, at least, for which a document is assumed to be on its way as a fresh one."""

LOCK: Final = ".dispatch.lock"
"""The lock in the folder of stores that the dispatching worker holds; no store can have its name."""


def watch(app: Celery, stores: Path, settings: Settings, stop: threading.Event) -> threading.Thread:
    """Dispatch in a background thread while no other worker does, until `stop`."""

    def run() -> None:
        while not stop.is_set():
            try:
                with hold_turn(stores) as is_mine:
                    if is_mine:
                        log.info("dispatch begins")
                        _dispatch(Dispatcher(app, stores, settings), stop)
            except BROKER_ERRORS as error:
                log.warning("the broker cannot be reached, documents are sent later: %s", type(error).__name__)
            except HelixError as error:
                log.error("documents are sent later: %s", error)
            except Exception as error:  # noqa: BLE001 — the thread continues with the next round
                log.error("documents are sent later: %s", type(error).__name__)
            stop.wait(1.0)

    thread = threading.Thread(target=run, name="helix-dispatch", daemon=True)
    thread.start()
    return thread


@contextmanager
def hold_turn(stores: Path) -> Iterator[bool]:
    """Yield whether this process may dispatch. The kernel frees the lock when its holder dies.

    Raises:
        StoreError: the folder of stores cannot be written.
    """
    try:
        handle = os.open(stores / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        fault = f"cannot write the folder of stores {stores}: {error.strerror or error}"
        raise StoreError(fault, "check its owner, its permissions and the free space") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_mine = True
    except BlockingIOError:
        is_mine = False
    try:
        yield is_mine
    finally:
        os.close(handle)


def _dispatch(dispatcher: Dispatcher, stop: threading.Event) -> None:
    with dispatcher.app.connection_for_write() as connection:
        while not stop.wait(STEP):
            dispatcher.step(connection)


@dataclass
class Dispatcher:
    """The waiting imports of all stores, and which ledgers have to be read."""

    app: Celery
    stores: Path
    settings: Settings
    queue: FairQueue = field(default_factory=lambda: FairQueue(QUANTUM))
    _sent: dict[str, dict[str, int]] = field(default_factory=dict)  # by store: its documents, and which message
    _messages: int = 0  # that were sent to `bulk`
    _unread: deque[str] = field(default_factory=deque)  # stores of the current round
    _idle: dict[str, tuple[int, ...]] = field(default_factory=dict)  # times of the files of stores without work
    _round: float = 0.0  # when the next round begins
    _grace: float = 0.0  # in the first round no document is on its way: messages may have been lost

    def step(self, connection: Connection) -> int:
        """Read some ledgers, and fill `bulk`; return the number of messages sent to it.

        Raises:
            Any of BROKER_ERRORS: the broker cannot be reached.
        """
        began, waiting = time.monotonic(), count_messages(connection, "bulk")
        self._drop_marks(self._messages - waiting)
        for store in hints.take_imports(hints.open_client(connection)):
            self._read(store, connection, is_import=True)
        if not self._unread and began >= self._round:
            self._unread.extend(list_stores(self.stores))
            self._round = began + self.settings.reconcile_interval
        while self._unread and time.monotonic() - began < LOOKING:
            self._read(self._unread.popleft(), connection)
            if not self._unread:
                self._grace = max(GRACE, self.settings.reconcile_interval)
        taken = self.queue.take(WINDOW - waiting)
        for store, job in taken:
            self.app.send_task("helix.enrich", args=[job.document, store], queue="bulk", connection=connection)
            self._messages += 1
            self._sent.setdefault(store, {})[job.document] = self._messages
        return len(taken)

    def _drop_marks(self, received: int) -> None:
        """Forget the documents of the first messages: the queue is first in, first out, and workers have received them.

        A document whose attempt fails is due again then.
        """
        for store, marks in list(self._sent.items()):
            self._sent[store] = {name: number for name, number in marks.items() if number > received}
            if not self._sent[store]:
                del self._sent[store]

    def _read(self, store: str, connection: Connection, is_import: bool = False) -> None:
        """Read a store's ledger: request what it lacks, and set its waiting documents.

        Args:
            is_import: new documents are not on their way as fresh ones.
        """
        root = self.stores / store
        try:
            times = _list_times(root)
            if self._idle.get(store) == times:
                return
            found = find_unfinished(root, self.settings)
        except (HelixError, OSError) as error:
            self._forget(store)
            if root.is_dir():
                text = str(error) if isinstance(error, HelixError) else type(error).__name__
                log.error("documents are sent later: %s", text, extra={"store": store})
            return
        client = hints.open_client(connection)
        for order in found.orders:
            if hints.claim_request(client, "helix.accept", "accept", store, order):
                self.app.send_task("helix.accept", args=[order, store], queue="accept", connection=connection)
        if any(not is_young(root / "inbox" / name, self._grace) for name in found.parts):
            request_task(self.app, "helix.commit", store, "bulk")
        if found.has_waiting:
            request_task(self.app, "helix.expand", store)
        grace = 0.0 if is_import or self.queue.count(store) else self._grace
        sent = self._sent.get(store, {})
        due = [name for name in found.documents if name not in sent and not is_young(root / "inbox" / name, grace)]
        self.queue.replace(store, _list_jobs(root, due))
        if found.is_idle:
            self._idle[store] = times

    def _forget(self, store: str) -> None:
        self.queue.drop(store)
        self._idle.pop(store, None)


def _list_jobs(root: Path, documents: list[str]) -> Iterator[WaitingDocument]:
    for document in documents:
        with contextlib.suppress(FileNotFoundError):
            yield WaitingDocument(document, hints.cost_document((root / "inbox" / document).stat().st_size))


def _list_times(root: Path) -> tuple[int, ...]:
    """Return the times of the files of a store that change with its work; raise OSError if the store is gone."""
    times = [root.stat().st_ino]
    for name in ("CURRENT", "inbox", "parts", "orders", "dead"):
        with contextlib.suppress(FileNotFoundError):
            times.append((root / name).stat().st_mtime_ns)
    return tuple(times)
