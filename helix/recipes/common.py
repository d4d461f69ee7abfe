"""What every recipe does the same way: the question's vector, items as they are shown, and the bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from helix.encoders.late import LateEncoder, reuse_encoder
from helix.errors import EncoderError
from helix.stages.embed import embed
from helix.stages.rerank import maxsims
from helix.stages.route import explain_filter, route, scope
from helix.stages.trace import Spent, Trace, kept_signals, timed
from helix.types import F32, TYPES, Bundle, Item, Plan, Pool, Query

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder
    from helix.encoders.rerank import Rerankers
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import Profile


def begin(
    query: Query,
    snap: Snapshot,
    trace: Trace,
    text: str | None = None,
    within: Callable[[], tuple[Plan, Spent]] | None = None,
) -> tuple[F32 | None, Plan]:
    """Stages 1 and 2: the question's vector (None where the encoder is missing; the answer says so) and the plan.

    Args:
        text: what is embedded; the question's own where not given.
        within: waits for the question's `scope` and the time it took, where that was begun already.
    """
    vector = trace.run("embed", _embed, query.text if text is None else text, snap, trace)
    searched, spent = within() if within else timed(scope, query, snap)
    trace.took("route", spent)
    plan = trace.run("route", route, query, vector, snap, searched)
    if trace.on:
        trace.outside = lambda row: explain_filter(query, snap, row)
        trace.skipped = f"skipped as a question that needs no memory (score {plan.skip_score:.2f})" if plan.skip else ""
        scores = {} if plan.type_scores is None else dict(zip(TYPES, plan.type_scores.tolist(), strict=True))
        state = {"skip": plan.skip, "skip_score": plan.skip_score, "type_scores": scores}
        trace.note("route", rows_in=snap.live, rows_out=plan.allowed_rows, **state)
    return vector, plan


def _embed(text: str, snap: Snapshot, trace: Trace) -> F32 | None:
    """The question's vector; without an encoder the lexical leg answers alone, and the response says so."""
    if not snap.rows:
        return None
    try:
        return embed(text, snap.encoder)
    except EncoderError as error:
        trace.degraded.append(f"dense: {error.what}")
        return None


def scored(query: Query, texts: Sequence[str], snap: Snapshot, models: Rerankers, trace: Trace) -> F32:
    """What the reranker the question asks for gives each text: float32[n]; nothing where it cannot be used.

    Late interaction goes by the lineage's own token vectors where no other encoder is set.
    """
    try:
        if query.rerank == "late":
            late = models.late or _own_tokens(snap.encoder)
            return maxsims(late.query(query.text), late.passages(texts))
        if models.cross:
            return models.cross.score(query.text, texts)
    except EncoderError as error:
        trace.degraded.append(f"rerank: {error.what}")
    return np.empty(0, np.float32)


@lru_cache(maxsize=2)
def _own_tokens(encoder: Encoder) -> LateEncoder:
    """Made once an encoder: it has to be run to know its special tokens."""
    return reuse_encoder(encoder)


def ids(rows: npt.NDArray[Any], snap: Snapshot) -> list[str]:
    """Item ids of rows."""
    return [f"{key:016x}" for key in snap.columns.key[rows].tolist()]


def items_of(
    pool: Pool, entries: Sequence[Mapping[str, Any]], snap: Snapshot, more: Sequence[Mapping[str, Any]] = ()
) -> list[Item]:
    """The items of a pool, in its order.

    Args:
        entries: `snap.text(pool.row)`.
        more: what goes into each one's `why` besides ranks and signals.
    """
    said = more or [{}] * len(entries)
    scores, types = pool.final.tolist(), snap.columns.type[pool.row].tolist()
    return [
        shown(entry, score, TYPES[kind], {**signals, **added})
        for entry, score, kind, signals, added in zip(entries, scores, types, kept_signals(pool), said, strict=True)
    ]


def shown(entry: Mapping[str, Any], score: float, type_: str, why: Mapping[str, Any]) -> Item:
    """One item as every surface shows it.

    Args:
        entry: of `snap.text`; what its salience is made of and who vouches for it go into `why`.
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
        time=moment(entry["time"]),
        project=entry["project"],
        source=entry["path"],
        why={**why, "salience_parts": parts, "vouched": entry["vouched"]},
    )


def moment(time: datetime | None) -> str | None:
    """ISO 8601, UTC."""
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
    skipped: bool = False,
) -> Bundle:
    """The answer.

    Args:
        items: ranked, best first, at most k.
        context: its tokens are `tokens`.
        placed: positions in `items` of those that are in the context, in its order.
    """
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
        trace=trace.report(lambda rows: ids(rows, snap)),
    )
