"""Packing of the recipe `cems`: whole items, best first; those that do not fit are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helix.recipes import cems_formulas as formulas
from helix.recipes.common import JudgedRows, pack_kept
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.pack import CLOSE, OPEN, Count, header
from helix.types import U32, Plan, Query
from helix.util.sanitise import sanitise_text


def pack_rows(
    rows: U32,
    entries: Sequence[Mapping[str, Any]],
    judged: JudgedRows,
    query: Query,
    snap: Snapshot,
    plan: Plan,
    profile: object,
) -> tuple[str, int, list[int]]:
    """Pack the relevant items; see `assemble`."""
    return pack_kept(judged, assemble, entries, query.budget, snap.counter)


def assemble(entries: Sequence[Mapping[str, Any]], budget: int, count: Count) -> tuple[str, int, list[int]]:
    """Pack items as text, best first; items that do not fit are skipped.

    Args:
        entries: shown fields of each item, best first.
        budget: tokens, wrapper included.
        count: counts the tokens of texts.

    Returns:
        (context, its tokens, positions in `entries`); empty if none fits.
    """
    texts = [f"{header(entry)}\n{sanitise_text(str(entry['text'])).strip()}" for entry in entries]
    wrapper, *sizes = count([f"{OPEN}\n{CLOSE}", *texts])
    placed = formulas.fit(sizes, budget - wrapper)
    while placed:  # the whole may have more tokens than its parts
        context = "\n".join([OPEN, *(texts[i] for i in placed), CLOSE])
        tokens = count([context])[0]
        if tokens <= budget:
            return context, tokens, placed
        placed.pop()
    return "", 0, []
