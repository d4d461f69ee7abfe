"""Questions for tests."""

from __future__ import annotations

from typing import Any

from helix.question.build import build_query
from helix.settings import Settings
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import Profile
from helix.types import Query, RecallOptions


def make_query(
    text: str, snap: Snapshot, settings: Settings, constants: Profile | None = None, **options: Any
) -> Query:
    """Build a query from the options of a recall, for a profile's constants or for any."""
    return build_query(text, snap, settings, RecallOptions(**options), constants)
