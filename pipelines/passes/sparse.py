"""The learned-sparse pass: a sparse encoder gives every item its weights, stored as postings.

The first index brings the query side into the store, so that a query node needs nothing else. A store has the weights
of one model; those of another model go with the first generation that has the new ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from helix.encoders import sparse
from helix.encoders.sparse import DocumentEncoder
from helix.encoders.sparse_export import cache_sparse_encoder
from helix.settings import Settings
from helix.snapshot import writer
from helix.snapshot.index.sparse import ENCODER, KIND, write_sparse
from helix.snapshot.manifest import Index, Manifest, Segment
from helix.snapshot.segment.open import open_segment
from helix.types import I64, U32, Sparse
from pipelines.passes import run as passes
from pipelines.passes.run import SPARSE, Indexes, PassKind, PassOutput, PassResult, Say, read_text

BATCH = 256  # items of one call of the model, which sorts them by length


def open_document_encoder(settings: Settings) -> DocumentEncoder | str:
    """Open the sparse encoder's document side, or tell why it is not available.

    Raises:
        EncoderError: Helix does not know its kind, the export failed, or the cached export is damaged.
    """
    found = sparse.find_configured(settings)
    return (
        found
        if isinstance(found, str)
        else DocumentEncoder(cache_sparse_encoder(found, Path(settings.cache)), settings.threads)
    )


def encode(
    root: Path, model: DocumentEncoder, settings: Settings, *, limit: int | None = None, say: Say | None = None
) -> PassResult:
    """Give items their weights of this model, at most `limit` of those that lack them.

    Raises:
        StoreError: the store is damaged or cannot be written.
    """

    def make(manifest: Manifest, segment: Segment, todo: I64) -> PassOutput:
        rows, weights = _weigh(root, segment, todo, model)

        def write(folder: Path, chosen: I64, ids: list[str]) -> None:
            own = [weights[i] for i in chosen.tolist()]
            indptr = np.cumsum([0, *(len(one.terms) for one in own)], dtype=np.int64)
            terms = np.concatenate([np.empty(0, np.uint32), *(one.terms for one in own)]).astype(np.uint32)
            values = np.concatenate([np.empty(0, np.float32), *(one.weights for one in own)]).astype(np.float32)
            write_sparse(folder, rows[chosen], indptr, terms, values)

        return PassOutput(rows, write)

    params = {"model": model.spec.name, "fingerprint": model.identity}
    return passes.run_pass(
        root,
        _restrict(model.identity),
        make,
        params,
        settings,
        base=lambda indexes: _set_encoder(root, indexes, model),
        limit=limit,
        say=say,
    )


def count_waiting(root: Path, settings: Settings) -> int:
    """Count the live items without weights of the configured model; 0 without a model.

    Raises:
        EncoderError: its weights cannot be read.
    """
    found = sparse.find_configured(settings)
    if isinstance(found, str):
        return 0
    return passes.count_waiting(root, _restrict(sparse.identify_weights(sparse.digest_weights(found.folder))))


def _restrict(identity: str) -> PassKind:
    """Return the kind with the indexes of one model, whether or not the store has its query side."""
    return SPARSE._replace(own=lambda indexes: [index for index in indexes if _is_of(index, KIND, identity)])


def _is_of(index: Index, kind: str, identity: str) -> bool:
    return index.kind == kind and index.params["fingerprint"] == identity


def _set_encoder(root: Path, indexes: Indexes, model: DocumentEncoder) -> Sequence[Index]:
    """Return the indexes without those of other models, with the query side of this one."""
    own = [index for index in indexes if index.kind not in (KIND, ENCODER) or _is_of(index, index.kind, model.identity)]
    if any(index.kind == ENCODER for index in own):
        return own
    names = (*sparse.QUERY_FILES[model.spec.kind], sparse.SPEC)
    files = {name: (model.folder / name).read_bytes() for name in names}
    params = {"model": model.spec.name, "fingerprint": model.identity, "licence": model.spec.licence}
    return [*own, writer.write_index(root, ENCODER, files, params)]


def _weigh(root: Path, segment: Segment, rows: I64, model: DocumentEncoder) -> tuple[U32, list[Sparse]]:
    """Return as many of the rows as fit half a minute, and the weights of each."""
    opened = open_segment(root, segment, ())
    began = time.monotonic()
    found: list[Sparse] = []
    for start in range(0, len(rows), BATCH):
        found += model.encode([read_text(entry) for entry in opened.texts(rows[start : start + BATCH])])
        if time.monotonic() - began > passes.PUBLISH:
            break
    return rows[: len(found)].astype(np.uint32), found
