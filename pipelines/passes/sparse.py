"""The second pass of ingest that weighs: a sparse encoder gives every item its weights, as impact postings.

The query side goes into the store with the first of them, so a query node needs nothing else. A store has the weights
of one model: those of another say nothing beside them, and go with the first generation that has the new ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from helix.encoders import sparse
from helix.encoders.sparse import DocumentEncoder
from helix.encoders.sparse_export import cached
from helix.settings import Settings
from helix.snapshot import writer
from helix.snapshot.index.sparse import ENCODER, KIND, write_impacts
from helix.snapshot.manifest import Index, Manifest, Segment
from helix.snapshot.segment.open import open_segment
from helix.types import I64, U32, Sparse
from pipelines.passes import base as passes
from pipelines.passes.base import SPARSE, Indexes, Kind, Made, Say, Worked, text_of

BATCH = 256  # items handed to the model at once: it sorts them by length


def document_encoder(settings: Settings) -> DocumentEncoder | str:
    """The model, ready; or why there is none.

    Raises:
        EncoderError: it is of no kind that Helix knows, the export failed, or what was kept is damaged.
    """
    found = sparse.in_reach(settings)
    return found if isinstance(found, str) else DocumentEncoder(cached(found, Path(settings.cache)), settings.threads)


def encode(
    root: Path, model: DocumentEncoder, settings: Settings, *, limit: int | None = None, say: Say | None = None
) -> Worked:
    """Give weights to items that have none of this model, at most `limit` of them.

    Raises:
        StoreError: the store is damaged or cannot be written.
    """

    def make(manifest: Manifest, segment: Segment, todo: I64) -> Made:
        rows, found = _weigh(root, segment, todo, model)

        def write(folder: Path, chosen: I64, ids: list[str]) -> None:
            kept = [found[i] for i in chosen.tolist()]
            indptr = np.cumsum([0, *(len(one.terms) for one in kept)], dtype=np.int64)
            terms = np.concatenate([np.empty(0, np.uint32), *(one.terms for one in kept)]).astype(np.uint32)
            weights = np.concatenate([np.empty(0, np.float32), *(one.weights for one in kept)]).astype(np.float32)
            write_impacts(folder, rows[chosen], indptr, terms, weights)

        return Made(rows, write)

    params = {"model": model.spec.name, "fingerprint": model.identity}
    return passes.work(
        root,
        _by(model.identity),
        make,
        params,
        settings,
        base=lambda indexes: _with_encoder(root, indexes, model),
        limit=limit,
        say=say,
    )


def waiting_in(root: Path, settings: Settings) -> int:
    """Live items that have no weights of the model the settings name; 0 where there is none.

    Raises:
        EncoderError: its weights cannot be read.
    """
    found = sparse.in_reach(settings)
    if isinstance(found, str):
        return 0
    return passes.waiting(root, _by(sparse.identity(sparse.source_sha256(found.folder))))


def _by(identity: str) -> Kind:
    """The indexes of one model, whether or not its query side is the one that is there."""
    return SPARSE._replace(own=lambda indexes: [index for index in indexes if _is_of(index, KIND, identity)])


def _is_of(index: Index, kind: str, identity: str) -> bool:
    return index.kind == kind and index.params["fingerprint"] == identity


def _with_encoder(root: Path, indexes: Indexes, model: DocumentEncoder) -> Sequence[Index]:
    """Without what other models made, and with the query side of this one."""
    kept = [
        index for index in indexes if index.kind not in (KIND, ENCODER) or _is_of(index, index.kind, model.identity)
    ]
    if any(index.kind == ENCODER for index in kept):
        return kept
    names = (*sparse.QUERY_FILES[model.spec.kind], sparse.SPEC)
    files = {name: (model.folder / name).read_bytes() for name in names}
    params = {"model": model.spec.name, "fingerprint": model.identity, "licence": model.spec.licence}
    return [*kept, writer.write_index(root, ENCODER, files, params)]


def _weigh(root: Path, segment: Segment, rows: I64, model: DocumentEncoder) -> tuple[U32, list[Sparse]]:
    """As many of the rows as half a minute is enough for, and the weights of each."""
    opened = open_segment(root, segment, ())
    began = time.monotonic()
    found: list[Sparse] = []
    for start in range(0, len(rows), BATCH):
        found += model.encode([text_of(entry) for entry in opened.texts(rows[start : start + BATCH])])
        if time.monotonic() - began > passes.PUBLISH:
            break
    return rows[: len(found)].astype(np.uint32), found
