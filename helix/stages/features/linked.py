"""From the best items to what they lead to, one step: documents whose titles they name, and items that name the same
rare things. What answers the second half of a question often shares no word with the question.
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


def titled(terms: U32, snap: Snapshot, df: int) -> I64:
    """The rows of documents whose titles stand in a text, ascending: int64[m].

    Args:
        terms: its short term ids in reading order, uint32[n].
        df: a title of one word that more items hold is a common word.
    """
    return np.sort(_named(np.zeros(len(terms), np.int64), terms, snap, df)[1])


def _named(text: I64, terms: U32, snap: Snapshot, df: int) -> tuple[I64, I64]:
    """(text int64[m], row int64[m]), the texts ascending: the same for several at once.

    Args:
        text: of each term; the terms of one lie together.
    """
    keys, start, size = find_title_runs(text, terms, snap.lexical.title_bits)
    if not len(keys):  # most questions, and many items
        return start, start
    run, row = snap.lexical.titled(keys)
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


def join(pool: Candidates, snap: Snapshot, plan: Plan, how: LinkConstants) -> Candidates:
    """The pool, best first, with the documents whose titles the question (`plan.titled`) or its best few items name,
    `extra` at most, and the turns before and after its best items.
    """
    documents, there = list[int](), set(pool.row.tolist())
    if how.extra:
        named = [] if plan.titled is None else plan.titled.tolist()
        named += _named(*snap.lexical.order_of(pool.row[: how.readers]), snap, how.title_df)[1].tolist()
        documents = _fresh(named, there, plan)[: how.extra]
    best = pool.row[: how.beside]
    beside = np.stack([snap.columns.previous[best], snap.columns.next[best]]).T.ravel()
    return pool.joined(np.array(_fresh([*documents, *beside.tolist()], there, plan), np.int64))


def _fresh(rows: Sequence[int], there: Set[int], plan: Plan) -> list[int]:
    """Those that may join and are not there yet, each once, in the order they are named in."""
    new = [row for row in dict.fromkeys(rows) if row >= 0 and row not in there]
    return new if plan.allowed is None or not new else [row for row in new if plan.allowed[row]]


def link(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
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


def _by_title(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
    seeds = sort_rows(score, snap.columns.key[rows])[: how.seeds]
    text, target = _named(*snap.lexical.order_of(rows[seeds]), snap, how.title_df)
    if not len(target):
        return score
    place = rows.argsort()
    at = place[np.minimum(rows.searchsorted(target, sorter=place), len(rows) - 1)]
    here = (rows[at] == target) & (at != seeds[text])
    at, seed = at[here], score[seeds[text[here]]]
    out = score.copy()
    np.maximum.at(out, at, np.minimum(score[at] + np.float32(how.title) * seed, np.float32(0.98) * seed))
    return out


def _by_entity(rows: I64, score: F32, snap: Snapshot, how: LinkConstants) -> F32:
    seeds = sort_rows(score, snap.columns.key[rows])[: how.seeds]
    is_seed = np.zeros(len(rows), bool)
    is_seed[seeds] = True
    at, keys = snap.graph.entities_of(rows)
    named = np.unique(keys[is_seed[at]])  # by no other entity does anything come from a seed
    if not len(named):
        return score
    entity = np.minimum(named.searchsorted(keys), len(named) - 1)
    shared = named[entity] == keys
    at, entity, df = at[shared], entity[shared], snap.graph.count_items(named)
    is_document = snap.columns.role[rows] == ROLES.index("document")
    most = np.where(is_document, how.walk_df, how.walk_df_turns)[at]
    edge = np.where((df[entity] >= 2) & (df[entity] <= most), np.log1p(snap.live / np.maximum(df, 1))[entity], 0)
    total = np.bincount(at, edge, minlength=len(rows))
    # From a seed over its entities, each taking its share of the seed's score, and on to the others.
    from_seed = edge * is_seed[at] * score[at] / np.maximum(total[at], 1e-9)
    through = np.bincount(entity, from_seed, minlength=len(named))
    reached = np.bincount(at, (edge > 0) * through[entity] / np.maximum(df[entity] - 1, 1), minlength=len(rows))
    reached[is_seed] = 0
    if reached.max(initial=0) <= 0:
        return score
    risen = np.minimum(score + how.walk * reached / reached.max(), 0.98 * score[seeds[-1]])
    return np.where(is_seed, score, np.maximum(score, risen)).astype(np.float32)
