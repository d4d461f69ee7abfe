"""The parts that a commit publishes: those that are ready, small ones first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from helix.snapshot import paths
from helix.snapshot.ledger import inbox
from pipelines.ingest.part import EnrichedPart, part_folder, read_part

SMALL: Final = 64
"""Items of a part that somebody may be waiting for."""

OVERDUE: Final = 30.0
"""Seconds for which small parts may precede a large one."""


def find_ready(
    root: Path, fingerprint: str, done: set[str], unread: frozenset[str] = frozenset()
) -> dict[str, EnrichedPart]:
    """Return the unpublished parts by document, in order of acceptance.

    A document that continues or replaces another waits for it, unless that one was given up.

    Args:
        unread: documents that hold up no other one while they have no part.
    """
    waiting = inbox.list_waiting(root, done)
    left: dict[str, EnrichedPart] = {}
    for document in waiting:
        folder = part_folder(root, document, fingerprint)
        if not folder.is_dir():
            continue
        part = read_part(folder)
        if part.leans_on and inbox.is_dead(root, part.leans_on):  # made before that one was given up
            paths.remove_path(folder)
        else:
            left[document] = part
    waits, ready = set(waiting) - (unread - left.keys()), dict[str, EnrichedPart]()
    while now := [name for name, part in left.items() if waits.isdisjoint((part.after, part.leans_on))]:
        for document in now:  # mostly one after the other, in order of acceptance
            waits.discard(document)
            ready[document] = left.pop(document)
    return ready


def limit_parts(parts: Mapping[str, EnrichedPart], limit: int) -> dict[str, EnrichedPart]:
    """Return at least one of the ready parts, and as many as stay below `limit` items, small ones first.

    None precedes a document it continues. So an import delays a fresh turn by one short commit. Fresh turns delay a
    part larger than the limit by `OVERDUE` seconds at most.
    """
    left, chosen, size, overdue = set(parts), set[str](), 0, False
    for small in (True, False):
        for document, part in parts.items():
            later = not left.isdisjoint((part.after, part.leans_on))
            if document in chosen or later or (small and part.items > SMALL):
                continue
            if chosen and size + part.items > limit:
                if small or overdue or paths.measure_age(part.folder) < OVERDUE:
                    continue
                overdue = True
            size += part.items
            chosen.add(document)
            left.discard(document)
    return {document: part for document, part in parts.items() if document in chosen}
