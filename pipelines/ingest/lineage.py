"""The encoder of a store's lineage, or of the lineage that a new store begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder, is_encoder_cached
from helix.encoders.registry import PREFERRED
from helix.errors import EncoderError
from helix.settings import Settings
from helix.snapshot.index.dense import FLOAT, fit_prefix
from helix.snapshot.ledger import inbox
from helix.snapshot.manifest import Lineage, Manifest
from helix.snapshot.partial import require_all_parts
from pipelines.ingest.encoder_choice import choose_for_store
from pipelines.ingest.part import pipeline_fingerprint


def read_encoder_fingerprint(root: Path) -> str | None:
    """Return the fingerprint of the store's encoder; None before the first commit."""
    _, manifest = inbox.load_current(root)
    return manifest.lineage.encoder if manifest else None


def open_encoder(root: Path, settings: Settings, say: Callable[[str], None] | None = None) -> Encoder:
    """Open the encoder of the store's lineage; for a new store that of `choose_for_store`, exported at its first use.

    Raises:
        EncoderError: none is available, it is damaged, or the settings name another one than the lineage's.
        StoreError: the store is a replica that is still arriving.
    """
    folder, fingerprint = locate_encoder(root, settings, say)
    return Encoder(folder, settings.threads, fingerprint)


def locate_encoder(root: Path, settings: Settings, say: Callable[[str], None] | None = None) -> tuple[Path, str | None]:
    """Return the folder of the encoder that `open_encoder` opens, and its fingerprint if the store has a lineage.

    Raises:
        EncoderError: as there, except that the files of a lineage are not read.
        StoreError: the store is a replica that is still arriving.
    """
    current, manifest = inbox.load_current(root)
    require_all_parts(root, current)
    if manifest is None:
        weights, why = choose_for_store(root, settings)
        cache = Path(settings.cache)
        if say:
            name, first = weights.model.name, PREFERRED[0]
            better = "" if settings.encoder or name == first else f" ({why or f'{first} is not available'})"
            work = "" if is_encoder_cached(weights, cache) else "; exporting and quantising it, once"
            say(f"encoder: {name} from the {weights.origin}{better}{work}")
        return cache_encoder(weights, cache), None
    lineage = manifest.lineage
    if settings.encoder and Path(settings.encoder).name != lineage.name:
        raise EncoderError(
            f"the store was built with {lineage.name}, HELIX_ENCODER names {settings.encoder}",
            "unset HELIX_ENCODER, or start another store",
        )
    return root / "encoders" / lineage.encoder, lineage.encoder


def open_lineage(root: Path, lineage: Lineage, settings: Settings) -> Encoder:
    """Open the encoder that a lineage keeps in the store."""
    return Encoder(root / "encoders" / lineage.encoder, settings.threads, lineage.encoder)


def resolve_lineage(encoder: Encoder, manifest: Manifest | None, settings: Settings) -> Lineage:
    """Return the lineage of a generation, or begin one.

    Raises:
        EncoderError: the encoder is not the lineage's.
    """
    spec = encoder.spec
    if manifest and manifest.lineage.encoder != spec.fingerprint:
        raise EncoderError(
            f"the store was built with {manifest.lineage.name} ({manifest.lineage.encoder}), "
            f"these items with {spec.name} ({spec.fingerprint})",
            "one lineage holds the vectors of one encoder: unset HELIX_ENCODER, or start another store",
        )
    if manifest:
        return manifest.lineage  # unchanged: changed settings need a reindex
    fit_prefix(settings.vectors.removesuffix(FLOAT), spec.dim)  # now, not when the first index is built
    pipeline = pipeline_fingerprint(spec.fingerprint, settings)
    return Lineage(spec.fingerprint, spec.name, spec.dim, pipeline, settings.vectors)
