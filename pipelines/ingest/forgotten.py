"""What was forgotten and is offered again. It stays out until it is asked back: 'helix ingest --remember'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.ledger import inbox as ledger
from helix.snapshot.segment.open import forgotten_keys, read_table
from helix.types import U64


@dataclass
class Forgotten:
    """Which documents were forgotten, all or in part, by what the current generation leaves out for good."""

    root: Path
    _of: str | None = None  # the manifest that was looked at
    _lost: frozenset[str] = frozenset()  # documents with items that stay out
    _sources: frozenset[str] = frozenset()  # the same, by the document with the beginning of their source

    def holds(self, document: str) -> bool:
        """Return whether a document has lost any of its items."""
        self._look()
        return bool(document) and (document in self._lost or ledger.is_forgotten(self.root, document))

    def stays_out(self, document: str) -> bool:
        """Return whether any of its items are lost yet: another document may have brought them back."""
        return self.holds(document) and (document in self._lost or not self._has_items(document))

    def began(self, document: str) -> bool:
        """Return whether a source that begins with this document has lost items, wherever in it."""
        return self.stays_out(document) or document in self._sources

    def _look(self) -> None:
        name = manifests.current_name(self.root)
        if name == self._of:
            return
        keys = forgotten_keys(self.root, manifests.load(self.root, name) if name else None)
        lost = set[str]()
        for documents, flat, parents in self._tables() if len(keys) else ():
            lost.update(documents.take(np.unique(parents[np.isin(flat, keys)])).to_pylist())
        self._of, self._lost = name, frozenset(lost)
        self._sources = frozenset(filter(None, (_first(self.root, document) for document in lost)))

    def _has_items(self, document: str) -> bool:
        """Return whether it is known what items it held."""
        return any(
            document in documents.take(np.unique(parents)).to_pylist() for documents, _, parents in self._tables()
        )

    def _tables(self) -> Iterator[tuple[pa.ChunkedArray, U64, npt.NDArray[np.int64]]]:
        """Of each document table: the names; the keys of all their items, and in which place its name is."""
        _, manifest = ledger.current(self.root)
        for file in manifest.documents if manifest else ():
            table = read_table(self.root / file.path, columns=["document", "keys"])
            keys = table["keys"]
            yield table["document"], pc.list_flatten(keys).to_numpy(), pc.list_parent_indices(keys).to_numpy()


def _first(root: Path, document: str) -> str:
    try:
        return ledger.read(root, document).first
    except StoreError:
        return ""


def being_forgotten(root: Path) -> U64:
    """Keys of the items that a deletion under way takes: uint64[n]. Whoever asks for them back comes too early.

    Raises:
        StoreError: what is noted of one is damaged.
    """
    items: list[str] = []
    for path in (root / "purges").glob("[0-9]*.json"):
        try:
            items += orjson.loads(path.read_bytes())["items"]
        except FileNotFoundError:  # it is done
            continue
        except (orjson.JSONDecodeError, LookupError, TypeError):
            raise StoreError(f"{path} is damaged", "forget the same again, then ask for what you want back") from None
    return np.array([int(item, 16) for item in items], np.uint64)
