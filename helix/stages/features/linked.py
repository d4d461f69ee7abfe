"""One step from the best items along links.

It leads to documents whose titles they name, and to items that name the same rare entities. The answer to the second
half of a question often shares no word with it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from helix.ranking.topk import sort_rows
from helix.text.titles import find_title_runs
from helix.types import F32, I64, ROLES, U32, Candidates, Plan

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import LinkConstants


def find_titled(terms: U32, snap: Snapshot, df: int) -> I64:
    """Find the documents whose titles are in a text: rows int64[m], ascending.

    Args:
        terms: the text's short term ids in reading order, uint32[n].
        df: a one-word title with a higher document frequency is a common word.
    """
    return np.sort(_find_titles(np.zeros(len(terms), np.int64), terms, snap, df)[1])


def _find_titles(text: I64, terms: U32, snap: Snapshot, df: int) -> tuple[I64, I64]:
    """Find titles in several texts: (text int64[m], ascending; row int64[m]).

    Args:
        text: of each term; a text's terms are contiguous.
    """
    keys, start, size = find_title_runs(text, terms, snap.lexical.title_bits)
    if not len(keys):  # most questions, and many items
        return start, start
    run, row = snap.lexical.find_titled(keys)
    if not len(run):
        return run, row
    alone = (size[run] == 1).nonzero()[0]
    if len(alone):
        word = terms[start[run[alone]]]
        common = [term for term in np.unique(word) if snap.lexical.short_df(term) > df]
        run, row = (np.delete(one, alone[np.isin(word, common)]) for one in (run, row))
    text = text[start[run]]
    best = np.lexsort((snap.columns.key[row], text))
    text, row = text[best], row[best]
    new = np.ones(len(row), bool)
    new[1:] = (text[1:] != text[:-1]) | (row[1:] != row[:-1])
    return text[new], row[new]


def add_linked(pool: Candidates, snap: Snapshot, plan: Plan, how: LinkConstants) -> Candidates:
    """Add linked rows to the pool.

    These are at most `extra` documents whose titles the question (`plan.titled`) or the best few items name, and the
    turns before and after the best items.
    """
    documents, present = list[int](), set(pool.row.tolist())
    if how.extra:
        named = [] if plan.titled is None else plan.titled.tolist()
        named += _find_titles(*snap.lexical.order_of(pool.row[: how.readers]), snap, how.title_df)[1].tolist()
        documents = _choose_new(named, present, plan)[: how.extra]
    best = pool.row[: how.beside]
    neighbours = np.stack([snap.columns.previous[best], snap.columns.next[best]]).T.ravel()
    return pool.append(np.array(_choose_new([*documents, *neighbours.tolist()], present, plan), np.int64))


def _choose_new(rows: Sequence[int], present: Set[int], plan: Plan) -> list[int]:
    """Return allowed rows that are not in the pool, each once, in their order."""
    new = [row for row in dict.fromkeys(rows) if row >= 0 and row not in present]
    return new if plan.allowed is None or not new else [row for row in new if plan.allowed[row]]


def raise_linked(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
    """Raise the scores of items linked from the best, but not past them: float32[n].

    A document j whose title is in one of the best items i:  s_j ← max(s_j, min(s_j + title · s_i, .98 · s_i)).
    Then an item that shares rare entities with the best:  s_j ← max(s_j, min(s_j + walk · y_j, .98 · s of the last of
    the best)), where y is the shared idf mass, 1 for the best linked item.
    """
    if len(rows) <= how.seeds:
        return score
    if how.title:
        score = _raise_by_title(rows, score, snap, how)
    return _raise_by_entity(rows, score, snap, how) if how.walk else score


def _raise_by_title(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
    seeds = sort_rows(score, snap.columns.key[rows])[: how.seeds]
    text, target = _find_titles(*snap.lexical.order_of(rows[seeds]), snap, how.title_df)
    if not len(target):
        return score
    place = rows.argsort()
    at = place[np.minimum(rows.searchsorted(target, sorter=place), len(rows) - 1)]
    here = (rows[at] == target) & (at != seeds[text])
    at, seed = at[here], score[seeds[text[here]]]
    out = score.copy()
    np.maximum.at(out, at, np.minimum(score[at] + np.float32(how.title) * seed, np.float32(0.98) * seed))
    return out


def _raise_by_entity(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
    seeds = sort_rows(score, snap.columns.key[rows])[: how.seeds]
    is_seed = np.zeros(len(rows), bool)
    is_seed[seeds] = True
    at, keys = snap.graph.entities_of(rows)
    named = np.unique(keys[is_seed[at]])  # entities of the seeds
    if not len(named):
        return score
    entity = np.minimum(named.searchsorted(keys), len(named) - 1)
    shared = named[entity] == keys
    at, entity, df = at[shared], entity[shared], snap.graph.count_items(named)
    is_document = snap.columns.role[rows] == ROLES.index("document")
    most = np.where(is_document, how.walk_df, how.walk_df_turns)[at]
    edge = np.where((df[entity] >= 2) & (df[entity] <= most), np.log1p(snap.live / np.maximum(df, 1))[entity], 0)
    total = np.bincount(at, edge, minlength=len(rows))
    # A seed shares its score among its entities; each passes its part on to the other items.
    from_seed = edge * is_seed[at] * score[at] / np.maximum(total[at], 1e-9)
    through = np.bincount(entity, from_seed, minlength=len(named))
    reached = np.bincount(at, (edge > 0) * through[entity] / np.maximum(df[entity] - 1, 1), minlength=len(rows))
    reached[is_seed] = 0
    if reached.max(initial=0) <= 0:
        return score
    raised = np.minimum(score + how.walk * reached / reached.max(), 0.98 * score[seeds[-1]])
    return np.where(is_seed, score, np.maximum(score, raised)).astype(np.float32)
