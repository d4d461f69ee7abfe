"""The doc2query pass: a model writes questions for items that are recallable already."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helix.encoders import seq2seq
from helix.encoders.dense import Encoder
from helix.encoders.seq2seq_export import cache_seq2seq
from helix.encoders.sparse import find_configured
from helix.enrich.doc2query import Generator, keep_near
from helix.errors import EncoderError
from helix.settings import Settings
from helix.snapshot.index.doc2query import write_queries
from helix.snapshot.manifest import Manifest, Segment
from helix.snapshot.segment.open import open_segment
from helix.types import I64, U32
from pipelines.passes import run as passes
from pipelines.passes import sparse, tokens
from pipelines.passes.run import DOC2QUERY, PassOutput, Say, read_text

BATCH = 64  # items of one call of the model, which sorts them by length


@dataclass(frozen=True, slots=True)
class Expanded:
    """The outcome of a run. `off` tells why it could do nothing."""

    generation: int
    items: int
    queries: int
    waiting: int
    off: str = ""


def open_generator(settings: Settings) -> Generator | str:
    """Open the question model, or tell why it is not available."""
    found = seq2seq.find_seq2seq(settings.doc2query, settings)
    if isinstance(found, str):
        return found
    return Generator(cache_seq2seq(found, Path(settings.cache)), settings.threads, settings.doc2query_queries)


def expand(
    root: Path,
    model: Generator,
    encoder: Encoder,
    settings: Settings,
    *,
    limit: int | None = None,
    say: Say | None = None,
) -> Expanded:
    """Write questions for items that have none, at most `limit` of them.

    Raises:
        EncoderError: the encoder is not the one the store was built with.
        StoreError: the store is damaged or cannot be written.
    """

    def make(manifest: Manifest, segment: Segment, todo: I64) -> PassOutput:
        if manifest.lineage.encoder != encoder.spec.fingerprint:
            raise EncoderError(
                f"{root} was built with {manifest.lineage.name}, the questions are compared by {encoder.spec.name}",
                "run the command again: the store was reindexed meanwhile",
            )
        rows, questions = _write_questions(root, segment, todo, model, encoder, settings)

        def write(folder: Path, chosen: I64, ids: list[str]) -> None:
            write_queries(folder, rows[chosen], ids, [questions[i] for i in chosen.tolist()])

        return PassOutput(rows, write, lambda chosen: sum(len(questions[i]) for i in chosen.tolist()))

    params = {"model": model.name, "fingerprint": model.fingerprint}
    done = passes.run_pass(root, DOC2QUERY, make, params, settings, limit=limit, say=say)
    return Expanded(done.generation, done.items, done.made, done.waiting)


def count_waiting(root: Path) -> int:
    """Count the live items of the current generation without questions."""
    return passes.count_waiting(root, DOC2QUERY)


def has_model(settings: Settings) -> bool:
    """Return whether a model of a second pass is available; that of token vectors is, where they are on."""
    return settings.token_vectors == "on" or not (
        isinstance(seq2seq.find_seq2seq(settings.doc2query, settings), str)
        and isinstance(find_configured(settings), str)
    )


def has_waiting(root: Path, settings: Settings) -> bool:
    """Return whether an available model has items left to index.

    Raises:
        EncoderError: the weights of a model cannot be read.
    """
    expands = not isinstance(seq2seq.find_seq2seq(settings.doc2query, settings), str)
    if expands and count_waiting(root) > 0:
        return True
    return sparse.count_waiting(root, settings) > 0 or tokens.count_waiting(root, settings) > 0


def _write_questions(
    root: Path, segment: Segment, rows: I64, model: Generator, encoder: Encoder, settings: Settings
) -> tuple[U32, list[list[str]]]:
    """Return as many of the rows as fit half a minute, and the questions of each."""
    opened = open_segment(root, segment, ("vectors.i8", "vectors.scale"), dim=encoder.dim)
    began = time.monotonic()
    questions: list[list[str]] = []
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        texts = [read_text(entry) for entry in opened.texts(part)]
        vectors = opened["vectors.i8"][part] * opened["vectors.scale"][part, None]
        questions += keep_near(model.write_questions(texts), vectors, encoder.queries, settings.doc2query_near)
        if time.monotonic() - began > passes.PUBLISH:
            break
    return rows[: len(questions)].astype(np.uint32), questions
