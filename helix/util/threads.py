"""Work done in a second thread while this one waits for a model: both leave the interpreter's lock alone most of the
time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Meanwhile(Protocol):
    """How some work is done while the caller goes on: `beside` or `later`."""

    def __call__(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
        """What gives the result."""
        ...


def beside(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Begin some work; what is returned waits for it and gives its result, or raises what it raised.

    On one core nothing is gained, and where all threads are busy it would only wait: there it is done when its result
    is asked for.
    """
    mine = later(work, *args, **kwargs)
    if _cores() < 2:
        return mine
    begun = _threads().submit(work, *args, **kwargs)
    return lambda: mine() if begun.cancel() else begun.result()


def later(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """The same without a second thread: it is done when its result is first asked for."""
    return cache(partial(work, *args, **kwargs))


@cache
def _threads() -> ThreadPoolExecutor:
    """Made by the first question and kept: to begin a thread takes longer than many a search."""
    return ThreadPoolExecutor(_cores(), "helix-beside")


@cache
def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if hasattr(os, "register_at_fork"):  # the threads stay behind in the parent
    os.register_at_fork(after_in_child=_threads.cache_clear)
