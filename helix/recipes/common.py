"""Steps that all recipes share: the question's vector and plan, rerank scores, items, and the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from helix.encoders.rerank import LateEncoder, reuse_encoder
from helix.errors import EncoderError, EngineError
from helix.native.vectors import score_tokens
from helix.question.terms import list_terms
from helix.ranking.bm25 import compute_idf
from helix.ranking.membership import is_one_of
from helix.stages.dense import search_dense
from helix.stages.embed import start_embedding
from helix.stages.features.relevance import LISTED, QuestionSigns, read_signs
from helix.stages.relevance import LEAST_ANSWERED, estimate_relevance, find_least, select_relevant
from helix.stages.replaced import explain_superseded
from helix.stages.rerank import maxsims
from helix.stages.route import explain_filter, route, scope
from helix.stages.trace import Spent, Trace, list_signals, measure
from helix.text.tokenize import hash_terms
from helix.types import F32, TYPES, AnyArray, Bundle, Item, Leg, Plan, Pool, Query
from helix.work.voices import list_voices

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder
    from helix.encoders.rerank import Rerankers
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import Profile


def begin(
    query: Query,
    snap: Snapshot,
    trace: Trace,
    embedding: Callable[[], F32 | None] | None = None,
    within: Callable[[], tuple[Plan, Spent]] | None = None,
) -> tuple[F32 | None, Plan]:
    """Run stages 1 and 2; return the question's vector, None without an encoder, and the plan.

    Args:
        embedding: of `begin_embedding`; None: of the question.
        within: waits for the question's `scope` and its time, if already started.
    """
    vector = (embedding or begin_embedding(query.text, snap, trace))()
    searchable, spent = within() if within else measure(scope, query, snap)
    trace.add_time("route", spent)
    plan = trace.run("route", route, query, vector, snap, searchable)
    if trace.on:
        trace.outside = lambda row: explain_filter(query, snap, row)
        trace.explain_superseded = lambda rows: explain_superseded(rows, snap, query.moment)
        trace.skipped = f"skipped as a question that needs no memory (score {plan.skip_score:.2f})" if plan.skip else ""
        scores = {} if plan.type_scores is None else dict(zip(TYPES, plan.type_scores.tolist(), strict=True))
        state = {"skip": plan.skip, "skip_score": plan.skip_score, "type_scores": scores}
        trace.note("route", rows_in=snap.live, rows_out=plan.allowed_rows, **state)
    return vector, plan


def begin_embedding(text: str, snap: Snapshot, trace: Trace) -> Callable[[], F32 | None]:
    """Begin to embed a question; return a function that ends it.

    Without an encoder its result is None: the lexical leg answers alone, and `degraded` says so.
    """
    if not snap.rows:
        return lambda: None
    try:
        return partial(_end_embedding, trace.run("embed", start_embedding, text, snap.encoder), trace)
    except EncoderError as error:
        trace.degraded.append(f"dense: {error.what}")
        return lambda: None


def _end_embedding(embed: Callable[[], F32], trace: Trace) -> F32 | None:
    try:
        return trace.run("embed", embed)
    except EncoderError as error:
        trace.degraded.append(f"dense: {error.what}")
        return None


def search_vectors(vector: F32, snap: Snapshot, plan: Plan, k: int, trace: Trace) -> Leg:
    """Search the dense leg; where an engine cannot be used it is empty, and `degraded` says so.

    `degraded` also says when the engine's export is of another generation: what is new since then is found by its
    words only.
    """
    reason, leg = "", Leg("dense", np.empty(0, np.uint32), np.empty(0, np.float32))
    try:
        reason = snap.files.find_gap()
        leg = search_dense(vector, snap, plan, k)
    except EngineError as error:
        reason = error.what
    if reason and f"dense: {reason}" not in trace.degraded:
        trace.degraded.append(f"dense: {reason}")
    return leg


def report_no_cross(query: Query, trace: Trace) -> None:
    """Say that a cross-encoder was asked for by a recipe that has only the one that is named."""
    if query.rerank == "cross":
        trace.degraded.append("rerank: this recipe has no cross-encoder unless HELIX_CROSS_ENCODER names one")


class RerankScores(NamedTuple):
    """The scores of a reranker, and how it got them."""

    scores: F32  # float32[n]; empty if it cannot be used
    how: Mapping[str, Any] = {}  # for the trace


def score_rows(query: Query, rows: AnyArray, snap: Snapshot, models: Rerankers, trace: Trace) -> RerankScores:
    """Score rows by the question's reranker.

    Late interaction uses the lineage's own token vectors unless another encoder is set.
    """
    try:
        if query.rerank == "late":
            return _score_tokens(query.text, rows, snap, models.late or _make_token_encoder(snap.encoder))
        if models.cross:
            return RerankScores(models.cross.score(query.text, _read_texts(rows, snap)))
    except EncoderError as error:
        trace.degraded.append(f"rerank: {error.what}")
    return RerankScores(np.empty(0, np.float32))


def _score_tokens(text: str, rows: AnyArray, snap: Snapshot, late: LateEncoder) -> RerankScores:
    """Score by MaxSim: rows with kept token vectors of this encoder by a look-up, all others by running it."""
    kept, how = snap.tokens, dict[str, Any]()
    if kept and (kept.fingerprint, kept.dim) != (late.fingerprint, late.dim):
        how["unused"] = (
            f"the kept token vectors are of {kept.model} ({kept.fingerprint}), "
            f"the reranker is {late.name} ({late.fingerprint})"
        )
        kept = None
    query, scores = late.query(text), np.empty(len(rows), np.float32)
    encoded = np.ones(len(rows), bool)
    if kept:
        position, indptr, codes, scale = kept.gather(rows)
        scores[position] = score_tokens(codes, scale, indptr, query)
        encoded[position] = False
    left = np.flatnonzero(encoded)
    if len(left):
        scores[left] = maxsims(query, late.passages(_read_texts(rows[left], snap)))
    return RerankScores(scores, {"kept": len(rows) - len(left), "encoded": len(left), **how})


def _read_texts(rows: AnyArray, snap: Snapshot) -> list[str]:
    return [str(entry["text"]) for entry in snap.text(rows)]


@lru_cache(maxsize=2)
def _make_token_encoder(encoder: Encoder) -> LateEncoder:
    """Make the token encoder once: finding its special tokens takes a run."""
    return reuse_encoder(encoder)


def ids(rows: AnyArray, snap: Snapshot) -> list[str]:
    """Return the item ids of rows."""
    return [f"{key:016x}" for key in snap.columns.key[rows].tolist()]


class JudgedRows(NamedTuple):
    """Rows with their relevance, and which of them may enter the context."""

    relevance: F32  # float32[n]
    answered: float
    kept: list[int]  # positions of the relevant rows, ascending; none where the answer does not help


def judge(
    rows: AnyArray,
    others: AnyArray,
    query: Query,
    vector: F32 | None,
    snap: Snapshot,
    plan: Plan,
    trace: Trace,
    signs: Callable[[], QuestionSigns] | None = None,
) -> JudgedRows:
    """Estimate the relevance of an answer's rows, and choose those that may enter the context.

    Args:
        rows: integer[n], best first.
        others: best rows of the pool, which are compared with them; may include them.
        signs: waits for those of the question, if already started.
    """
    rest = others[: len(rows) + LISTED]
    rest = rest[~is_one_of(rest, rows)][: max(0, LISTED - len(rows))]
    every = np.concatenate([rows, rest])
    read = signs() if signs else trace.run("relevance", read_signs, query, snap)
    found = trace.run("relevance", estimate_relevance, every, read, query, vector, snap, plan)
    relevance, answered = found.items[: len(rows)], round(found.answered, 4)  # as it is shown
    kept = select_relevant(relevance, answered, query.min_relevance)
    if trace.on:
        least = LEAST_ANSWERED if not kept and query.min_relevance is None else find_least(query.min_relevance)
        what = f"nothing is relevant: answered {answered:.3f}" if answered < LEAST_ANSWERED else ""
        why = [what or f"its relevance is {x:.3f}, and {least:g} is wanted" for x in relevance.tolist()]
        left = np.setdiff1d(np.arange(len(rows)), kept)
        trace.drop("relevance", rows[left], [why[i] for i in left.tolist()])
        trace.note("relevance", rows_in=len(rows), rows_out=len(kept), answered=answered)
    return JudgedRows(relevance, answered, kept)


Packed = tuple[str, int, list[int]]
"""A context, its tokens, and the positions of its entries in their order."""


def pack_kept(
    judged: JudgedRows, pack: Callable[..., Packed], entries: Sequence[Mapping[str, Any]], *more: Any
) -> Packed:
    """Pack the relevant of some entries; positions are those of all entries.

    Args:
        pack: packs entries, with `more` as further arguments.
    """
    context, tokens, placed = pack([entries[i] for i in judged.kept], *more)
    return context, tokens, [judged.kept[i] for i in placed]


def items_of(
    pool: Pool,
    entries: Sequence[Mapping[str, Any]],
    snap: Snapshot,
    more: Sequence[Mapping[str, Any]] = (),
    relevance: Sequence[float] | F32 = (),
) -> list[Item]:
    """Return the items of a pool, in its order.

    Args:
        entries: `snap.text(pool.row)`, with `replaced` (see `add_replacements`).
        more: additions to each item's `why`.
        relevance: of each item; empty: 0 for all.
    """
    added = more or [{}] * len(entries)
    scores, types = pool.final.tolist(), snap.columns.type[pool.row].tolist()
    return [
        make_item(entry, score, TYPES[kind], {**signals, **extra}, voice, float(relevant))
        for entry, voice, score, kind, signals, extra, relevant in zip(
            entries,
            list_voices(snap, pool.row, entries),
            scores,
            types,
            list_signals(pool),
            added,
            relevance if len(relevance) else [0.0] * len(scores),
            strict=True,
        )
    ]


def make_item(
    entry: Mapping[str, Any], score: float, type_: str, why: Mapping[str, Any], voice: str, relevance: float = 0.0
) -> Item:
    """Make one item as every surface shows it.

    Args:
        entry: of `snap.text`, with `replaced`; the parts of its salience and its confirmations go into `why`.
        voice: who said it; see `helix.work.voices`.
    """
    parts = {sign: round(weight, 4) for sign, weight in entry["salience_parts"] or ()}
    return Item(
        id=entry["id"],
        score=round(score, 6),
        type=type_,
        text=entry["text"],
        session=entry["session"],
        turns=tuple(entry["turns"]),
        speaker=entry["speaker"],
        time=format_time(entry["time"]),
        project=entry["project"],
        source=entry["path"],
        why={**why, "salience_parts": parts, "vouched": entry["vouched"]},
        time_quality=entry["time_quality"],
        replaced_by=describe_replacement(entry["replaced"]),
        relevance=round(relevance, 4),
        title=entry["title"],
        role=entry["role"],
        voice=voice,
    )


def describe_replacement(later: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an item's `replaced_by` from the `replaced` of its entry: id, time and text; None for none.

    The time of an undated successor is None: that of its file says nothing of when it replaced the item.
    """
    if not later:
        return None
    said = None if later["time_quality"] == "file" else later["time"]
    return {"id": later["id"], "time": format_time(said), "text": later["text"]}


def format_time(time: datetime | None) -> str | None:
    """Format a time: ISO 8601, UTC."""
    return time.replace(tzinfo=None).isoformat() + "Z" if time else None


def bundle(
    query: Query,
    snap: Snapshot,
    profile: Profile,
    trace: Trace,
    items: Sequence[Item] = (),
    context: str = "",
    tokens: int = 0,
    placed: Sequence[int] = (),
    *,
    answered: float = 0.0,
    beyond: Sequence[Item] = (),
    coverage: Mapping[str, Any] | None = None,
    skipped: bool = False,
) -> Bundle:
    """Make the answer.

    Args:
        items: ranked, best first, at most k.
        context: the packed text, of `tokens` tokens.
        placed: positions of the packed ones in `items` followed by `beyond`, in the context's order.
        answered: probability that any item helps.
        beyond: items after the k best that the context holds.
        coverage: how much a question of many turns bears on.
    """
    trace.note("pack", rows_in=len(items), rows_out=len(placed), tokens=tokens, budget=query.budget)
    trace.total()
    every = (*items, *beyond)
    return Bundle(
        snapshot=snap.generation,
        profile=profile.name,
        skipped=skipped,
        degraded=tuple(trace.degraded),
        items=tuple(items),
        packed=tuple(every[i] for i in placed),
        context=context,
        tokens=tokens,
        budget=query.budget,
        counter=snap.counter.name,
        ms=trace.ms,
        trace=trace.report(lambda rows: ids(rows, snap)),
        answered=answered,
        beyond=tuple(every[i] for i in sorted(placed) if i >= len(items)),
        coverage=coverage,
    )


def weigh_terms(query: Query, snap: Snapshot) -> dict[str, float]:
    """Return the idf of each of the question's search terms, by term."""
    own, others = list_terms(query.text, query.language, query.stored)
    words, wanted = sorted({*own, *others}), set(query.terms.tolist())
    terms = {term: key for term, key in zip(words, hash_terms(words), strict=True) if int(key) in wanted}
    weights = compute_idf(np.array([snap.lexical.df(key) for key in terms.values()], np.int64), snap.live).tolist()
    return dict(zip(terms, weights, strict=True))
