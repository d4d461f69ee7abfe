"""From the best items to what they lead to, one step: documents whose titles they name, and items that name the same
rare things. What answers the second half of a question often shares no word with the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from helix.titles import runs
from helix.topk import order
from helix.types import F32, I64, ROLES, U32, Candidates, Plan

if TYPE_CHECKING:
    from helix.profiles import Link
    from helix.snapshot.reader import Snapshot


def titled(terms: U32, snap: Snapshot, df: int) -> I64:
    """The rows of documents whose titles stand in a text, ascending: int64[m].

    Args:
        terms: its short term ids in reading order, uint32[n].
        df: a title of one word that more items hold is a common word.
    """
    return np.unique(_named(np.zeros(len(terms), np.int64), terms, snap, df)[1])


def _named(at: I64, terms: U32, snap: Snapshot, df: int) -> tuple[I64, I64]:
    """(text int64[m], row int64[m]), the texts ascending: the same for several at once.

    Args:
        at: the text of each term, ascending.
    """
    keys, start, size = runs(terms)
    run, rows = snap.titled(keys)
    within = at[start[run]] == at[start[run] + size[run] - 1]
    run, rows = run[within], rows[within]
    if not len(run):
        return run, rows
    alone, back = np.unique(terms[start[run]][size[run] == 1], return_inverse=True)
    common = np.zeros(len(run), bool)
    common[size[run] == 1] = np.array([snap.short_df(term) > df for term in alone], bool)[back]
    text, row = np.divmod(np.unique((at[start[run]] * snap.rows + rows)[~common]), snap.rows)
    best = np.lexsort((snap.columns.key[row], text))
    return text[best], row[best]


def join(pool: Candidates, snap: Snapshot, plan: Plan, how: Link) -> Candidates:
    """The pool, best first, with the documents whose titles the question (`plan.titled`) or its best few items name,
    `extra` at most, and the turns before and after its best items.
    """
    documents: list[int] = []
    if how.extra:
        named = [] if plan.titled is None else plan.titled.tolist()
        named += _named(*snap.order_of(pool.row[: how.readers]), snap, how.title_df)[1].tolist()
        documents = _fresh(named, pool, plan)[: how.extra]
    best = pool.row[: how.beside]
    beside = np.stack([snap.columns.previous[best], snap.columns.next[best]]).T.ravel()
    return pool.joined(np.array(_fresh([*documents, *beside.tolist()], pool, plan), np.int64))


def _fresh(rows: Sequence[int], pool: Candidates, plan: Plan) -> list[int]:
    """Those that may join and have not yet, each once, in the order they are named in."""
    there = set(pool.row.tolist())
    new = [row for row in dict.fromkeys(rows) if row >= 0 and row not in there]
    return new if plan.allowed is None or not new else [row for row in new if plan.allowed[row]]


def link(rows: I64, score: F32, snap: Snapshot, how: Link) -> F32:
    """What the best items lead to may rise, but not past them: float32[n].

    A document j whose title stands in one of the best items i:  s_j ← max(s_j, min(s_j + title · s_i, .98 · s_i)).
    Then any item that shares rare entities with the best:  s_j ← max(s_j, min(s_j + walk · y_j, .98 · s of the last
    of the best)), y the idf mass it shares, 1 for the best linked item.
    """
    if len(rows) <= how.seeds:
        return score
    if how.title:
        score = _by_title(rows, score, snap, how)
    return _by_entity(rows, score, snap, how) if how.walk else score


def _by_title(rows: I64, score: F32, snap: Snapshot, how: Link) -> F32:
    seeds = order(score, snap.columns.key[rows])[: how.seeds]
    place = rows.argsort()
    text, target = _named(*snap.order_of(rows[seeds]), snap, how.title_df)
    at = place[np.minimum(np.searchsorted(rows, target, sorter=place), len(rows) - 1)]
    here = (rows[at] == target) & (at != seeds[text])
    at, seed = at[here], score[seeds[text[here]]]
    out = score.copy()
    np.maximum.at(out, at, np.minimum(score[at] + np.float32(how.title) * seed, np.float32(0.98) * seed))
    return out


def _by_entity(rows: I64, score: F32, snap: Snapshot, how: Link) -> F32:
    seeds = order(score, snap.columns.key[rows])[: how.seeds]
    at, keys = snap.entities_of(rows)
    distinct, entity = np.unique(keys, return_inverse=True)
    df = snap.naming(distinct)
    is_document = snap.columns.role[rows] == ROLES.index("document")
    most = np.where(is_document, how.walk_df, how.walk_df_turns)[at]
    edge = np.where((df[entity] >= 2) & (df[entity] <= most), np.log1p(snap.live / np.maximum(df, 1))[entity], 0)
    is_seed = np.zeros(len(rows), bool)
    is_seed[seeds] = True
    total = np.bincount(at, edge, minlength=len(rows))
    # From a seed over its entities, each taking its share of the seed's score, and on to the others.
    from_seed = edge * is_seed[at] * score[at] / np.maximum(total[at], 1e-9)
    through = np.bincount(entity, from_seed, minlength=len(distinct))
    reached = np.bincount(at, (edge > 0) * through[entity] / np.maximum(df[entity] - 1, 1), minlength=len(rows))
    reached[is_seed] = 0
    if reached.max(initial=0) <= 0:
        return score
    risen = np.minimum(score + how.walk * reached / reached.max(), 0.98 * score[seeds[-1]])
    return np.where(is_seed, score, np.maximum(score, risen)).astype(np.float32)
