"""The queues, and the queues and arguments of each task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from helix.snapshot.digests import DOCUMENT, FINGERPRINT, ORDER

QUEUES: Final = ("accept", "enrich", "bulk", "commit", "expand", "maintain")
"""The queues of an ordinary worker, urgent ones first."""

DEEP: Final = "deep"
"""The queue of language-model calls. They take seconds, so it needs a worker of its own."""

ALL_QUEUES: Final = (*QUEUES, DEEP)

FLEET_ORDER: Final = ("enrich", "commit", "accept", "maintain", "bulk", "expand")
"""The queues of a worker for many stores, urgent ones first: merges precede imports, which may never end."""

BACKGROUND: Final = {"bulk", "expand", "maintain"}
"""Queues without waiting callers. A worker of only these lowers its CPU priority."""


@dataclass(frozen=True, slots=True)
class TaskRoute:
    """The queues of a task, its default first, and the form of each argument."""

    queues: tuple[str, ...]
    arguments: tuple[re.Pattern[str], ...] = ()
    is_of_fleet: bool = True  # a fleet for many stores runs it; the store's name is then one argument more


def split_arguments(task: str, arguments: Sequence[str]) -> tuple[list[str], str]:
    """Return the names of a task's arguments, and the store among many that follows them; empty if none does."""
    count = len(ROUTES[task].arguments)
    return list(arguments[:count]), "".join(arguments[count:])


ROUTES: Final[Mapping[str, TaskRoute]] = {
    "helix.accept": TaskRoute(("accept",), (ORDER,)),  # read the files of an order into the inbox
    "helix.enrich": TaskRoute(("enrich", "bulk"), (DOCUMENT,)),  # `enrich` for fresh turns, `bulk` for imports
    "helix.reindex": TaskRoute(("bulk",), (DOCUMENT, FINGERPRINT)),
    "helix.commit": TaskRoute(("commit", "bulk")),  # one at a time a store; `bulk` for imports of many stores
    "helix.expand": TaskRoute(("expand",)),  # doc2query, sparse weights and token vectors of published items
    "helix.maintain": TaskRoute(("maintain",)),  # merge segments, finish deletions, collect garbage
    "helix.touch": TaskRoute(("maintain",)),
    "helix.train": TaskRoute(("maintain",)),
    "helix.deep": TaskRoute((DEEP,), (ORDER,), is_of_fleet=False),  # ask the language model
}
