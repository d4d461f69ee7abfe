"""The read-only process: holds a `Memory`, takes new generations while it answers, and shows each caller what is
theirs to see.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from helix.errors import HelixError, StoreError
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.ledger.access_events import Appender, Event, make_event
from helix.snapshot.reader.snapshot import Snapshot
from query.auth import OWNER, Caller
from query.hooks import context as hooks
from query.schema import (
    AroundRequest,
    Asked,
    ContextRequest,
    FactsRequest,
    FeedbackRequest,
    HookRequest,
    RecallRequest,
    SessionRequest,
    TimelineRequest,
    answer,
)

log = logging.getLogger("helix.query")

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE: Final = max(2, min(4, os.cpu_count() or 1))
"""Recalls that run at once; the others wait, first come, first served. More of them only take the interpreter's lock
from each other: eight at once on two cores took twice as long at the 95th percentile as in turns (docs/rest.md)."""


BEHIND: Final = "a newer generation cannot be opened"
"""What who may not see the whole store is told of trouble."""

_SHARE: Final = 4
"""A look that failed is repeated after so many times as long as it took: a broken store takes no core for itself."""

_OVERDUE: Final = 2.0
"""Seconds by which a look may be late, before a request looks in its place."""

_SILENT: Final = 60.0
"""Seconds by which it may be late, before that is told as trouble: a look is as long as opening the store."""


class Service:
    """One store, served. A watching thread opens each new generation beside the old one and swaps.

    Args:
        failed: called at each look for a newer generation that fails.
    """

    def __init__(self, root: Path, settings: Settings, failed: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self.settings = settings
        self.failed = failed
        self._memory: Memory | None = None
        self._error: tuple[str, str] | None = None  # what and its remedy: an exception would keep what was opened
        self._events = Appender(root)
        self._unnoted = ""
        self._begun = False
        self._looked = threading.Event()  # for the first time
        self._stop = threading.Event()
        self._looking, self._reviving = threading.Lock(), threading.Lock()
        self._good = self._due = time.monotonic()  # the last look that found all well; when the next is to begin
        self._turns = ThreadPoolExecutor(AT_ONCE, "helix-recall")
        self._thread = self._watcher()

    def start(self) -> None:
        """Open the store if it can be opened yet, and begin to watch it."""
        self._begun = True
        try:
            self._look()
        finally:
            self._looked.set()  # whatever comes of it, nobody waits for ever
        self._thread.start()

    def begin(self) -> None:
        """Do so beside what else there is to do; who asks meanwhile waits for it."""
        self._begun = True
        threading.Thread(target=self.start, name="helix-open").start()

    def stop(self) -> None:
        """End the watching thread, and make the events durable."""
        self._stop.set()
        self._turns.shutdown(wait=False, cancel_futures=True)
        if self._begun:
            self._looked.wait(5)
        if self._thread.is_alive():
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
        if self._begun:
            self._looked.wait()
            if time.monotonic() > self._due + _OVERDUE and not self._stop.is_set():
                self._look_in_its_place()
        if self._memory is None:
            raise StoreError(*(self._error or (f"the store {self.root} is not open yet", "ask again in a moment")))
        return self._memory

    @property
    def ready(self) -> bool:
        """Whether a generation is open and answers."""
        return self._memory is not None

    @property
    def trouble(self) -> str | None:
        """Return why the newest generation is not, or may not be, the one that answers; None if it is."""
        if self._error:
            return "; ".join(filter(None, self._error))
        late = time.monotonic() - self._due
        if late > _SILENT and self._begun and not self._stop.is_set():
            return f"a look for a newer generation has not ended for {late:.0f} s; see whether the store's disk answers"
        return None

    @property
    def unlooked(self) -> float:
        """Seconds since a look for a newer generation found all well."""
        return time.monotonic() - self._good

    # ------------------------------------------------------------ what is asked

    async def in_turn(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What takes a whole recall, as soon as fewer than AT_ONCE are under way."""
        return await asyncio.get_running_loop().run_in_executor(self._turns, partial(work, *args, **kwargs))

    def recall(self, request: RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """One recall, as every surface shows it."""
        principal = caller.speaks_for(request.principal)
        return answer(self.memory, request.model_copy(update={"principal": principal}), caller.projects)

    def deep(self, request: RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Begin a recall of the tier deep: how it stands, with a first answer."""
        from query import deep_jobs as deep

        return deep.begin(self.memory, request, caller)

    def deep_job(self, identity: str, caller: Caller = OWNER) -> dict[str, Any] | None:
        """How a recall of the tier deep stands, with the best answer there is; None where it is not the caller's."""
        from query import deep_jobs as deep

        return deep.look(self.memory, identity, caller)

    async def deep_events(self, identity: str, caller: Caller = OWNER) -> AsyncIterator[bytes] | None:
        """The same as server-sent events, as it changes."""
        from query import deep_jobs as deep

        memory = self.memory
        job = deep.mine(memory, identity, caller)
        if job is None:
            return None
        told = partial(self.in_turn, deep.told, memory, job)
        return deep.events(memory, job, max(1.0, self.settings.request_timeout - 2), told)

    async def deep_whole(self, request: RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """One recall of the tier deep, waited for."""
        from query import deep_jobs as deep

        found = await self.in_turn(self.deep, request, caller)
        if found["status"] != "done":
            memory = self.memory
            job = deep.mine(memory, found["job"], caller)
            if job is None:
                found = deep.forgotten(found)
            else:
                await deep.ended(memory, job)
                found = await self.in_turn(deep.told, memory, job)
        return dict(found["answer"])

    def context(self, request: ContextRequest, caller: Caller = OWNER) -> str:
        """A context as text: the answer to a question, or where things stand."""
        snap = self._seen(request, caller)
        return hooks.told(self.memory, snap, request.query, request.project, request.budget)

    def hook(self, request: HookRequest, caller: Caller = OWNER) -> dict[str, str]:
        """What an agent's hook adds to its context."""
        snap = self.memory.snapshot.seen_by(caller.speaks_for(None), caller.projects)
        return hooks.answer(self.memory, request.model_dump(), snap)

    def fetch(self, identity: str, request: Asked | None = None, caller: Caller = OWNER) -> dict[str, Any] | None:
        """One item, and an event that it was fetched. None where no live item that the caller may see has the id."""
        found = self.memory.item(identity, **self._whom(request, caller))
        if found is not None:
            self._note(make_event(found["id"], "fetched"))
        return found

    def around(self, identity: str, request: AroundRequest, caller: Caller = OWNER) -> dict[str, Any] | None:
        """The items before and after one; None as for `fetch`."""
        whom = self._whom(request, caller)
        return self.memory.around(identity, before=request.before, after=request.after, **whom)

    def neighbours(self, identity: str, request: Asked, caller: Caller = OWNER) -> dict[str, Any] | None:
        """What an item is connected with; None as for `fetch`."""
        return self.memory.neighbours(identity, **self._whom(request, caller))

    def session(self, name: str, request: SessionRequest, caller: Caller = OWNER) -> dict[str, Any] | None:
        """A session; None where there is none that the caller may see."""
        whom = self._whom(request, caller)
        return self.memory.session(name, offset=request.offset, limit=request.limit, **whom)

    def timeline(self, request: TimelineRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Sessions, newest first."""
        return self.memory.timeline(**self._said(request), **self._whom(request, caller))

    def facts(self, request: FactsRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """What is stated about an entity."""
        return self.memory.facts(**self._said(request), **self._whom(request, caller))

    def choices(self, request: Asked, caller: Caller = OWNER) -> dict[str, Any]:
        """What there is to filter by."""
        return self.memory.choices(**self._whom(request, caller))

    def feedback(self, request: FeedbackRequest, caller: Caller = OWNER) -> dict[str, Any] | None:
        """Take an event, and give it back as it was written. None as for `fetch`.

        Raises:
            UsageError: nobody knows the kind.
            StoreError: the events of this store cannot be written here.
        """
        snap = self._seen(request, caller)
        row = snap.find(request.item)
        event = make_event("0" * 16 if row is None else f"{int(snap.columns.key[row]):016x}", request.kind)
        if row is None:
            return None
        self._events.append([event])
        return event._asdict()

    def status(self, caller: Caller = OWNER) -> dict[str, Any]:
        """The state of the store, and which generation answers here; to whom is not its owner nor of scope `admin`,
        only what they can see.
        """
        serving = self.memory.snapshot.generation
        if "admin" in caller.scopes:
            from helix.snapshot.status import (
                status,  # here: DuckDB comes with it, and an agent waits for its first answer
            )

            return {**status(self.root), "serving": serving, "trouble": self.trouble}
        seen = self.memory.choices(**self._whom(None, caller))
        manifest = self.memory.snapshot.manifest
        return {
            "generation": serving,
            "serving": serving,
            "published": manifest.created if manifest else None,
            "encoder": manifest.lineage.name if manifest else None,
            "items": seen["items"],
            "sessions": seen["sessions"],
            "trouble": BEHIND if self.trouble else None,
        }

    def _whom(self, request: Asked | None, caller: Caller) -> dict[str, Any]:
        """Who sees what: arguments of every question."""
        return {"principal": caller.speaks_for(request.principal if request else None), "projects": caller.projects}

    def _seen(self, request: Asked, caller: Caller) -> Snapshot:
        return self.memory.snapshot.seen_by(**self._whom(request, caller))

    @staticmethod
    def _said(request: Asked) -> dict[str, Any]:
        """The arguments of a request but for who asks."""
        return {name: value for name, value in request.model_dump().items() if name != "principal"}

    def _note(self, event: Event) -> None:
        """Append where that is possible: a read-only copy of a store serves all the same, and says so once."""
        try:
            self._events.append([event])
            self._unnoted = ""
        except StoreError as error:
            if str(error) != self._unnoted:
                log.warning("fetches are not noted: %s", error)
            self._unnoted = str(error)

    # ------------------------------------------------------------ new generations

    def _watcher(self) -> threading.Thread:
        return threading.Thread(target=self._watch, name="helix-reload", daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(max(self.settings.reload_interval, self._due - time.monotonic())):
            self._look()

    def _look_in_its_place(self) -> None:
        """Look because the watching thread does not, and begin another one where it is gone."""
        self._look()
        with self._reviving:
            if not self._thread.is_alive() and not self._stop.is_set():
                log.error("the thread that looks for newer generations is gone; another one begins")
                self._thread = self._watcher()
                self._thread.start()

    def _look(self) -> None:
        """Take the newest generation. Where that fails, whatever it is, say so and go on with the one before."""
        if not self._looking.acquire(blocking=False):
            return  # somebody does
        began, wait = time.monotonic(), self.settings.reload_interval
        try:
            self._take()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (a panic of a library in Rust is no Exception)
            self._tell(error)
            wait = max(wait, _SHARE * (time.monotonic() - began))
        else:
            self._error, self._good = None, time.monotonic()
        finally:
            self._due = time.monotonic() + wait
            self._looking.release()

    def _take(self) -> None:
        """Open the newest generation, where it is not the one that answers, and have it answer."""
        if self._memory is None:
            self._memory = Memory(self.root, self.settings)
            log.info("serving generation %d", self._memory.snapshot.generation)
        elif self._memory.refresh():
            log.info("took generation %d", self._memory.snapshot.generation)

    def _tell(self, error: BaseException) -> None:
        """Count a look that failed, and say so once."""
        self.failed()
        foreseen = isinstance(error, HelixError)
        said = (
            (error.what, error.remedy)
            if isinstance(error, HelixError)
            else (
                f"the newest generation of {self.root} cannot be opened: {type(error).__name__}: {error}",
                "'helix verify' names what is damaged; 'helix rollback' returns to an earlier generation",
            )
        )
        if said != self._error:
            log.error("cannot open the newest generation: %s", said[0], exc_info=None if foreseen else error)
        self._error = said
