"""The second pass of ingest that asks: a model writes questions for items that are recallable already (doc2query)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helix.encoders import seq2seq
from helix.encoders.dense import Encoder
from helix.encoders.sparse import in_reach
from helix.enrich.doc2query import Generator, keep_near
from helix.errors import EncoderError
from helix.settings import Settings
from helix.snapshot.index.doc2query import write_queries
from helix.snapshot.manifest import Manifest, Segment
from helix.snapshot.segment.open import open_segment
from helix.types import I64, U32
from pipelines.passes import base as passes
from pipelines.passes import sparse as impacts
from pipelines.passes.base import DOC2QUERY, Made, Say, text_of

BATCH = 64  # items handed to the model at once: it sorts them by length


@dataclass(frozen=True, slots=True)
class Expanded:
    """What a run did. `off` says why there was nothing it could do."""

    generation: int
    items: int
    queries: int
    waiting: int
    off: str = ""


def generator(settings: Settings) -> Generator | str:
    """The model, ready; or why there is none."""
    found = seq2seq.find(settings.doc2query, settings)
    if isinstance(found, str):
        return found
    return Generator(seq2seq.cached(found, Path(settings.cache)), settings.threads, settings.doc2query_queries)


def expand(
    root: Path,
    model: Generator,
    encoder: Encoder,
    settings: Settings,
    *,
    limit: int | None = None,
    say: Say | None = None,
) -> Expanded:
    """Ask the model about items it was not asked about, at most `limit` of them.

    Raises:
        EncoderError: the encoder is not the one the store was built with.
        StoreError: the store is damaged or cannot be written.
    """

    def make(manifest: Manifest, segment: Segment, todo: I64) -> Made:
        if manifest.lineage.encoder != encoder.spec.fingerprint:
            raise EncoderError(
                f"{root} was built with {manifest.lineage.name}, the questions are compared by {encoder.spec.name}",
                "run the command again: the store was reindexed meanwhile",
            )
        rows, asked = _ask(root, segment, todo, model, encoder, settings)

        def write(folder: Path, chosen: I64, ids: list[str]) -> None:
            write_queries(folder, rows[chosen], ids, [asked[i] for i in chosen.tolist()])

        return Made(rows, write, lambda chosen: sum(len(asked[i]) for i in chosen.tolist()))

    params = {"model": model.name, "fingerprint": model.fingerprint}
    done = passes.work(root, DOC2QUERY, make, params, settings, limit=limit, say=say)
    return Expanded(done.generation, done.items, done.made, done.waiting)


def waiting_in(root: Path) -> int:
    """Live items of the current generation that no model was asked about."""
    return passes.waiting(root, DOC2QUERY)


def is_wanted(settings: Settings) -> bool:
    """Whether a model of either second pass is in reach."""
    return not (isinstance(seq2seq.find(settings.doc2query, settings), str) and isinstance(in_reach(settings), str))


def anything_waits(root: Path, settings: Settings) -> bool:
    """Whether there is an item that a model in reach has yet to come to.

    Raises:
        EncoderError: the weights of a model cannot be read.
    """
    asks = not isinstance(seq2seq.find(settings.doc2query, settings), str)
    return (asks and waiting_in(root) > 0) or impacts.waiting_in(root, settings) > 0


def _ask(
    root: Path, segment: Segment, rows: I64, model: Generator, encoder: Encoder, settings: Settings
) -> tuple[U32, list[list[str]]]:
    """As many of the rows as half a minute is enough for, and the questions of each."""
    opened = open_segment(root, segment, ("vectors.i8", "vectors.scale"), dim=encoder.dim)
    began = time.monotonic()
    asked: list[list[str]] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        texts = [text_of(entry) for entry in opened.texts(part)]
        vectors = opened["vectors.i8"][part] * opened["vectors.scale"][part, None]
        asked += keep_near(model.queries(texts), vectors, encoder.queries, settings.doc2query_near)
        if time.monotonic() - began > passes.PUBLISH:
            break
    return rows[: len(asked)].astype(np.uint32), asked
