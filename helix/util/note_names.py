"""Names under which notes are stored, for the readers of a store, which read no source."""

from __future__ import annotations

from typing import Final

NOTE: Final = "note"
"""The source of notes."""

NOTES: Final = "notes"
"""The session of notes."""

PINNED: Final = "pinned notes"
"""The session of notes that a briefing always shows."""

TEAM: Final = "team"
"""The source of entries of a team's memory."""

TEAM_SESSIONS: Final = {"decision": "team decisions", "rule": "team rules", "note": "team notes"}
"""The session of entries of each kind."""

RULES: Final = TEAM_SESSIONS["rule"]
"""The session of rules that a team signed."""
