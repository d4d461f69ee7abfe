"""The service of many stores: each is opened when it is asked for, and closed when others need its memory.

It has the methods of `QueryService`, which answer for the store that the caller's path or key names, and a recall over
all stores of a key.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from helix.encoders.rerank import Rerankers
from helix.errors import HelixError, UsageError
from helix.question.build import choose_count
from helix.recipes.load_profile import load as load_profile
from helix.settings import Settings
from helix.snapshot import wanted
from helix.snapshot.reader.generation import LoadedModels
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.store_limits import LimitReader
from helix.snapshot.store_names import STORE_NAME, list_stores, locate_store
from helix.util.workspaces import Workspace
from query.arrivals import is_here, refuse_arriving
from query.auth import OWNER, SCOPES, AccessDenied, Caller, make_unknown_store
from query.schema import requests as wire
from query.service import MAX_RUNNING, QueryService
from query.stores.fuse import fuse_answers, shorten_as_one
from query.stores.needed import find_needed
from query.stores.open_stores import OpenCounts, OpenSize, OpenStores, read_most_files
from query.stores.opened import OpenStore, hide_from_collector, measure_memory, open_sharing, read_store_ahead
from query.stores.watch import use_store, watch_stores

log = logging.getLogger("helix.query")

P = ParamSpec("P")
R = TypeVar("R")

MAX_FUSED: Final = 16
"""Stores of one recall; each adds its own search."""

MAX_ANSWERS: Final = 16
"""Cached answers of one store."""


class ManyStores:
    """The stores in a folder, opened on demand.

    Args:
        folder: each of its folders that has a store's name is a store.
        on_failure: called after each failed look for a newer generation.
        fetched: another process fetches stores into the folder, from where they are published.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        on_failure: Callable[[], None] = lambda: None,
        *,
        fetched: bool = False,
    ) -> None:
        self.folder = folder
        self._is_fetched = fetched
        self.settings = replace(settings, answers=min(settings.answers, MAX_ANSWERS))
        self.on_failure = on_failure
        self.limits = LimitReader(folder)
        self.opened = 0
        """Stores that were opened, again after they were closed."""
        self.open_seconds = 0.0
        self._models: dict[str, LoadedModels] = {}
        self._open_memory = partial(open_sharing, self._models, Rerankers(settings))
        self._pool = ThreadPoolExecutor(MAX_RUNNING, "helix-recall")
        self._openers = ThreadPoolExecutor(MAX_RUNNING, "helix-open")
        self._open: OpenStores[OpenStore] = OpenStores(
            settings.stores_memory << 20, OpenStore.close, self._release, read_most_files()
        )
        self._stop = threading.Event()
        watched = (self._open, self._stop, settings.reload_interval, self._say_used)
        self._thread = threading.Thread(target=watch_stores, args=watched, name="helix-stores", daemon=True)

    def start(self) -> None:
        """Watch the open stores; none is open yet."""
        self._thread.start()

    def stop(self) -> None:
        """Close every store."""
        self._stop.set()
        for pool in (self._openers, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        for name, _ in self._open.list_open():
            self._open.drop(name)
        gc.unfreeze()

    # ------------------------------------------------------------ stores

    def list_names(self, caller: Caller, scope: str = "recall") -> list[str]:
        """List the stores in which a caller has a scope; those of a key in its order."""
        if caller.store is not None:
            return [caller.store]
        if caller.grants is None:
            return list_stores(self.folder)
        granted = [store for store, scopes in caller.grants.items() if scope in scopes]
        return granted if self._is_fetched else [store for store in granted if (self.folder / store).is_dir()]

    def find(self, caller: Caller, scope: str = "recall") -> tuple[QueryService, Caller]:
        """Return the open store of a request, and the caller's rights there: the one of its path, else of its key.

        Raises:
            AccessDenied: there is no such store, or the caller may not see it.
            UsageError: the request has to name one.
        """
        if caller.store is not None:
            return self.open(caller.store), caller
        names = self.list_names(caller, scope)
        if len(names) != 1:
            known = f"yours: {', '.join(names[:20])}" if names else "GET /v1/stores lists yours"
            raise UsageError("the request names no store", f"ask at /stores/NAME; {known}")
        return self.open(names[0]), caller.enter(names[0])

    def find_own(self, caller: Caller, scope: str, item: str | None = None) -> tuple[QueryService, Caller]:
        """Return the store that a caller writes to, and its rights there: the named one, else the first of its key.

        Args:
            item: the write is about it, so the store is the first that has it.

        Raises:
            AccessDenied: the key lacks the scope, or the store is full.
        """
        if caller.store is not None or caller.grants is None:
            service, own = self.find(caller, scope)
        else:
            entered = [self.find(caller.enter(name)) for name in self.list_names(caller, scope)]
            if not entered:
                raise AccessDenied(403, f"this key lacks the scope {scope}", "use a key with it ('helix keys create')")
            holders = [(one, own) for one, own in entered if item and one.view(own).find(item) is not None]
            service, own = (holders or entered)[0]
        most = self.limits.find(own.store or "").items
        if scope == "remember" and most and service.is_ready and service.memory.snapshot.live >= most:
            text = f"{own.store} has {service.memory.snapshot.live:,} items, and its limit is {most:,}"
            raise AccessDenied(507, text, "forget some, or ask for a higher limit")
        return service, own

    def open(self, name: str) -> QueryService:
        """Return a store's service, opened if it is not.

        Raises:
            AccessDenied: there is no such store.
        """
        return self._find_open(name).service

    def _find_open(self, name: str) -> OpenStore:
        root = self.folder / name
        if self._is_fetched and not is_here(root) and STORE_NAME.fullmatch(name):
            wanted.want(self.folder, name)
            raise refuse_arriving(name)
        try:
            stat = locate_store(self.folder, name).stat()
        except (OSError, UsageError):
            self._open.drop(name)
            raise make_unknown_store() from None
        place = (stat.st_dev, stat.st_ino)
        found = self._open.get(name, partial(self._open_store, root, place))
        if found.place != place:  # deleted and made again
            self._open.drop(name)
            found = self._open.get(name, partial(self._open_store, root, place))
        use_store(self._open, name, found, self.settings.reload_interval)
        return found

    def _open_store(self, root: Path, place: tuple[int, int]) -> tuple[OpenStore, OpenSize]:
        began = time.perf_counter()
        self._say_used(root.name)
        read_store_ahead(root)
        service = QueryService(root, self.settings, self._count_failure, self._open_memory, self._pool)
        service.look()
        hide_from_collector()
        took = time.perf_counter() - began
        self.opened += 1
        self.open_seconds += took
        return OpenStore(service, place, round(took * 1_000, 3)), measure_memory(service)

    def _release(self, store: OpenStore) -> None:
        """Give back a store's pages, next to the request that needs their memory; at the end no request does."""
        with suppress(RuntimeError):
            self._openers.submit(store.release)

    def _count_failure(self) -> None:
        self.on_failure()

    def _say_used(self, name: str) -> None:
        if self._is_fetched:
            wanted.want(self.folder, name)

    @property
    def memory_bound(self) -> int:
        """The most bytes of open stores."""
        return self._open.bound

    def count_open(self) -> OpenCounts:
        """Count the open stores."""
        return self._open.count()

    # ------------------------------------------------------------ the methods of a service of one store

    is_ready: Final = True

    @property
    def trouble(self) -> str | None:
        """The reason why some store's newest generation may not be the answering one; None if each is."""
        troubles = [(name, found.service.trouble) for name, found in self._open.list_open()]
        return next((f"{name}: {trouble}" for name, trouble in troubles if trouble), None)

    def describe_ready(self) -> dict[str, Any]:
        """Return the part of /readyz about the stores."""
        return {"stores": self.count_open().stores}

    async def run_in_turn(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a recall in the pool of MAX_RUNNING threads, once its stores are open: no other recall waits for that."""
        loop = asyncio.get_running_loop()
        caller, names = find_needed(args)
        for name in (name for name in names if self._open.find(name) is None and name in self.list_names(caller)):
            with suppress(HelixError):  # the work meets it, too
                await loop.run_in_executor(self._openers, self.open, name)
        return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))

    def recall(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the answer of one store, or of all stores of a key or a request as one.

        Raises:
            AccessDenied: a named store does not exist, or the caller may not see it.
            UsageError: no store is named, or too many.
        """
        wanted = request.stores if isinstance(request, wire.WideRecallRequest) else []
        names = self._choose_stores(wanted, caller)
        if len(names) == 1 and not wanted:
            return self._recall_one(request, caller, names[0])
        own = request.model_copy(update={"stores": []}) if wanted else request
        return self._fuse(own, caller, names)

    def _recall_one(self, request: wire.RecallRequest, caller: Caller, name: str) -> dict[str, Any]:
        """Return the answer of one store; where it had to be opened, `ms` has that time too."""
        found = self._find_open(name)
        opening = found.take_opening()
        answer = found.service.recall(request, caller.enter(name))
        if opening is not None:
            answer["ms"] = {"open": opening, **answer["ms"], "total": round(opening + answer["ms"]["total"], 3)}
        return answer

    def _choose_stores(self, wanted: Sequence[str], caller: Caller) -> list[str]:
        known = self.list_names(caller)
        if caller.store is None and caller.grants is None and not wanted:
            raise UsageError("the request names no store", "give stores, or ask at /stores/NAME")
        if any(name not in known for name in wanted):
            raise make_unknown_store()
        names = list(dict.fromkeys(wanted)) or known
        if not 0 < len(names) <= MAX_FUSED:
            raise UsageError(f"{len(names)} stores", f"name 1 to {MAX_FUSED} in stores")
        return names

    def _fuse(self, request: wire.RecallRequest, caller: Caller, names: list[str]) -> dict[str, Any]:
        began, failures = time.perf_counter(), dict[str, HelixError]()
        answers, views = dict[str, dict[str, Any]](), list[Snapshot]()
        for name in names:
            own = caller.enter(name)
            try:
                answers[name] = self._recall_one(request, own, name)
                service = self.open(name)
                views.append(service.view(own.act_as(request.principal)))
            except HelixError as error:  # such as a project that only another store has
                failures[name] = error
        if not answers:
            raise next(iter(failures.values()))
        answer = fuse_answers(
            answers,
            {name: error.what for name, error in failures.items()},
            choose_count(request.k, load_profile(request.profile, self.settings.profiles)),
            request.budget,
            views[0].counter,
            partial(shorten_as_one, request, views, self.settings.profiles),
        )
        took = (time.perf_counter() - began) * 1_000 + sum(one["ms"].get("open", 0.0) for one in answers.values())
        return {**answer, "ms": {"total": round(took, 3)}}

    def fetch(
        self, identity: str, request: wire.PrincipalRequest | None = None, caller: Caller = OWNER
    ) -> dict[str, Any] | None:
        """Return one item of the named store, or of the first of a key's stores that has it."""
        return self._find_first(caller, lambda service, own: service.fetch(identity, request, own))

    def browse(
        self, method: str, request: wire.PrincipalRequest, caller: Caller = OWNER, *names: str
    ) -> dict[str, Any] | None:
        """Return the result of a browsing method; of an item or a session, from the first store that has it."""
        if not names:
            service, own = self.find(caller)
            return service.browse(method, request, own)
        return self._find_first(caller, lambda service, own: service.browse(method, request, own, *names))

    def open_page(
        self, method: str, request: wire.PrincipalRequest, caller: Caller = OWNER, *names: str
    ) -> dict[str, Any] | None:
        """Return a page's home or outline, as `browse` does."""
        if not names:
            service, own = self.find(caller)
            return service.open_page(method, request, own)
        return self._find_first(caller, lambda service, own: service.open_page(method, request, own, *names))

    def feedback(self, request: wire.FeedbackRequest, caller: Caller = OWNER) -> dict[str, Any] | None:
        """Write an event to the store that has the item."""
        return self._find_first(caller, lambda service, own: service.feedback(request, own), "feedback")

    def _find_first(
        self, caller: Caller, ask: Callable[[QueryService, Caller], R | None], scope: str = "recall"
    ) -> R | None:
        """Return the first store's result that is one."""
        if caller.store is not None or caller.grants is None:
            return ask(*self.find(caller, scope))
        for name in self.list_names(caller, scope):
            found = ask(self.open(name), caller.enter(name))
            if found is not None:
                return found
        return None

    def context(self, request: wire.ContextRequest, caller: Caller = OWNER) -> str:
        """Return a context as text, of one store."""
        service, own = self.find(caller)
        return service.context(request, own)

    def hook(self, request: wire.HookRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return a hook's addition to the agent's context, of one store."""
        service, own = self.find(caller)
        return service.hook(request, own)

    def find_project(self, workspace: Workspace, caller: Caller = OWNER) -> str | None:
        """Return the project of a folder in one store."""
        service, own = self.find(caller)
        return service.find_project(workspace, own)

    def locate_project(self, workspace: Workspace, caller: Caller = OWNER) -> str:
        """Return the project of a folder in one store."""
        service, own = self.find(caller)
        return service.locate_project(workspace, own)

    def status(self, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the state of one store."""
        service, own = self.find(caller)
        return service.status(own)

    def start_deep(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Start a recall of the deep tier in one store."""
        service, own = self.find(caller)
        return service.start_deep(request, own)

    def report_deep(self, identity: str, caller: Caller = OWNER) -> dict[str, Any] | None:
        """Return the report of a job of one store."""
        service, own = self.find(caller)
        return service.report_deep(identity, own)

    async def stream_deep(self, identity: str, caller: Caller = OWNER) -> AsyncIterator[bytes] | None:
        """Return the reports of a job of one store as server-sent events."""
        service, own = await self.run_in_turn(self.find, caller)
        return await service.stream_deep(identity, own)

    async def await_deep(self, request: wire.RecallRequest, caller: Caller = OWNER) -> dict[str, Any]:
        """Return the final answer of one recall of the deep tier in one store."""
        service, own = await self.run_in_turn(self.find, caller)
        return await service.await_deep(request, own)

    def prepare_pages(self) -> None:
        """Prepare nothing: no store is open at the start."""

    def list_stores(self, caller: Caller) -> list[dict[str, Any]]:
        """List the caller's stores, with its rights in each and whether it is open."""
        open_names = {name for name, _ in self._open.list_open()}
        names = self.list_names(caller) if caller.grants is None else list(caller.grants)
        return [
            {
                "store": name,
                "scopes": [one for one in SCOPES if one in caller.enter(name).scopes],
                "open": name in open_names,
            }
            for name in names
            if (self.folder / name).is_dir()
        ]


AnyService = QueryService | ManyStores
"""The service of one store, or of many."""
