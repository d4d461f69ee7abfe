"""The read-only process: holds a `Memory` and takes new generations while it answers."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from helix.errors import HelixError, StoreError
from helix.memory import Memory
from helix.settings import Settings
from helix.snapshot.events import Appender, Event, make_event
from helix.status import status
from query.wire import FeedbackRequest, RecallRequest, answer, stored_item, visible_row

log = logging.getLogger("helix.query")


class Service:
    """One store, served. A watching thread opens each new generation beside the old one and swaps."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root = root
        self.settings = settings
        self._memory: Memory | None = None
        self._error: HelixError | None = None
        self._events = Appender(root)
        self._unnoted = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="helix-reload", daemon=True)

    def start(self) -> None:
        """Open the store if it can be opened yet, and begin to watch it."""
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """End the watching thread, and make the events durable."""
        self._stop.set()
        self._thread.join(timeout=5)
        try:
            self._events.close()
        except OSError as error:
            log.error("the last access events of %s may be lost: %s", self.root, error.strerror or error)

    @property
    def memory(self) -> Memory:
        """The open store.

        Raises:
            StoreError: it cannot be opened, and why.
        """
        if self._memory is None:
            raise self._error or StoreError(f"the store {self.root} is not open yet", "ask again in a moment")
        return self._memory

    @property
    def ready(self) -> bool:
        """Whether a generation is open and answers."""
        return self._memory is not None

    @property
    def trouble(self) -> str | None:
        """Why the newest generation is not the one that answers; None if it is."""
        return str(self._error) if self._error else None

    def recall(self, request: RecallRequest) -> dict[str, Any]:
        """One recall, as every surface shows it."""
        return answer(self.memory, request)

    def fetch(self, identity: str, principal: str | None) -> dict[str, Any] | None:
        """One item, and an event that it was fetched. None where no live item that the principal may see has the id."""
        snap = self.memory.snapshot
        row = visible_row(snap, identity, principal)
        if row is None:
            return None
        found = stored_item(snap, row, principal)
        self._note(make_event(found["id"], "fetched"))
        return found

    def feedback(self, request: FeedbackRequest) -> dict[str, Any] | None:
        """Take an event, and give it back as it was written. None as for `fetch`.

        Raises:
            StoreError: the events of this store cannot be written here.
        """
        snap = self.memory.snapshot
        row = visible_row(snap, request.item, request.principal)
        if row is None:
            return None
        event = make_event(f"{int(snap.columns.key[row]):016x}", request.kind)
        self._events.append([event])
        return event._asdict()

    def _note(self, event: Event) -> None:
        """Append where that is possible: a read-only copy of a store serves all the same, and says so once."""
        try:
            self._events.append([event])
            self._unnoted = ""
        except StoreError as error:
            if str(error) != self._unnoted:
                log.warning("fetches are not noted: %s", error)
            self._unnoted = str(error)

    def status(self) -> dict[str, Any]:
        """The store's state, and which generation answers here."""
        return {**status(self.root), "serving": self.memory.snapshot.generation, "trouble": self.trouble}

    def _watch(self) -> None:
        while not self._stop.wait(self.settings.reload_interval):
            self._look()

    def _look(self) -> None:
        """Open the newest generation; where that fails, say so once and go on serving the one before."""
        try:
            if self._memory is None:
                self._memory = Memory(self.root, self.settings)
                log.info("serving generation %d", self._memory.snapshot.generation)
            elif self._memory.refresh():
                log.info("took generation %d", self._memory.snapshot.generation)
            self._error = None
        except HelixError as error:
            if str(error) != str(self._error):
                log.error("cannot open the newest generation: %s", error)
            # Without its frames: they hold what was opened of the broken generation.
            self._error = error.with_traceback(None)
