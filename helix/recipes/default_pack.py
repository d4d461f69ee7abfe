"""Stage 8 of the recipe `helix`: which rows enter the context, how long each may be, and the turns around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from helix.recipes.common import JudgedRows, weigh_terms
from helix.recipes.default_wide import CoverageCounts
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, PackConstants
from helix.stages.pack import LEAST_HEADER, MIN_EXCERPT, ExcerptRules, cite_turns, pack
from helix.stages.replaced import add_replacements
from helix.text.cues import ASKS
from helix.types import F32, I64, U32, Plan, Query
from helix.util.sanitise import sanitise_text
from helix.work.outcome import add_outcomes

RULES: Final = "[the user's preferences and standing instructions]"

LONGEST_RULE: Final = 240
"""Characters of a rule in a context."""


class Extras(NamedTuple):
    """Additions to the items of a usual context."""

    rules: I64  # rows of the user's preferences and standing instructions, nearest first
    wide: bool = False  # many turns answer the question
    coverage: CoverageCounts | None = None  # what those are


class PackedAnswer(NamedTuple):
    """A context, its tokens, the positions of its rows in its order, and how many of these lead it as rules."""

    context: str
    tokens: int
    placed: list[int]
    rules: int


def count_packable(
    judged: JudgedRows, rows: U32, query: Query, snap: Snapshot, constants: PackConstants, *, wide: bool
) -> int:
    """Count the first rows that a full pack may need, one more than fit."""
    caps = cap_tokens(judged.relevance, query.budget, constants, wide=wide)
    kept = np.array(judged.kept, np.int64)
    if not len(kept):
        return 0
    tokens, caps = snap.columns.tokens[rows[kept]], caps[kept]
    least = np.where((caps > 0) & (caps < tokens), caps, tokens).astype(np.int64)
    fitting = int(np.count_nonzero(np.cumsum(least + LEAST_HEADER) <= query.budget))
    return int(kept[min(fitting, len(kept) - 1)]) + 1


def cap_tokens(relevance: F32, budget: int, constants: PackConstants, *, wide: bool) -> I64:
    """Return the tokens of an excerpt of each item: int64[n], 0 for no excerpts.

    They grow with the root of its relevance, so that a token is worth about the same in each. Where many turns answer,
    all are short, for more of them.
    """
    most = constants.wide_excerpt * budget if wide else constants.excerpt * budget
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
    extras: Extras,
) -> PackedAnswer:
    """Pack the relevant of an answer's rows below the user's rules; see `pack`.

    Args:
        rows: uint32[n], best first, the rules among them.
        entries: their shown fields.
        judged: their relevance.
    """
    how, wide = profile.pack, extras.wide
    kept = [i for i in judged.kept if i < len(entries)]
    above, first = _list_rules(rows, entries, extras.rules, how.standing, snap) if kept else ("", [])
    counted = format_coverage(extras.coverage, len(kept)) if extras.coverage else ""
    kept = [i for i in kept if i not in first]
    around = _read_neighbours(rows[kept], rows, query, snap, plan, 0 if wide else how.neighbours)
    caps = cap_tokens(judged.relevance[kept], query.budget, how, wide=wide)
    relevant = add_outcomes([entries[i] for i in kept], rows[kept], snap)
    shorten = _excerpt_rules(query, snap, 0.0 if wide else how.full, caps, rows[kept])
    context, tokens, placed = pack(
        relevant,
        query.budget,
        snap.counter,
        around,
        how.neighbour_tokens,
        shorten,
        grouped=how.grouped,
        by_time=wide,
        above=above + counted,
    )
    if counted and extras.coverage and context:
        context = context.replace(counted, format_coverage(extras.coverage, len(placed)), 1)
        tokens = snap.counter([context])[0]
    first = first if context else []
    return PackedAnswer(context, tokens, [*first, *(kept[i] for i in placed)], len(first))


def format_coverage(found: CoverageCounts, shown: int) -> str:
    """Return the line "12 turns in 5 sessions; 8 shown"; never longer with fewer shown."""
    turns = max(found.turns, shown)
    turn, session = ("turn" if turns == 1 else "turns"), ("session" if found.sessions == 1 else "sessions")
    return f"[{turns} {turn} in {found.sessions} {session}; {shown} shown]\n"


def _list_rules(
    rows: U32, entries: Sequence[Mapping[str, Any]], rules: I64, budget: int, snap: Snapshot
) -> tuple[str, list[int]]:
    """Return the lines of a user's rules that fit a budget, and their positions in `rows`."""
    place = {int(row): i for i, row in enumerate(rows[: len(entries)].tolist())}
    found = [place[row] for row in rules.tolist() if row in place]
    lines = [f"- {_quote_rule(entries[i])} ({cite_turns(entries[i])})" for i in found]
    left = budget - sum(snap.counter([f"{RULES}\n"]))
    chosen: list[int] = []
    for i, size in enumerate(snap.counter([f"{line}\n" for line in lines])):
        if size <= left:
            left -= size
            chosen.append(i)
    if not chosen:
        return "", []
    return "\n".join([RULES, *(lines[i] for i in chosen)]) + "\n", [found[i] for i in chosen]


def _quote_rule(entry: Mapping[str, Any]) -> str:
    """Return a rule in one line; of a long text the first sentences that say what is wanted."""
    text = " ".join(sanitise_text(str(entry["text"])).split())
    return text if len(text) <= LONGEST_RULE else text[: LONGEST_RULE - 1].rstrip() + "…"


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


def _excerpt_rules(query: Query, snap: Snapshot, full: float, caps: I64, rows: U32) -> ExcerptRules:
    """Return how long items are shortened: to the sentences that hold the question's terms, weighted by idf."""
    languages = snap.lexical.languages_of(rows)
    return ExcerptRules(weigh_terms(query, snap), caps.tolist() if caps.any() else (), full, languages)
