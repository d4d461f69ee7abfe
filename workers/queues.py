"""The queues, and the queues and arguments of each task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from helix.snapshot.digests import DOCUMENT, FINGERPRINT, ORDER

QUEUES: Final = ("accept", "enrich", "bulk", "commit", "expand", "maintain")
"""The queues of an ordinary worker, urgent ones first."""

DEEP: Final = "deep"
"""The queue of language-model calls. They take seconds, so it needs a worker of its own."""

ALL_QUEUES: Final = (*QUEUES, DEEP)

BACKGROUND: Final = {"bulk", "expand", "maintain"}
"""Queues without waiting callers. A worker of only these lowers its CPU priority."""


@dataclass(frozen=True, slots=True)
class TaskRoute:
    """The queues of a task, its default first, and the form of each argument."""

    queues: tuple[str, ...]
    arguments: tuple[re.Pattern[str], ...] = ()


ROUTES: Final[Mapping[str, TaskRoute]] = {
    "helix.accept": TaskRoute(("accept",), (ORDER,)),  # read the files of an order into the inbox
    "helix.enrich": TaskRoute(("enrich", "bulk"), (DOCUMENT,)),  # `enrich` for fresh turns, `bulk` for imports
    "helix.reindex": TaskRoute(("bulk",), (DOCUMENT, FINGERPRINT)),
    "helix.commit": TaskRoute(("commit",)),  # one at a time
    "helix.expand": TaskRoute(("expand",)),  # doc2query, sparse weights and token vectors of published items
    "helix.maintain": TaskRoute(("maintain",)),  # merge segments, finish deletions, collect garbage
    "helix.touch": TaskRoute(("maintain",)),
    "helix.train": TaskRoute(("maintain",)),
    "helix.deep": TaskRoute((DEEP,), (ORDER,)),  # ask the language model
}
