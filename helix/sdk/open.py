"""`helix.open`: a store with the deep tier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from helix.sdk.memory import Memory

if TYPE_CHECKING:
    from helix.deep.context import DeepContext, Recall
    from helix.settings import Settings
    from helix.types import Bundle, RecallOptions


def open(store: str | Path, *, snapshot: int | None = None, candidates: str | None = None) -> Memory:
    """Open a store for recall; see `Memory`.

    Args:
        candidates: the engine that finds the dense candidates, such as `lancedb:FOLDER`; None: that of the setting.
    """
    if candidates is None:
        return open_memory(store, snapshot=snapshot)
    from dataclasses import replace

    from helix.settings import load

    return open_memory(store, replace(load(), candidates=candidates), snapshot=snapshot)


def open_memory(
    store: str | Path, settings: Settings | None = None, *, snapshot: int | None = None, warm: bool = True
) -> Memory:
    """Open a store whose deep tier may ask a language model from this process; see `Memory`."""
    return Memory(store, settings, snapshot=snapshot, warm=warm, deep=_recall_deep)


def _recall_deep(context: DeepContext, recall: Recall, query: str, options: RecallOptions) -> Bundle:
    from helix.sdk.deep_recall import recall_deep  # rarely needed, and slow to import

    return recall_deep(context, recall, query, options)
