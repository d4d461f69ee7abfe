"""The read-only service: an open `Memory` that takes new generations while it answers, filtered for each caller."""

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

from helix.errors import HelixError, StoreError, UsageError
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot.ledger.access_events import AccessEvent, EventAppender, make_event
from helix.snapshot.reader.snapshot import Snapshot
from helix.util.workspaces import Workspace
from query.auth import OWNER, Caller
from query.hooks.context import answer_hook, build_context
from query.publisher import NotePublisher
from query.schema import requests as wire
from query.schema.answers import run_recall
from query.store_state import describe_store, describe_view

log = logging.getLogger("helix.query")

P = ParamSpec("P")
R = TypeVar("R")

MAX_RUNNING: Final = max(2, min(4, os.cpu_count() or 1))
"""Recalls that run at once; others wait in order of arrival. More only compete for the interpreter's lock: eight at
once on two cores took twice as long at the 95th percentile as in turns (docs/reference/rest.md)."""

_BACKOFF: Final = 4
"""A failed look waits this many times its duration, so that a broken store does not use up a core."""

_OVERDUE: Final = 2.0
"""Seconds a look may be late before a request looks itself."""

_HUNG: Final = 60.0
"""Seconds a look may be late before it counts as trouble; opening a store takes a while."""


class QueryService:
    """One served store. A watching thread opens each new generation, then swaps it in.

    Args:
        on_failure: called after each failed look for a newer generation.
        open_memory: opens the store the first time.
        pool: runs the recalls; None: MAX_RUNNING threads of its own.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        on_failure: Callable[[], None] = lambda: None,
        open_memory: Callable[[Path, Settings], Memory] = Memory,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self.root = root
        self.settings = settings
        self.on_failure = on_failure
        self._open_memory = open_memory
        self._memory: Memory | None = None
        self._error: tuple[str, str] | None = None  # text and remedy; an exception would keep its frames alive
        self._events = EventAppender(root)
        self._publisher = NotePublisher(root)
        self._unwritten = ""  # the last error of an event that could not be written
        self._is_started = False
        self._first_look = threading.Event()
        self._stop = threading.Event()
        self._looking, self._reviving = threading.Lock(), threading.Lock()
        self._good = self._due = time.monotonic()  # the last look without an error; the next look's time
        self._own_pool = None if pool else ThreadPoolExecutor(MAX_RUNNING, "helix-recall")
        self._pool = pool or self._own_pool
        self._thread: threading.Thread | None = None  # refers to the service, so a service without it is freed at once

    def start(self) -> None:
        """Open the store if possible, and watch it."""
        self._is_started = True
        try:
            self._look()
        finally:
            self._first_look.set()  # after a failure as well: requests wait for it
        self._thread = self._make_watcher()
        self._thread.start()

    def look(self) -> bool:
        """Take the newest generation, for a caller that watches the store; return whether it was time to look."""
        return time.monotonic() >= self._due and self._look()

    def find_own(self, caller: Caller, scope: str, item: str | None = None) -> tuple[QueryService, Caller]:
        """Return the service of a caller's writes, and its rights there: this one."""
        return self, caller

    def describe_ready(self) -> dict[str, Any]:
        """Return the part of /readyz about the store."""
        return {"snapshot": self.memory.snapshot.generation}

    def start_in_background(self) -> None:
        """Start in a background thread; requests wait for it."""
        self._is_started = True
        threading.Thread(target=self.start, name="helix-open").start()

    def stop(self) -> None:
        """End the watching thread, and make the events durable."""
        self._stop.set()
        self._publisher.stop()
        if self._own_pool:
            self._own_pool.shutdown(wait=False, cancel_futures=True)
        if self._is_started:
            self._first_look.wait(5)
        if self._thread and self._thread.is_alive():
            self._thread.join(timeout=5)
        try:
            self._events.close()
        except OSError as error:
            log.error("the last access events of %s may be lost: %s", self.root, error.strerror or error)

    @property
    def memory(self) -> Memory:
        """The open store.

        Raises:
            StoreError: the store cannot be opened.
        """
        if self._is_started:
            self._first_look.wait()
            if time.monotonic() > self._due + _OVERDUE and not self._stop.is_set():
                self._look_for_watcher()
        if self._memory is None:
            raise StoreError(*(self._error or (f"the store {self.root} is not open yet", "ask again in a moment")))
        return self._memory

    @property
    def is_ready(self) -> bool:
        """Readiness: a generation is open and answers."""
        return self._memory is not None

    @property
    def trouble(self) -> str | None:
        """The reason why the newest generation may not be the answering one; None if it is."""
        if self._error:
            return "; ".join(filter(None, self._error))
        late = time.monotonic() - self._due
        if late > _HUNG and self._is_started and not self._stop.is_set():
            return f"a look for a newer generation has not ended for {late:.0f} s; check that the store's disk answers"
        return None

    @property
    def reload_age(self) -> float:
        """Seconds since the last look without an error."""
        return time.monotonic() - self._good

    # ------------------------------------------------------------ requests

    async def run_in_turn(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a recall in the pool of MAX_RUNNING threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))

    def recall(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the answer to one recall."""
        if isinstance(request, wire.WideRecallRequest) and request.stores:
            raise UsageError("stores are named, and this server has one", "leave stores out")
        own = request.model_copy(update={"principal": caller.check_principal(request.principal)})
        return self._read(lambda memory: run_recall(memory, own, caller.projects))

    def _read(self, work: Callable[[Memory], R]) -> R:
        """Read from the open generation, and again from the newest where a deletion has removed files meanwhile."""
        memory = self.memory
        used = memory.snapshot
        try:
            return work(memory)
        except (StoreError, FileNotFoundError):
            self.take_newest()
            if memory.snapshot is used:
                raise
            return work(memory)

    def start_deep(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Start a recall of the deep tier; return its first report."""
        from query import deep_jobs

        return deep_jobs.start_job(self.memory, request, caller)

    def report_deep(self, identity: str, caller: Caller = OWNER) -> dict[str, Any] | None:
        """Return the report of the caller's own job of the deep tier; None for others."""
        from query import deep_jobs

        job = deep_jobs.find_job(self.memory, identity, caller)
        return None if job is None else deep_jobs.report_job(self.memory, job)

    async def stream_deep(self, identity: str, caller: Caller = OWNER) -> AsyncIterator[bytes] | None:
        """Return the same reports as server-sent events."""
        from query import deep_jobs

        memory = self.memory
        job = deep_jobs.find_job(memory, identity, caller)
        if job is None:
            return None
        report = partial(self.run_in_turn, deep_jobs.report_job, memory, job)
        return deep_jobs.stream_events(memory, job, max(1.0, self.settings.request_timeout - 2), report)

    async def await_deep(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the final answer of one recall of the deep tier."""
        from query import deep_jobs

        report = await self.run_in_turn(self.start_deep, request, caller)
        if report["status"] != "done":
            memory = self.memory
            job = deep_jobs.find_job(memory, report["job"], caller)
            if job is None:
                report = deep_jobs.mark_expired(report)
            else:
                await deep_jobs.wait_for_outcome(memory, job)
                report = await self.run_in_turn(deep_jobs.report_job, memory, job)
        return dict(report["answer"])

    def context(self, request: wire.ContextRequest, caller: Caller = OWNER) -> str:
        """Return a context as text: for a question, or a briefing."""
        options = wire.list_context_options(request)
        return build_context(self.memory, self._filter(request, caller), request.query, request.project, **options)

    def hook(self, request: wire.HookRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return a hook's addition to the agent's context."""
        return answer_hook(self.memory, request.model_dump(), self._filter(None, caller))

    def locate_project(self, workspace: Workspace, caller: Caller = OWNER) -> str:
        """Return the project of a folder, as the caller sees it.

        Raises:
            UsageError: the memory has nothing of it.
        """
        project = self.find_project(workspace, caller)
        if project is None:
            raise UsageError(f"nothing is known of the project of {workspace.folder}", "leave project out")
        return project

    def fetch(
        self, identity: str, request: wire.PrincipalRequest | None = None, caller: Caller = OWNER
    ) -> dict[str, Any] | None:
        """Return one item, and record the access. None without a live item of this id that the caller may see."""
        access = self._get_access(request, caller)
        item = self._read(lambda memory: memory.item(identity, **access))
        if item is not None:
            self._record(make_event(item["id"], "fetched"))
        return item

    def browse(
        self, method: str, request: wire.PrincipalRequest, caller: Caller = OWNER, *names: str
    ) -> dict[str, Any] | None:
        """Return the result of a browsing method of `Memory`, within the caller's view; None as for `fetch`.

        Args:
            method: around, neighbours, session, timeline, facts, decisions, entities, graph, subject or choices.
            names: positional arguments: the id of an item or a session.
        """
        arguments = {**request.model_dump(), **self._get_access(request, caller)}
        result: dict[str, Any] | None = self._read(lambda memory: getattr(memory, method)(*names, **arguments))
        return result

    def open_page(
        self, method: str, request: wire.PrincipalRequest, caller: Caller = OWNER, *names: str
    ) -> dict[str, Any] | None:
        """Return the result of a method of `Memory.pages`, home or outline, as `browse` does."""
        arguments = {**request.model_dump(exclude={"session"}), **self._get_access(request, caller)}
        result: dict[str, Any] | None = self._read(lambda memory: getattr(memory.pages, method)(*names, **arguments))
        return result

    def prepare_pages(self) -> None:
        """Prepare the page's first answer, if a store is open."""
        if self._memory is not None:
            self._memory.pages.prepare()

    def find_project(self, workspace: Workspace, caller: Caller = OWNER) -> str | None:
        """Return the project of a folder, as the caller sees it; None if the memory has nothing of it."""
        return self._filter(None, caller).catalog.locate_project([workspace])

    def feedback(self, request: wire.FeedbackRequest, caller: Caller = OWNER) -> dict[str, Any] | None:
        """Write an event, and return it as written. None as for `fetch`.

        Raises:
            UsageError: the kind is unknown.
            StoreError: the store's events cannot be written here.
        """
        snap = self._filter(request, caller)
        row = snap.find(request.item)
        event = make_event("0" * 16 if row is None else f"{int(snap.columns.key[row]):016x}", request.kind)
        if row is None:
            return None
        self._events.append([event])
        return event._asdict()

    def publish(self) -> None:
        """Start to publish what is accepted; with a broker the workers do."""
        if not self.settings.redis_url:
            self._publisher.start()

    def take_newest(self) -> None:
        """Take the newest generation now: a deletion removes files that the current one may still read."""
        with self._looking:
            try:
                self._take_newest()
            except HelixError as error:
                self._report(error)

    def status(self, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the store's state; without the scope `admin`, only the part that the caller sees."""
        if "admin" in caller.scopes:
            return describe_store(self.memory, self.trouble)
        return describe_view(self.memory, self._get_access(None, caller), bool(self.trouble))

    def _get_access(self, request: wire.PrincipalRequest | None, caller: Caller) -> dict[str, Any]:
        """Return the principal and projects that limit an answer."""
        named = request.principal if request else None
        return {"principal": caller.check_principal(named), "projects": caller.projects}

    def view(self, caller: Caller) -> Snapshot:
        """Return the caller's view of the generation."""
        return self._filter(None, caller)

    def _filter(self, request: wire.PrincipalRequest | None, caller: Caller) -> Snapshot:
        """Return the caller's view of the generation."""
        return self.memory.snapshot.seen_by(**self._get_access(request, caller))

    def _record(self, event: AccessEvent) -> None:
        """Append an event. On a read-only copy of a store, warn once instead."""
        try:
            self._events.append([event])
            self._unwritten = ""
        except StoreError as error:
            if str(error) != self._unwritten:
                log.warning("accesses are not recorded: %s", error)
            self._unwritten = str(error)

    # ------------------------------------------------------------ new generations

    def _make_watcher(self) -> threading.Thread:
        return threading.Thread(target=self._watch, name="helix-reload", daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(max(self.settings.reload_interval, self._due - time.monotonic())):
            self._look()

    def _look_for_watcher(self) -> None:
        """Look instead of the watching thread, and restart that thread if it is dead."""
        self._look()
        with self._reviving:
            if self._thread and not self._thread.is_alive() and not self._stop.is_set():
                log.error("the thread that looks for newer generations is dead and is started again")
                self._thread = self._make_watcher()
                self._thread.start()

    def _look(self) -> bool:
        """Take the newest generation, or report why not and keep the current one; False if another thread looks."""
        if not self._looking.acquire(blocking=False):
            return False
        began, wait = time.monotonic(), self.settings.reload_interval
        try:
            self._take_newest()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (a panic in a Rust library is not an Exception)
            self._report(error)
            wait = max(wait, _BACKOFF * (time.monotonic() - began))
        else:
            self._error, self._good = None, time.monotonic()
        finally:
            self._due = time.monotonic() + wait
            self._looking.release()
        return True

    def _take_newest(self) -> None:
        """Open the newest generation unless it answers already."""
        if self._memory is None:
            self._memory = self._open_memory(self.root, self.settings)
            log.info("serving generation %d", self._memory.snapshot.generation)
        elif self._memory.refresh():
            log.info("took generation %d", self._memory.snapshot.generation)

    def _report(self, error: BaseException) -> None:
        """Count a failed look, and log each error once."""
        self.on_failure()
        if isinstance(error, HelixError):
            text, remedy = error.what, error.remedy
        else:
            text = f"the newest generation of {self.root} cannot be opened: {type(error).__name__}: {error}"
            remedy = "'helix verify' names the damage; 'helix rollback' returns to an earlier generation"
        if (text, remedy) != self._error:
            cause = None if isinstance(error, HelixError) else error
            log.error("cannot open the newest generation: %s", text, exc_info=cause)
        self._error = text, remedy
