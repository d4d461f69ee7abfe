"""Names under which notes are stored, for the readers of a store, which read no source."""

from __future__ import annotations

from typing import Final

NOTE: Final = "note"
"""The source of notes."""

NOTES: Final = "notes"
"""The session of notes."""

PINNED: Final = "pinned notes"
"""The session of notes that a briefing always shows."""
