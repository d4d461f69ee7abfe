"""Work in a second thread while this one waits for a model: both seldom hold the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class WorkStarter(Protocol):
    """A way to start work while the caller continues: `start_in_background` or `defer_work`."""

    def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
        """Return a function that gives the result."""
        ...


def start_in_background(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Start work in a background thread; return a function that waits for its result or raises its error.

    With one core, or with all threads busy, the caller does the work when it asks for the result.
    """
    deferred = defer_work(work, *args, **kwargs)
    if _count_cores() < 2:
        return deferred
    future = _open_pool().submit(work, *args, **kwargs)
    return lambda: deferred() if future.cancel() else future.result()


def defer_work(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Return a function that does the work at its first call and retains the result."""
    return cache(partial(work, *args, **kwargs))


@cache
def _open_pool() -> ThreadPoolExecutor:
    """Open the pool once: starting a thread takes longer than many a search."""
    return ThreadPoolExecutor(_count_cores(), "helix-background")


@cache
def _count_cores() -> int:
    """Count the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if hasattr(os, "register_at_fork"):  # a forked child has none of the parent's threads
    os.register_at_fork(after_in_child=_open_pool.cache_clear)
