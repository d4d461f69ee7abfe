"""The default recall, the recipe `helix`: eight stages, composed on one screen. Only recipes compose stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.encoders.token_counter import TokenCounter
from helix.question.build import reword
from helix.question.event_windows import TOP, find_event, find_window
from helix.question.rewrite import remove_request, speak_as
from helix.question.spelling import add_terms, correct_text, find_corrections, list_corrected
from helix.question.terms import hash_question
from helix.ranking.membership import is_one_of
from helix.ranking.topk import sort_rows
from helix.recipes.common import JudgedRows, begin, begin_embedding, bundle, ids, items_of, judge
from helix.recipes.default_pack import Extras, count_packable, pack_relevant
from helix.recipes.default_rerank import rerank_best
from helix.recipes.default_retrieve import collect_legs, start_legs
from helix.recipes.default_wide import add_rules, describe_coverage, keep_covered, leave, put_rules_last, widen
from helix.recipes.default_work import judge_work, look_up_work, put_first
from helix.recipes.encoder_weights import adapt
from helix.snapshot.reader.snapshot import Snapshot
from helix.stages.constants import HelixProfile, QuestionConstants
from helix.stages.cover import Covered
from helix.stages.diversify import choose_reserve, diversify, explain_left_out
from helix.stages.features.linked import add_linked, find_titled
from helix.stages.features.relevance import QuestionSigns, read_signs
from helix.stages.features.similarity import compute_parts
from helix.stages.fuse import fuse
from helix.stages.graph import walk
from helix.stages.hint_filters import apply_hints
from helix.stages.lexical import search_lexical
from helix.stages.narration import demote_narration
from helix.stages.rank import rank, split_score
from helix.stages.reading import reorder
from helix.stages.replaced import add_replacements
from helix.stages.route import scope
from helix.stages.supersede import Superseded, add_successors, demote, find_superseded
from helix.stages.trace import Trace, measure, value_of
from helix.text.asks import WIDE
from helix.text.tokenize import shorten_ids
from helix.types import F32, U32, Bundle, Candidates, Item, Leg, Plan, Query
from helix.work.ask import FoundWork
from helix.work.standing import NO_RULES, Standing, find_standing

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

PROFILE = HelixProfile


def recall(query: Query, snap: Snapshot, profile: HelixProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    profile, fitted_to_others = adapt(profile, snap)
    trace.degraded += [fitted_to_others] if fitted_to_others else []
    ranked = rank_question(query, snap, profile, trace)
    if ranked is None:
        return bundle(query, snap, profile, trace, skipped=True)
    query, vector, plan, pool, signs = ranked
    pool = trace.run("rank", reorder, pool, query, vector, snap, plan, profile.reading)
    trace.record_change("reading", pool.row, pool.final)
    if query.rerank:
        pool = trace.run("rerank", rerank_best, pool, query, snap, plan, profile, trace, models)
        trace.record_change("rerank", pool.row, pool.final)
    work = trace.run("work", look_up_work, query, snap, plan, pool)
    before, pool = len(pool), put_first(pool, work)
    trace.note("work", rows_in=before, rows_out=len(pool), found=len(work))
    trace.record_change("work", pool.row, pool.final)
    covered = trace.run("cover", widen, pool, snap, plan, profile) if plan.extent else leave(pool)
    if plan.extent:
        trace.note("cover", rows_in=len(pool), rows_out=len(covered.pool), extent=plan.extent)
        trace.record_change("cover", covered.pool.row, covered.pool.final)
    trace.record_ranking(covered.pool.pool())
    given = Ranked(query, vector, plan, covered.pool, signs)
    return _answer(given, covered, work, snap, profile, trace)


def _answer(
    given: Ranked, covered: Covered, work: Sequence[FoundWork], snap: Snapshot, profile: HelixProfile, trace: Trace
) -> Bundle:
    """Choose the items of an answer, judge them and pack them: stages 7 and 8."""
    query, vector, plan, pool, signs = given
    wide = plan.extent in WIDE and profile.pack.wide_items > 0
    chosen = trace.run("diversify", diversify, pool, snap, query.k, profile.diversify)
    _trace_diversify(pool, chosen, snap, profile, trace)
    rules = trace.run("standing", find_standing, query, vector, snap, plan, pool) if profile.pack.standing else NO_RULES
    chosen = put_rules_last(chosen, pool, rules, query, plan)
    trace.note("standing", rows_in=len(rules.rows), rows_out=int(is_one_of(rules.rows, chosen.row).sum()))
    first = add_rules(chosen, pool, rules)
    most = profile.pack.wide_items if wide else profile.pack.items
    best = first.join(trace.run("diversify", choose_reserve, pool, first, snap, most, profile.diversify))
    judged = judge_work(judge(best.row, pool.row, query, vector, snap, plan, trace, signs), best.row, work, query)
    judged = keep_covered(judged, best.row, covered)
    coverage = describe_coverage(covered, judged, best.row, snap, plan, profile)
    needed = count_packable(judged, best.row, query, snap, profile.pack, wide=wide)
    best = best.take(np.arange(max(len(first), needed)))
    entries, extras = _read_entries(best, snap, query.moment), Extras(rules.rows, wide, coverage)
    packed = trace.run("pack", pack_relevant, best.row, entries, judged, query, snap, plan, profile, extras)
    placed, n = packed.placed, len(chosen)
    shown = [*range(n), *sorted(i for i in placed if i >= n)]
    items = _make_items(
        best.take(np.array(shown, np.int64)), [entries[i] for i in shown], query, snap, judged.relevance[shown], rules
    )
    return bundle(
        query,
        snap,
        profile,
        trace,
        items[:n],
        packed.context,
        packed.tokens,
        [shown.index(i) for i in placed],
        answered=judged.answered,
        beyond=items[n:],
        coverage=None if coverage is None else {**coverage._asdict(), "shown": len(placed) - packed.rules},
    )


class Ranked(NamedTuple):
    """The outcome of stages 1 to 6."""

    query: Query
    vector: F32 | None
    plan: Plan
    pool: Candidates
    signs: Callable[[], QuestionSigns]


def rank_question(query: Query, snap: Snapshot, profile: HelixProfile, trace: Trace) -> Ranked | None:
    """Run stages 1 to 6; None where the question needs no memory."""
    query = add_search_terms(query, snap, profile.ask)
    embedding = begin_embedding(query.embedded, snap, trace)
    within = snap.start_work(measure, scope, query, snap)
    # What needs no vector runs while the question is embedded, unless a hint of the question filters it.
    started = None if profile.route.hints == "filter" else start_legs(query, snap, within, profile)
    signs = snap.start_work(read_signs, query, snap)
    vector, plan = begin(query, snap, trace, embedding, within)
    if plan.skip:
        return None
    plan = trace.run("route", _add_event_window, plan, query, snap, profile, trace)
    plan = trace.run("route", _add_titles, plan, query, snap, profile)
    if started is None:
        plan = _filter_by_hints(plan, query, snap, profile, trace)
        started = start_legs(query, snap, partial(measure, lambda: plan), profile)
    legs = collect_legs(query, vector, snap, plan, profile, started, trace)
    if started.sparse:
        query = replace(query, sparse=started.sparse().weights)
    pool = _fuse(legs, snap, profile, trace)
    pool = _expand(pool, query, snap, plan, profile, trace)
    pool = _rank(pool, query, vector, snap, plan, profile, trace)
    return Ranked(query, vector, plan, pool, signs)


def add_search_terms(query: Query, snap: Snapshot, constants: QuestionConstants) -> Query:
    """Return the question with its typing errors corrected, its search terms, and the text to embed."""
    about, weights = remove_request(query.text, query.language) if constants.core else query.text, None
    corrections = find_corrections(about, query.language, snap)
    terms, order = hash_question(about, query.language, query.stored)
    if corrections:
        about = correct_text(about, corrections)
        query = reword(query, correct_text(query.text, corrections))
        meant, order = hash_question(about, query.language, query.stored)
        terms, weights = add_terms(terms, meant, corrections)
    project = None if query.project is None else snap.projects.index(query.project)
    names = snap.catalog.speaker_names.get(project, frozenset()) if constants.speaker else frozenset()
    return replace(
        query,
        terms=terms,
        term_order=order,
        term_weights=weights,
        corrections=corrections,
        embedded=speak_as(about, names, query.language),
    )


# ---------------------------------------------------------------- 2 route


def _add_event_window(plan: Plan, query: Query, snap: Snapshot, profile: HelixProfile, trace: Trace) -> Plan:
    """Add the time window of "before the migration": it follows from when items speak of the event."""
    event = find_event(query.text, query.language) if profile.sim.date else None
    if event is None:
        return plan
    terms, _ = hash_question(event.phrase, query.language, query.stored)
    about = replace(query, terms=terms, term_weights=None)
    leg = search_lexical(about, snap.lexical, plan, TOP, profile.retrieve.k1, profile.retrieve.b)
    days = find_window(event.relation, snap.columns.time[leg.rows], leg.scores)
    trace.note("anchor", rows_in=plan.allowed_rows, rows_out=len(leg.rows), event=event.phrase, window=days)
    return plan if days is None else replace(plan, days=(*plan.days, days))


def _add_titles(plan: Plan, query: Query, snap: Snapshot, profile: HelixProfile) -> Plan:
    """Add the documents whose titles the question names; two stages need them."""
    return replace(plan, titled=find_titled(shorten_ids(query.term_order), snap, profile.link.title_df))


def _filter_by_hints(plan: Plan, query: Query, snap: Snapshot, profile: HelixProfile, trace: Trace) -> Plan:
    """Search only what the question hints at; the trace names each hint, the rows before and after, and why not."""
    narrowed, hints = trace.run("route", apply_hints, plan, query, snap, profile.route)
    said = [{"hint": one.name, "rows_in": one.rows_in, "rows_out": one.rows_out, "off": one.off} for one in hints]
    trace.note("hints", rows_in=plan.allowed_rows, rows_out=narrowed.allowed_rows, filters=said)
    if trace.on and narrowed.allowed is not None:
        allowed, before = narrowed.allowed, trace.outside
        names = ", ".join(one.name for one in hints if not one.off)
        trace.outside = lambda row: (
            before(row) or (None if allowed[row] else f"outside what the question names: {names}")
        )
    return narrowed


# ---------------------------------------------------------------- 4 fuse, 5 graph, 6 rank


def _fuse(legs: Sequence[Leg], snap: Snapshot, profile: HelixProfile, trace: Trace) -> Candidates:
    """Fuse the legs; a profile may keep only the best."""
    pool, most = trace.run("fuse", fuse, legs, snap, profile.fuse.k, profile.fuse.weights), profile.fuse.top
    if 0 < most < len(pool):
        trace.drop("fuse", pool.row[most:], f"below the best {most} of the fused list")
        pool = pool.take(np.arange(most))
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    return pool


def _expand(
    pool: Candidates, query: Query, snap: Snapshot, plan: Plan, profile: HelixProfile, trace: Trace
) -> Candidates:
    """Add what a walk from the best items reaches, and what they name."""
    before = len(pool)
    pool, how = trace.run("graph", walk, pool, query, snap, plan, profile.graph)
    pool = trace.run("graph", add_linked, pool, snap, plan, profile.link)
    trace.note("graph", rows_in=before, rows_out=len(pool), how=how)
    return pool


def _rank(
    pool: Candidates,
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    profile: HelixProfile,
    trace: Trace,
) -> Candidates:
    """Score the pool by all signals; superseded items rank below what replaces them."""
    before = len(pool)
    superseded = trace.run("rank", find_superseded, pool.row, snap, query.moment)
    if superseded:
        pool = trace.run("rank", add_successors, pool, superseded, plan)
    if trace.on and len(pool):
        rows = pool.row.astype(np.int64)
        trace.record_parts(rows, compute_parts(rows, pool.rrf, query, vector, snap, plan, profile))
    pool = trace.run("rank", rank, pool, query, vector, snap, plan, profile)
    if trace.on:
        trace.record_shares(pool.row, split_score(pool, snap, plan, profile))
    if superseded:
        pool = trace.run("rank", _demote, pool, snap, superseded, profile.rank.superseded)
        trace.record_change("superseded", pool.row, pool.final)
    pool = trace.run("rank", demote_narration, pool, snap, profile.rank.narration)
    trace.note("rank", rows_in=before, rows_out=len(pool))
    return pool


def _demote(pool: Candidates, snap: Snapshot, superseded: Superseded, share: float) -> Candidates:
    pool = replace(pool, final=demote(pool.row.astype(np.int64), pool.final, superseded, share))
    return pool.take(sort_rows(pool.final, snap.columns.key[pool.row]))


def _trace_diversify(pool: Candidates, chosen: Candidates, snap: Snapshot, profile: HelixProfile, trace: Trace) -> None:
    if trace.on:
        left = explain_left_out(pool, chosen, snap, profile.diversify)
        trace.drop("diversify", left.near, [f"a near-duplicate of {better}" for better in ids(left.of, snap)])
        alike = [f"it is {x:.2f} alike to one that was chosen" for x in left.alike]
        if profile.diversify.relevance == "sim":
            alike = [f"its similarity is {x:.2f} and {why}" for x, why in zip(left.sim, alike, strict=True)]
        trace.drop("diversify", left.far, [f"another was preferred, since {why}" for why in alike])
        trace.note("diversify", rows_in=len(pool), rows_out=len(chosen), near_duplicates=len(left.near))


# ---------------------------------------------------------------- 8 pack


def pack_rows(
    rows: U32,
    entries: Sequence[Mapping[str, Any]],
    judged: JudgedRows,
    query: Query,
    snap: Snapshot,
    plan: Plan,
    profile: HelixProfile,
) -> tuple[str, int, list[int]]:
    """Pack items in an order that the deep tier gives; see `pack_relevant`."""
    query, extras = add_search_terms(query, snap, profile.ask), Extras(NO_RULES.rows)
    return pack_relevant(rows, entries, judged, query, snap, plan, profile, extras)[:3]


def _read_entries(chosen: Candidates, snap: Snapshot, at: int) -> list[dict[str, Any]]:
    """Read the text of items that may be shown; no other step does."""
    entries = add_replacements(snap.text(chosen.row), chosen.row, snap, at)
    if snap.counter.name == TokenCounter.name:  # ingest counted with the same counter
        tokens = snap.columns.tokens[chosen.row].tolist()
        entries = [{**entry, "tokens": n} for entry, n in zip(entries, tokens, strict=True)]
    return entries


def _make_items(
    chosen: Candidates,
    entries: Sequence[Mapping[str, Any]],
    query: Query,
    snap: Snapshot,
    relevance: F32,
    rules: Standing,
) -> list[Item]:
    """Make the shown items.

    `why` gets salience and confidence as they are, not as they were scaled over the pool, the questions a model
    wrote for an item, the misspelled words of the question that it has, and which kind of rule it is.
    """
    columns = zip(snap.columns.salience[chosen.row].tolist(), snap.columns.confidence[chosen.row].tolist(), strict=True)
    more: list[dict[str, Any]] = [
        {"salience": value_of(salience), "confidence": value_of(confidence)} for salience, confidence in columns
    ]
    if snap.lexical.expansion:
        unseen = np.isnan(chosen.doc2query).tolist()
        queries = snap.lexical.expansion.questions_of(chosen.row)
        more = [
            one if nothing else {**one, "queries": asked}
            for one, nothing, asked in zip(more, unseen, queries, strict=True)
        ]
    if query.corrections:
        read = list_corrected(query.corrections, chosen.row, snap)
        more = [{**one, "corrected": words} if words else one for one, words in zip(more, read, strict=True)]
    kinds = dict.fromkeys(rules.preferences.tolist(), "preference")
    kinds |= dict.fromkeys(rules.instructions.tolist(), "standing instruction")
    if kinds:
        named = [kinds.get(row) for row in chosen.row.tolist()]
        more = [{**one, "rule": kind} if kind else one for one, kind in zip(more, named, strict=True)]
    return items_of(chosen.pool(), entries, snap, more, relevance)
