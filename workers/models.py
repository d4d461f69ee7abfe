"""The models of a pool process, loaded by the first task that needs them; its parent process needs none.

Stores of one encoder share it: its session takes some 100 MB, so a process holds one a fingerprint, not one a store.
"""

from __future__ import annotations

import copy
import logging
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from helix.encoders.dense import SPEC, Encoder, EncoderSpec
from helix.encoders.rerank import LateEncoder
from helix.encoders.sparse import DocumentEncoder
from helix.encoders.spec import read_spec
from helix.encoders.token_counter import TokenCounter
from helix.enrich.doc2query import Generator
from helix.errors import EncoderError
from helix.settings import load
from pipelines.ingest.lineage import locate_encoder, read_encoder_fingerprint
from pipelines.passes import doc2query, sparse, tokens

if TYPE_CHECKING:
    from helix.sdk.memory import Memory

log = logging.getLogger("helix.workers")

_encoders: Final[dict[str, tuple[Encoder, TokenCounter]]] = {}
"""The open encoders, by fingerprint."""


def open_encoder(root: Path) -> tuple[Encoder, TokenCounter]:
    """Return the store's encoder and its counter of tokens.

    Raises:
        EncoderError: it is not available, or damaged.
    """
    lineage = read_encoder_fingerprint(root)
    folder, fingerprint = _locate(root, lineage) if lineage else _locate_new(root)
    if fingerprint not in _encoders:
        encoder = Encoder(folder, load().threads, lineage)
        _encoders[fingerprint] = encoder, TokenCounter(encoder.folder, encoder.tokenizer)
    shared, counter = _encoders[fingerprint]
    encoder = copy.copy(shared)
    encoder.folder = folder  # this store's, since the other one may be deleted
    return encoder, counter


def _locate(root: Path, lineage: str | None) -> tuple[Path, str]:
    folder, fingerprint = locate_encoder(root, load())
    remedy = "restore the folder from a backup, or rebuild the store with 'helix ingest'"
    return folder, fingerprint or read_spec(EncoderSpec, folder / SPEC, "encoder", remedy).fingerprint


@lru_cache(maxsize=64)
def _locate_new(root: Path) -> tuple[Path, str]:
    """Locate the encoder of a store before its first commit: that reads files and their digests."""
    return _locate(root, None)


@cache
def open_generator() -> Generator | None:
    """Return the model of doc2query, or log why none is available."""
    model = doc2query.open_generator(load())
    if isinstance(model, str):
        log.warning("no questions are written: %s", model)
        return None
    return model


@cache
def open_document_encoder() -> DocumentEncoder | None:
    """Open the sparse encoder, or log its error; doc2query runs without it."""
    settings = load()
    try:
        model = sparse.open_document_encoder(settings)
    except EncoderError as error:
        model = str(error)
    if isinstance(model, str):
        if settings.sparse_encoder:
            log.warning("no sparse weights are computed: %s", model)
        return None
    return model


_late_encoders: Final[dict[str, LateEncoder]] = {}
"""The open encoders of token vectors, by the fingerprint of the store's encoder."""


def open_token_encoder(root: Path) -> LateEncoder | None:
    """Return the encoder of the store's token vectors, or log its error; the other passes run without it."""
    lineage = read_encoder_fingerprint(root)
    if lineage is None:
        return None
    return _late_encoders.get(lineage) or _load_token_encoder(root, lineage)


@lru_cache(maxsize=64)  # an error is logged once
def _load_token_encoder(root: Path, lineage: str) -> LateEncoder | None:
    settings = load()
    try:
        model = tokens.open_token_encoder(root, settings)
    except EncoderError as error:
        model = str(error)
    if isinstance(model, str):
        if settings.token_vectors == "on":
            log.warning("no token vectors are kept: %s", model)
        return None
    _late_encoders[lineage] = model
    return model


def open_newest(root: Path) -> Memory:
    """Return the newest generation; the first task of a process opens the store."""
    memory = _open_memory(root)
    memory.refresh()
    return memory


@cache
def _open_memory(root: Path) -> Memory:
    from helix.sdk.memory import Memory

    return Memory(root, load())
