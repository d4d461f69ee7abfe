"""Document tables, and forgotten items that are offered again: they stay out until 'helix ingest --remember'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.errors import StoreError
from helix.snapshot import manifest as manifests
from helix.snapshot.ledger import inbox
from helix.snapshot.segment.arrays import parse_hex
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.segment.open import map_forgotten_keys, read_table
from helix.types import I64, U64
from pipelines.ingest.part import EnrichedPart

DOCUMENTS = pa.schema(
    [
        ("document", pa.string()),
        ("path", pa.string()),
        ("format", pa.string()),
        ("accepted", pa.timestamp("us", tz="UTC")),
        ("sessions", pa.int64()),
        ("turns", pa.int64()),
        ("items", pa.int64()),
        ("redacted", pa.string()),
        ("problems", pa.int64()),
        ("keys", pa.list_(pa.uint64())),
    ]
)


def build_table(
    documents: Sequence[str], parts: Sequence[tuple[EnrichedPart, RowBatch]], rows: RowBatch, add: I64
) -> pa.Table:
    """Return the table of a commit.

    Args:
        documents: names, in the order of `parts`.
        rows: the rows of all parts.
        add: int64[n], the rows that go into the store.
    """
    added = np.zeros(len(rows), bool)
    added[add] = True
    ends = np.cumsum([0, *(len(part_rows) for _, part_rows in parts)])
    keys = parse_hex(rows.items["id"])
    records = [
        {
            "document": document,
            "path": part.path,
            "format": part.format,
            "accepted": part.accepted,
            "sessions": part.sessions,
            "turns": part.turns,
            "items": int(added[ends[i] : ends[i + 1]].sum()),
            "redacted": orjson.dumps(part.redacted).decode(),
            "problems": len(part.problems),
            # Every item the document holds, added or not: a deletion needs them all.
            "keys": keys[ends[i] : ends[i + 1]] if part.keys is None else parse_hex(pa.array(part.keys, pa.string())),
        }
        for i, (document, (part, _)) in enumerate(zip(documents, parts, strict=True))
    ]
    return pa.Table.from_pylist(records, schema=DOCUMENTS)


def read_keys(path: Path, column: str = "document") -> tuple[pa.ChunkedArray, U64, I64]:
    """Return a column of a document table, the keys of all its items, and the row each key belongs to."""
    table = read_table(path, columns=[column, "keys"])
    return table[column], pc.list_flatten(table["keys"]).to_numpy(), pc.list_parent_indices(table["keys"]).to_numpy()


@dataclass
class ForgottenDocuments:
    """The documents that lost items for good, by the current generation's list of forgotten keys."""

    root: Path
    _manifest: str | None = None  # the generation these were looked up in
    _lost: frozenset[str] = frozenset()  # documents with items that stay out
    _sources: frozenset[str] = frozenset()  # the first documents of their sources

    def has_lost(self, document: str) -> bool:
        """Return whether a document lost any of its items."""
        self._refresh()
        return bool(document) and (document in self._lost or inbox.is_forgotten(self.root, document))

    def stays_out(self, document: str) -> bool:
        """Return whether any of its items are still lost: another document may have brought them back."""
        return self.has_lost(document) and (document in self._lost or not self._has_items(document))

    def has_lost_source(self, document: str) -> bool:
        """Return whether the source that begins with this document lost items anywhere."""
        return self.stays_out(document) or document in self._sources

    def _refresh(self) -> None:
        name = manifests.read_current(self.root)
        if name == self._manifest:
            return
        keys = map_forgotten_keys(self.root, manifests.load(self.root, name) if name else None)
        lost = set[str]()
        for path in self._read_tables() if len(keys) else ():
            documents, flat, owners = read_keys(path)
            lost.update(documents.take(np.unique(owners[np.isin(flat, keys)])).to_pylist())
        self._manifest, self._lost = name, frozenset(lost)
        self._sources = frozenset(filter(None, (_read_first(self.root, document) for document in lost)))

    def _has_items(self, document: str) -> bool:
        """Return whether a document table lists items of the document."""
        for path in self._read_tables():
            documents, _, owners = read_keys(path)
            if document in documents.take(np.unique(owners)).to_pylist():
                return True
        return False

    def _read_tables(self) -> list[Path]:
        _, manifest = inbox.load_current(self.root)
        return [self.root / file.path for file in manifest.documents] if manifest else []


def _read_first(root: Path, document: str) -> str:
    try:
        return inbox.read_envelope(root, document).first
    except StoreError:
        return ""


def list_purges(root: Path) -> list[Path]:
    """List the records of unfinished deletions, oldest first."""
    return sorted((root / "purges").glob("[0-9]*.json"))


def read_purge(path: Path) -> dict[str, Any] | None:
    """Read the record or the receipt of a deletion; None where it is gone.

    Raises:
        StoreError: it is damaged.
    """
    try:
        purge = dict(orjson.loads(path.read_bytes()))
        purge["items"]
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, LookupError, TypeError):
        raise StoreError(
            f"{path} is damaged: no record of a deletion",
            "move it away, and forget the same items again",
        ) from None
    return purge


def read_purged_keys(root: Path) -> U64:
    """Read the keys of the items that unfinished deletions remove: uint64[n]. They cannot be remembered yet.

    Raises:
        StoreError: a deletion's record is damaged.
    """
    purges = (read_purge(path) for path in list_purges(root))
    return np.array([int(item, 16) for purge in purges if purge for item in purge["items"]], np.uint64)
