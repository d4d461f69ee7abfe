"""The coverage of a generation: how many items or facts have each optional field, or why none has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.encoders import seq2seq, sparse
from helix.settings import Settings
from helix.snapshot.index import sparse as impacts
from helix.snapshot.index.doc2query import KIND, open_queries
from helix.snapshot.manifest import Index, Manifest
from helix.snapshot.segment.open import load_alive, map_fact_scales
from helix.types import U32

FACT_INDEX: Final = "fact_index"


def cover_all(items: int) -> dict[str, Any]:
    """Return the coverage of the fields that every published item has."""
    return {name: {"items": items} for name in ("embedding", "entities", "facts", "minhash", "near", "salience")}


def recount(coverage: Mapping[str, Any], items: int) -> dict[str, Any]:
    """Return the coverage of a generation that lost items, without the fields of `count_optional`."""
    types = coverage.get("types", {})
    return {**coverage, **cover_all(items), **({"types": {"items": items}} if "items" in types else {})}


def count_optional(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the fields that not every item or fact has, from the segments' arrays."""
    return {
        KIND: count_expanded(root, manifest, settings),
        impacts.KIND: count_encoded(root, manifest, settings),
        FACT_INDEX: _count_facts(root, manifest),
    }


def _count_facts(root: Path, manifest: Manifest) -> dict[str, Any]:
    """Count the facts of live items, and those of them that a search finds."""
    indexed = total = 0
    for segment in manifest.segments:
        rows, scale = map_fact_scales(root, segment)
        alive = load_alive(root, manifest, segment)[rows]
        indexed, total = indexed + int(np.count_nonzero(scale[alive])), total + int(np.count_nonzero(alive))
    return {"facts": indexed, "of": total}


def count_expanded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items that a model expanded, or tell why none does."""
    mine = [(index, open_queries(root, index).rows) for index in manifest.indexes if index.kind == KIND]
    return _describe(root, manifest, mine, seq2seq.find_seq2seq(settings.doc2query, settings) if not mine else "")


def count_encoded(root: Path, manifest: Manifest, settings: Settings) -> dict[str, Any]:
    """Count the live items with learned-sparse weights, or tell why none has them."""
    mine = [(index, impacts.open_sparse(root, index).rows) for index in impacts.select_usable(manifest.indexes)]
    return _describe(root, manifest, mine, sparse.find_configured(settings) if not mine else "")


def _describe(root: Path, manifest: Manifest, mine: Sequence[tuple[Index, U32]], model: Any) -> dict[str, Any]:
    """Return the coverage of some indexes, each of one segment; without any, that of a model or its absence."""
    if not mine:
        return {"off": model} if isinstance(model, str) else {"items": 0, "model": model.name}
    ids = {index.covers[0] for index, _ in mine}
    alive = {segment.id: load_alive(root, manifest, segment) for segment in manifest.segments if segment.id in ids}
    items = sum(int(alive[index.covers[0]][rows].sum()) for index, rows in mine)
    return {"items": items, "model": mine[-1][0].params["model"]}
