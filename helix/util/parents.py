"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import os
from typing import Final

PARENT: Final = "HELIX_PARENT"
"""Environment variable: the number of the process that this one ends with."""


def has_ended() -> bool:
    """Return whether the process that the environment names as this one's parent has ended."""
    return os.environ.get(PARENT) not in (None, str(os.getppid()))
