"""The state of a running ingest: what is read, what is searchable, how fast it goes, and how long it takes still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class IngestState:
    """One object per ingest, updated in place; sizes are in bytes of text."""

    step: str = "accept"  # accept, enrich or publish
    files: int = 0  # accepted or refused
    files_total: int = 0
    unread: int = 0  # bytes of the files that are not accepted yet
    waiting: int = 0  # bytes of the documents that are accepted and not enriched
    enriched: int = 0  # bytes of the documents that are enriched
    documents: int = 0  # enriched
    documents_total: int = 0  # accepted so far
    items: int = 0  # of the enriched documents
    searchable: int = 0  # of the published documents
    seconds: float = 0.0  # spent on enriching and publishing

    @property
    def share(self) -> float:
        """The share of all bytes that is enriched, 0 to 1."""
        total = self.unread + self.waiting + self.enriched
        return self.enriched / total if total else 0.0

    @property
    def rate(self) -> float:
        """Items a second so far."""
        return self.items / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rest takes at the rate of the bytes so far; None before the first document."""
        return self.seconds * (self.unread + self.waiting) / self.enriched if self.enriched else None


Observe = Callable[[IngestState], object]
"""Called after each step with the state, which changes later."""
