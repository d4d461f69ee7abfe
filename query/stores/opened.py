"""One open store of a server of many, and the memory that it can take."""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from helix.encoders.rerank import Rerankers
from helix.errors import HelixError
from helix.sdk.memory import Memory
from helix.settings import Settings
from helix.snapshot import manifest as manifests
from helix.snapshot.manifest import File, Manifest
from helix.snapshot.mapped_files import read_ahead, release_pages
from helix.snapshot.reader.generation import LoadedModels
from query.service import QueryService
from query.stores.open_stores import OpenSize

ROW_BYTES: Final = 200
"""Bytes of memory for each row of an open store, in addition to its mapped files (docs/explanation/stores.md)."""

READ_AHEAD: Final = 128 << 20
"""Bytes of a store that is read ahead before it is opened."""

_UNOPENED: Final = OpenSize(1 << 16, 0)  # bytes of a store that cannot be opened


def measure_memory(service: QueryService) -> OpenSize:
    """Return the most that an open store's generation can take: its mapped files, and the columns of its rows."""
    manifest = service.memory.snapshot.manifest if service.is_ready else None
    if manifest is None:
        return _UNOPENED
    files = _list_mapped(manifest)
    return OpenSize(ROW_BYTES * service.memory.snapshot.rows, sum(file.bytes for file in files), len(files))


def _list_mapped(manifest: Manifest) -> list[File]:
    files = [file for segment in manifest.segments for file in segment.files]
    files += [file for index in manifest.indexes for file in index.files]
    return [file for file in files if not str(file.path).endswith(".parquet")]


def read_store_ahead(root: Path) -> None:
    """Read the files of a closed store of usual size, so that neither opening nor the first answers wait for pages."""
    with suppress(HelixError, OSError):  # opening it meets the error, too
        name = manifests.read_current(root)
        files = _list_mapped(manifests.load(root, name)) if name else []
        if sum(file.bytes for file in files) <= READ_AHEAD:
            read_ahead(root / file.path for file in files)


def open_sharing(models: dict[str, LoadedModels], rerankers: Rerankers, root: Path, settings: Settings) -> Memory:
    """Open a store with the models that others have loaded, and add its own to them."""
    memory = Memory(root, settings, warm=False, rerankers=rerankers)
    memory.snapshot.files.share_models(models)
    memory.snapshot.warm()
    memory.prepare()
    models.update(memory.snapshot.files.list_models())
    return memory


def hide_from_collector() -> None:
    """Hide all objects from the garbage collector, which stops every thread while it looks through them.

    For a thousand open stores that is a second, and it finds nothing: a recall makes no cycles, and a closed store goes
    with its last reference. What opening left in cycles is collected before.
    """
    gc.collect(1)
    gc.freeze()


class OpenStore:
    """An open store's service, the device and inode of its folder, and the milliseconds that opening it took."""

    def __init__(self, service: QueryService, place: tuple[int, int], opening: float) -> None:
        self.service = service
        self.place = place
        self.used = self.looked = time.monotonic()  # the last request, and the last look for a newer generation
        self._opening: float | None = opening
        self._current = service.root / "CURRENT"
        self._mark: tuple[int, ...] | None = None

    def take_opening(self) -> float | None:
        """Return the milliseconds that opening took, to the first that asks: its answer had to wait; else None."""
        opening, self._opening = self._opening, None
        return opening

    def look(self) -> bool | None:
        """Look for a newer generation where something has changed.

        Where nothing has, this is one `stat`.

        Returns:
            whether one was taken; None if the store is gone.
        """
        self.looked = time.monotonic()
        mark = self._read_mark()
        if mark is not None and mark == self._mark and not self.service.trouble:
            return False
        if mark is None and not self.service.root.is_dir():
            return None
        before = self._get_name()
        if self.service.look():
            is_settled = self.service.is_ready and not self.service.memory.snapshot.files.absent
            self._mark = mark if is_settled else None
        return self._get_name() != before

    def _read_mark(self) -> tuple[int, ...] | None:
        """Return what changes with each publication: it replaces the file CURRENT."""
        try:
            stat = self._current.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _get_name(self) -> str | None:
        return self.service.memory.snapshot.name if self.service.is_ready else None

    def close(self) -> None:
        """End the service; a running request may still use it."""
        self.service.stop()

    def release(self) -> None:
        """Give back the memory of the mapped files; a request may read them at the same time."""
        manifest = self.service.memory.snapshot.manifest if self.service.is_ready else None
        if manifest is not None:
            release_pages(self.service.root / file.path for file in _list_mapped(manifest))
