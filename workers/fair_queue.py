"""A queue of documents of many stores, fair by deficit round robin (Shreedhar & Varghese 1995).

The stores take turns. In its turn a store gets `quantum` more credit and gives documents while the credit pays for the
first one. Unused credit remains, unless nothing is left. So of two stores that always have documents, neither gets more
than `quantum` + 2 × (cost of the largest document) ahead of the other, however large their documents are (the paper's
fairness measure). A turn takes O(1) if no document costs more than the quantum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class WaitingDocument(NamedTuple):
    """A document and the cost of its enrichment."""

    document: str
    cost: int


@dataclass
class FairQueue:
    """Waiting documents by store, each store's first in, first out."""

    quantum: int
    _waiting: dict[str, deque[WaitingDocument]] = field(default_factory=dict)
    _credit: dict[str, int] = field(default_factory=dict)
    _turns: deque[str] = field(default_factory=deque)  # stores with documents; the first one has the turn
    _is_new_turn: bool = True

    def replace(self, store: str, jobs: Iterable[WaitingDocument]) -> None:
        """Set the waiting documents of a store. It keeps its credit and its place among the turns."""
        waiting = deque(jobs)
        if not waiting:
            self.drop(store)
            return
        if store not in self._waiting:
            self._turns.append(store)
            self._credit[store] = 0
        self._waiting[store] = waiting

    def drop(self, store: str) -> None:
        """Remove a store with its documents."""
        if self._waiting.pop(store, None) is None:
            return
        self._is_new_turn |= self._turns[0] == store
        self._turns.remove(store)
        del self._credit[store]

    def take(self, count: int) -> list[tuple[str, WaitingDocument]]:
        """Remove and return at most `count` documents with their stores, in fair order."""
        taken: list[tuple[str, WaitingDocument]] = []
        while self._turns and len(taken) < count:
            store = self._turns[0]
            waiting = self._waiting[store]
            if self._is_new_turn:
                self._credit[store] += self.quantum
                self._is_new_turn = False
            while waiting and waiting[0].cost <= self._credit[store] and len(taken) < count:
                self._credit[store] -= waiting[0].cost
                taken.append((store, waiting.popleft()))
            if not waiting:
                self.drop(store)
            elif waiting[0].cost > self._credit[store]:
                self._turns.rotate(-1)
                self._is_new_turn = True
        return taken

    def count(self, store: str) -> int:
        """Return how many documents of a store wait."""
        return len(self._waiting.get(store, ()))
