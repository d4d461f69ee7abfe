"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout."""

DATA: Final = ROOT / "tests" / "support" / "data"
"""Labelled sets and example logs."""

STORES: Final = ROOT / "tests" / "compat" / "stores"
"""Stores that earlier formats left, one folder a format."""
