"""Publishing documents step by step, without the upkeep of an ingest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from helix.encoders.dense import Encoder
from helix.encoders.token_counter import TokenCounter
from helix.settings import Settings
from helix.snapshot.paths import create_folders
from pipelines.ingest.accept import accept
from pipelines.ingest.commit import commit
from pipelines.ingest.enrich import enrich


def make_part(root: Path, document: str, encoder: Encoder, settings: Settings) -> Path:
    """Enrich a document; return the folder of its part."""
    return enrich(root, document, encoder, TokenCounter(encoder.folder), settings).folder


def publish_log(root: Path, path: Path, encoder: Encoder, settings: Settings) -> str:
    """Accept, enrich and commit one file; return its document."""
    create_folders(root)
    document = accept(root, path, settings).documents[0]
    make_part(root, document, encoder, settings)
    commit(root, encoder, settings)
    return document


def make_serially(
    root: Path, documents: Iterable[str], encoder: Encoder, settings: Settings, made: object = None
) -> None:
    """Make the parts of documents in this process, also as the work of a reindex."""
    for document in documents:
        make_part(root, document, encoder, settings)
