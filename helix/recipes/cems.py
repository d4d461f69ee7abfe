"""The recipe `cems`: several wordings of a question, fused, and weighted by metadata.

The question's intent decides whether vectors answer alone, or with BM25, other wordings and a hypothetical answer. Each
wording gives one list, of vectors and BM25 together. Ranks are fused with a bonus for the first places, blended with
the vector score, cut at a threshold, and multiplied by priority, age, pin and project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from helix.question.terms import hash_question
from helix.ranking.mmr import jaccard
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import select_top, sort_rows
from helix.recipes import cems_formulas as formulas
from helix.recipes.cems_intent import Intent, choose, classify
from helix.recipes.cems_pack import pack_rows
from helix.recipes.cems_wordings import PROBE, expand, find_preferences, write_hypothetical
from helix.recipes.common import begin, bundle, items_of, judge, search_vectors
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.open import read_table
from helix.stages.constants import keys, one_of
from helix.stages.dense import dense_score
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.replaced import add_replacements
from helix.stages.trace import Trace, measure
from helix.text.tokenize import hash_terms, tokenise
from helix.types import F32, I64, ROLES, U32, AnyArray, Bool, Bundle, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

_DAY = 86_400  # seconds
_NO_PROJECT: Final = "default"  # project of items without one
_ORIGINAL: Final = "original"
"""The list of the question itself."""


@dataclass(frozen=True, slots=True)
class CemsLists:
    """Rows of vectors and of BM25 in a list, how both weigh, and the constants of BM25."""

    dense: int
    bm25: int
    expanded: int
    k1: float
    b: float
    weights: Mapping[str, float] = keys("vector", "bm25")


@dataclass(frozen=True, slots=True)
class CemsLexical:
    """Certainty of the best lexical score; see `is_strong`."""

    top: float
    gap: float


@dataclass(frozen=True, slots=True)
class CemsTerms:
    """Maximum distinct terms of a simple and of a moderate question."""

    simple: int
    moderate: int


@dataclass(frozen=True, slots=True)
class CemsExpand:
    """Turns and phrases of the probe for users' preferences, and other wordings at most, by kind of question."""

    probe: int
    phrases: int
    most: Mapping[str, int] = keys("ordinary", "temporal", "preference")


@dataclass(frozen=True, slots=True)
class CemsFuse:
    """Reciprocal rank fusion."""

    k: float
    weights: Mapping[str, float] = keys("original", "other")
    bonus: Mapping[str, float] = keys("first", "third")


@dataclass(frozen=True, slots=True)
class CemsScore:
    """The blend, its threshold and its factors."""

    fused: float
    threshold: float
    decay: float
    pinned: float
    project: Mapping[str, float] = keys("same", "other", "none")


@dataclass(frozen=True, slots=True)
class CemsAssemble:
    """Items to assemble from, and λ of aggregations. `lambda_` is `lambda` in the file."""

    pool: int
    lambda_: float


@dataclass(frozen=True, slots=True)
class CemsProfile:
    """A profile of the recipe `cems`."""

    name: str
    recipe: str
    limit: int
    lists: CemsLists
    strong: CemsLexical
    intent: CemsTerms
    expand: CemsExpand
    fuse: CemsFuse
    score: CemsScore
    assemble: CemsAssemble
    mode: str = one_of("auto", "hybrid", "vector")


PROFILE = CemsProfile


def recall(query: Query, snap: Snapshot, profile: CemsProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    if query.rerank:
        trace.degraded.append(f"rerank: the recipe {profile.recipe} has none")
    how = profile.intent
    intent = trace.run("intent", classify, query.text, query.now, query.days, how.simple, how.moderate)
    mode = choose(query.mode or profile.mode, intent) if vector is not None else "hybrid"
    trace.note("intent", **intent._asdict(), mode=mode)
    legs = _retrieve(query, vector, snap, plan, profile, intent, mode, trace)
    pool = trace.run("rank", _rank, legs, query, vector, snap, plan, profile)
    trace.note("rank", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    trace.record_ranking(pool)
    found, entries = trace.run("select", _select, pool, query, snap, intent, profile, trace)
    judged = judge(found.row, pool.row, query, vector, snap, plan, trace)
    items = items_of(found, entries, snap, relevance=judged.relevance)
    context, tokens, placed = trace.run("pack", pack_rows, found.row, entries, judged, query, snap, plan, profile)
    left = np.setdiff1d(judged.kept, placed).astype(np.intp)
    trace.drop("pack", found.row[left], f"no room for it in {query.budget} tokens behind better ones")
    return bundle(query, snap, profile, trace, items, context, tokens, placed, answered=judged.answered)


# ---------------------------------------------------------------- lists


def _retrieve(
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: CemsProfile,
    intent: Intent,
    mode: str,
    trace: Trace,
) -> list[Leg]:
    """Search the lists: the question's own, and in the hybrid mode one for each other wording.

    Returns:
        Legs named `original`, `expansion 1`, …, `hyde`; `dense` alone in the mode vector; `bm25` alone where the words
        of the question leave no doubt.
    """
    how = profile.lists
    if mode == "vector" and vector is not None:
        leg = trace.run("dense", search_vectors, vector, snap, plan, how.dense, trace)
        trace.leg("dense", leg, plan.allowed_rows, how.dense, partial(dense_score, vector, snap))
        return [leg]
    terms = snap.start_work(measure, search_lexical, query, snap.lexical, plan, how.bm25, how.k1, how.b)
    dense = None if vector is None else trace.run("dense", search_vectors, vector, snap, plan, how.dense, trace)
    bm25, spent = terms()
    trace.add_time("lexical", spent)
    bm25 = replace(bm25, scores=formulas.saturate(bm25.scores))
    if vector is not None and formulas.is_strong(bm25.scores, profile.strong.top, profile.strong.gap):
        trace.note("expand", shortcut=True)
        score = partial(_score_lexical, query, snap, how)
        trace.leg("lexical", bm25, plan.allowed_rows, how.bm25, score)
        return [bm25]
    legs = [_join(_ORIGINAL, dense, bm25, snap, how)]
    score = partial(_score_list, query, vector, snap, how)
    trace.leg("lexical", legs[0], plan.allowed_rows, how.dense + how.bm25, score)
    return legs if vector is None else legs + _search_wordings(query, snap, plan, profile, intent, trace)


def _search_wordings(
    query: Query, snap: Snapshot, plan: Plan, profile: CemsProfile, intent: Intent, trace: Trace
) -> list[Leg]:
    """Search a list for each other wording."""
    how, legs = profile.lists, []
    wordings = trace.run("expand", _make_wordings, query, snap, plan, profile, intent)
    trace.note("expand", shortcut=False, queries=wordings)
    others = {
        name: replace(query, terms=hash_question(text, query.language, query.stored)[0])
        for name, text in wordings.items()
    }
    found = {
        name: snap.start_work(search_lexical, other, snap.lexical, plan, how.expanded, how.k1, how.b)
        for name, other in others.items()
    }
    # One batch gives the same bytes for the same texts.
    vectors = trace.run("expand", snap.encoder.queries, list(wordings.values()))
    for (name, terms), vector in zip(found.items(), vectors, strict=True):
        dense = trace.run("expand", search_vectors, vector, snap, plan, how.expanded, trace)
        bm25 = trace.run("expand", terms)
        legs.append(_join(name, dense, replace(bm25, scores=formulas.saturate(bm25.scores)), snap, how))
        score = partial(_score_list, others[name], vector, snap, how)
        trace.leg(name, legs[-1], plan.allowed_rows, 2 * how.expanded, score)
    return legs


def _join(name: str, dense: Leg | None, bm25: Leg, snap: Snapshot, how: CemsLists) -> Leg:
    """Join both legs into a list: each score by its weight, the better one of a row in both."""
    legs = [bm25, *([dense] if dense else [])]
    weights = (how.weights["bm25"], how.weights["vector"])
    rows = np.concatenate([leg.rows for leg in legs])
    scores = np.concatenate([weight * leg.scores for leg, weight in zip(legs, weights, strict=False)])
    known, at = np.unique(rows, return_inverse=True)
    best = np.full(len(known), -np.inf, np.float32)
    np.maximum.at(best, at, scores.astype(np.float32))
    order = select_top(best, snap.columns.key[known], len(known))
    return Leg(name, known[order].astype(np.uint32), best[order])


def _score_lexical(query: Query, snap: Snapshot, how: CemsLists, row: int) -> float:
    score = np.array([lexical_score(query, snap.lexical, row, how.k1, how.b)], np.float32)
    return float(formulas.saturate(score)[0])


def _score_list(query: Query, vector: F32 | None, snap: Snapshot, how: CemsLists, row: int) -> float:
    near = 0.0 if vector is None else how.weights["vector"] * dense_score(vector, snap, row)
    return max(near, how.weights["bm25"] * _score_lexical(query, snap, how, row))


def _make_wordings(query: Query, snap: Snapshot, plan: Plan, profile: CemsProfile, intent: Intent) -> dict[str, str]:
    """Return other wordings by the name of their list: expansions, and a hypothetical answer.

    The deep tier gets them from a language model, the fast tier from rules.
    """
    if query.rewrite:
        return dict(query.rewrite(intent.kind))
    phrases = probe(query, snap, plan, profile) if intent.kind == "preference" else []
    others = expand(query.text, intent, query.days, phrases, profile.expand.most)
    return {
        **{f"expansion {i}": text for i, text in enumerate(others, 1)},
        "hyde": write_hypothetical(query.text, intent, query.days),
    }


def probe(query: Query, snap: Snapshot, plan: Plan, profile: CemsProfile) -> list[str]:
    """Return what users say of their own preferences, best first, in turns that match the question."""
    users = snap.columns.role == ROLES.index("user")
    allowed = users & (snap.alive if plan.allowed is None else plan.allowed)
    probing = replace(query, terms=np.union1d(query.terms, hash_terms(tokenise(PROBE))))
    theirs = replace(plan, allowed=allowed, allowed_rows=int(np.count_nonzero(allowed)))
    leg = search_lexical(probing, snap.lexical, theirs, profile.expand.probe, profile.lists.k1, profile.lists.b)
    return find_preferences([str(entry["text"]) for entry in snap.text(leg.rows)], profile.expand.phrases)


# ---------------------------------------------------------------- scores


def _rank(
    legs: Sequence[Leg], query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: CemsProfile
) -> Pool:
    """Fuse the lists into a pool with its signals, best first."""
    how, columns = profile.score, snap.columns
    rows, ranks = align_ranks(legs)
    signals, base = _compute_base(legs, rows, ranks, vector, snap, profile)
    days = np.floor((query.now.timestamp() - snap.catalog.last_access[rows]) / _DAY)  # whole days, as published
    # A project filter leaves no other items; a project that the question only names is preferred.
    wanted = snap.projects.index(query.project) if query.project is not None else next(iter(plan.projects), None)
    none = snap.projects.index(_NO_PROJECT) if _NO_PROJECT in snap.projects else -1
    factors = {
        "priority": columns.priority[rows],
        "decay": formulas.time_decay(days, how.decay),
        "pinned": np.where(is_pinned(rows, snap), how.pinned, 1).astype(np.float32),
        "project": formulas.project_factor(
            columns.project[rows], wanted, none, how.project["same"], how.project["other"], how.project["none"]
        ),
    }
    final = base * np.prod(list(factors.values()), axis=0)
    pool = Pool(rows, final.astype(np.float32), ranks, {**signals, "base": base, **factors})
    return pool.take(sort_rows(pool.final, columns.key[rows]))


def _compute_base(
    legs: Sequence[Leg],
    rows: U32,
    ranks: Mapping[str, F32],
    vector: F32 | None,
    snap: Snapshot,
    profile: CemsProfile,
) -> tuple[dict[str, F32], F32]:
    """Return the signals of the rows, and their score before metadata counts: float32[n].

    A single leg of vectors or of BM25 alone has its own scores; else fused ranks and vector scores are blended.
    """
    if legs[0].name != _ORIGINAL:
        by_row = dict(zip(legs[0].rows.tolist(), legs[0].scores.tolist(), strict=True))
        own = np.maximum(np.array([by_row[row] for row in rows.tolist()], np.float32), 0)
        return {"cosine" if legs[0].name == "dense" else "words": own}, own
    weights = [profile.fuse.weights["original" if name == _ORIGINAL else "other"] for name in ranks]
    table = [*ranks.values()]
    fused = (rrf(table, weights, profile.fuse.k) + formulas.rank_bonus(np.stack(table), **profile.fuse.bonus)).astype(
        np.float32
    )
    signals = {"rrf": fused, "fused": formulas.minmax(fused)}
    if vector is not None:
        signals["vector"] = np.maximum(snap.vectors.dequantise(rows) @ vector, 0).astype(np.float32)
    return signals, formulas.blend(signals["fused"], signals.get("vector"), profile.score.fused)


def is_pinned(rows: AnyArray, snap: Snapshot) -> Bool:
    """Return which items the input pinned: bool[n]."""
    segments = snap.manifest.segments if snap.manifest else ()
    starts = np.cumsum([0, *(segment.rows for segment in segments)]).tolist()
    found = [start + _read_pinned(snap.root, segment.id) for start, segment in zip(starts, segments, strict=False)]
    return np.isin(rows, np.concatenate([np.empty(0, np.int64), *found]))


@lru_cache(maxsize=256)
def _read_pinned(root: Path, segment: str) -> I64:
    """Read the pinned rows of a segment: int64[m]. Segments never change."""
    path = root / "segments" / segment / "items.parquet"
    try:
        column = read_table(path, ["pinned"])["pinned"]
    except FileNotFoundError:
        raise make_damage_error(path, "the file is missing") from None
    return np.flatnonzero(column.to_numpy())


# ---------------------------------------------------------------- items


def _select(
    pool: Pool, query: Query, snap: Snapshot, intent: Intent, profile: CemsProfile, trace: Trace
) -> tuple[Pool, list[dict[str, Any]]]:
    """Select k items with their shown fields; only this step reads their text.

    They are above the threshold, one a turn or section, and for an aggregation from many sessions.
    """
    base, how, k = pool.signals["base"], profile.assemble, query.k
    # Without vectors only the order counts: min-max gives the last of two good answers 0.
    below = (base < profile.score.threshold) & (("vector" in pool.signals) | ("rrf" not in pool.signals))
    low = np.flatnonzero(below)
    trace.drop("threshold", pool.row[low], [f"{x:.3f}, and {profile.score.threshold:g} is wanted" for x in base[low]])
    above, most = pool.take(np.flatnonzero(~below)), max(how.pool, 2 * k)
    trace.drop("pool", above.row[most:], f"behind the best {most}")
    above = above.take(np.arange(min(most, len(above))))
    entries = snap.text(above.row)
    best = formulas.mark_first([(entry["session"], *entry["turns"]) for entry in entries])
    trace.drop("document", above.row[~best], "a better piece of the same turn or section is kept")
    at = np.flatnonzero(best)
    if intent.aggregation:
        alike = jaccard([str(entries[i]["text"]) for i in at.tolist()])
        sessions = snap.columns.session[above.row[at]]
        at = at[formulas.diversify_sessions(above.final[at], alike, sessions, how.lambda_, k)]
        left = np.setdiff1d(np.flatnonzero(best), at)
        taken = f"and {len(at)} were chosen, the best of each session first"
        trace.drop("mmr", above.row[left], [f"it has {score:.3f}, {taken}" for score in above.final[left]])
    at = at[:k]
    trace.note("select", rows_in=len(pool), rows_out=len(at), below=len(low), pieces=int(np.count_nonzero(~best)))
    return above.take(at), add_replacements([entries[i] for i in at.tolist()], above.row[at], snap, query.moment)
