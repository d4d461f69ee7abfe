"""The recall pipeline, on one screen. Only this module composes the stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from helix.errors import EncoderError
from helix.explain import Trace
from helix.profiles import Profile
from helix.snapshot.reader import Snapshot
from helix.stages.dense import search_dense
from helix.stages.diversify import diversify
from helix.stages.embed import embed
from helix.stages.fuse import fuse
from helix.stages.graph import spread
from helix.stages.lexical import search_lexical
from helix.stages.pack import pack
from helix.stages.rank import rank
from helix.stages.route import route
from helix.types import F32, TYPES, Bundle, Candidates, Item, Leg, Query


def recall(query: Query, snap: Snapshot, profile: Profile, trace: Trace) -> Bundle:
    """Answer one question from one snapshot. Same snapshot, query, `now` and profile: same answer."""
    vector = trace.run("embed", _embed, query, snap, trace)
    plan = trace.run("route", route, query, vector, snap)
    if trace.on:
        proposed = {} if plan.type_scores is None else dict(zip(TYPES, plan.type_scores.tolist(), strict=True))
        state = {"skip": plan.skip, "skip_score": plan.skip_score, "type_scores": proposed}
        trace.note("route", rows_in=snap.rows, rows_out=plan.allowed_rows, **state)
    limits = {"dense": profile.retrieve.dense, "bm25": profile.retrieve.bm25}
    if snap.expansion:
        limits["doc2query"] = profile.retrieve.doc2query
    trace.keep(plan=plan, limits=limits)
    if plan.skip:
        return _bundle(query, snap, profile, trace, skipped=True)

    legs: list[Leg] = []
    if vector is not None:
        legs.append(trace.run("dense", search_dense, vector, snap, plan, profile.retrieve.dense))
    how = profile.retrieve
    legs.append(trace.run("lexical", search_lexical, query, snap, plan, how.bm25, how.k1, how.b))
    if how.doc2query and snap.expansion:
        legs.append(
            trace.run(
                "doc2query", search_lexical, query, snap.expansion, plan, how.doc2query, how.k1, how.b, "doc2query"
            )
        )
    pool = trace.run("fuse", fuse, legs, snap, profile.fuse.k, profile.fuse.weights)
    trace.note("fuse", rows_in={leg.name: len(leg.rows) for leg in legs}, rows_out=len(pool))
    before = len(pool)
    pool = trace.run("graph", spread, pool, query, snap, plan, profile.graph)
    trace.note("graph", rows_in=before, rows_out=len(pool))
    pool = trace.run("rank", rank, pool, query, vector, snap, plan, profile)
    chosen, near, far = trace.run("diversify", diversify, pool, snap, query.k, profile.diversify)
    trace.keep(pool=pool, near=near)
    if trace.on:
        dropped = {"near-duplicate": _ids(near, snap), "not among the k best": _ids(far, snap)}
        trace.note("diversify", rows_in=len(pool), rows_out=len(chosen), dropped=dropped)
    return _bundle(query, snap, profile, trace, chosen)


def _embed(query: Query, snap: Snapshot, trace: Trace) -> F32 | None:
    """The query's vector; without an encoder the lexical leg answers alone, and the response says so."""
    if not snap.rows:
        return None
    try:
        return embed(query, snap.encoder)
    except EncoderError as error:
        trace.degraded.append(f"dense: {error.what}")
        return None


def _bundle(
    query: Query,
    snap: Snapshot,
    profile: Profile,
    trace: Trace,
    pool: Candidates | None = None,
    *,
    skipped: bool = False,
) -> Bundle:
    """The answer in words: the only place that reads text."""
    entries = snap.text(pool.row) if pool is not None else []
    asked = snap.expansion.of(pool.row) if pool is not None and snap.expansion else [[]] * len(entries)
    items = [_item(pool, i, entry, snap, asked[i]) for i, entry in enumerate(entries)] if pool is not None else []
    context, tokens, placed = trace.run("pack", pack, entries, query.budget, snap.counter)
    trace.note("pack", rows_in=len(items), rows_out=len(placed), tokens=tokens, budget=query.budget)
    trace.total()
    return Bundle(
        snapshot=snap.generation,
        profile=profile.name,
        skipped=skipped,
        degraded=tuple(trace.degraded),
        items=tuple(items),
        packed=tuple(items[i] for i in placed),
        context=context,
        tokens=tokens,
        budget=query.budget,
        counter=snap.counter.name,
        ms=trace.ms,
        trace={"stages": trace.stages} if trace.on else None,
    )


def _item(pool: Candidates, i: int, entry: dict[str, Any], snap: Snapshot, asked: list[str]) -> Item:
    why: dict[str, Any] = {}
    for name in ("dense", "bm25", "doc2query"):
        place = float(getattr(pool, name)[i])
        why[name] = None if np.isnan(place) else int(place)
    for name in ("rrf", "sim", "recency", "salience", "confidence", "graph"):
        value = float(getattr(pool, name)[i])
        why[name] = None if np.isnan(value) else round(value, 6)
    # The signals are scaled to the pool; these say where two of them come from.
    why["salience_parts"] = {sign: round(weight, 4) for sign, weight in entry["salience_parts"] or ()}
    why["vouched"] = entry["vouched"]
    if why["doc2query"] is not None:
        why["queries"] = asked
    return Item(
        id=entry["id"],
        score=round(float(pool.final[i]), 6),
        type=TYPES[snap.columns.type[pool.row[i]]],
        text=entry["text"],
        session=entry["session"],
        turns=tuple(entry["turns"]),
        speaker=entry["speaker"],
        time=entry["time"].replace(tzinfo=None).isoformat() + "Z" if entry["time"] else None,
        project=entry["project"],
        source=entry["path"],
        why=why,
    )


def _ids(rows: Any, snap: Snapshot) -> list[str]:
    return [f"{key:016x}" for key in snap.columns.key[rows].tolist()]
