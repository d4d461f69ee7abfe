"""Back-pressure: refuses documents while too many wait for the workers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from helix.errors import InputRefused
from helix.settings import Settings
from helix.snapshot.ledger import inbox

COUNTED: Final = 5.0
"""Seconds for which a count of waiting documents is used, plus those accepted since."""


@dataclass
class Backlog:
    """The number of documents that wait for workers, against its limit."""

    root: Path
    settings: Settings
    _waits: int = 0
    _counted: float = field(default=float("-inf"), repr=False)

    def check(self) -> None:
        """Check that another document may wait.

        Raises:
            InputRefused: the backlog is full.
        """
        if time.monotonic() - self._counted > COUNTED:
            self._waits, self._counted = len(inbox.list_pending(self.root)), time.monotonic()
        if self._waits >= self.settings.max_backlog:
            raise InputRefused(
                f"not accepted: {self._waits:,} documents wait for the workers already",
                "offer it again when 'helix status' reports fewer, start more workers, or raise HELIX_MAX_BACKLOG",
            )

    def add(self, documents: int) -> None:
        """Count documents that were just accepted."""
        self._waits += documents
