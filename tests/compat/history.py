"""Histories of small stores, one generation at a time, through the writer of all commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helix.enrich.neardup import compute_signatures
from helix.snapshot import manifest as manifests
from helix.snapshot import writer
from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.write import write_segment
from pipelines.ingest.part import build_rows
from tests.support.tiny import record

DIM = 4


def current(root: Path, pointer: str = "CURRENT") -> Manifest:
    """Load the manifest that a pointer names."""
    name = manifests.read_current(root, pointer)
    assert name is not None
    return manifests.load(root, name)


def publish(root: Path, **changes: Any) -> str:
    """Publish a generation with some fields changed. Return its name."""
    with writer.acquire_lock(root, 5.0) as held:
        name = manifests.read_current(root)
        return writer.publish_generation(held, writer.build_next(held, name, current(root), **changes))


def grow(root: Path, texts: Sequence[str], session: str = "s", start: int = 0) -> str:
    """Publish one more segment, in which turn i of the session is `t<start + i>`."""
    manifest = current(root)
    given = {"session": session}
    rows = build_rows(
        [record(start + i, text, given) for i, text in enumerate(texts)],
        list(texts),
        [[("name", "walnut", "walnut")] for _ in texts],
        np.full((len(texts), manifest.lineage.dim), 0.5, np.float32),
        compute_signatures(list(texts)),
    )
    counts = {**manifest.counts, "items": manifest.counts["items"] + len(texts)}
    return publish(root, segments=(*manifest.segments, write_segment(root, rows)), counts=counts)


def delete(root: Path, place: int, rows: Sequence[int]) -> str:
    """Publish a generation in which exactly these rows of the segment at that position are deleted."""
    manifest = current(root)
    segment = manifest.segments[place].id
    others = [entry for entry in manifest.deletes if entry.segment != segment]
    return publish(root, deletes=(*others, writer.write_deletes(root, segment, np.array(rows, np.uint32))))


def begin_next(root: Path, base: str | None = None) -> str:
    """Publish a generation of NEXT, with the content of `base`."""
    with writer.acquire_lock(root, 5.0, "NEXT") as held:
        name = manifests.read_current(root, "NEXT")
        content = name or base or str(manifests.read_current(root))
        return writer.publish_generation(held, writer.build_next(held, name, manifests.load(root, content)))
