"""The document tables of a generation: one row a published document, with the keys of all items it holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from helix.snapshot.segment.arrays import parse_hex
from helix.snapshot.segment.batch import RowBatch
from helix.snapshot.segment.open import read_table
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
