"""One open store of a server of many, and the memory that it can take."""

from __future__ import annotations

from typing import Final

from helix.sdk.memory import Memory
from query.service import QueryService

ROW_BYTES: Final = 256
"""Bytes of memory for each row of an open store, in addition to its mapped files (docs/explanation/stores.md)."""


def measure_memory(memory: Memory) -> int:
    """Return the most bytes that an open store's generation can take: its mapped files, and the columns of its rows."""
    manifest = memory.snapshot.manifest
    if manifest is None:
        return 1 << 16
    files = [file for segment in manifest.segments for file in segment.files]
    files += [file for index in manifest.indexes for file in index.files]
    mapped = sum(file.bytes for file in files if not str(file.path).endswith(".parquet"))
    return mapped + ROW_BYTES * memory.snapshot.rows


class OpenStore:
    """An open store's service, and the device and inode of its folder."""

    def __init__(self, service: QueryService, place: tuple[int, int]) -> None:
        self.service = service
        self.place = place

    def close(self) -> None:
        """End the service; a running request may still use it."""
        self.service.stop()
