"""Real vectors for a part of the synthetic items, the source of questions.

Questions get real vectors, so the other vectors have to be where an encoder would put their texts. With enough real
vectors they are drawn from the space of the encoder (`pipelines.bench.space.learn_space`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from helix.snapshot.segment.arrays import quantise
from helix.snapshot.segment.batch import Rows
from helix.types import F32, I64
from pipelines.bench.language import VERSION
from pipelines.ingest.items import index_text

LEAST: Final = 2_000
MOST: Final = 16_000
SHARE: Final = 0.02
"""Share of items with real vectors, between LEAST (or all items) and MOST."""

FILE: Final = "real.parquet"
"""File of a synthetic store: the items with real vectors, and the columns for questions."""

_COLUMNS: Final = ("id", "session", "speaker", "text", "type", "project", "time", "acl")
_NAMED: Final = pa.list_(pa.struct([("kind", pa.string()), ("name", pa.string())]))

Embed = Callable[[list[str]], F32]


def count_real(items: int) -> int:
    """Return how many items of a store get real vectors."""
    return min(items, max(LEAST, min(MOST, round(SHARE * items))))


def mix_real(batches: Iterable[Rows], items: int, real: int, embed: Embed) -> Iterator[tuple[Rows, pa.Table]]:
    """Yield the batches with real vectors for some sessions, evenly spread, and the items of these sessions.

    Args:
        items: of all batches together.
        real: approximate number of real vectors: no session has them in part.
        embed: texts → float32[n, DIM], unit length.
    """
    begun = given = 0
    for number, rows in enumerate(batches):
        begun += len(rows)
        due = round(real * begun / items) - given
        rng = np.random.default_rng([VERSION, number])
        chosen = draw_sessions(rows.items["session"].to_pylist(), max(due, 0), rng)
        given += len(chosen)
        vectors = rows.codes * rows.scale[:, None]
        if len(chosen):
            vectors[chosen] = embed(index_texts(rows.items.take(pa.array(chosen))))
        codes, scale = quantise(vectors)
        yield replace(rows, codes=codes, scale=scale), describe_items(rows, chosen)


def draw_sessions(names: list[str], n: int, rng: np.random.Generator) -> I64:
    """Draw whole sessions; return their rows, ascending, at most n, but at least one session unless n is 0."""
    distinct, session_of, sizes = np.unique(np.array(names, object), return_inverse=True, return_counts=True)
    taken: list[int] = []
    left = n
    for session in rng.permutation(len(distinct)).tolist():
        if sizes[session] <= left:
            taken.append(session)
            left -= int(sizes[session])
    if n and not taken:
        taken = [int(np.argmin(sizes))]
    return np.flatnonzero(np.isin(session_of, taken))


def index_texts(items: pa.Table) -> list[str]:
    """Return the indexed text of items."""
    columns = (items[name].to_pylist() for name in ("origin", "speaker", "title", "text"))
    return [index_text(*row) for row in zip(*columns, strict=True)]


def describe_items(rows: Rows, chosen: I64) -> pa.Table:
    """Return the columns for questions of the chosen items, and `named`, the entities they mention."""
    kinds, names = (rows.entities[column].to_pylist() for column in ("kind", "name"))
    known = dict(zip(rows.entities["hash"].to_pylist(), zip(kinds, names, strict=True), strict=True))
    named = [
        [
            {"kind": known[number][0], "name": known[number][1]}
            for number in rows.mention_entity[rows.mention_indptr[row] : rows.mention_indptr[row + 1]].tolist()
        ]
        for row in chosen.tolist()
    ]
    return rows.items.take(pa.array(chosen)).select(_COLUMNS).append_column("named", pa.array(named, _NAMED))
