"""Vectors of synthetic items, drawn from a space of topics: one of no model, or one that an encoder teaches.

Some items have real vectors. Questions get real vectors, so the other vectors have to be where an encoder would put
their texts. With enough real vectors they are drawn from the space of the encoder (`learn_space`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from helix.encoders.session import unit_rows
from helix.snapshot.segment.arrays import quantise_vectors
from helix.snapshot.segment.batch import RowBatch
from helix.types import F32, I64
from pipelines.bench.language import DIM, TOPICS, VERSION, write_texts
from pipelines.ingest.items import index_text

_LATENT: Final = 300
_SUBTOPICS: Final = 8  # of a topic
_COMMON, _CENTRE, _SUBCENTRE, _OWN_PART, _NOISE = 0.1, 0.4, 0.17, 0.27, 0.06  # shares of the squared length
_COPY_NOISE: Final = 0.1
_SUB_SHARE, _WIDTH = 0.25, 0.4  # of a learned space: the subtopics' share of a topic's variance; see Space
_TAUGHT: Final = 4  # texts a topic that teach its place


@dataclass(frozen=True, slots=True)
class Space:
    """The parts of a vector; later latent dimensions weigh less."""

    common: F32  # [d]
    centres: F32  # [topics, d]
    subcentres: F32  # [topics * subtopics, latent]
    spread: F32  # [latent] of an item's own part
    basis: F32  # [latent, d]
    noise: float  # length of the part that is equal in all dimensions
    width: float  # deviation of the logarithm of an item's distance to its subtopic


@lru_cache(maxsize=1)
def default_space() -> Space:
    """Return the space of no model, the same for every seed.

    Its shares bring four statistics close to those of all-MiniLM-L6-v2 on 16,000 passages of chats: the cosines of
    random pairs and of nearest neighbours, the spectrum, and the share of the nearest 100 that an inverted file finds
    with 1, 2, 4 … per cent of its lists.
    """
    rng = np.random.default_rng([VERSION, DIM])
    basis = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0].astype(np.float32)
    steep, flat = (np.arange(1, _LATENT + 1) ** -exponent for exponent in (0.5, 0.3))
    centres = unit_rows(rng.normal(size=(TOPICS, _LATENT)) * steep) @ basis[1 : _LATENT + 1]
    return Space(
        common=np.float32(_COMMON**0.5) * basis[0],
        centres=np.float32(_CENTRE**0.5) * centres,
        subcentres=np.float32(_SUBCENTRE**0.5) * unit_rows(rng.normal(size=(TOPICS * _SUBTOPICS, _LATENT)) * flat),
        spread=(_OWN_PART**0.5 * flat / np.linalg.norm(flat)).astype(np.float32),
        basis=basis[1 : _LATENT + 1],
        noise=_NOISE**0.5,
        width=0.6,
    )


def learn_space(embed: Callable[[list[str]], F32]) -> Space:
    """Learn the space of an encoder: the places of texts on each topic, and how texts on one topic differ.

    Share and width of the subtopics were set by the cosines of the 1st, 10th and 100th neighbour among real vectors. A
    question is then as close to the synthetic items of its topic as to real ones, which an index by neighbourhood
    depends on. `embed`: texts → float32[n, DIM], unit length.
    """
    rng = np.random.default_rng([VERSION, DIM, _TAUGHT])
    found = embed(write_texts(rng, np.repeat(np.arange(TOPICS), _TAUGHT))).reshape(TOPICS, _TAUGHT, DIM)
    means = found.mean(axis=1)
    apart = (found - means[:, None]).reshape(-1, DIM)
    width, axes = np.linalg.eigh(apart.T @ apart / (len(apart) - TOPICS))
    width, axes = np.maximum(width[::-1], 0), axes[:, ::-1]
    common = means.mean(axis=0)
    centres = means - common
    # A mean of few texts is off by a part of their spread; it shrinks to the mean of all (James & Stein 1961).
    between = float((centres**2).sum(axis=1).mean())
    centres *= max(0.0, 1 - float(width.sum()) / _TAUGHT / between)
    deviation = np.sqrt(width[:_LATENT])
    return Space(
        common=common,
        centres=centres,
        subcentres=(_SUB_SHARE**0.5 * deviation * rng.normal(size=(TOPICS * _SUBTOPICS, _LATENT))).astype(np.float32),
        spread=((1 - _SUB_SHARE) ** 0.5 / np.exp(_WIDTH**2) * deviation).astype(np.float32),
        basis=np.ascontiguousarray(axes[:, :_LATENT].T, np.float32),
        noise=float(np.sqrt(width[_LATENT:].sum())),
        width=_WIDTH,
    )


def draw_vectors(rng: np.random.Generator, topic: I64, copied: I64, mixed: Space) -> F32:
    """Draw float32[n, d], unit length: topics of power-law weight, subtopics within them, and an item's own part.

    Copies are close to their original.
    """
    n = len(topic)
    subtopic = topic * _SUBTOPICS + (_SUBTOPICS * rng.random(n) ** 1.5).astype(np.int64)
    width = np.exp(rng.normal(0, mixed.width, (n, 1))).astype(np.float32)  # some are close to their topic, some far
    own = rng.standard_normal((n, _LATENT), np.float32) * mixed.spread * width
    noise = rng.standard_normal((n, DIM), np.float32) / np.float32(DIM**0.5)
    out = mixed.common + mixed.centres[topic]
    out += (mixed.subcentres[subtopic] + own) @ mixed.basis
    out += np.float32(mixed.noise) * noise
    copy = np.flatnonzero(copied != np.arange(n))
    out[copy] = out[copied[copy]] + np.float32(_COPY_NOISE) * noise[copy]
    return unit_rows(out)


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


def mix_real(batches: Iterable[RowBatch], items: int, real: int, embed: Embed) -> Iterator[tuple[RowBatch, pa.Table]]:
    """Yield the batches with real vectors for some sessions, evenly spread, and the items of these sessions.

    About `real` of all `items` get a vector of `embed` (texts → float32[n, DIM], unit length), no session in part.
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
        codes, scale = quantise_vectors(vectors)
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


def describe_items(rows: RowBatch, chosen: I64) -> pa.Table:
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
