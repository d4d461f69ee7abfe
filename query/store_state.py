"""The state of a store: all of it for its owner, and the part that a caller sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from helix.sdk.memory import Memory

OUTDATED: Final = "a newer generation cannot be opened"
"""The trouble, for callers who may not see the whole store."""


def describe_store(memory: Memory, trouble: str | None) -> dict[str, Any]:
    """Return the whole state, and the answering generation."""
    from helix.snapshot.status import read_status  # imports DuckDB, which would delay an agent's first answer

    return {**read_status(memory.root), "serving": memory.snapshot.generation, "trouble": trouble}


def describe_view(memory: Memory, access: dict[str, Any], is_outdated: bool) -> dict[str, Any]:
    """Return what a caller may know of the state.

    Args:
        access: the principal and the projects that limit the view.
    """
    snap, choices = memory.snapshot, memory.choices(**access)
    return {
        "generation": snap.generation,
        "serving": snap.generation,
        "published": snap.manifest.created if snap.manifest else None,
        "encoder": snap.manifest.lineage.name if snap.manifest else None,
        "items": choices["items"],
        "sessions": choices["sessions"],
        "trouble": OUTDATED if is_outdated else None,
    }
