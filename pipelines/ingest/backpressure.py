"""Back-pressure: no more is accepted than the workers may be behind by."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from helix.errors import InputRefused
from helix.settings import Settings
from helix.snapshot.ledger import inbox as ledger

COUNTED: Final = 5.0
"""Seconds for which a count of what waits is good, with what was added since."""


@dataclass
class Backlog:
    """How many documents wait for workers, and whether more may."""

    root: Path
    settings: Settings
    _waits: int = 0
    _counted: float = field(default=float("-inf"), repr=False)

    def check(self) -> None:
        """Raises InputRefused where nothing more may wait."""
        if time.monotonic() - self._counted > COUNTED:
            self._waits, self._counted = len(ledger.pending(self.root)), time.monotonic()
        if self._waits >= self.settings.max_backlog:
            raise InputRefused(
                f"not accepted: {self._waits:,} documents wait for the workers already",
                "offer it again when 'helix status' says fewer, start more workers, or raise HELIX_MAX_BACKLOG",
            )

    def add(self, documents: int) -> None:
        """Some were accepted."""
        self._waits += documents
