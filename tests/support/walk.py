"""What lies in a store, file by file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def read_all(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file with its bytes, in order; not the pin of a reader that was let go and is collected meanwhile."""
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        try:
            yield path, path.read_bytes()
        except FileNotFoundError:
            assert path.parent.name == "pins", path
