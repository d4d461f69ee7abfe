"""Stage 8 of the recipe `helix`: which rows enter the context, how long each may be, and the turns around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from helix.recipes.common import JudgedRows, weigh_terms
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, PackConstants
from helix.stages.pack import LEAST_HEADER, MIN_EXCERPT, ExcerptRules, pack
from helix.stages.replaced import add_replacements
from helix.text.cues import ASKS
from helix.types import F32, I64, U32, Plan, Query
from helix.work.outcome import add_outcomes


def count_packable(judged: JudgedRows, rows: U32, query: Query, snap: Snapshot, constants: PackConstants) -> int:
    """Count the first rows that a full pack may need, one more than fit."""
    caps = cap_tokens(judged.relevance, query.budget, constants)
    kept = np.array(judged.kept, np.int64)
    if not len(kept):
        return 0
    tokens, caps = snap.columns.tokens[rows[kept]], caps[kept]
    least = np.where((caps > 0) & (caps < tokens), caps, tokens).astype(np.int64)
    fitting = int(np.count_nonzero(np.cumsum(least + LEAST_HEADER) <= query.budget))
    return int(kept[min(fitting, len(kept) - 1)]) + 1


def cap_tokens(relevance: F32, budget: int, constants: PackConstants) -> I64:
    """Return the tokens of an excerpt of each item: int64[n], 0 for no excerpts.

    They grow with the root of its relevance, so that a token is worth about the same in each.
    """
    most = constants.excerpt * budget
    share = np.sqrt(relevance / np.float32(constants.certain)) if constants.certain else np.ones(len(relevance))
    caps = np.maximum(np.minimum(most * share, most), MIN_EXCERPT)
    return np.asarray(caps if most else np.zeros(len(relevance)), np.int64)


def pack_relevant(
    rows: U32,
    entries: Sequence[Mapping[str, Any]],
    judged: JudgedRows,
    query: Query,
    snap: Snapshot,
    plan: Plan,
    profile: HelixProfile,
) -> tuple[str, int, list[int]]:
    """Pack the relevant of an answer's rows; see `pack`.

    Args:
        rows: uint32[n], best first.
        entries: their shown fields.
        judged: their relevance.
    """
    kept, how = [i for i in judged.kept if i < len(entries)], profile.pack
    around = _read_neighbours(rows[kept], rows, query, snap, plan, how.neighbours)
    caps = cap_tokens(judged.relevance[kept], query.budget, how)
    relevant = add_outcomes([entries[i] for i in kept], rows[kept], snap)
    rules = _excerpt_rules(query, snap, how, caps, rows[kept])
    context, tokens, placed = pack(
        relevant, query.budget, snap.counter, around, how.neighbour_tokens, rules, grouped=how.grouped
    )
    return context, tokens, [kept[i] for i in placed]


def _read_neighbours(
    rows: U32, shown: U32, query: Query, snap: Snapshot, plan: Plan, n: int
) -> list[tuple[int, bool, dict[str, Any]]]:
    """Read the allowed turns that are not shown and go with rows, for `pack`, most wanted first, each once."""
    present, columns = set(shown.tolist()), snap.columns
    found: list[tuple[int, bool, int]] = []
    before, after = columns.previous[rows], columns.next[rows]
    asks = (snap.lexical.cues(rows) & ASKS) > 0
    answers = np.where(before >= 0, snap.lexical.cues(np.maximum(before, 0)) & ASKS, 0) > 0
    # A question with its answer, for every item; then both turns around the best n.
    sides = [(i, True, row) for i, row in enumerate(before.tolist()) if answers[i]]
    sides += [(i, False, row) for i, row in enumerate(after.tolist()) if asks[i]]
    for i, (left, right) in enumerate(zip(before[:n].tolist(), after[:n].tolist(), strict=True)):
        sides += [(i, True, left), (i, False, right)]
    for i, is_before, row in sides:
        if row >= 0 and row not in present and (plan.allowed is None or plan.allowed[row]):
            present.add(row)
            found.append((i, is_before, row))
    read = np.array([row for *_, row in found], np.int64)
    entries = add_replacements(snap.text(read), read, snap, query.moment)
    return [(i, is_before, entry) for (i, is_before, _), entry in zip(found, entries, strict=True)]


def _excerpt_rules(query: Query, snap: Snapshot, how: PackConstants, caps: I64, rows: U32) -> ExcerptRules:
    """Return how long items are shortened: to the sentences that hold the question's terms, weighted by idf."""
    languages = snap.lexical.languages_of(rows)
    return ExcerptRules(weigh_terms(query, snap), caps.tolist() if caps.any() else (), how.full, languages)
