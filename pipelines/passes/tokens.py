"""The pass of token vectors: every item keeps those that late interaction would compute for each question.

A store has the vectors of one encoder; those of another one go with the first generation that has the new ones.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from helix.encoders.rerank import (
    LateEncoder,
    TokenModel,
    find_exported,
    find_token_model,
    open_late,
    reuse_encoder,
)
from helix.errors import EncoderError
from helix.settings import Settings
from helix.snapshot.index.tokens import KIND, write_tokens
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Manifest, Segment
from helix.snapshot.segment.arrays import flatten_rows, quantise_vectors
from helix.snapshot.segment.open import open_segment
from helix.types import F32, I8, I64, U32
from pipelines.ingest.lineage import open_lineage
from pipelines.passes import run as passes
from pipelines.passes.run import TOKENS, PassKind, PassOutput, PassResult, Say

BATCH = 128  # items of one call of the encoder, which sorts them by length


def open_token_encoder(root: Path, settings: Settings) -> LateEncoder | str:
    """Open the encoder that `--rerank late` uses, or tell why items keep no token vectors.

    Raises:
        EncoderError: it is not exported, damaged, or gives no token vectors.
    """
    _, manifest = inbox.load_current(root)
    if (found := _find_model(manifest, settings)) is None or manifest is None:
        return "the store has no items"
    if isinstance(found, str):
        return found
    if settings.late_encoder:
        return open_late(find_exported(settings.late_encoder, settings), settings.threads)
    return reuse_encoder(open_lineage(root, manifest.lineage, settings))


def keep_tokens(
    root: Path, encoder: LateEncoder, settings: Settings, *, limit: int | None = None, say: Say | None = None
) -> PassResult:
    """Keep the token vectors of items that have none of this encoder, at most `limit` of them.

    Raises:
        EncoderError: the encoder is the one of an earlier lineage.
        StoreError: the store is damaged or cannot be written.
    """

    def make(manifest: Manifest, segment: Segment, todo: I64) -> PassOutput:
        if not settings.late_encoder and manifest.lineage.encoder != encoder.fingerprint:
            raise EncoderError(
                f"{root} was built with {manifest.lineage.name}, the token vectors are of {encoder.name}",
                "run the command again: the store was reindexed meanwhile",
            )
        made = _embed_rows(root, segment, todo, encoder)

        def write(folder: Path, chosen: I64, ids: list[str]) -> None:
            indptr, flat = flatten_rows(made.indptr, chosen)
            write_tokens(folder, made.rows[chosen], indptr, made.codes[flat], made.scale[flat])

        return PassOutput(made.rows, write)

    return passes.run_pass(
        root,
        _restrict(encoder.fingerprint),
        make,
        {"model": encoder.name, "fingerprint": encoder.fingerprint, "dim": encoder.dim},
        settings,
        base=lambda indexes: [
            index for index in indexes if index.kind != KIND or index.params["fingerprint"] == encoder.fingerprint
        ],
        limit=limit,
        say=say,
    )


def count_waiting(root: Path, settings: Settings) -> int:
    """Count the live items without token vectors of the configured encoder; 0 where they are off."""
    _, manifest = inbox.load_current(root)
    found = _find_model(manifest, settings)
    return passes.count_waiting(root, _restrict(found.fingerprint)) if isinstance(found, TokenModel) else 0


def _find_model(manifest: Manifest | None, settings: Settings) -> TokenModel | str | None:
    if manifest is None:
        return None
    return find_token_model(settings, TokenModel(manifest.lineage.name, manifest.lineage.encoder))


def _restrict(fingerprint: str) -> PassKind:
    """Return the kind with the indexes of one encoder."""
    return TOKENS._replace(
        own=lambda indexes: [
            index for index in indexes if index.kind == KIND and index.params["fingerprint"] == fingerprint
        ]
    )


class _Embedded(NamedTuple):
    """The token vectors of some rows, as they are stored."""

    rows: U32  # uint32[q]
    indptr: I64  # int64[q + 1]
    codes: I8  # int8[t, d]
    scale: F32  # float32[t]


def _embed_rows(root: Path, segment: Segment, rows: I64, encoder: LateEncoder) -> _Embedded:
    """Return as many of the rows as fit half a minute, with the vectors of each one's text, as a recall embeds it."""
    opened = open_segment(root, segment, ())
    began = time.monotonic()
    counts: list[int] = []
    quantised: list[tuple[I8, F32]] = []
    for start in range(0, len(rows), BATCH):
        vectors = encoder.passages([entry["text"] for entry in opened.texts(rows[start : start + BATCH])])
        counts += [len(one) for one in vectors]
        quantised.append(quantise_vectors(np.concatenate(vectors)))
        if time.monotonic() - began > passes.PUBLISH:
            break
    codes, scale = (np.concatenate(parts) for parts in zip(*quantised, strict=True))
    return _Embedded(rows[: len(counts)].astype(np.uint32), np.cumsum([0, *counts], dtype=np.int64), codes, scale)
