"""Real vectors for a part of the synthetic items, which questions are made of.

Questions are embedded for real, so the other vectors have to lie where an encoder would put their texts: where there is
enough to learn from, they are drawn from a space that is learnt of it (`pipelines.bench.synthetic.learnt`).
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
from pipelines.bench import synthetic
from pipelines.ingest.items import index_text

LEAST: Final = 2_000
MOST: Final = 16_000
SHARE: Final = 0.02
"""Real vectors of a store: a share of its items, at least LEAST where it has so many, at most MOST."""

FILE: Final = "real.parquet"
"""Beside the marker of a synthetic store: the items that have real vectors, with what questions are made of."""

_KEPT: Final = ("id", "session", "speaker", "text", "type", "project", "time", "acl")
_NAMED: Final = pa.list_(pa.struct([("kind", pa.string()), ("name", pa.string())]))

Embed = Callable[[list[str]], F32]


def wanted(items: int) -> int:
    """How many items of a store get real vectors."""
    return min(items, max(LEAST, min(MOST, round(SHARE * items))))


def with_real(batches: Iterable[Rows], items: int, real: int, embed: Embed) -> Iterator[tuple[Rows, pa.Table]]:
    """The same batches, some of whose sessions have real vectors; and the items of those sessions.

    They are spread evenly.

    Args:
        items: of all batches together.
        real: items that get real vectors, about: no session has them in part.
        embed: texts → float32[n, DIM], unit length.
    """
    begun = given = 0
    for number, rows in enumerate(batches):
        begun += len(rows)
        due = round(real * begun / items) - given
        rng = np.random.default_rng([synthetic.VERSION, number])
        chosen = sessions(rows.items["session"].to_pylist(), max(due, 0), rng)
        given += len(chosen)
        vectors = rows.codes * rows.scale[:, None]
        if len(chosen):
            vectors[chosen] = embed(texts(rows.items.take(pa.array(chosen))))
        codes, scale = quantise(vectors)
        yield replace(rows, codes=codes, scale=scale), described(rows, chosen)


def sessions(names: list[str], n: int, rng: np.random.Generator) -> I64:
    """Rows of whole sessions drawn by chance, ascending, at most n; of one session at least, where n is not 0."""
    found, of, sizes = np.unique(np.array(names, object), return_inverse=True, return_counts=True)
    taken: list[int] = []
    left = n
    for session in rng.permutation(len(found)).tolist():
        if sizes[session] <= left:
            taken.append(session)
            left -= int(sizes[session])
    if n and not taken:
        taken = [int(np.argmin(sizes))]
    return np.flatnonzero(np.isin(of, taken))


def texts(items: pa.Table) -> list[str]:
    """What items are indexed by."""
    columns = (items[name].to_pylist() for name in ("origin", "speaker", "title", "text"))
    return [index_text(*row) for row in zip(*columns, strict=True)]


def described(rows: Rows, chosen: I64) -> pa.Table:
    """What questions are made of: the chosen items' columns, and `named`, the entities they name."""
    kinds, names = (rows.entities[column].to_pylist() for column in ("kind", "name"))
    known = dict(zip(rows.entities["hash"].to_pylist(), zip(kinds, names, strict=True), strict=True))
    named = [
        [
            {"kind": known[number][0], "name": known[number][1]}
            for number in rows.mention_entity[rows.mention_indptr[row] : rows.mention_indptr[row + 1]].tolist()
        ]
        for row in chosen.tolist()
    ]
    return rows.items.take(pa.array(chosen)).select(_KEPT).append_column("named", pa.array(named, _NAMED))
