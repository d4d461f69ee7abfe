"""The recipe `annie`: three lists fused by rank, faded by age, and a short briefing of who said what.

BM25, vectors and facts each give a list. Reciprocal ranks are added up and fade with age, what is said of a person, a
place or a relationship never below a floor. Maximal marginal relevance over shared words picks the few to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from helix.ranking.rrf import align_ranks, rrf
from helix.ranking.topk import sort_rows
from helix.recipes.annie_formulas import briefing, bullet, decay, jaccard, mmr
from helix.recipes.common import begin, bundle, items_of
from helix.snapshot.checked_arrays import damaged
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME, digest
from helix.snapshot.segment.open import read_table
from helix.stages.dense import dense_score, search_dense
from helix.stages.lexical import lexical_score, search_lexical
from helix.stages.trace import Trace
from helix.text.entities import EVERGREEN
from helix.types import F32, I64, ROLES, U64, Bool, Bundle, Leg, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.rerank import Rerankers

_DAY = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class AnnieLists:
    """How long each list is, in times the limit, and the constants of BM25."""

    bm25: int
    dense: int
    facts: int
    k1: float
    b: float


@dataclass(frozen=True, slots=True)
class AnnieDecay:
    """Days after which a score is halved, and the least that is left of it: of what is evergreen, of all else."""

    half_life: float
    evergreen: float
    other: float


@dataclass(frozen=True, slots=True)
class AnnieMmr:
    """λ, and how many of the best it chooses among. `lambda_` is `lambda` in the file."""

    lambda_: float
    pool: int


@dataclass(frozen=True, slots=True)
class AnnieBriefing:
    """Characters at most of one bullet, and of the whole."""

    bullet: int
    whole: int


@dataclass(frozen=True, slots=True)
class AnnieProfile:
    """A file of the recipe `annie`."""

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
    plan = _look_back(query, snap, plan, profile.look_back, trace)
    legs, stated = _retrieve(query, vector, snap, plan, profile, trace)
    pool = trace.run("fuse", fuse, legs, snap, profile.k)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    pool = trace.run("decay", fade, pool, query, snap, profile.decay)
    trace.note("decay", rows_in=len(pool), rows_out=len(pool))
    trace.ranked(pool)
    chosen, entries = trace.run("mmr", _diverse, pool, snap, min(query.k, profile.limit), profile.mmr, trace)
    trace.note("mmr", rows_in=len(pool), rows_out=len(chosen))
    said = _statements(chosen, stated, snap)
    items = items_of(chosen, entries, snap, [{"fact": one} if one else {} for one in said])
    how = profile.briefing
    lines = _bullets(chosen, entries, said, snap, how.bullet)
    context, tokens, placed = trace.run("pack", briefing, lines, how.whole, query.budget, snap.counter)
    left = f"the briefing has no room for it: {how.whole} characters, {query.budget} tokens"
    trace.drop("pack", chosen.row[len(placed) :], left)
    return bundle(query, snap, profile, trace, items, context, tokens, placed)


# ---------------------------------------------------------------- lists


def _look_back(query: Query, snap: Snapshot, plan: Plan, hours: float, trace: Trace) -> Plan:
    """The plan without what is older than that; as it is where there is no look-back."""
    if not hours:
        return plan
    before, age = trace.outside, (query.now.timestamp() - times(snap, slice(None))) / 3600
    recent: Bool = age <= hours
    allowed = recent & snap.alive if plan.allowed is None else recent & plan.allowed
    rows = int(np.count_nonzero(allowed))
    if trace.on:
        trace.note("look-back", rows_in=plan.allowed_rows, rows_out=rows, hours=hours)
        # A store may hold a million older ones: each is told why only when it is asked for.
        trace.outside = lambda row: (
            before(row) or (None if recent[row] else f"{age[row]:.0f} hours old, and the look-back is {hours:g}")
        )
    return replace(plan, allowed=allowed, allowed_rows=rows)


def _retrieve(
    query: Query, vector: F32 | None, snap: Snapshot, plan: Plan, profile: AnnieProfile, trace: Trace
) -> tuple[list[Leg], Mapping[int, int]]:
    """The lists there are, and by row the fact that stands for it."""
    how, legs = profile.lists, []
    k = how.bm25 * profile.limit
    legs.append(trace.run("lexical", search_lexical, query, snap.lexical, plan, k, how.k1, how.b))
    score = partial(lexical_score, query, snap.lexical, k1=how.k1, b=how.b)
    trace.leg("lexical", legs[-1], plan.allowed_rows, k, score)
    if vector is not None:
        k = how.dense * profile.limit
        legs.append(trace.run("dense", search_dense, vector, snap, plan, k))
        trace.leg("dense", legs[-1], plan.allowed_rows, k, partial(dense_score, vector, snap))
    k = how.facts * profile.limit
    facts = trace.run("facts", facts_about, query, snap, plan)
    known = snap.facts.columns
    rows, confidence = known.row[facts], known.confidence[facts]
    legs.append(Leg("facts", rows[:k].astype(np.uint32), confidence[:k]))
    trace.leg("facts", legs[-1], len(known.row), k, lambda row: float(confidence[rows == row].max(initial=0)))
    return legs, dict(zip(rows[:k].tolist(), facts[:k].tolist(), strict=True))


def facts_about(query: Query, snap: Snapshot, plan: Plan) -> I64:
    """Facts that hold now and whose subject or object the question names, surest first, the best one of each row.

    Returns:
        int64[f], entries of `snap.facts.columns`; of allowed rows.
    """
    facts = snap.facts.columns
    named = among(facts.subject_entity, query.mentions) | among(facts.object_entity, query.mentions)
    chosen = np.flatnonzero(named & snap.facts.holding(int((query.as_of or query.now).timestamp())))
    if plan.allowed is not None:
        chosen = chosen[plan.allowed[facts.row[chosen]]]
    chosen = chosen[sort_rows(facts.confidence[chosen], snap.columns.key[facts.row[chosen]])]
    _, first = np.unique(facts.row[chosen], return_index=True)
    return chosen[np.sort(first)]


def among(values: npt.NDArray[Any], few: npt.NDArray[Any]) -> Bool:
    """bool[n]: which of many values are one of a few sorted ones."""
    if not len(few):
        return np.zeros(len(values), bool)
    found: Bool = few[np.minimum(np.searchsorted(few, values), len(few) - 1)] == values
    return found


# ---------------------------------------------------------------- scores


def fuse(legs: Sequence[Leg], snap: Snapshot, k: float) -> Pool:
    """The union of the lists as a pool, best fused score first."""
    rows, ranks = align_ranks(legs)
    fused = rrf([*ranks.values()], [1.0] * len(ranks), k).astype(np.float32)
    return Pool(rows, fused, ranks, {"rrf": fused}).take(sort_rows(fused, snap.columns.key[rows]))


def fade(pool: Pool, query: Query, snap: Snapshot, how: AnnieDecay) -> Pool:
    """The pool times its decay, best first. What a fact brought is of now."""
    age = np.maximum(query.now.timestamp() - times(snap, pool.row), 0) / _DAY
    age = np.where(np.isnan(pool.ranks["facts"]), age, 0).astype(np.float32)
    green = evergreen(pool.row, snap)
    left = decay(age, how.half_life, np.where(green, how.evergreen, how.other).astype(np.float32))
    final = pool.final * left
    signals = {**pool.signals, "age_days": age, "evergreen": green.astype(np.float32), "decay": left}
    faded = replace(pool, final=final, signals=signals)
    return faded.take(sort_rows(final, snap.columns.key[pool.row]))


def times(snap: Snapshot, rows: Any) -> I64:
    """int64[n]: seconds since 1970 UTC of the items; when they came in, where their own time is unknown."""
    own = snap.columns.time[rows]
    return np.asarray(np.where(own != NO_TIME, own, snap.columns.t_ingested[rows]))


def evergreen(rows: npt.NDArray[Any], snap: Snapshot) -> Bool:
    """bool[n]: the item is about a person, a place or a relationship, which stays true whenever it was said.

    That is: it names one besides its speaker, or states a fact whose subject is one.
    """
    at, named = snap.graph.entities_of(rows)
    others = named != _speakers(rows, snap)[at]
    stated = np.flatnonzero(among(snap.facts.columns.row, np.sort(rows)))
    row = np.concatenate([rows[at[others]], snap.facts.columns.row[stated]])
    subject = np.concatenate([named[others], snap.facts.columns.subject_entity[stated]])
    green = np.zeros(len(subject), bool)
    for segment in snap.manifest.segments if snap.manifest and len(subject) else ():
        green |= among(subject, _evergreen(snap.root, segment.id))
    known, which = np.unique(subject, return_inverse=True)
    # A segment's list names hidden rows, too.
    green &= np.isin(known, known[snap.graph.rows_of(known)[0]])[which]
    return np.isin(rows, row[green])


def _speakers(rows: npt.NDArray[Any], snap: Snapshot) -> U64:
    """uint64[n]: each speaker as an entity; 0 where there is none."""
    code = snap.columns.speaker[rows]
    known, at = np.unique(code, return_inverse=True)
    names = [" ".join(snap.speakers[one].split()).lower() if one >= 0 else "" for one in known.tolist()]
    return np.array([int(digest("person", name), 16) if name else 0 for name in names], np.uint64)[at]


@lru_cache(maxsize=256)
def _evergreen(root: Path, segment: str) -> U64:
    """uint64[m] sorted: hashes of a segment's entities of such a kind. A segment never changes."""
    path = root / "segments" / segment / "entities.parquet"
    try:
        table = read_table(path, ["kind", "hash"])
    except FileNotFoundError:
        raise damaged(path, "the file is missing") from None
    kinds = pc.is_in(table["kind"], pa.array(sorted(EVERGREEN)))
    return np.unique(table["hash"].filter(kinds).to_numpy())


# ---------------------------------------------------------------- what is shown


def _diverse(pool: Pool, snap: Snapshot, k: int, how: AnnieMmr, trace: Trace) -> tuple[Pool, list[dict[str, Any]]]:
    """The k items to show in the order of choice, and what is shown of each; the only place that reads text."""
    best = pool.take(np.arange(min(how.pool, len(pool))))
    entries = snap.text(best.row)
    alike = jaccard([str(entry["text"]) for entry in entries])
    chosen = mmr(best.final, alike, how.lambda_, k)
    if trace.on:
        left = np.setdiff1d(np.arange(len(best)), chosen)
        nearest = alike[np.ix_(left, chosen)].max(axis=1, initial=0)
        trace.drop(
            "mmr", best.row[left], [f"not chosen; {x:.2f} of its words are those of one that was" for x in nearest]
        )
        trace.drop("mmr", pool.row[len(best) :], f"behind the best {how.pool}, which alone are chosen among")
    return best.take(chosen), [entries[i] for i in chosen.tolist()]


def _statements(pool: Pool, stated: Mapping[int, int], snap: Snapshot) -> list[str]:
    """The fact of each row as a sentence; empty where none brought it, or its segment keeps no sentences."""
    facts = [stated.get(row, -1) for row in pool.row.tolist()]
    known = [fact for fact in facts if fact >= 0 and snap.facts.field.indexed[fact]]
    sentences = {
        fact: str(entry["text"])
        for fact, entry in zip(known, snap.facts.field.text(np.array(known, np.int64)) if known else [], strict=True)
    }
    return [sentences.get(fact, "") for fact in facts]


def _bullets(
    pool: Pool, entries: Sequence[Mapping[str, Any]], statements: Sequence[str], snap: Snapshot, most: int
) -> list[str]:
    """What a text list found in the words of who said it; what only a fact brought as that fact."""
    texts = [~np.isnan(ranks) for name, ranks in pool.ranks.items() if name != "facts"]
    found = np.any(texts, axis=0).tolist()
    roles = [ROLES[role].capitalize() for role in snap.columns.role[pool.row].tolist()]
    return [
        bullet("" if in_text else statement, entry["speaker"] or role, entry["text"], most)
        for entry, statement, role, in_text in zip(entries, statements, roles, found, strict=True)
    ]
