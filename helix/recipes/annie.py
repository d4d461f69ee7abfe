"""The recipe `annie`: three lists fused by rank, decayed by age, and a short briefing of who said what.

BM25, vectors and a walk over facts each give a list, at the same time. Their reciprocal ranks are summed and decay with
age; statements about a person, a place or a relationship keep a floor. Maximal marginal relevance over shared words
picks the items to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helix.ranking.membership import is_among
from helix.ranking.mmr import jaccard, mmr
from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import sort_rows
from helix.recipes.annie_formulas import briefing, bullet, decay
from helix.recipes.common import begin, bundle, items_of, judge, search_vectors
from helix.snapshot.checked_arrays import make_damage_error
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.snapshot.segment.open import read_table
from helix.stages.dense import dense_score
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.pack import format_replaced
from helix.stages.replaced import add_replacements
from helix.stages.trace import Trace, measure
from helix.text.entities import EVERGREEN
from helix.types import F32, I64, ROLES, U64, AnyArray, Bool, Bundle, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

_DAY = 86_400  # seconds
_LEAST: Final = 1e-6  # weight of a fact without confidence


@dataclass(frozen=True, slots=True)
class AnnieLists:
    """Length of each list, in times the number of items, hops over facts, and the constants of BM25."""

    bm25: int
    dense: int
    facts: int
    hops: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class AnnieDecay:
    """Half-life in days, and the floors of evergreen and of other items."""

    half_life: float
    evergreen: float
    other: float


@dataclass(frozen=True, slots=True)
class AnnieMmr:
    """λ and the number of candidates. `lambda_` is `lambda` in the file."""

    lambda_: float
    pool: int


@dataclass(frozen=True, slots=True)
class AnnieBriefing:
    """Maximum characters of one result, and of the whole."""

    text: int
    whole: int


@dataclass(frozen=True, slots=True)
class AnnieProfile:
    """A profile of the recipe `annie`."""

    name: str
    recipe: str
    limit: int
    k: float
    look_back: float  # hours; 0: off
    lists: AnnieLists
    decay: AnnieDecay
    mmr: AnnieMmr
    briefing: AnnieBriefing


PROFILE = AnnieProfile


def recall(query: Query, snap: Snapshot, profile: AnnieProfile, trace: Trace, models: Rerankers) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    vector, plan = begin(query, snap, trace)
    if plan.skip:
        return bundle(query, snap, profile, trace, skipped=True)
    if query.rerank:
        trace.degraded.append(f"rerank: the recipe {profile.recipe} has none")
    legs, stated = _retrieve(query, vector, snap, plan, profile, trace)
    pool = trace.run("fuse", fuse, legs, snap, profile.k)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = trace.run("decay", apply_decay, pool, query, snap, profile.decay)
    trace.note("decay", rows_in=len(pool), rows_out=len(pool))
    trace.record_ranking(pool)
    chosen, entries = trace.run("mmr", _choose, pool, snap, query.k, profile.mmr, trace)
    trace.note("mmr", rows_in=len(pool), rows_out=len(chosen))
    entries = add_replacements(entries, chosen.row, snap, query.moment)
    statements = _read_statements(chosen, stated, snap)
    judged = judge(chosen.row, pool.row, query, vector, snap, plan, trace)
    items = items_of(chosen, entries, snap, _describe(chosen, statements, snap), judged.relevance)
    how = profile.briefing
    lines = _format_bullets(chosen, entries, statements, snap, how.text)
    relevant = [lines[i] for i in judged.kept]
    context, tokens, placed = trace.run("pack", briefing, relevant, how.whole, query.budget, snap.counter)
    left = f"the briefing has no room for it: {how.whole} characters, {query.budget} tokens"
    trace.drop("pack", chosen.row[judged.kept[len(placed) :]], left)
    shown = [judged.kept[i] for i in placed]
    return bundle(query, snap, profile, trace, items, context, tokens, shown, answered=judged.answered)


# ---------------------------------------------------------------- lists


def _retrieve(
    query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: AnnieProfile, trace: Trace
) -> tuple[list[Leg], Mapping[int, int]]:
    """Search the three lists at the same time; also return the fact that represents each row."""
    how, k = profile.lists, query.k
    hours = profile.look_back if query.look_back is None else query.look_back
    recent = _limit_age(query, snap, plan, hours, trace)
    terms = snap.start_work(measure, search_lexical, query, snap.lexical, recent, how.bm25 * k, how.k1, how.b)
    walked = snap.start_work(measure, find_facts, query, snap, plan, how.hops)
    legs = []
    if vector is not None:
        legs.append(trace.run("dense", search_vectors, vector, snap, plan, how.dense * k, trace))
        trace.leg("dense", legs[0], plan.allowed_rows, how.dense * k, partial(dense_score, vector, snap))
    leg, spent = terms()
    trace.add_time("lexical", spent)
    score = partial(lexical_score, query, snap.lexical, k1=how.k1, b=how.b)
    trace.leg("lexical", leg, recent.allowed_rows, how.bm25 * k, score, partial(_explain_age, query, snap, hours))
    (facts, weight), spent = walked()
    trace.add_time("facts", spent)
    rows = snap.facts.columns.row[facts]
    best, most = rows[: how.facts * k].astype(np.uint32), how.facts * k
    found = Leg("facts", best, weight[: len(best)])
    trace.leg("facts", found, len(snap.facts.columns.row), most, lambda row: float(weight[rows == row].max(initial=0)))
    return [leg, *legs, found], dict(zip(best.tolist(), facts.tolist(), strict=False))


def _limit_age(query: Query, snap: Snapshot, plan: Plan, hours: float, trace: Trace) -> Plan:
    """Return the plan without items older than the look-back, for BM25; 0 excludes none."""
    if not hours:
        return plan
    recent: Bool = (query.now.timestamp() - times(snap, slice(None))) / 3600 <= hours
    allowed = recent & snap.alive if plan.allowed is None else recent & plan.allowed
    rows = int(np.count_nonzero(allowed))
    trace.note("look-back", rows_in=plan.allowed_rows, rows_out=rows, hours=hours)
    return replace(plan, allowed=allowed, allowed_rows=rows)


def _explain_age(query: Query, snap: Snapshot, hours: float, row: int) -> str | None:
    """Explain that an item is older than the look-back; None if it is not, or if the look-back is 0."""
    age = (query.now.timestamp() - float(times(snap, row))) / 3600
    return f"{age:.0f} hours old, and the look-back is {hours:g}" if hours and age > hours else None


def find_facts(query: Query, snap: Snapshot, plan: Plan, hops: int) -> tuple[I64, F32]:
    """Walk over facts that hold, from the entities the question names, and return them, the weightiest first.

    The first hop gives the facts whose subject or object the question names, the next those of the entities at their
    other end. A fact weighs its confidence / hop. Facts of rows that the plan excludes lead nowhere.

    Returns:
        (int64[f], entries of `snap.facts.columns`, one a row; their weights float32[f]).
    """
    facts = snap.facts.columns
    at = query.moment
    usable = np.flatnonzero(snap.facts.holding(at)) if len(query.mentions) else np.empty(0, np.int64)
    if plan.allowed is not None:
        usable = usable[plan.allowed[facts.row[usable]]]
    subject, object_ = facts.subject_entity[usable], facts.object_entity[usable]
    weight, front = np.zeros(len(usable), np.float32), query.mentions
    for hop in range(1, hops + 1):
        reached = (weight == 0) & (is_among(subject, front) | is_among(object_, front))
        weight[reached] = np.maximum(facts.confidence[usable[reached]] / hop, _LEAST)
        ends = np.unique(np.concatenate([subject[reached], object_[reached]]))
        front = ends[ends != 0]  # 0: no entity
    chosen = np.flatnonzero(weight)
    chosen = chosen[sort_rows(weight[chosen], snap.columns.key[facts.row[usable[chosen]]])]
    _, first = np.unique(facts.row[usable[chosen]], return_index=True)
    chosen = chosen[np.sort(first)]
    return usable[chosen], weight[chosen]


# ---------------------------------------------------------------- scores


def fuse(legs: Sequence[Leg], snap: Snapshot, k: float) -> Pool:
    """Fuse the lists into a pool, best first."""
    rows, ranks = align_ranks(legs)
    fused = rrf([*ranks.values()], [1.0] * len(ranks), k).astype(np.float32)
    return Pool(rows, fused, ranks, {"rrf": fused}).take(sort_rows(fused, snap.columns.key[rows]))


def apply_decay(pool: Pool, query: Query, snap: Snapshot, how: AnnieDecay) -> Pool:
    """Multiply the pool by its decay, best first. Items that a fact brought have age 0."""
    age = np.maximum(query.now.timestamp() - times(snap, pool.row), 0) / _DAY
    age = np.where(np.isnan(pool.ranks["facts"]), age, 0).astype(np.float32)
    green = is_evergreen(pool.row, snap)
    factor = decay(age, how.half_life, np.where(green, how.evergreen, how.other).astype(np.float32))
    final = pool.final * factor
    signals = {**pool.signals, "age_days": age, "evergreen": green.astype(np.float32), "decay": factor}
    decayed = replace(pool, final=final, signals=signals)
    return decayed.take(sort_rows(final, snap.columns.key[pool.row]))


def times(snap: Snapshot, rows: Any) -> I64:
    """Return the times of items, else their places, in seconds since 1970 UTC: int64[n]."""
    return np.asarray(snap.columns.place[rows])


def is_evergreen(rows: AnyArray, snap: Snapshot) -> Bool:
    """Return which items are about a person, a place or a relationship: bool[n].

    Such an item names one other than its speaker, or states a fact whose subject is one.
    """
    at, named = snap.graph.entities_of(rows)
    others = named != _hash_speakers(rows, snap)[at]
    stated = np.flatnonzero(is_among(snap.facts.columns.row, np.sort(rows)))
    row = np.concatenate([rows[at[others]], snap.facts.columns.row[stated]])
    subject = np.concatenate([named[others], snap.facts.columns.subject_entity[stated]])
    green = np.zeros(len(subject), bool)
    for table in _read_tables(snap) if len(subject) else ():
        green |= is_among(subject, table.green)
    known, which = np.unique(subject, return_inverse=True)
    # A segment's list names hidden rows, too.
    green &= np.isin(known, known[snap.graph.rows_of(known)[0]])[which]
    return np.isin(rows, row[green])


def _hash_speakers(rows: AnyArray, snap: Snapshot) -> U64:
    """Return each speaker's entity hash, 0 for none: uint64[n]."""
    code = snap.columns.speaker[rows]
    known, at = np.unique(code, return_inverse=True)
    names = [" ".join(snap.speakers[one].split()).lower() if one >= 0 else "" for one in known.tolist()]
    return np.array([int(hash_parts("person", name), 16) if name else 0 for name in names], np.uint64)[at]


class EntityTable(NamedTuple):
    """The entities of a segment."""

    hash: U64  # uint64[m], ascending
    name: pa.StringArray  # as written first
    green: U64  # of persons, places and relationships, ascending


def _read_tables(snap: Snapshot) -> Iterator[EntityTable]:
    segments = snap.manifest.segments if snap.manifest else ()
    return (_read_entities(snap.root, segment.id) for segment in segments)


@lru_cache(maxsize=256)
def _read_entities(root: Path, segment: str) -> EntityTable:
    """Read a segment's entities. Segments never change."""
    path = root / "segments" / segment / "entities.parquet"
    try:
        table = read_table(path, ["kind", "name", "hash"])
    except FileNotFoundError:
        raise make_damage_error(path, "the file is missing") from None
    hashes, first = np.unique(table["hash"].to_numpy(), return_index=True)
    names = table["name"].take(pa.array(first)).combine_chunks()
    kinds = pc.is_in(table["kind"], pa.array(sorted(EVERGREEN)))
    return EntityTable(hashes, names, np.unique(table["hash"].filter(kinds).to_numpy()))


# ---------------------------------------------------------------- items


def _choose(pool: Pool, snap: Snapshot, k: int, how: AnnieMmr, trace: Trace) -> tuple[Pool, list[dict[str, Any]]]:
    """Choose k items; return them in order of choice with their shown fields. Only this step reads text.

    MMR weighs the raw score: fused scores are hundredths, so similarity decides first, and among equally similar items
    the score.
    """
    best = pool.take(np.arange(min(how.pool, len(pool))))
    entries = snap.text(best.row)
    alike = jaccard([str(entry["text"]) for entry in entries])
    chosen = mmr(best.final, alike, how.lambda_, k)
    if trace.on:
        left = np.setdiff1d(np.arange(len(best)), chosen)
        nearest = alike[np.ix_(left, chosen)].max(axis=1, initial=0)
        why = [f"not chosen; {x:.2f} of its words are those of one that was" for x in nearest]
        trace.drop("mmr", best.row[left], why)
        trace.drop("mmr", pool.row[len(best) :], f"behind the best {how.pool}, which alone are chosen among")
    return best.take(chosen), [entries[i] for i in chosen.tolist()]


def _read_statements(pool: Pool, stated: Mapping[int, int], snap: Snapshot) -> list[str]:
    """Return the fact of each row, `Priya -> Pune: lives in`; empty if it has none, or its segment has no sentences."""
    facts = [stated.get(row, -1) for row in pool.row.tolist()]
    known = [fact for fact in facts if fact >= 0 and snap.facts.field.indexed[fact]]
    texts = snap.facts.field.text(np.array(known, np.int64)) if known else []
    statements = {fact: _format_edge(fields) for fact, fields in zip(known, texts, strict=True)}
    return [statements.get(fact, "") for fact in facts]


def _format_edge(fact: Mapping[str, Any]) -> str:
    """Format a fact as an edge of the graph."""
    relation = " ".join([fact["relation"].replace("_", " "), *filter(None, [fact["qualifier"]])])
    return f"{fact['subject']} -> {fact['object']}: {relation}"


def _describe(pool: Pool, statements: Sequence[str], snap: Snapshot) -> list[dict[str, Any]]:
    """Return what `why` adds for each item: the entities it names, and the fact that brought it."""
    found = zip(statements, name_entities(pool.row, snap), strict=True)
    return [{**({"fact": fact} if fact else {}), "entities": entities} for fact, entities in found]


def name_entities(rows: AnyArray, snap: Snapshot) -> list[list[str]]:
    """Return the names of the entities that each row names, as written, in alphabetical order."""
    at, named = snap.graph.entities_of(rows)
    names: dict[int, str] = {}
    for table in _read_tables(snap) if len(named) else ():
        place = np.minimum(np.searchsorted(table.hash, named), max(0, len(table.hash) - 1))
        here = table.hash[place] == named if len(table.hash) else np.zeros(len(named), bool)
        found = table.name.take(pa.array(place[here])).to_pylist()
        names = {**dict(zip(named[here].tolist(), found, strict=True)), **names}
    out: list[set[str]] = [set() for _ in range(len(rows))]
    for i, entity in zip(at.tolist(), named.tolist(), strict=True):
        out[i].add(names.get(entity, ""))
    return [sorted(one - {""}) for one in out]


def _format_bullets(
    pool: Pool, entries: Sequence[Mapping[str, Any]], statements: Sequence[str], snap: Snapshot, limit: int
) -> list[str]:
    """Format items that a text list found in their own words, and items that only a fact brought as the fact."""
    texts = [~np.isnan(ranks) for name, ranks in pool.ranks.items() if name != "facts"]
    found = np.any(texts, axis=0).tolist()
    roles = [ROLES[role].capitalize() for role in snap.columns.role[pool.row].tolist()]
    return [
        bullet("" if in_text else statement, entry["speaker"] or role, entry["text"], limit) + format_replaced(entry)
        for entry, statement, role, in_text in zip(entries, statements, roles, found, strict=True)
    ]
