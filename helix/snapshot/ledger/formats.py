"""The format of each source: which agent, tool or kind of file it is."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from helix.snapshot.manifest import Manifest
from helix.snapshot.segment.open import read_table


def find_formats(root: Path, manifest: Manifest | None, sources: Collection[str]) -> dict[str, str]:
    """Return the format of each of these sources that a generation has; a later document counts.

    Args:
        sources: paths, as items name them.

    Raises:
        StoreError: a document table is damaged.
    """
    wanted, found = pa.array(sources, pa.string()), dict[str, str]()
    for file in manifest.documents if manifest and len(sources) else ():
        table = read_table(root / file.path, columns=["path", "format"])
        table = table.filter(pc.is_in(table["path"], wanted))
        found.update(zip(table["path"].to_pylist(), table["format"].to_pylist(), strict=True))
    return found
